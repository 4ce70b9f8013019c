#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# doc/settings.md is what shunt-info writes, whatever the environment, and has every row of conf.def.
top=$(cd "$(dirname "$0")/.." && pwd)
info=${builddir:?}/tools/shunt-info

SHUNT_STATS=1 SHUNT_STAGE_SIZE=1g "$info" --settings --markdown | diff "$top/doc/settings.md" - || {
    echo "doc/settings.md is not fresh: make settings-doc"
    exit 1
}
names=$(sed -n 's/^CONF_[A-Z]*([a-z0-9_]*, "\(SHUNT_[A-Z0-9_]*\)".*/\1/p' "$top/base/conf.def")
[ -n "$names" ] || exit 1
for name in $names; do
    grep -qF "| \`$name\` |" "$top/doc/settings.md" || {
        echo "$name is missing"
        exit 1
    }
done
