# SPDX-License-Identifier: BSD-3-Clause
# The simulated GPU with kernels of the tests' own (sim/kernels.c), in a folder laid out as an installation is; what it
# leaves behind when its program ends, is killed, or ends wrongly; and shunt-sim itself.
set -u
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
failed=0
fail()
{
    echo "FAILED: $*"
    failed=1
}

mkdir -p "$here/bin" "$here/lib/shunt/sim"
lib=$here/lib/shunt/sim
for name in cuda.so.1 cudart.so.13 nvidia-ml.so.1; do
    cp -L "$builddir/sim/.libs/lib$name" "$lib" || exit 1
done
cp "$builddir/sim/shunt-sim-executor" "$lib" || exit 1
cp "$builddir/sim/shunt-sim" "$here/bin" || exit 1
cp "$builddir/test/sim/.libs/kernels.so" "$lib/libshunt-simkernels.so" || exit 1
sim=$here/bin/shunt-sim
device=$builddir/test/sim/device

# Executors of this test: their program lies in its folder
executors()
{
    for process in /proc/[0-9]*; do
        case $(readlink "$process/exe") in "$lib"/*) echo "${process#/proc/}" ;; esac
    done
}

# They end a moment after their program
none_left()
{
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ -z "$(executors)" ] && return 0
        sleep 0.1
    done
    return 1
}

run()
{
    test=$1
    shift
    timeout -k 1 30 "$sim" "$@" -- "$device" "$test" >"$here/out" 2>&1
    rc=$?
    [ $rc = 0 ] || { fail "$test: exit code $rc"; cat "$here/out"; }
}

for name in touch shared launch beside many graph abort runtime threads devices across orphan reset; do
    run $name
    [ -s "$here/out" ] && { fail "$name prints:"; cat "$here/out"; }
done
run full --memory 64
run nomem --fault nomem
run noipc --fault noipc
run nop2p --fault nop2p,noipc
run across_nop2p --fault nop2p
run across_nop2p --preset rtx4090x8 --gpus 2
run devices --preset dgx-h100 --gpus 3
run illegal
grep -q '^shunt-sim: device work touched 0x[0-9a-f]*, which is not mapped on the GPU$' "$here/out" ||
    { fail "illegal: no line says where"; cat "$here/out"; }
[ "$(wc -l <"$here/out")" = 1 ] || fail "illegal: not one line"

# A kernel that is not there ends the program, also when the program does not look
timeout -k 1 30 "$sim" "$device" foreign >"$here/out" 2>"$here/err"
[ $? = 97 ] || fail "foreign: exit code not 97"
[ "$(cat "$here/out")" = before ] || fail "foreign: what was printed before is lost"
grep -q '_Z6jacobiPf' "$here/err" && [ "$(wc -l <"$here/err")" = 1 ] || { fail "foreign:"; cat "$here/err"; }
none_left || fail "executors stay behind after programs that ended: $(executors)"

# Killed while a kernel runs that never ends, and ended by a signal
for signal in KILL TERM; do
    "$sim" "$device" sleep >"$here/ready" 2>&1 &
    pid=$!
    for i in $(seq 1 200); do
        grep -qs ready "$here/ready" && break
        sleep 0.1
    done
    [ -n "$(executors)" ] || fail "no executor at work"
    kill -$signal $pid
    wait $pid 2>/dev/null
    none_left || fail "an executor stays behind after SIG$signal: $(executors)"
done

# shunt-sim: what it hands down, and what it refuses
"$sim" --preset dgx-h100 --gpus 4 --fault noipc -- sh -c 'echo $SHUNT_SIM_PRESET $SHUNT_SIM_GPUS $SHUNT_SIM_FAULT' >"$here/out"
[ "$(cat "$here/out")" = "dgx-h100 4 noipc" ] || { fail "environment:"; cat "$here/out"; }
refuses()
{
    "$sim" "$@" >"$here/out" 2>&1
    [ $? = 2 ] || { fail "$* is not refused"; cat "$here/out"; }
}
refuses --preset nosuch true
refuses --gpus 3 true
refuses --gpus x true
refuses --fault noipc,nosuch true
refuses --memory 0 true
refuses
"$sim" -- false && fail "the exit code of the command is lost"
"$sim" "$here/absent" 2>/dev/null
[ $? = 127 ] || fail "a command that is not there: exit code not 127"
exit $failed
