#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The multi-process tests on real GPUs, on a machine that has no build tools: what was built elsewhere is carried there.
#
#     hw.sh pack BUILD FOLDER [PYTHON]  where it was built: the installation and the test programs of BUILD into FOLDER;
#                                       with the version of that machine's Python (3.12), mpi4py and its tests, too
#     hw.sh run FOLDER [PYTEST ...]     where the GPUs are: runs the tests, under the Open MPI of that machine; arguments
#                                       go to pytest (default: -k of what two GPUs show in a few minutes)
#     hw.sh mpi4py FOLDER [MODULE ...]  there too: mpi4py's own tests on arrays of that machine's CuPy
#     hw.sh peers FOLDER                there too: what its driver answers about memory that two GPUs share, and in what
#                                       that differs from what two H200 said
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3} # with pytest

pack()
{
    local build folder
    build=$(cd "$1" && pwd)
    mkdir -p "$2"
    folder=$(cd "$2" && pwd)
    [ -f "$build/stage/lib/libshunt.so" ] || { echo "hw.sh: $build has no stage: run make stage there" >&2; exit 1; }
    mkdir -p "$folder/test"
    rm -rf "$folder/stage" "$folder/test/openmpi"
    cp -r "$build/stage" "$folder/stage"
    rm -rf "$folder/stage/lib/shunt/sim" # its libraries have the names of the real ones
    mkdir "$folder/test/openmpi"
    cp "$build/test/conformance/driver" "$folder/test" 2>/dev/null || echo "hw.sh: no conformance/driver: make check there" >&2
    find "$build/test/openmpi" -maxdepth 1 -type f ! -name '*.o' -exec cp {} "$folder/test/openmpi" \;
    [ -z "${3:-}" ] || (cd "$here" && builddir=$build "$python" -c \
        'import mpi4py_suite, pathlib, sys; mpi4py_suite.fetch(pathlib.Path(sys.argv[1]), sys.argv[2])' "$folder" "$3")
    du -sh "$folder"
}

# What the tests read about that machine
describe()
{
    local folder=$1 mpirun
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
}

run()
{
    local folder
    folder=$(cd "$1" && pwd)
    shift
    describe "$folder"
    [ $# -gt 0 ] || set -- -k "test_allreduce or test_float16 or test_memory or test_faults or test_life"
    SHUNT_TEST_GPU=1 builddir=$folder PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -p no:cacheprovider -q -rs \
        --durations=10 "$@" "$here"
}

mpi4py()
{
    local folder
    folder=$(cd "$1" && pwd)
    shift
    describe "$folder"
    SHUNT_TEST_GPU=1 builddir=$folder PYTHONDONTWRITEBYTECODE=1 "$python" "$here/mpi4py_suite.py" openmpi cupy "$@"
}

peers()
{
    "$1/test/driver" peers 2>&1 | tee "$1/peers.txt" | diff -u "$here/conformance/peers.h200" - &&
        echo "hw.sh: all that is assumed is so"
}

case ${1:-} in
pack) [ $# -ge 3 ] && pack "$2" "$3" "${4:-}" ;;
run) [ $# -ge 2 ] && shift && run "$@" ;;
mpi4py) [ $# -ge 2 ] && shift && mpi4py "$@" ;;
peers) [ $# -eq 2 ] && peers "$2" ;;
*) sed -n '3,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
