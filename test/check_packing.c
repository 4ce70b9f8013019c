/* SPDX-License-Identifier: BSD-3-Clause */
/* Pack and Unpack, of the host's representation and of external32: check_packing [large] SEND:RECV ..., see pair.h. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "test/pair.h"

#define COUNT 300 /* elements at most */
#define START 4   /* the position before; what is there stays */
#define SLACK 9   /* bytes that are left of the packed buffer */
#define ROOM  (2 * PAIR_GUARD + (COUNT + 1) * PAIR_WIDE)

struct test {
    bool unpacks, external, same, tight; /* the same side twice; too little room */
    int types, count;
};

static int pack_small(const struct test *test, MPI_Datatype type, char *send, char *recv, int size, long values[PAIR_VALUES])
{
    int at = START, bytes = START + size + (test->tight ? -1 : SLACK), rc;
    MPI_Aint wide = START, room = bytes;

    if (!test->external && !test->unpacks)
        rc = MPI_Pack(send, test->count, type, recv, bytes, &at, MPI_COMM_WORLD);
    else if (!test->external)
        rc = MPI_Unpack(send, bytes, &at, recv, test->count, type, MPI_COMM_WORLD);
    else if (!test->unpacks)
        rc = MPI_Pack_external("external32", send, test->count, type, recv, room, &wide);
    else
        rc = MPI_Unpack_external("external32", send, room, &wide, recv, test->count, type);
    values[0] = at;
    values[1] = (long)wide;
    return rc;
}

#if MPI_VERSION >= 4
static int pack_large(const struct test *test, MPI_Datatype type, char *send, char *recv, int size, long values[PAIR_VALUES])
{
    MPI_Count at = START, bytes = START + size + (test->tight ? -1 : SLACK);
    int rc;

    if (!test->external && !test->unpacks)
        rc = MPI_Pack_c(send, test->count, type, recv, bytes, &at, MPI_COMM_WORLD);
    else if (!test->external)
        rc = MPI_Unpack_c(send, bytes, &at, recv, test->count, type, MPI_COMM_WORLD);
    else if (!test->unpacks)
        rc = MPI_Pack_external_c("external32", send, test->count, type, recv, bytes, &at);
    else
        rc = MPI_Unpack_external_c("external32", send, bytes, &at, recv, test->count, type);
    values[0] = (long)at;
    return rc;
}
#else
#define pack_large pack_small
#endif

static int call(const void *context, char *send, char *recv, long values[PAIR_VALUES])
{
    const struct test *test = context;
    MPI_Datatype type = test->types ? pair_holes : MPI_FLOAT;
    int size = test->count * (test->types ? 8 : 4);

    return (pair_large ? pack_large : pack_small)(test, type, send, recv, size, values);
}

static void run_test(const struct test *test)
{
    char name[100];
    bool some = test->count > 0;

    snprintf(name, sizeof name, "%s%s, types %d, %d elements%s", test->unpacks ? "unpack" : "pack",
             test->external ? "_external" : "", test->types, test->count, test->tight ? ", too little room" : "");
    pair_run(&(struct pair_test){.name = name, .call = call, .context = test, .sends = some, .receives = some,
                                 .fails = test->tight});
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 7, COUNT};

    pair_start(&argc, &argv, ROOM);
    for (int i = 0; i < 4 * 8; i++) {
        struct test test = {.unpacks = i & 1, .external = i & 2, .types = i >> 2 & 1, .count = counts[i >> 3]};
        run_test(&test);
        test.tight = test.count > 1;
#ifdef MPICH_NAME
        test.tight = false; /* it does not look */
#endif
        if (test.tight)
            run_test(&test);
    }
    return pair_finish("check_packing");
}
