#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The rules of the sources that no compiler knows: who may include whom, getenv and printing in one place, sizes,
# licence lines. Prints each offence with file and line, and fails if there is one. layers.sh [TOP OF THE SOURCES]
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/..}" || exit 1

# All files of the project: what git knows or would add; without git (an unpacked release), what is not generated.
list_files()
{
    if [ -e .git ]; then
        git ls-files -co --exclude-standard
    else
        find . -type f ! -path './build*' ! -path './_*' ! -path './autom4te.cache/*' ! -path './stage/*' \
            ! -name aclocal.m4 ! -name 'configure*' ! -name 'config.*' ! -name Makefile.in ! -name Makefile \
            ! -name 'lt*.m4' ! -name libtool.m4
    fi | sed 's,^\./,,' | sort | while read -r file; do [ -f "$file" ] && echo "$file"; done
}

files=$(list_files)
sources=$(echo "$files" | grep -E '\.(c|h|cu|cuh|cpp|S|def)$')
scripts=$(echo "$files" | grep -E '\.(awk|py|sh|am|mk|m4|map|[ch]\.in)$|^(quickstart|\.ci/run|configure\.ac)$')

offences=$(
    awk -f "$here/layers.awk" $sources

    for file in $sources $scripts; do
        head -n 2 "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' ||
            echo "$file:1: no line SPDX-License-Identifier: BSD-3-Clause at the top"
    done

    # the second half of each word is apart, so that this line is no offence
    grep -nE '(^|[^A-Za-z])(TO''DO|FIX''ME|XX''X)([^A-Za-z]|$)' $sources $scripts /dev/null |
        sed 's/:\([0-9]*\):/:\1: /; s/$/  <- finish it, or write down why not/'

    # words that SHUNT_DEBUG_SUBSYS would not know
    words=$(sed -n 's/^ *X(\([a-z]*\), ".*/\1/p' base/log.h | tr '\n' '|')
    grep -nE 'shunt_(warn|info|trace)\("' $(echo "$sources" | grep -v '^base/log\.h$') /dev/null |
        grep -vE "shunt_(warn|info|trace)\\(\"(${words}-)\"" |
        sed 's/:\([0-9]*\):/:\1: /; s/$/  <- a subsystem that base\/log.h does not list/'
)

[ -z "$offences" ] && exit 0
echo "$offences"
exit 1
