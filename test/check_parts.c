/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long reductions with operations of the program: check_parts KINDS, a kind of memory for each rank. They are staged in parts if all ranks
 * are on device memory. The same call on host memory tells every byte; the operation, which does not commute, notes how
 * many copies have been begun before it is called for the first time and for the last.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/counted.h"
#include "test/gpu.h"

#define COUNT 20011 /* pairs of 8 bytes: with SHUNT_STAGE_CHUNK=16k ten parts, the last of which is short */
#define BYTES (COUNT * sizeof(struct pair))

enum call { ALLREDUCE, REDUCE, SCAN, EXSCAN, CALLS };
static const char *const names[] = {"allreduce", "reduce", "scan", "exscan"};

static int rank, size;
static long cases, failures, device_calls, host_calls;
static unsigned long long first_seen, last_seen, most_before, least_after = ~0ull;

struct pair {
    uint32_t a, b;
};

/* (a, b) then (c, d) is (a c, b c + d). inout is the right operand. */
static void chain(void *in, void *inout, int *n, MPI_Datatype *type)
{
    struct pair *left = in, *right = inout;

    (void)type;
    last_seen = sim_counted("copies");
    first_seen = first_seen == 0 ? last_seen : first_seen;
    for (int i = 0; i < *n; i++)
        right[i] = (struct pair){left[i].a * right[i].a, left[i].b * right[i].a + right[i].b};
}

static int run(enum call call, bool in_place, void *send, void *recv, MPI_Datatype type, MPI_Op op)
{
    const int root = size - 1;
    const void *in = in_place && (call != REDUCE || rank == root) ? MPI_IN_PLACE : in_place ? recv : send;

    switch (call) {
    case ALLREDUCE: return MPI_Allreduce(in, recv, COUNT, type, op, MPI_COMM_WORLD);
    case REDUCE: return MPI_Reduce(in, recv, COUNT, type, op, root, MPI_COMM_WORLD);
    case SCAN: return MPI_Scan(in, recv, COUNT, type, op, MPI_COMM_WORLD);
    default: return MPI_Exscan(in, recv, COUNT, type, op, MPI_COMM_WORLD);
    }
}

/* Is the receive buffer written on this rank, and with what the host says? */
static void check(enum call call, bool in_place, struct gpu_block *const blocks[2], char *const wanted[2])
{
    char *got = malloc(BYTES);

    for (int side = 0; side < 2; side++) {
        gpu_copy(got, blocks[side]->base, BYTES);
        if (memcmp(got, wanted[side], BYTES) != 0 && ++failures < 8)
            printf("FAIL rank %d: %s%s: %s buffer\n", rank, names[call], in_place ? " in place" : "", side ? "receive" : "send");
    }
    free(got);
    cases++;
}

static void once(enum call call, bool in_place, struct gpu_block *const blocks[2], char *const host[2], MPI_Datatype type, MPI_Op op)
{
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < COUNT; i++)
            ((struct pair *)host[side])[i] = (struct pair){(uint32_t)i * 7 + 3 + (uint32_t)rank + (uint32_t)side, (uint32_t)i};
        gpu_copy(blocks[side]->base, host[side], BYTES);
    }
    gpu_synchronize();
    unsigned long long before = sim_counted("copies");
    first_seen = last_seen = 0;
    if (run(call, in_place, blocks[0]->base, blocks[1]->base, type, op) != MPI_SUCCESS)
        failures++;
    if (call == ALLREDUCE && first_seen != 0) { /* some rank combines, and has all copies of its own */
        most_before = first_seen - before > most_before ? first_seen - before : most_before;
        least_after = last_seen - before < least_after ? last_seen - before : least_after;
    }
    run(call, in_place, host[0], host[1], type, op);
    check(call, in_place, blocks, host);
    device_calls++;
    host_calls++;
}

int main(int argc, char **argv)
{
    struct gpu_block blocks[2], *pair[2] = {&blocks[0], &blocks[1]};
    char *host[2] = {malloc(BYTES), malloc(BYTES)};
    MPI_Datatype type;
    MPI_Op op;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_contiguous(2, MPI_UNSIGNED, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(chain, 0, &op);
    gpu_start(gpu_local_rank());
    for (int side = 0; side < 2; side++)
        gpu_alloc(&blocks[side], argv[1][(size_t)rank % strlen(argv[1])], BYTES);
    for (int call = 0; call < CALLS; call++)
        for (int in_place = 0; in_place < 2; in_place++)
            once((enum call)call, in_place, pair, host, type, op);
    long mine[] = {cases, failures, device_calls, host_calls}, all[4];
    unsigned long long before, after;
    MPI_Reduce(mine, all, 4, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&most_before, &before, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&least_after, &after, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("check_parts: ranks %d cases %ld failures %ld device %ld host %ld\n", size, all[0], all[1], all[2], all[3]);
        printf("copies before the first part: %llu, before the last: %llu\n", before, after);
    }
    for (int side = 0; side < 2; side++) {
        gpu_free(&blocks[side]);
        free(host[side]);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Finalize();
    return 0;
}
