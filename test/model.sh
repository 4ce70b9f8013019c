#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The models of doc/model in all interleavings: right as they are, wrong with each rule broken. Needs spin.
command -v spin >/dev/null || { echo "spin was not found"; exit 77; }
models=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd)/doc/model
work=$(mktemp -d "${TMPDIR:-/tmp}/model.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

# check MODEL NAME=VALUE...: leaves the answer in `out`; fails if the run did not come to an end
check()
{
    model=$1
    shift
    words=
    for word; do words="$words -D$word"; done
    # shellcheck disable=SC2086 # several words
    spin -a $words "$models/$model.pml" >out 2>&1 && ${CC:-cc} $level -w -DSAFETY -DCOLLAPSE -o pan pan.c >>out 2>&1 &&
        ./pan -m100000 -w22 >>out 2>&1 && grep -q 'errors: ' out && return
    printf '%s %s did not run:\n' "$model" "$*"
    cat out
    failed=1
}

right()
{
    level=-O1
    check "$@"
    grep -q 'errors: 0$' out && ! grep -q 'Search not completed\|max search depth' out && return
    printf '%s is wrong:\n' "$*"
    cat out
    failed=1
}

wrong()
{
    level=-O0 # found at once
    check "$@"
    grep -q 'errors: [1-9]' out && return
    printf 'nothing was found wrong with %s\n' "$*"
    failed=1
}

right board N=2 S=3 E=2
right board N=3 S=1 E=1
for broken in CARELESS PASS_FIRST RELOAD FREE_EARLY LATE_VETO; do
    wrong board N=2 S=3 E=2 $broken
done
right tickets
for broken in UNLOCKED ONE_LOOK; do
    wrong tickets $broken
done
right tree
for broken in NO_FIRST UNMARKED EARLY OPEN; do
    wrong tree $broken
done
right recall
for broken in NO_KEY NO_PAUSE EAGER ENDED; do
    wrong recall $broken
done
right recall ROOTED
for broken in NO_KEY NO_PAUSE EAGER ENDED LEAVES; do
    wrong recall ROOTED $broken
done
right recall WRITERS
for broken in NO_KEY NO_PAUSE EAGER PATIENT; do
    wrong recall WRITERS $broken
done
right parcel P=3
for broken in NO_SWAP EARLY KEEP; do
    wrong parcel $broken
done
right linger
for broken in NO_HOST_FENCE NO_KERNEL_FENCE NO_SECOND_LOOK NO_NUMBER; do
    wrong linger $broken
done
right stay
for broken in NO_HOST_FENCE NO_KERNEL_FENCE NO_SECOND_LOOK NO_NUMBER NO_OWN HEAD_ALONE UNLED UNASKED UNSAID UNREPEATED; do
    wrong stay $broken
done
right doze
for broken in LOOK_FIRST QUIET STALE; do
    wrong doze $broken
done
right consent
right consent WIDE
for broken in UNSAID SILENT DEAF LATER RETREAT; do
    wrong consent $broken
done
exit $failed
