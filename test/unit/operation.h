/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation of the test of the kernels: its buffers on all ranks, in random memory, and what they must be in the end. */
#ifndef SHUNT_TEST_UNIT_OPERATION_H
#define SHUNT_TEST_UNIT_OPERATION_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "coll/algo.h"
#include "cuda/exchange.h"
#include "cuda/kargs.h"
#include "cuda/types.h"
#include "sim/kernel.h"
#include "test/unit/collectives.h"
}

#include "elements.h"

#define MOST_RANKS 8
#define MOST_BYTES (48u << 10) /* of a vector */
#define GUARD      64 /* bytes around a buffer that nobody may touch */

static const struct sim_kernel *(*find_kernel)(const char *name);

/* The first three suit every collective, RING and TREE those that have them. */
enum shape { LL, LINES, ONESHOT, DIRECT, TWOSHOT, ZERO_COPY, SHAPES, RING = SHAPES, TREE };
static const char *const shape_names[] = {"LL",      "LL128",             "oneshot", "twoshot direct",
                                          "twoshot", "twoshot zero-copy", "ring",    "tree"};

struct operation {
    unsigned coll; /* enum shunt_coll */
    unsigned root;
    shape how;
    shunt_type type;
    shunt_op op;
    size_t count;
    bool in_place;
    unsigned in_shift, out_shift, shift_step; /* addresses modulo 16; the latter differs from rank to rank */
    unsigned blocks, threads, chunk, depth;
    uint64_t window; /* ns */
    bool short_slots; /* LL128: of one lap */
    int late;        /* a rank that starts only when another has left early; -1: none */
    unsigned left;   /* how often a kernel has left early */
    /* made from these */
    size_t bytes; /* of a block */
    std::vector<char> memory[MOST_RANKS], wanted[MOST_RANKS];
    char *in[MOST_RANKS], *out[MOST_RANKS];
    const struct sim_kernel *kernel;
};

static bool is_ll(shape how)
{
    return how == LL || how == LINES || how == DIRECT;
}

static char *at_shift(char *p, unsigned shift)
{
    return p + (16 - (uintptr_t)p % 16) % 16 + GUARD + shift % 16;
}

/* The kernel of a type of this size that moves; combining ones are found by their pair. */
static void find_kernel_of(operation *o)
{
    shunt_type type;
    assert_true(shunt_kernel_find(o->type, o->op, &type));
    std::string name = std::string(is_ll(o->how) ? "shunt_ll_" : "shunt_plan_") + shunt_type_name(type) + "_";
    for (const char *c = shunt_op_name(o->op); *c; c++)
        name += (char)(*c - 'a' + 'A');
    o->kernel = find_kernel(name.c_str());
    if (!o->kernel)
        fail_msg("there is no kernel %s", name.c_str());
}

/* The buffers of rank r in its memory, which is random. */
static void place_buffers(operation *o, unsigned n, unsigned r)
{
    size_t half = n * o->bytes + 2 * GUARD + 32;
    o->memory[r].resize(2 * half);
    for (char &c : o->memory[r])
        c = (char)rng();
    o->in[r] = at_shift(o->memory[r].data(), o->in_shift + r * o->shift_step);
    o->out[r] = at_shift(o->memory[r].data() + half, o->out_shift + r * o->shift_step);
    int block = block_in_place(o->coll, o->root, r);
    if (o->coll == SHUNT_COLL_BCAST)
        o->out[r] = o->in[r];
    else if (o->in_place && block >= 0)
        o->in[r] = o->out[r] + block * o->bytes;
    else if (o->in_place)
        o->out[r] = o->in[r] + (-1 - block) * o->bytes;
    rules[o->type].fill(o->in[r], o->count * blocks_in(o->coll, n, o->root, r));
}

/* Rank r's memory as it has to be in the end. */
static void expect(operation *o, unsigned n, unsigned r)
{
    o->wanted[r] = o->memory[r];
    char *out = o->wanted[r].data() + (o->out[r] - o->memory[r].data()), *from[MOST_RANKS];
    for (unsigned b = 0; b < blocks_out(o->coll, n, o->root, r); b++) {
        if (combines(o->coll)) {
            for (unsigned q = 0; q < n; q++)
                from[q] = o->in[q] + (scatters_sums(o->coll) ? r * o->bytes : 0);
            rules[o->type].combine(o->op, last_operand(o->coll, n, r) + 1, from, out, o->count);
        } else {
            memcpy(out + b * o->bytes, moved_block(o->coll, o->root, r, b, o->in, o->bytes), o->bytes);
        }
    }
}

static void prepare(operation *o, unsigned n)
{
    o->bytes = o->count * shunt_type_size(o->type);
    find_kernel_of(o);
    for (unsigned r = 0; r < n; r++)
        place_buffers(o, n, r);
    for (unsigned r = 0; r < n; r++)
        expect(o, n, r);
}

static std::string describe(const operation &o, unsigned n)
{
    char text[512];
    snprintf(text, sizeof text,
             "%s %s %s of %zu %s on %u ranks%s, root %u, %u x %u threads, chunk %u, depth %u, addresses mod 16: in %u, out "
             "%u, + %u per rank",
             shunt_coll_name(o.coll), shape_names[o.how], shunt_op_name(o.op), o.count, shunt_type_name(o.type), n,
             o.in_place ? ", in place" : "", o.root, o.blocks, o.threads, o.chunk, o.depth, o.in_shift, o.out_shift,
             o.shift_step);
    return text;
}

/* The result, of Allreduce the same bits everywhere; what is around it and the input as before. */
static void check(operation *o, unsigned n)
{
    for (unsigned r = 0; r < n; r++) {
        size_t at = o->out[r] - o->memory[r].data();
        if (combines(o->coll) && blocks_out(o->coll, n, o->root, r) > 0) {
            size_t bad = rules[o->type].difference(o->out[r], o->wanted[r].data() + at, o->count);
            if (bad < o->count)
                fail_msg("%s: element %zu of rank %u is wrong", describe(*o, n).c_str(), bad, r);
            memcpy(o->wanted[r].data() + at, o->out[r], o->bytes);
        }
        if (o->coll == SHUNT_COLL_ALLREDUCE && memcmp(o->out[r], o->out[0], o->bytes) != 0)
            fail_msg("%s: ranks 0 and %u have different bits", describe(*o, n).c_str(), r);
        if (o->wanted[r] != o->memory[r])
            fail_msg("%s: rank %u's memory is not what it should be", describe(*o, n).c_str(), r);
    }
}

#endif
