# SPDX-License-Identifier: BSD-3-Clause
# The simulated driver and runtime answer as the real ones on an H200 did (conformance/*.h200).
set -u
tests=$srcdir/test/conformance
failed=0
for what in driver runtime; do
    "$builddir/sim/shunt-sim" -- "$builddir/test/conformance/$what" >"sim_conformance.$what.$$" 2>&1
    rc=$?
    [ $rc = 0 ] || { echo "$what: exit code $rc"; failed=1; }
    diff -u "$tests/$what.h200" "sim_conformance.$what.$$" || failed=1
    rm -f "sim_conformance.$what.$$"
done
"$builddir/sim/shunt-sim" --gpus 2 -- "$builddir/test/conformance/driver" peers 2>&1 | diff -u "$tests/peers.h200" - || failed=1
exit $failed
