#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# doc/design.md has a line for every file of the folders of the sources, and no line for a file that is gone.
cd "${srcdir:-$(dirname "$0")/..}" || exit 1

there=$(find base coll cuda pt2pt examples front include mpi sim tools topo ucx -type f \
    ! -name local.mk ! -name kernels.mk ! -name '*.pyc' ! -name '.*' | sort)
told=$(sed -n '/^## 11\. /,$s/^| \(`.*`\) | .*/\1/p' doc/design.md | tr -d '`' | tr ' ' '\n' | sort)

offences=$(
    echo "$there" | grep -vxF "$told" | sed 's/$/: has no line in doc\/design.md/'
    echo "$told" | grep -vxF "$there" | sed 's/^/doc\/design.md: there is no file /'
)
[ -z "$offences" ] && exit 0
echo "$offences"
exit 1
