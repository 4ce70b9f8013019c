/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reduction must give: types and operations by name, data that a missing or repeated contribution shows in, and
 * the result in rank order, computed by loops that know neither MPI's nor shunt's code.
 */
#ifndef SHUNT_TEST_REFER_H
#define SHUNT_TEST_REFER_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum refer_class {
    REFER_INT,
    REFER_FLT,
    REFER_CPX,
    REFER_BYTE,
    REFER_LOGICAL,
    REFER_PAIR,
};

enum refer_op_id {
    REFER_SUM,
    REFER_PROD,
    REFER_MAX,
    REFER_MIN,
    REFER_LAND,
    REFER_LOR,
    REFER_LXOR,
    REFER_BAND,
    REFER_BOR,
    REFER_BXOR,
    REFER_MAXLOC,
    REFER_MINLOC,
    REFER_NOPS,
};

enum refer_data {
    REFER_EXACT, /* every order of operands gives the same bits; no contribution is neutral */
    REFER_ROUGH, /* floating point of wild magnitudes: the order shows in the bits */
};

struct refer_loops; /* of one C type, in refer.c */

struct refer_type {
    const char *name;
    MPI_Datatype handle;
    enum refer_class class;
    size_t size; /* bytes from one element to the next */
    const struct refer_loops *loops;
};

struct refer_op {
    const char *name;
    MPI_Op handle;
};

extern struct refer_type refer_types[];
extern const int refer_ntypes;
extern const struct refer_op refer_ops[REFER_NOPS];

/* After MPI_Init: look for the handles of shunt's own types. Without shunt they are MPI_DATATYPE_NULL. */
void refer_start(void);

/* By name; NULL or -1 if there is none. */
const struct refer_type *refer_type_find(const char *name);
int refer_op_find(const char *name);

/* Is there a rule for this pair? If not, only the host MPI tells the result. */
bool refer_known(const struct refer_type *type, enum refer_op_id op);

/* Is its result on the host MPI known to break the rule, or not to be had at all (a crash)? */
bool refer_host_flawed(const struct refer_type *type, enum refer_op_id op);
bool refer_host_crashes(const struct refer_type *type, enum refer_op_id op);

/* One contribution to a reduction: what fills it follows from these alone, on every process alike. */
struct refer_source {
    const struct refer_type *type;
    enum refer_op_id op;
    enum refer_data data;
    uint64_t seed;
};

/* `count` elements of contributor `who`. Gaps in pair types and long double are filled too. */
void refer_fill(const struct refer_source *source, int who, size_t count, void *out);

/*
 * The result for contributors first ... first + n - 1, in this order; 16-bit floats are rounded once, at the end. `work`
 * has room for `count` elements.
 */
void refer_reduce(const struct refer_source *source, int first, int n, size_t count, void *work, void *out);

/* The first element that differs in a byte that matters, or -1. */
long refer_differs(const struct refer_type *type, size_t count, const void *a, const void *b);

/* The same with the slack that another order of the operands may cause; only floating sums and products have any. */
long refer_differs_roughly(const struct refer_source *source, int first, int n, size_t count, const void *a,
                           const void *b);

/* A hash of the bytes that matter. */
uint64_t refer_hash(const struct refer_type *type, size_t count, const void *data);

/* Element `i` as hexadecimal bytes, for messages: static storage, two calls live at a time. */
const char *refer_show(const struct refer_type *type, const void *data, size_t i);

#endif
