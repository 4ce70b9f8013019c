/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types and operations of the kernels, as numbers: from kernels.def. No CUDA, no MPI in it. */
#ifndef SHUNT_CUDA_TYPES_H
#define SHUNT_CUDA_TYPES_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/kernels.def"

enum shunt_type {
#define X(id, type, bytes, class) SHUNT_TYPE_##id,
    SHUNT_TYPES(X)
#undef X
    SHUNT_NTYPES
};

enum shunt_op {
#define X(id, word) SHUNT_OP_##id,
    SHUNT_DEEDS(X)
#undef X
    SHUNT_NOPS
};

/*
 * Bytes of an element, with the padding that C has in pairs; the alignment that kernels need of it; its name ("F32");
 * the operation's name ("sum").
 */
size_t shunt_type_size(enum shunt_type type);
size_t shunt_type_align(enum shunt_type type);
const char *shunt_type_name(enum shunt_type type);
const char *shunt_op_name(enum shunt_op op);

/*
 * The kernel for this pair: writes the type whose kernel does it (see kernels.def) and answers true, or false if there
 * is none.
 */
bool shunt_kernel_find(enum shunt_type type, enum shunt_op op, enum shunt_type *kernel_type);

static inline bool shunt_kernel_exists(enum shunt_type type, enum shunt_op op)
{
    enum shunt_type ignored;
    return shunt_kernel_find(type, op, &ignored);
}

#endif
