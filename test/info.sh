#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shunt-info where there is no GPU: what it shows, where settings come from, what it answers.
info=${builddir:?}/tools/shunt-info
work=$(mktemp -d "${TMPDIR:-/tmp}/info.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
unset PMIX_NAMESPACE PMI_FD SLURM_JOB_ID SHUNT_SIM_PRESET LD_PRELOAD

# show [NAME=VALUE...] ARGUMENTS...: runs it without a driver in reach and keeps what it says
show()
{
    # an unusable file of that name in front of any real driver
    env LD_LIBRARY_PATH="$work" "$@" >"$work/out" 2>"$work/err"
    code=$?
}

# says TEXT [out|err]
says()
{
    grep -qF -- "$1" "$work/${2:-out}" && return
    printf 'no "%s" in:\n' "$1"
    cat "$work/${2:-out}"
    failed=1
}

answers()
{
    [ $code -eq "$1" ] && return
    printf 'exit status %d, expected %d\n' $code "$1"
    cat "$work/err"
    failed=1
}

echo nothing >"$work/libcuda.so.1"

show "$info"
answers 0
for section in Installation GPUs Node Settings 'What will be done'; do
    says "$section"
done
says 'no NVIDIA driver: '
says '/dev/shm'
says 'goes to the MPI untouched, because: '

show SHUNT_DISABLE=1 "$info"
answers 0
says 'goes to the MPI untouched, because: SHUNT_DISABLE=1'

show SHUNT_ENGINE_DIR="$work" "$info"
says "none in $work"
says 'because: no engine is installed'
: >"$work/engine-openmpi.so"
: >"$work/engine-strange.so"
show SHUNT_ENGINE_DIR="$work" "$info"
says "$work/engine-openmpi.so, for Open MPI 4 and 5"
says "$work/engine-strange.so, for an MPI that this program does not know"

show "$info"
says 'launcher             none here'
show PMIX_NAMESPACE=job PMIX_RANK=5 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 "$info"
says 'rank 5, number 1 of 4 on this node'

show SHUNT_ARENA_SIZE=1000t "$info"
says '(SHUNT_ARENA_SIZE): not enough'

show SHUNT_STAGE_SIZE=3072k SHUNT_STAGE_CHUNK=much SHUNT_STAGE_CHUNKS=1 "$info" --settings
answers 0
grep -q '^  SHUNT_STAGE_SIZE  *3m  *environment (default 8m)$' "$work/out" || { cat "$work/out"; failed=1; }
grep -q '^  SHUNT_STAGE_CHUNK  *1m  *default$' "$work/out" || { cat "$work/out"; failed=1; }
grep -q 'GPUs$' "$work/out" && { cat "$work/out"; failed=1; }
says 'SHUNT_STAGE_CHUNK=much refused (allowed: ' err
says 'SHUNT_STAGE_CHUNKS is not a setting; the nearest is SHUNT_STAGE_CHUNK ' err

show "$info" --help
answers 0
says '--settings'
show "$info" --version
answers 0
says 'shunt-info '
show "$info" --markdown
answers 64
show "$info" something
answers 64
exit $failed
