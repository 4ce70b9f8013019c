# SPDX-License-Identifier: BSD-3-Clause
"""One-shot with a flag in every 128 bytes: all kernels, odd counts and addresses, late ranks, messages that go round."""
import pytest

from harness import mpirun


def lines(ranks, *words, family="openmpi", **settings):
    return mpirun(family, ranks, "check_allreduce", *words, "--ordered",
                  settings={"SHUNT_PROTO": "ll128", "SHUNT_ALLREDUCE": "oneshot", **settings}, limit=120).ran("oneshot")


@pytest.mark.parametrize("types, ops", [("SIGNED_CHAR,UNSIGNED_SHORT,INT", "SUM,MIN,BXOR"), ("DOUBLE", "SUM,MAX"),
                                        ("C_FLOAT_COMPLEX,C_DOUBLE_COMPLEX", "SUM,PROD")])
def test_types(family, types, ops):
    lines(2, "--type", types, "--op", ops, "--count", "1,17,300", "--place", "in,out", "--data", "rough", family=family)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_counts(ranks):
    """Around a vector, a row, a unit, and what all warps take at a time."""
    lines(ranks, "--type", "SIGNED_CHAR", "--count", "1,15,16,119,120,121,1919,1920,1921,20011", "--place", "in,out")


def test_addresses():
    lines(2, "--type", "SIGNED_CHAR,SHORT,DOUBLE", "--count", "9,1025", "--soff", "0,1e,3e", "--roff", "0,1e", "--skew", "0,1e")


@pytest.mark.parametrize("linger", ["on", "off"])
def test_messages_that_go_round(linger):
    """With little scratch a message is larger than its slot."""
    lines(2, "--type", "SIGNED_CHAR", "--count", "1000003", "--place", "in,out", SHUNT_SCRATCH_SIZE="7m",
          SHUNT_LINGER=linger)


def test_other_protocols(family):
    """Of 100,000 bytes, LL128 by default; LL and what the setting says."""
    for proto in ("ll", "ll128", "auto"):
        mpirun(family, 2, "check_allreduce", "--type", "SIGNED_CHAR", "--count", "100,100001", "--ordered",
               settings={"SHUNT_PROTO": proto}).ran("oneshot")
