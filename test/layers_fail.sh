#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# layers.sh must find each kind of offence, and nothing in sources that have none.
here=$(cd "$(dirname "$0")" && pwd)
top=$(mktemp -d "${TMPDIR:-/tmp}/layers.XXXXXX") || exit 1
trap 'rm -rf "$top"' EXIT
spdx='/* SPDX-License-Identifier: BSD-3-Clause */'
failed=0

# fresh: a tree without offences
fresh()
{
    rm -rf "${top:?}"/*
    mkdir -p "$top/base" "$top/cuda" "$top/mpi" "$top/topo" "$top/coll" "$top/front" "$top/sim" "$top/test"
    printf '%s\n    X(cuda, "driver")\n' "$spdx" >"$top/base/log.h"
    printf '%s\n#include "base/log.h"\n#include <sys/stat.h>\n' "$spdx" >"$top/cuda/good.c"
}

# expect TEXT: layers.sh must fail with a line that contains it, or pass if it is empty
expect()
{
    said=$(sh "$here/layers.sh" "$top" 2>&1)
    code=$?
    if [ -z "$1" ]; then
        [ $code -eq 0 ] && [ -z "$said" ] && return
    else
        [ $code -eq 1 ] && printf '%s\n' "$said" | grep -qF "$1" && return
    fi
    printf 'expected "%s", got (%d):\n%s\n' "$1" $code "$said"
    failed=1
}

# bad FILE LINE EXPECTED: the line, on line 2 of the file, must be found; good FILE LINE: must not
bad()
{
    fresh
    printf '%s\n%s\n' "$spdx" "$2" >"$top/$1"
    expect "$1:2: $3"
}

good()
{
    fresh
    printf '%s\n%s\n' "$spdx" "$2" >"$top/$1"
    expect ''
}

fresh
expect ''
bad base/x.c '#include "cuda/gpu.h"' 'base/ may not include cuda/'
bad topo/x.c '#include "cuda/gpu.h"' 'topo/ may not include cuda/'
good cuda/x.c '#include "topo/topo.h"'
bad coll/x.c '#include "mpi/call.h"' 'coll/ may not include mpi/'
bad cuda/x.cu '#  include "coll/run.h"' 'cuda/ may not include coll/'
bad front/x.c '#include "cuda/gpu.h"' 'front/ may not include cuda/'
good mpi/x.c '#include "cuda/gpu.h"'
good mpi/x.c '#include "front/front.h"'
bad mpi/x.c '#include "front/library.h"' 'mpi/ may not include front/'
bad coll/x.c '#include "front/front.h"' 'coll/ may not include front/'
good test/x.c '#include "mpi/call.h"'
bad coll/x.h '#include <mpi.h>' '<mpi.h> is for mpi/'
bad front/x.c '#include <mpi.h>' '<mpi.h> is for mpi/'
bad mpi/x.c '#include <cuda.h>' '<cuda.h> is for cuda/'
bad base/x.c '#include <cuda_runtime_api.h>' '<cuda_runtime_api.h> is for cuda/'
bad cuda/x.c '#include <ucp/api/ucp.h>' '<ucp/api/ucp.h> is for ucx/'
good sim/x.c '#include <cuda.h>'
bad mpi/x.c '    const char *s = getenv("HOME");' 'getenv is for base/conf.c'
bad cuda/x.c 'x = secure_getenv (name);' 'getenv is for base/conf.c'
good base/conf.c 'x = secure_getenv(name);'
good sim/x.c 'x = getenv(name);'
bad cuda/x.c '    fprintf(stderr, "x");' 'printing is for base/log.c'
bad mpi/x.c 'printf("x");' 'printing is for base/log.c'
bad base/x.c 'perror("x");' 'printing is for base/log.c'
good base/x.c 'n = snprintf(text, size, "printf(%d)", 1); /* printf(x) */ // puts(y)'
good base/log.c 'dprintf(2, "x");'
bad coll/x.c '    abort();' 'the library may not end'
bad front/x.c 'if (x) _exit(1);' 'the library may not end'
good coll/x.c 'static_assert(1, ""); table->exit(1); pthread_exit(0); at_exit(f);'
bad base/x.c "/* TO""DO: later */" '/* TO''DO'
bad cuda/x.c 'shunt_info("cude", "x");' 'shunt_info("cude", "x");  <- a subsystem'
good cuda/x.c 'shunt_info("cuda", "x");'

fresh
echo 'int x;' >"$top/coll/x.c"
expect 'coll/x.c:1: no line SPDX'
fresh
echo 'echo' >"$top/test/x.sh"
expect 'test/x.sh:1: no line SPDX'

fresh
{ echo "$spdx"; echo 'void f(void)'; echo '{'; yes '    g();' | head -n 80; echo '}'; } >"$top/mpi/x.c"
expect 'mpi/x.c:84: a function of 81 lines, over 80'
sed -i 4d "$top/mpi/x.c"
expect ''
fresh
{ echo "$spdx"; yes 'int f(void);' | head -n 600; } >"$top/mpi/x.h"
expect 'mpi/x.h:601: a file of 601 lines, over 600'
sed -i 4d "$top/mpi/x.h"
expect ''
exit $failed
