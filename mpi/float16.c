/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 16-bit floats: their handles, and the operations on them for the host MPI.
 *
 * Each operation computes in float and rounds its result, so that the host rounds once for every two operands, where
 * the kernels round once for all. They give the same bits whichever operand comes first, since hosts choose, and ranks
 * must agree: of zeros MIN takes the negative and MAX the positive one, and there is one NaN.
 */
#include "mpi/float16.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/short_float.h"
#include "mpi/life.h"

/* ---- the operations ---- */

static float take_smaller(float a, float b)
{
    if (a != a || b != b)
        return a + b;
    if (a == b) /* zeros: the bits of the negative one */
        return shunt_float_of(shunt_word_of(a) | shunt_word_of(b));
    return a < b ? a : b;
}

static float take_larger(float a, float b)
{
    if (a != a || b != b)
        return a + b;
    if (a == b)
        return shunt_float_of(shunt_word_of(a) & shunt_word_of(b));
    return a > b ? a : b;
}

#define FLOAT16_OPS(X, type)                                                                       \
    X(type, SUM, a + b)                                                                            \
    X(type, PROD, a * b)                                                                           \
    X(type, MIN, take_smaller(a, b))                                                               \
    X(type, MAX, take_larger(a, b))

/* By memcpy: programs get away with odd addresses, so they must work. */
#define OPERATION(type, op, expression)                                                            \
    static void type##_##op(void *in, void *inout, int *count, MPI_Datatype *datatype)             \
    {                                                                                              \
        const char *x = in;                                                                        \
        char *y = inout;                                                                           \
        (void)datatype;                                                                            \
        for (int i = 0; i < *count; i++, x += 2, y += 2) {                                         \
            uint16_t bits[2];                                                                      \
            memcpy(&bits[0], x, 2);                                                                \
            memcpy(&bits[1], y, 2);                                                                \
            float a = shunt_widen_##type(bits[0]), b = shunt_widen_##type(bits[1]);                            \
            bits[0] = shunt_narrow_##type(expression);                                                   \
            memcpy(y, &bits[0], 2);                                                                \
        }                                                                                          \
    }
FLOAT16_OPS(OPERATION, ieee)
FLOAT16_OPS(OPERATION, brain)
#undef OPERATION

enum { OWN_OPS = 4 };
static const struct {
    MPI_Op predefined;
    MPI_User_function *function[SHUNT_NFLOAT16];
} operations[OWN_OPS] = {
#define ROW(type, op, expression) { MPI_##op, { ieee_##op, brain_##op } },
    FLOAT16_OPS(ROW, ieee)
#undef ROW
};

/* ---- the handles ---- */

MPI_Datatype shunt_float16_handles[SHUNT_NFLOAT16];

static struct {
    struct shunt_mpi_type row;
    MPI_Op ops[OWN_OPS]; /* in the order of `operations` */
} own[SHUNT_NFLOAT16];

/* For creating and freeing. Who has seen a handle reads its entry without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool host_is_up(void)
{
    int initialized = 0, finalized = 0;

    shunt_host.Initialized(&initialized);
    shunt_host.Finalized(&finalized);
    return (initialized && !finalized) || shunt_life_has_session();
}

static enum shunt_status create_ops(enum shunt_float16 which)
{
    int made;

    for (made = 0; made < OWN_OPS; made++)
        if (shunt_host.Op_create(operations[made].function[which], 1, &own[which].ops[made]) != MPI_SUCCESS)
            goto free_ops;
    return SHUNT_OK;
free_ops:
    while (made-- > 0)
        shunt_host.Op_free(&own[which].ops[made]);
    return SHUNT_ERR_MEMORY;
}

static enum shunt_status create_type(enum shunt_float16 which)
{
    static const char *const names[] = { "shunt_float16", "shunt_bfloat16" };
    MPI_Datatype handle;

    if (shunt_host.Type_contiguous(1, MPI_UINT16_T, &handle) != MPI_SUCCESS)
        return SHUNT_ERR_MEMORY;
    if (shunt_host.Type_commit(&handle) != MPI_SUCCESS || create_ops(which) != SHUNT_OK) {
        shunt_host.Type_free(&handle);
        return SHUNT_ERR_MEMORY;
    }
    shunt_host.Type_set_name(handle, names[which]);
    own[which].row = (struct shunt_mpi_type){
        .handle = handle,
        .size = 2,
        .type = which == SHUNT_FLOAT16_IEEE ? SHUNT_TYPE_F16 : SHUNT_TYPE_BF16,
        .ops = 1u << SHUNT_OP_SUM | 1u << SHUNT_OP_PROD | 1u << SHUNT_OP_MIN | 1u << SHUNT_OP_MAX,
    };
    /* release: who finds the handle finds the row and the operations */
    __atomic_store_n(&shunt_float16_handles[which], handle, __ATOMIC_RELEASE);
    return SHUNT_OK;
}

MPI_Datatype shunt_float16_get(enum shunt_float16 which)
{
    MPI_Datatype handle = MPI_DATATYPE_NULL;

    if (shunt_life_forked() || !host_is_up())
        return handle;
    pthread_mutex_lock(&lock);
    if (own[which].row.size != 0 || create_type(which) == SHUNT_OK)
        handle = own[which].row.handle;
    pthread_mutex_unlock(&lock);
    return handle;
}

const struct shunt_mpi_type *shunt_float16_find(MPI_Datatype handle)
{
    for (int i = 0; i < SHUNT_NFLOAT16; i++)
        if (handle == __atomic_load_n(&shunt_float16_handles[i], __ATOMIC_ACQUIRE) && own[i].row.size != 0)
            return &own[i].row;
    return NULL;
}

MPI_Op shunt_float16_op(MPI_Datatype handle, MPI_Op op)
{
    const struct shunt_mpi_type *row = shunt_float16_find(handle);

    for (int i = 0; row && i < OWN_OPS; i++)
        if (operations[i].predefined == op)
            return own[row == &own[SHUNT_FLOAT16_BRAIN].row].ops[i];
    return op;
}

void shunt_float16_stop(void)
{
    pthread_mutex_lock(&lock);
    for (int which = 0; which < SHUNT_NFLOAT16; which++) {
        if (own[which].row.size == 0)
            continue;
        memset(&shunt_float16_handles[which], 0, sizeof shunt_float16_handles[which]);
        shunt_host.Type_free(&own[which].row.handle);
        for (int i = 0; i < OWN_OPS; i++)
            shunt_host.Op_free(&own[which].ops[i]);
        own[which].row.size = 0;
    }
    pthread_mutex_unlock(&lock);
}
