# SPDX-License-Identifier: BSD-3-Clause
"""Options and markers of the multi-process tests: --slow runs the long ones too, --cases sets how many random ones."""
import pytest

import harness


# The few tests that are also run with every other MPI, with two ranks
SMOKE = {"test_names_with_p", "test_every_call", "test_asking_for_device_memory", "test_point_to_point", "test_one_sided",
         "test_windows_in_device_memory", "test_sees_each_call_once"}


def is_smoke(item):
    params = getattr(item, "callspec", None) and item.callspec.params or {}
    return (item.originalname in SMOKE and params.get("ranks", 2) == 2 and params.get("language", "C") == "C"
            and params.get("program", "") not in ("check_files", "check_rows"))


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")
    parser.addoption("--cases", type=int, default=150, help="cases of each random test")
    parser.addoption("--seed", type=int, default=0, help="seed of the random tests; 0: a new one each time, printed")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: too long for every run; run by hand with --slow")
    config.addinivalue_line("markers", "smoke: also run with every other MPI")
    config.addinivalue_line("markers", "sanitize: also run in the build with sanitizers")


def pytest_report_header(config):
    return "simulated GPUs: " + " ".join(f"{name}={value}" for name, value in harness.MEAN.items())


def belongs(item, slow):
    """MPICH's ranks spin without yielding: more than two of them take for ever on few cores."""
    params = getattr(item, "callspec", None) and item.callspec.params or {}
    crowd = params.get("family") == "mpich" and params.get("ranks", 0) > 2 and not harness.REAL_GPUS
    return not crowd and (slow or not item.get_closest_marker("slow"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """The slow ones are not skipped but left out: a skip means that something is missing on this machine."""
    for item in items:
        if is_smoke(item):
            item.add_marker("smoke")
    out = [item for item in items if not belongs(item, config.getoption("--slow"))]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]


@pytest.fixture(params=harness.FAMILIES)
def family(request):
    harness.need(request.param)
    return request.param
