/* SPDX-License-Identifier: BSD-3-Clause */
/* The same call on host memory and on pairs of kinds of memory; pair.h. */
#include "test/pair.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS 16

int pair_rank, pair_ranks;
bool pair_large;
static long cases, failures, device_calls, host_calls;
static struct gpu_block blocks[PAIRS][2];
static int pairs, round_number;
static size_t room;
static char *filled[2], *wanted[2], *got; /* by buffer: 0 send, 1 receive */

MPI_Datatype pair_holes;
MPI_Op pair_add;

static void add_holes(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++) {
        float *a = (float *)((char *)in + PAIR_WIDE * i), *b = (float *)((char *)inout + PAIR_WIDE * i);
        b[-2] += a[-2];
        b[1] += a[1];
    }
}

static void make_types(void)
{
    MPI_Datatype bare;

    MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){-8, 4}, MPI_FLOAT, &bare);
    MPI_Type_create_resized(bare, -8, PAIR_WIDE, &pair_holes);
    MPI_Type_commit(&pair_holes);
    MPI_Type_free(&bare);
    MPI_Op_create(add_holes, 1, &pair_add);
}

static char pick(const char *kinds, size_t length)
{
    return kinds[(size_t)pair_rank % length];
}

void pair_start(int *argc, char ***argv, size_t bytes)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &pair_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &pair_ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    make_types();
    room = bytes;
    pair_large = *argc > 1 && strcmp((*argv)[1], "large") == 0;
    gpu_start(gpu_local_rank());
    for (int i = 1 + pair_large; i < *argc && pairs < PAIRS; i++, pairs++) {
        const char *colon = strchr((*argv)[i], ':');
        gpu_alloc(&blocks[pairs][0], pick((*argv)[i], (size_t)(colon - (*argv)[i])), room);
        gpu_alloc(&blocks[pairs][1], pick(colon + 1, strlen(colon + 1)), room);
    }
    for (int i = 0; i < 2; i++) {
        filled[i] = malloc(room);
        wanted[i] = malloc(room);
    }
    got = malloc(room);
}

int pair_count(void)
{
    return pairs;
}

const struct gpu_block *pair_block(int i, bool recv)
{
    return &blocks[i][recv];
}

void pair_fill(char *at, int seed)
{
    for (unsigned i = 0; i < room / sizeof(float); i++) {
        float value = (float)((i * 2654435761u + (unsigned)seed * 40503u) >> 16 & 0xff);
        memcpy(at + i * sizeof value, &value, sizeof value);
    }
}

void pair_fail(const char *name, const char *format, ...)
{
    char text[300];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    failures++;
    if (failures < 20)
        printf("FAIL rank %d: %s: %s\n", pair_rank, name, text);
}

void pair_counted(bool device)
{
    if (device)
        device_calls++;
    else
        host_calls++;
}

static void compare(const struct pair_test *test, int which, const struct gpu_block *block)
{
    gpu_copy(got, block->base, room);
    for (size_t i = 0; i < room; i++) {
        if (which == 1 && test->vague > 0 && i + PAIR_WIDE >= PAIR_GUARD && i < PAIR_GUARD + test->vague)
            continue;
        if (got[i] != wanted[which][i]) {
            pair_fail(test->name, "%s buffer of kind %c: byte %ld is 0x%02x, on host memory 0x%02x",
                      which ? "receive" : "send", block->kind, (long)i - PAIR_GUARD, (unsigned char)got[i],
                      (unsigned char)wanted[which][i]);
            return;
        }
    }
}

/* Of the error: MPICH's codes name the call. */
static int find_class(int rc)
{
    int class = MPI_SUCCESS;

    if (rc != MPI_SUCCESS)
        MPI_Error_class(rc, &class);
    return class;
}

static void run_on(const struct pair_test *test, const struct gpu_block *block, int class, const long *values)
{
    struct gpu_state before = {0}, after = {0};
    long found[PAIR_VALUES] = {0};

    for (int i = 0; i < 2; i++)
        gpu_copy(block[i].base, filled[i], room);
    gpu_synchronize();
    bool sends = test->sends && !gpu_kind_on_host(block[0].kind), receives = test->receives && !gpu_kind_on_host(block[1].kind);
    for (int i = 0; i < (test->times ? test->times : 1); i++) {
        if (test->apart)
            pair_counted(sends);
        pair_counted(receives || (sends && !test->apart));
    }
    gpu_provoke_error();
    gpu_look(&before, false);
    int answer = test->call(test->context, block[0].base + PAIR_GUARD, block[1].base + PAIR_GUARD, found);
    gpu_look(&after, false);
    gpu_forget_error();
    if (find_class(answer) != class)
        pair_fail(test->name, "answers class %d, on host memory %d", find_class(answer), class);
    if (!gpu_state_same(&before, &after))
        pair_fail(test->name, "the state of CUDA has changed");
    for (int i = 0; i < PAIR_VALUES; i++)
        if (found[i] != values[i])
            pair_fail(test->name, "value %d is %ld, on host memory %ld", i, found[i], values[i]);
    compare(test, 0, &block[0]);
    compare(test, 1, &block[1]);
}

void pair_run(const struct pair_test *test)
{
    long values[PAIR_VALUES] = {0};

    cases++;
    round_number++;
    for (int i = 0; i < 2; i++) {
        pair_fill(filled[i], 100 * round_number + 2 * pair_rank + i);
        memcpy(wanted[i], filled[i], room);
    }
    int rc = test->call(test->context, wanted[0] + PAIR_GUARD, wanted[1] + PAIR_GUARD, values);
    if ((rc != MPI_SUCCESS) != test->fails)
        pair_fail(test->name, "the host MPI answers %d", rc);
    host_calls++;
    for (int i = 0; i < pairs; i++)
        run_on(test, blocks[i], find_class(rc), values);
}

int pair_finish(const char *program)
{
    long mine[3] = {failures, device_calls, host_calls}, all[3];

    for (int i = 0; i < pairs; i++) {
        gpu_free(&blocks[i][0]);
        gpu_free(&blocks[i][1]);
    }
    for (int i = 0; i < 2; i++) {
        free(filled[i]);
        free(wanted[i]);
    }
    free(got);
    MPI_Op_free(&pair_add);
    MPI_Type_free(&pair_holes);
    PMPI_Allreduce(mine, all, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (pair_rank == 0)
        printf("%s: ranks %d cases %ld failures %ld device %ld host %ld\n", program, pair_ranks, cases, all[0], all[1],
               all[2]);
    MPI_Finalize();
    return all[0] != 0;
}
