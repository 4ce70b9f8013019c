# SPDX-License-Identifier: BSD-3-Clause
"""Some of MPICH's own tests, unchanged (built by clients.sh): what passes without shunt passes with it, on each kind of
memory that a test can ask for, and with managed memory in place of what it allocates. suite.py runs all of them, by hand."""
import os
import pathlib

import pytest

import suite
from harness import by_name, need

CLIENTS = os.environ.get("CLIENTS_BUILD", "")
# Of each the forms that every run takes; clients.sh reads the names here
FEW = {
    "coll/allred": ["two"],
    "coll/bcast": ["two"],
    "coll/nonblocking2": ["managed"],
    "coll/alltoallw2": ["managed"],
    "pt2pt/sendrecv1": ["managed"],
    "rma/accfence1": ["two"],
    "datatype/sendrecvt2": ["managed"],
    "io/i_coll_test": ["managed"],
}


@pytest.mark.parametrize("program", FEW)
def test_few(family, program):
    need(family, 2)
    folder = pathlib.Path(CLIENTS) / f"mpich-{family}"
    if not CLIENTS or not (folder / program).exists():
        pytest.skip("MPICH's test suite is not built (CLIENTS is not set)")
    tests = [test for test in suite.read_tests(folder, 2) if test.name == program and not test.skipped]
    row = suite.run_test(family, folder, tests[0], FEW[program], 60)
    assert row.without == "passed", row.without
    assert row.found and not any(row.found.values()), "\n".join(row.found.values())
    for result in row.results.values():  # some calls were on device memory
        assert any(by_name(result)) or result.stats.gpu + result.stats.paths["staged"] > 0, str(result)
