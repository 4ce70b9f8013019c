#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The multi-process tests on real GPUs, on a machine that has no build tools: what was built elsewhere is carried there.
#
#     hw.sh pack BUILD FOLDER         where it was built: the installation and the test programs of BUILD into FOLDER
#     hw.sh run FOLDER [PYTEST ...]   where the GPUs are: runs the tests, under the Open MPI of that machine; arguments
#                                     go to pytest (default: -k of what two GPUs show in a few minutes)
#     hw.sh peers FOLDER              there too: what its driver answers about memory that two GPUs share, and in what that
#                                     differs from what two H200 said
set -eu
here=$(cd "$(dirname "$0")" && pwd)

pack()
{
    local build=$1 folder=$2
    [ -f "$build/stage/lib/libshunt.so" ] || { echo "hw.sh: $build has no stage: run make stage there" >&2; exit 1; }
    mkdir -p "$folder/test"
    rm -rf "$folder/stage" "$folder/test/openmpi"
    cp -r "$build/stage" "$folder/stage"
    rm -rf "$folder/stage/lib/shunt/sim" # its libraries have the names of the real ones
    mkdir "$folder/test/openmpi"
    cp "$build/test/conformance/driver" "$folder/test" 2>/dev/null || echo "hw.sh: no conformance/driver: make check there" >&2
    find "$build/test/openmpi" -maxdepth 1 -type f ! -name '*.o' -exec cp {} "$folder/test/openmpi" \;
    du -sh "$folder"
}

run()
{
    local folder mpirun
    folder=$(cd "$1" && pwd)
    shift
    mpirun=$(command -v mpirun) || { echo "hw.sh: there is no mpirun" >&2; exit 1; }
    cat >"$folder/test/build.json" <<END
{
    "srcdir": "${here%/*}", "builddir": "$folder", "prefix": "$folder/stage",
    "mpi": {
        "openmpi": {"mpicc": "$(command -v mpicc || true)", "mpirun": "$mpirun", "mpifort": ""},
        "mpich": {"mpicc": "", "mpirun": "", "mpifort": ""}
    },
    "cuda": "", "sim": "no", "ucx": "no", "sanitize": "no", "cc": "cc"
}
END
    [ $# -gt 0 ] || set -- -k "test_allreduce or test_float16 or test_memory or test_faults or test_life"
    SHUNT_TEST_GPU=1 builddir=$folder PYTHONDONTWRITEBYTECODE=1 python3 -m pytest -p no:cacheprovider -q -rs \
        --durations=10 "$@" "$here"
}

peers()
{
    "$1/test/driver" peers 2>&1 | tee "$1/peers.txt" | diff -u "$here/conformance/peers.h200" - &&
        echo "hw.sh: all that is assumed is so"
}

case ${1:-} in
pack) [ $# -eq 3 ] && pack "$2" "$3" ;;
run) [ $# -ge 2 ] && shift && run "$@" ;;
peers) [ $# -eq 2 ] && peers "$2" ;;
*) sed -n '3,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
