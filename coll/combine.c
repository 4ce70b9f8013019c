/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions on the host; combine.h. Each type and operation has a loop that adds a vector to a sum of at most BLOCK elements,
 * which stays in the cache until all vectors have been added.
 */
#include "coll/combine.h"

#include <stdint.h>
#include <string.h>

#include "base/short_float.h"

/* Loops of unknown length are what -O2 leaves as they are: twice the time. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("O3")
#endif

enum { BLOCK = 1024 };

/* sum = sum op x; 16-bit floats: the sum is of float. */
typedef void add_loop(void *restrict sum, const void *restrict x, size_t count);

#define LOOP(name, T, expression)                                                       \
    static void add_##name(void *restrict sum, const void *restrict x, size_t count)    \
    {                                                                                   \
        T *restrict l = sum;                                                            \
        const T *restrict r = x;                                                        \
        for (size_t i = 0; i < count; i++) {                                            \
            const T a = l[i], b = r[i];                                                 \
            l[i] = (T)(expression);                                                     \
        }                                                                               \
    }

/* Unsigned, so that overflow wraps; 16 bits would be promoted to int, whose products overflow. */
#define LOOPS_UNSIGNED(id, T)              \
    LOOP(id##_SUM, T, a + b)               \
    LOOP(id##_PROD, T, (uint64_t)a * b)    \
    LOOP(id##_MIN, T, a < b ? a : b)       \
    LOOP(id##_MAX, T, a > b ? a : b)       \
    LOOP(id##_BAND, T, a & b)              \
    LOOP(id##_BOR, T, a | b)               \
    LOOP(id##_BXOR, T, a ^ b)              \
    LOOP(id##_LAND, T, a && b)             \
    LOOP(id##_LOR, T, a || b)              \
    LOOP(id##_LXOR, T, !a != !b)
#define LOOPS_SIGNED(id, T)          \
    LOOP(id##_MIN, T, a < b ? a : b) \
    LOOP(id##_MAX, T, a > b ? a : b)
/* NaN whoever holds it; of equal operands the later one */
#define LOOPS_REAL(id, T)                      \
    LOOP(id##_SUM, T, a + b)                   \
    LOOP(id##_PROD, T, a * b)                  \
    LOOP(id##_MIN, T, a < b || a != a ? a : b) \
    LOOP(id##_MAX, T, a > b || a != a ? a : b)

LOOPS_UNSIGNED(U8, uint8_t)
LOOPS_UNSIGNED(U16, uint16_t)
LOOPS_UNSIGNED(U32, uint32_t)
LOOPS_UNSIGNED(U64, uint64_t)
LOOPS_SIGNED(I8, int8_t)
LOOPS_SIGNED(I16, int16_t)
LOOPS_SIGNED(I32, int32_t)
LOOPS_SIGNED(I64, int64_t)
LOOPS_REAL(F32, float)
LOOPS_REAL(F64, double)

#define LOOPS_COMPLEX(id, T)                                                            \
    static void add_##id##_SUM(void *restrict sum, const void *restrict x, size_t count) \
    {                                                                                   \
        T *restrict l = sum;                                                            \
        const T *restrict r = x;                                                        \
        for (size_t i = 0; i < 2 * count; i++)                                          \
            l[i] += r[i];                                                               \
    }                                                                                   \
    static void add_##id##_PROD(void *restrict sum, const void *restrict x, size_t count) \
    {                                                                                   \
        T *restrict l = sum;                                                            \
        const T *restrict r = x;                                                        \
        for (size_t i = 0; i < 2 * count; i += 2) {                                     \
            const T re = l[i] * r[i] - l[i + 1] * r[i + 1];                             \
            l[i + 1] = l[i] * r[i + 1] + l[i + 1] * r[i];                               \
            l[i] = re;                                                                  \
        }                                                                               \
    }
LOOPS_COMPLEX(C32, float)
LOOPS_COMPLEX(C64, double)

#define LOOP_SHORT(id, name, word, expression)                                              \
    static void add_##id##_##name(void *restrict sum, const void *restrict x, size_t count) \
    {                                                                                       \
        float *restrict l = sum;                                                            \
        const uint16_t *restrict r = x;                                                     \
        for (size_t i = 0; i < count; i++) {                                                \
            const float a = l[i], b = shunt_widen_##word(r[i]);                             \
            l[i] = expression;                                                              \
        }                                                                                   \
    }
#define LOOPS_SHORT(id, word)                                                                           \
    LOOP_SHORT(id, SUM, word, a + b)                                                                    \
    LOOP_SHORT(id, PROD, word, a *b)                                                                    \
    LOOP_SHORT(id, MIN, word, a < b || a != a ? a : b)                                                  \
    LOOP_SHORT(id, MAX, word, a > b || a != a ? a : b)                                                  \
    static void widen_##id(void *restrict sum, const void *restrict x, size_t count)                    \
    {                                                                                                   \
        for (size_t i = 0; i < count; i++)                                                              \
            ((float *)sum)[i] = shunt_widen_##word(((const uint16_t *)x)[i]);                           \
    }                                                                                                   \
    static void narrow_##id(void *restrict to, const void *restrict sum, size_t count)                  \
    {                                                                                                   \
        for (size_t i = 0; i < count; i++)                                                              \
            ((uint16_t *)to)[i] = shunt_narrow_##word(((const float *)sum)[i]);                         \
    }
LOOPS_SHORT(F16, ieee)
LOOPS_SHORT(BF16, brain)

/* Sums, products and logic of signed integers are the unsigned ones, as in the kernels. */
#define ROW_OF(id, op) [SHUNT_TYPE_##id][SHUNT_OP_##op] = add_##id##_##op
#define ROW_AS(id, other, op) [SHUNT_TYPE_##id][SHUNT_OP_##op] = add_##other##_##op
#define ROWS_LOGIC(id, other)                                                                          \
    ROW_AS(id, other, SUM), ROW_AS(id, other, PROD), ROW_AS(id, other, BAND), ROW_AS(id, other, BOR),  \
        ROW_AS(id, other, BXOR), ROW_AS(id, other, LAND), ROW_AS(id, other, LOR), ROW_AS(id, other, LXOR)
#define ROWS_INTEGER(id, other) ROWS_LOGIC(id, other), ROW_OF(id, MIN), ROW_OF(id, MAX)
#define ROWS_REAL(id) ROW_OF(id, SUM), ROW_OF(id, PROD), ROW_OF(id, MIN), ROW_OF(id, MAX)

static add_loop *const loops[SHUNT_NTYPES][SHUNT_NOPS] = {
    ROWS_INTEGER(I8, U8),   ROWS_INTEGER(U8, U8),   ROWS_INTEGER(I16, U16), ROWS_INTEGER(U16, U16),
    ROWS_INTEGER(I32, U32), ROWS_INTEGER(U32, U32), ROWS_INTEGER(I64, U64), ROWS_INTEGER(U64, U64),
    ROWS_REAL(F32),         ROWS_REAL(F64),         ROWS_REAL(F16),         ROWS_REAL(BF16),
    ROW_OF(C32, SUM),       ROW_OF(C32, PROD),      ROW_OF(C64, SUM),       ROW_OF(C64, PROD),
};

bool shunt_combine_can(enum shunt_type type, enum shunt_op op)
{
    return (unsigned)type < SHUNT_NTYPES && (unsigned)op < SHUNT_NOPS && loops[type][op] != NULL;
}

void shunt_combine(enum shunt_type type, enum shunt_op op, size_t count, const void *const *from, int n, void *to)
{
    _Alignas(64) char sum[BLOCK * 16];
    const size_t size = shunt_type_size(type);

    for (size_t at = 0; at < count; at += BLOCK) {
        size_t some = count - at < BLOCK ? count - at : BLOCK;
        const char *first = (const char *)from[0] + at * size;
        if (type == SHUNT_TYPE_F16)
            widen_F16(sum, first, some);
        else if (type == SHUNT_TYPE_BF16)
            widen_BF16(sum, first, some);
        else
            memcpy(sum, first, some * size);
        for (int j = 1; j < n; j++)
            loops[type][op](sum, (const char *)from[j] + at * size, some);
        char *end = (char *)to + at * size;
        if (type == SHUNT_TYPE_F16)
            narrow_F16(end, sum, some);
        else if (type == SHUNT_TYPE_BF16)
            narrow_BF16(end, sum, some);
        else
            memcpy(end, sum, some * size);
    }
}
