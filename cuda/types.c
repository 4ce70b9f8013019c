/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types and operations: sizes, names, and which kernel does a pair. */
#include "cuda/types.h"

enum class { SINT, UINT, BYTE, FLT, CPX, HALF, PAIR };

static const struct {
    const char *name;
    unsigned char bytes, class;
} types[] = {
#define X(id, type, bytes, class) [SHUNT_TYPE_##id] = { #id, bytes, class },
    SHUNT_TYPES(X)
#undef X
};

static const char *const op_names[] = {
#define X(id, word) [SHUNT_OP_##id] = #word,
    SHUNT_DEEDS(X)
#undef X
};

/* has[type][op]: kernels.cu has a kernel of exactly this pair */
static const bool has[SHUNT_NTYPES][SHUNT_NOPS] = {
#define KERNEL(T, op)             [SHUNT_TYPE_##T][SHUNT_OP_##op] = true,
#define X(id, type, bytes, class) SHUNT_KERNELS_##class(KERNEL, id)
    SHUNT_TYPES(X)
#undef X
#undef KERNEL
};

size_t shunt_type_size(enum shunt_type type)
{
    return types[type].bytes;
}

size_t shunt_type_align(enum shunt_type type)
{
    bool two = types[type].class == CPX || types[type].class == PAIR;

    return two ? types[type].bytes / 2 : types[type].bytes;
}

const char *shunt_type_name(enum shunt_type type)
{
    return types[type].name;
}

const char *shunt_op_name(enum shunt_op op)
{
    return op_names[op];
}

static enum shunt_type unsigned_of(enum shunt_type type)
{
    switch (type) {
    case SHUNT_TYPE_I8:
        return SHUNT_TYPE_U8;
    case SHUNT_TYPE_I16:
        return SHUNT_TYPE_U16;
    case SHUNT_TYPE_I32:
        return SHUNT_TYPE_U32;
    case SHUNT_TYPE_I64:
        return SHUNT_TYPE_U64;
    default:
        return type;
    }
}

bool shunt_kernel_find(enum shunt_type type, enum shunt_op op, enum shunt_type *kernel_type)
{
    bool integer = types[type].class == SINT || types[type].class == UINT || types[type].class == BYTE;
    bool bitwise = op == SHUNT_OP_BAND || op == SHUNT_OP_BOR || op == SHUNT_OP_BXOR;

    if (integer && bitwise)
        type = SHUNT_TYPE_U8;
    else if (!has[type][op])
        type = unsigned_of(type);
    if (!has[type][op])
        return false;
    *kernel_type = type;
    return true;
}
