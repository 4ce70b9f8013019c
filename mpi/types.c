/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of predefined datatypes and operations, made once, at the first call that has device memory.
 *
 * Which operations MPI allows on a class is from the standard's table. A pair that it forbids has no kernel here: the
 * call is staged and the host MPI says what it thinks of it.
 */
#include "mpi/float16.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum type_class {
    C_INT,
    C_UINT,
    F_INT,
    FLOATING,
    COMPLEX,
    C_LOGICAL,
    RAW,
    SHORT_PAIR,
    INT_PAIR,
    FLOAT_PAIR,
    REAL_PAIR,
    NONE,
};

#define OP(id) (1u << SHUNT_OP_##id)
#define ARITHMETIC (OP(SUM) | OP(PROD))
#define ORDER (OP(MIN) | OP(MAX))
#define BITWISE (OP(BAND) | OP(BOR) | OP(BXOR))
#define LOGICAL (OP(LAND) | OP(LOR) | OP(LXOR))
#define LOCATION (OP(MINLOC) | OP(MAXLOC))

static const unsigned allowed[] = {
    [C_INT] = ARITHMETIC | ORDER | BITWISE | LOGICAL,
    [C_UINT] = ARITHMETIC | ORDER | BITWISE | LOGICAL,
    [F_INT] = ARITHMETIC | ORDER | BITWISE,
    [FLOATING] = ARITHMETIC | ORDER,
    [COMPLEX] = ARITHMETIC,
    [C_LOGICAL] = LOGICAL,
    [RAW] = BITWISE,
    [SHORT_PAIR] = LOCATION,
    [INT_PAIR] = LOCATION,
    [FLOAT_PAIR] = LOCATION,
    [REAL_PAIR] = LOCATION,
    [NONE] = 0,
};

static const struct {
    MPI_Datatype handle;
    enum type_class class;
} rows[] = {
#define TYPE(handle, class) { handle, class },
#include "mpi/types.def"
#undef TYPE
};

static const struct {
    MPI_Op handle;
    int op;
} ops[] = {
#define X(id, word) { MPI_##id, SHUNT_OP_##id },
    SHUNT_OPS(X)
#undef X
    { MPI_REPLACE, SHUNT_OP_NO_KERNEL },
    { MPI_NO_OP, SHUNT_OP_NO_KERNEL },
};

enum { TABLE_BITS = 8 }; /* at least twice the rows */
static struct shunt_mpi_type table[1 << TABLE_BITS];
_Static_assert(2 * sizeof rows / sizeof rows[0] <= sizeof table / sizeof table[0], "the type table is too small");

static int find_integer(int size, int of1, int of2, int of4, int of8)
{
    return size == 1 ? of1 : size == 2 ? of2 : size == 4 ? of4 : size == 8 ? of8 : -1;
}

/* The size of a pair is that of its two parts, without padding: the value, and an int (or what has its size). */
static int find_pair(int size, int of2, int of4, int of8)
{
    return size == 2 + 4 ? of2 : size == 4 + 4 ? of4 : size == 8 + 4 ? of8 : -1;
}

/* The kernels' type of an MPI type of this class and size. */
static int find_type(enum type_class class, int size)
{
    switch (class) {
    case C_INT:
    case F_INT: return find_integer(size, SHUNT_TYPE_I8, SHUNT_TYPE_I16, SHUNT_TYPE_I32, SHUNT_TYPE_I64);
    case C_UINT: return find_integer(size, SHUNT_TYPE_U8, SHUNT_TYPE_U16, SHUNT_TYPE_U32, SHUNT_TYPE_U64);
    case FLOATING: return find_integer(size, -1, -1, SHUNT_TYPE_F32, SHUNT_TYPE_F64);
    case COMPLEX: return size == 16 ? SHUNT_TYPE_C64 : find_integer(size, -1, -1, -1, SHUNT_TYPE_C32);
    case C_LOGICAL: return find_integer(size, SHUNT_TYPE_U8, -1, -1, -1);
    case RAW: return SHUNT_TYPE_U8;
    case SHORT_PAIR: return find_pair(size, SHUNT_TYPE_I16I, -1, -1);
    case INT_PAIR: return find_pair(size, -1, SHUNT_TYPE_I32I, SHUNT_TYPE_I64I);
    case FLOAT_PAIR: return find_pair(size, -1, SHUNT_TYPE_F32I, SHUNT_TYPE_F64I);
    case REAL_PAIR: return size == 16 ? SHUNT_TYPE_F64F : find_integer(size, -1, -1, -1, SHUNT_TYPE_F32F);
    default: return -1;
    }
}

/* Do elements lie as far apart as those of the kernels? Padding is the compiler's affair. */
static bool has_extent(MPI_Datatype handle, size_t bytes)
{
    MPI_Count lb, extent;

    return shunt_host.Type_get_extent_x(handle, &lb, &extent) == MPI_SUCCESS && lb == 0 && extent == (MPI_Count)bytes;
}

static struct shunt_mpi_type *find_entry(MPI_Datatype handle)
{
    size_t i = ((uint64_t)(uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - TABLE_BITS);

    while (table[i].size != 0 && table[i].handle != handle)
        i = (i + 1) % (sizeof table / sizeof table[0]);
    return &table[i];
}

static void fill_entry(MPI_Datatype handle, enum type_class class)
{
    int size = 0;

    if (handle == MPI_DATATYPE_NULL || shunt_host.Type_size(handle, &size) != MPI_SUCCESS || size <= 0)
        return;
    struct shunt_mpi_type *entry = find_entry(handle);
    if (entry->size != 0) /* another name of the same type */
        return;
    *entry = (struct shunt_mpi_type){ .handle = handle, .size = size, .type = find_type(class, size) };
    if (entry->type >= 0 && !has_extent(handle, shunt_type_size(entry->type)))
        entry->type = -1;
    for (unsigned op = 0; entry->type >= 0 && op < SHUNT_NOPS; op++)
        if ((allowed[class] & 1u << op) && shunt_kernel_exists(entry->type, op))
            entry->ops |= 1u << op;
}

static void fill_table(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fill_entry(rows[i].handle, rows[i].class);
}

const struct shunt_mpi_type *shunt_types_find(MPI_Datatype handle)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fill_table);
    const struct shunt_mpi_type *entry = find_entry(handle);
    return entry->size != 0 ? entry : shunt_float16_find(handle);
}

int shunt_types_op(MPI_Op handle)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (ops[i].handle == handle)
            return ops[i].op;
    return SHUNT_OP_OF_USER;
}
