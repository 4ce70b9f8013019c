#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run by hand, as `make tsan`, under the thread sanitizer: threads that reduce and make communicators at the same time, and the
# thread of nonblocking collectives; messages that are fetched.
#
# shunt is built with it in a folder of its own and linked, since a preloaded library comes before the sanitizer is ready.
# The simulated GPUs are those of the ordinary build: their fibers run in other processes, and what these write into
# memory that both share is ordered by atomic accesses of ours. What Open MPI does inside itself the sanitizer does not see.
set -eu
srcdir=$(cd "${srcdir:?}" && pwd) builddir=$(cd "${builddir:?}" && pwd)
mpicc=${MPICC:-mpicc.openmpi} mpirun=${MPIRUN:-mpirun.openmpi}
work=$builddir/tsan flags="-fsanitize=thread -g -O1"
mkdir -p "$work/cuda" "$work/lib/shunt"
cd "$work"
[ -f config.status ] || "$srcdir/configure" -q --with-mpi=openmpi:"$mpicc" "$@"
# the kernels of the ordinary build will do
cp -u "$builddir/cuda/kernels.fatbin" cuda/
touch cuda/kernels.fatbin
make -s mpi/call_ids.h mpi/openmpi/host_table.h
make -s -j"$(nproc)" SANITIZE_FLAGS="$flags" libshunt.la marker.la engine-openmpi.la
cp .libs/libshunt.so lib/
cp .libs/engine-openmpi.so .libs/marker.so lib/shunt/
for name in check_threads check_life check_flights check_storm; do
    $mpicc -std=gnu11 $flags -ffp-contract=off -pthread -I"$srcdir" "$srcdir/test/$name.c" \
        "$srcdir"/test/by_driver.c "$srcdir"/test/case.c "$srcdir"/test/comms.c "$srcdir"/test/gpu.c "$srcdir"/test/refer.c \
        "$srcdir"/test/sum.c \
        -o "$name" -Llib -Wl,--no-as-needed -lshunt -Wl,-rpath,"$work/lib" -ldl -lm
done

failed=0
way='allreduce (oneshot|twoshot)' # which the statistics have to show
# try PROGRAM WORD...: two ranks. Fixed addresses, since the sanitizer bears few others
try()
{
    echo "tsan: $*"
    setarch -R "$builddir/stage/bin/shunt-sim" --gpus 2 -- "$mpirun" --oversubscribe --bind-to none \
        $([ "$(id -u)" -ne 0 ] || echo --allow-run-as-root) -n 2 -x SHUNT_STATS=1 \
        -x TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66" \
        "$work/$@" >"$work/out" 2>&1 || failed=1
    cat "$work/out"
    ! grep -q "WARNING: ThreadSanitizer" "$work/out" || failed=1
    grep -Eq "$way" "$work/out" || { echo "nothing ran on the GPUs"; failed=1; }
}
try check_threads 4 20 20000 D
try check_threads 4 20 2000 DH
try check_threads 3 20 300000 DM
try check_life create-and-free 50
for what in threads many order ways; do
    try check_flights $what
done
way='messages: [1-9][0-9]* fetched' SHUNT_MESSAGE_SIZE=200
export SHUNT_MESSAGE_SIZE
try check_storm 100 1
exit $failed
