#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What shunt costs a program on host memory: instructions (callgrind) and nanoseconds of an 8-byte MPI_Allreduce on
# MPI_COMM_SELF, with and without it, for each MPI. cost.sh [BUILD FOLDER] [PREFIX OF THE INSTALLATION]
#
# Rows: no shunt; a node without a GPU; a node with GPUs, CUDA not in use; CUDA in use, buffers on the stack, in the
# heap, elsewhere (only where there are real or simulated GPUs; instructions are not counted then).
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
prefix=${2:-$build/stage}
work=$(mktemp -d "${TMPDIR:-/tmp}/cost.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
unset SHUNT_SIM_PRESET LD_PRELOAD
export OMPI_MCA_btl=self OMPI_MCA_pml=ob1
library=$prefix/lib/libshunt.so
present=SHUNT_SIM_PRESET=h200x2 # as far as the library can tell, this node has GPUs
few=1 many=41                   # batches of 1000 calls: MPI_Init differs by 10,000 instructions from run to run
enough=2000

# instructions NAME=VALUE... : of one call: the difference between a long run and a short one
instructions()
{
    command -v valgrind >/dev/null || { echo -; return; }
    for batches in $few $many; do
        env "$@" valgrind --tool=callgrind --callgrind-out-file="$work/out" "$work/cost" $batches >/dev/null 2>"$work/err" ||
            { echo failed; return; }
        sed -n 's/.*Collected : //p' "$work/err"
    done | paste -s -d ' ' | awk -v n=$((1000 * (many - few))) 'NF == 2 { printf "%.0f\n", ($2 - $1) / n }'
}

# nanoseconds COMMAND...: the best of several runs, as others use the machine too
nanoseconds()
{
    for run in 1 2 3; do
        "$@" 2>/dev/null || echo failed
    done | sort -n | head -n 1
}

# row TITLE INSTRUCTIONS NANOSECONDS
row()
{
    printf '| %-44s | %12s | %6s |\n' "$1" "$2" "$3"
}

# in_use TITLE BUFFERS: a row with CUDA in use
in_use()
{
    if [ -e /dev/nvidiactl ]; then
        time=$(nanoseconds env LD_PRELOAD="$library" "$work/cost" $enough "$2" cuda)
    elif [ -x "$prefix/bin/shunt-sim" ]; then
        time=$(nanoseconds "$prefix/bin/shunt-sim" --preset h200x2 -- \
            env LD_PRELOAD="$library" "$work/cost" $enough "$2" cuda)
    else
        return
    fi
    row "$1" - "$time"
}

for family in openmpi mpich; do
    mpicc=$(sed -n "s/.*\"$family\": {\"mpicc\": \"\([^\"]*\)\".*/\1/p" "$build/test/build.json")
    [ -n "$mpicc" ] || continue
    "$mpicc" -O2 -w -o "$work/cost" "$here/cost.c" -ldl || exit 1
    echo "$family"
    row "8-byte MPI_Allreduce on MPI_COMM_SELF" instructions ns
    row "--------------------------------------------" ------------ ------
    row "without shunt" "$(instructions A=)" "$(nanoseconds "$work/cost" $enough)"
    [ -e /dev/nvidiactl ] ||
        row "no GPU on the node" "$(instructions LD_PRELOAD="$library")" \
            "$(nanoseconds env LD_PRELOAD="$library" "$work/cost" $enough)"
    row "GPUs on the node, CUDA not in use" "$(instructions LD_PRELOAD="$library" $present)" \
        "$(nanoseconds env LD_PRELOAD="$library" $present "$work/cost" $enough)"
    in_use "CUDA in use, buffers on the stack" stack
    in_use "CUDA in use, buffers in the heap" heap
    in_use "CUDA in use, buffers elsewhere" mapped
done
