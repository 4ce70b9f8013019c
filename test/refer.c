/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reduction must give: see refer.h.
 *
 * Every C type has two functions made by a macro: combine (a loop per operation) and put (one element of test data
 * from a hash). Compiled without contraction of products and sums, so that the bits are those of separate roundings.
 */
#define _GNU_SOURCE
#include "test/refer.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/short_float.h"

struct refer_loops {
    void (*combine)(enum refer_op_id op, size_t count, const void *in, void *inout);
    void (*put)(void *at, enum refer_op_id op, bool rough, uint64_t hash, int who);
    struct {
        unsigned char at, bytes;
    } parts[2];           /* the bytes that matter, where not all do; bytes 0: no such part */
    unsigned char real;   /* bytes of a real component of floating types, else 0 */
    const struct short_layout *layout; /* of 16-bit floats; they have no loop of their own to combine */
};

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* ---- integers ---- */

/* Bits whose reduction over up to 8 ranks is neither all ones nor all zeros, and where each rank counts. */
static uint64_t integer_bits(enum refer_op_id op, uint64_t hash)
{
    uint64_t other = mix(hash);
    bool seldom = hash % 8 == 0;

    switch (op) {
    case REFER_PROD: return other | 1; /* odd: the product never becomes zero */
    case REFER_LAND: return seldom ? 0 : other | (1u << other % 7);
    case REFER_LOR: return seldom ? other | (1u << other % 7) : 0;
    case REFER_LXOR: return hash % 2 ? 0 : other | (1u << other % 7);
    case REFER_BAND: return other | mix(other) | mix(mix(other));
    case REFER_BOR: return other & mix(other) & mix(mix(other));
    default: return other;
    }
}

#define EACH(expression)                      \
    for (size_t i = 0; i < count; i++) {      \
        uint64_t a = (uint64_t)l[i], b = (uint64_t)r[i]; \
        (void)a, (void)b;                     \
        l[i] = (expression);                  \
    }                                         \
    break

#define INTEGER(name, T)                                                                        \
    static void combine_##name(enum refer_op_id op, size_t count, const void *in, void *inout)  \
    {                                                                                           \
        const T *r = in;                                                                        \
        T *l = inout;                                                                           \
        switch (op) {                                                                           \
        case REFER_SUM: EACH((T)(a + b));                                                       \
        case REFER_PROD: EACH((T)(a * b));                                                      \
        case REFER_MAX: EACH(r[i] > l[i] ? r[i] : l[i]);                                        \
        case REFER_MIN: EACH(r[i] < l[i] ? r[i] : l[i]);                                        \
        case REFER_LAND: EACH(l[i] && r[i]);                                                    \
        case REFER_LOR: EACH(l[i] || r[i]);                                                     \
        case REFER_LXOR: EACH(!l[i] != !r[i]);                                                  \
        case REFER_BAND: EACH((T)(a & b));                                                      \
        case REFER_BOR: EACH((T)(a | b));                                                       \
        case REFER_BXOR: EACH((T)(a ^ b));                                                      \
        default: break;                                                                         \
        }                                                                                       \
    }                                                                                           \
    static void put_##name(void *at, enum refer_op_id op, bool rough, uint64_t hash, int who)   \
    {                                                                                           \
        T value = (T)integer_bits(op, hash);                                                    \
        (void)rough, (void)who;                                                                 \
        if (value == 0 && op == REFER_SUM)                                                      \
            value = 1;                                                                          \
        memcpy(at, &value, sizeof value);                                                       \
    }                                                                                           \
    static const struct refer_loops loops_##name = {.combine = combine_##name, .put = put_##name};

INTEGER(i8, int8_t)
INTEGER(u8, uint8_t)
INTEGER(i16, int16_t)
INTEGER(u16, uint16_t)
INTEGER(i32, int32_t)
INTEGER(u32, uint32_t)
INTEGER(i64, int64_t)
INTEGER(u64, uint64_t)

/* Fortran's LOGICAL and the C and C++ bool: only 0 and 1 are values. */
#define LOGICAL(name, T, base)                                                                 \
    static void put_##name(void *at, enum refer_op_id op, bool rough, uint64_t hash, int who)  \
    {                                                                                          \
        T value = integer_bits(op, hash) != 0;                                                 \
        (void)rough, (void)who;                                                                \
        memcpy(at, &value, sizeof value);                                                      \
    }                                                                                          \
    static const struct refer_loops loops_##name = {.combine = combine_##base, .put = put_##name};

LOGICAL(bool1, uint8_t, u8)
LOGICAL(bool4, uint32_t, u32)

/* ---- floating point ---- */

/* Exact: small integers (sums) and few-bit factors (products). Rough: 52 random bits, for sums of any magnitude. */
static double real_value(enum refer_op_id op, bool rough, uint64_t hash)
{
    static const double factors[] = {1.5, 2, 0.5, 3, 0.75};
    double sign = hash & 1 ? -1 : 1, fraction = (double)(mix(hash) >> 12) / 4503599627370496.0;

    if (op == REFER_MAX || op == REFER_MIN)
        return sign * ldexp(1 + fraction, (int)(hash >> 8) % 16);
    if (op == REFER_PROD)
        return sign * (rough ? 0.5 + fraction : factors[(hash >> 8) % 5]);
    if (rough)
        return sign * ldexp(1 + fraction, (int)((hash >> 8) % 31) - 15);
    return sign * (double)(1 + (hash >> 8) % 1000);
}

#define REALS(expression)                \
    for (size_t i = 0; i < count; i++)   \
        l[i] = (expression);             \
    break

#define REAL(name, T, significant)                                                              \
    static void combine_##name(enum refer_op_id op, size_t count, const void *in, void *inout)  \
    {                                                                                           \
        const T *r = in;                                                                        \
        T *l = inout;                                                                           \
        switch (op) {                                                                           \
        case REFER_SUM: REALS(l[i] + r[i]);                                                     \
        case REFER_PROD: REALS(l[i] * r[i]);                                                    \
        case REFER_MAX: REALS(r[i] > l[i] ? r[i] : l[i]);                                       \
        case REFER_MIN: REALS(r[i] < l[i] ? r[i] : l[i]);                                       \
        default: break;                                                                         \
        }                                                                                       \
    }                                                                                           \
    static void put_##name(void *at, enum refer_op_id op, bool rough, uint64_t hash, int who)   \
    {                                                                                           \
        T value = (T)real_value(op, rough, hash);                                               \
        (void)who;                                                                              \
        memcpy(at, &value, sizeof value < 10 ? sizeof value : 10);                              \
    }                                                                                           \
    static const struct refer_loops loops_##name = {                                            \
        .combine = combine_##name, .put = put_##name, .parts = {{0, significant}}, .real = sizeof(T)};

REAL(f32, float, 0)
REAL(f64, double, 0)
REAL(f80, long double, 10)

/*
 * Exact complex factors: 2 + i times 1, i, -1 or -i. No product of such has a zero component, whose sign would depend
 * on the order.
 */
static void complex_value(enum refer_op_id op, bool rough, uint64_t hash, double *re, double *im)
{
    static const double factors[4][2] = {{2, 1}, {-1, 2}, {-2, -1}, {1, -2}};
    const double *factor = factors[(hash >> 8) % 4];

    *re = !rough && op == REFER_PROD ? factor[0] : real_value(op, rough, hash);
    *im = !rough && op == REFER_PROD ? factor[1] : real_value(op, rough, mix(~hash));
}

#define COMPLEX(name, T, significant)                                                           \
    static void combine_##name(enum refer_op_id op, size_t count, const void *in, void *inout)  \
    {                                                                                           \
        const T *r = in;                                                                        \
        T *l = inout;                                                                           \
        for (size_t i = 0; i < 2 * count; i += 2) {                                             \
            T re = l[i], im = l[i + 1];                                                         \
            l[i] = op == REFER_PROD ? re * r[i] - im * r[i + 1] : re + r[i];                    \
            l[i + 1] = op == REFER_PROD ? re * r[i + 1] + im * r[i] : im + r[i + 1];            \
        }                                                                                       \
    }                                                                                           \
    static void put_##name(void *at, enum refer_op_id op, bool rough, uint64_t hash, int who)   \
    {                                                                                           \
        double re, im;                                                                          \
        (void)who;                                                                              \
        complex_value(op, rough, hash, &re, &im);                                               \
        T value[2] = {(T)re, (T)im};                                                            \
        memcpy(at, value, sizeof value);                                                        \
    }                                                                                           \
    static const struct refer_loops loops_##name = {.combine = combine_##name,                  \
                                                    .put = put_##name,                          \
                                                    .parts = {{0, significant}, {sizeof(T), significant}}, \
                                                    .real = sizeof(T)};

COMPLEX(c32, float, 0)
COMPLEX(c64, double, 0)
COMPLEX(c80, long double, 10)

/* ---- floating point of 16 bits ---- */

/* Exact: sums of 8 ranks fit into the fraction, factors are powers of two. Rough: nothing overflows. */
static uint16_t short_put(const struct short_layout *layout, enum refer_op_id op, bool rough, uint64_t hash)
{
    double sign = hash & 1 ? -1 : 1, fraction = (double)(mix(hash) >> 12) / 4503599627370496.0, value;
    unsigned most = layout->fraction > 8 ? 200 : 24;

    if (op == REFER_MAX || op == REFER_MIN)
        value = ldexp(1 + fraction, (int)(hash >> 8) % 8);
    else if (op == REFER_PROD)
        value = rough ? 0.5 + fraction : (hash >> 8) % 2 ? 2 : 0.5;
    else
        value = rough ? ldexp(1 + fraction, (int)((hash >> 8) % 13) - 6) : (double)(1 + (hash >> 8) % most);
    return short_nearest(layout, (float)(sign * value));
}

#define SHORT(name, bits, offset)                                                               \
    static const struct short_layout layout_##name = {bits, offset};                            \
    static void put_##name(void *at, enum refer_op_id op, bool rough, uint64_t hash, int who)   \
    {                                                                                           \
        uint16_t value = short_put(&layout_##name, op, rough, hash);                            \
        (void)who;                                                                              \
        memcpy(at, &value, sizeof value);                                                       \
    }                                                                                           \
    static const struct refer_loops loops_##name = {.put = put_##name, .real = 2, .layout = &layout_##name};

SHORT(f16, 10, 15)
SHORT(bf16, 7, 127)

/* ---- pairs of value and location ---- */

/* Few values, so that ties are common; the location is the contributor. */
#define PAIR(name, T, W, significant)                                                           \
    struct pair_##name {                                                                        \
        T value;                                                                                \
        W where;                                                                                \
    };                                                                                          \
    static void combine_##name(enum refer_op_id op, size_t count, const void *in, void *inout)  \
    {                                                                                           \
        const struct pair_##name *r = in;                                                       \
        struct pair_##name *l = inout;                                                          \
        for (size_t i = 0; i < count; i++) {                                                    \
            bool better = op == REFER_MAXLOC ? r[i].value > l[i].value : r[i].value < l[i].value; \
            if (better || (r[i].value == l[i].value && r[i].where < l[i].where)) {              \
                l[i].value = r[i].value;                                                        \
                l[i].where = r[i].where;                                                        \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
    static void put_##name(void *at, enum refer_op_id op, bool rough, uint64_t hash, int who)   \
    {                                                                                           \
        struct pair_##name pair;                                                                \
        (void)op, (void)rough;                                                                  \
        memset(&pair, 0x5a, sizeof pair);                                                       \
        pair.value = (T)(hash % 5) - 2;                                                         \
        pair.where = (W)who;                                                                    \
        memcpy(at, &pair, sizeof pair);                                                         \
    }                                                                                           \
    static const struct refer_loops loops_##name = {                                            \
        .combine = combine_##name,                                                              \
        .put = put_##name,                                                                      \
        .parts = {{0, significant}, {offsetof(struct pair_##name, where), sizeof(W)}}};

PAIR(short_int, short, int, sizeof(short))
PAIR(two_int, int, int, sizeof(int))
PAIR(long_int, long, int, sizeof(long))
PAIR(float_int, float, int, sizeof(float))
PAIR(double_int, double, int, sizeof(double))
PAIR(long_double_int, long double, int, 10)
PAIR(two_float, float, float, sizeof(float))
PAIR(two_double, double, double, sizeof(double))

/* ---- the tables ---- */

#define T(name, C, class, loops) {#name, MPI_##name, REFER_##class, sizeof(C), &loops_##loops}
#define P(name, loops) {#name, MPI_##name, REFER_PAIR, sizeof(struct pair_##loops), &loops_##loops}

struct refer_type refer_types[] = {
    T(SIGNED_CHAR, signed char, INT, i8),
    T(UNSIGNED_CHAR, unsigned char, INT, u8),
    T(SHORT, short, INT, i16),
    T(UNSIGNED_SHORT, unsigned short, INT, u16),
    T(INT, int, INT, i32),
    T(UNSIGNED, unsigned, INT, u32),
    T(LONG, long, INT, i64),
    T(UNSIGNED_LONG, unsigned long, INT, u64),
    T(FLOAT, float, FLT, f32),
    T(DOUBLE, double, FLT, f64),
    T(C_FLOAT_COMPLEX, float[2], CPX, c32),
    T(C_DOUBLE_COMPLEX, double[2], CPX, c64),
    T(CHAR, char, INT, i8),
    T(LONG_LONG_INT, long long, INT, i64),
    T(UNSIGNED_LONG_LONG, unsigned long long, INT, u64),
    T(INT8_T, int8_t, INT, i8),
    T(UINT8_T, uint8_t, INT, u8),
    T(INT16_T, int16_t, INT, i16),
    T(UINT16_T, uint16_t, INT, u16),
    T(INT32_T, int32_t, INT, i32),
    T(UINT32_T, uint32_t, INT, u32),
    T(INT64_T, int64_t, INT, i64),
    T(UINT64_T, uint64_t, INT, u64),
    T(AINT, MPI_Aint, INT, i64),
    T(OFFSET, MPI_Offset, INT, i64),
    T(COUNT, MPI_Count, INT, i64),
    T(INTEGER, int, INT, i32),
    T(INTEGER1, int8_t, INT, i8),
    T(INTEGER2, int16_t, INT, i16),
    T(INTEGER4, int32_t, INT, i32),
    T(INTEGER8, int64_t, INT, i64),
    T(BYTE, unsigned char, BYTE, u8),
    T(C_BOOL, _Bool, LOGICAL, bool1),
    T(CXX_BOOL, _Bool, LOGICAL, bool1),
    T(LOGICAL, int, LOGICAL, bool4),
    T(REAL, float, FLT, f32),
    T(REAL4, float, FLT, f32),
    T(REAL8, double, FLT, f64),
    T(DOUBLE_PRECISION, double, FLT, f64),
    T(COMPLEX, float[2], CPX, c32),
    T(DOUBLE_COMPLEX, double[2], CPX, c64),
    T(COMPLEX8, float[2], CPX, c32),
    T(COMPLEX16, double[2], CPX, c64),
    T(CXX_FLOAT_COMPLEX, float[2], CPX, c32),
    T(CXX_DOUBLE_COMPLEX, double[2], CPX, c64),
    T(LONG_DOUBLE, long double, FLT, f80),
    T(C_LONG_DOUBLE_COMPLEX, long double[2], CPX, c80),
    P(SHORT_INT, short_int),
    P(2INT, two_int),
    P(LONG_INT, long_int),
    P(FLOAT_INT, float_int),
    P(DOUBLE_INT, double_int),
    P(LONG_DOUBLE_INT, long_double_int),
    P(2INTEGER, two_int),
    P(2REAL, two_float),
    P(2DOUBLE_PRECISION, two_double),
    {"FLOAT16", MPI_DATATYPE_NULL, REFER_FLT, 2, &loops_f16}, /* these two are shunt's: refer_start */
    {"BFLOAT16", MPI_DATATYPE_NULL, REFER_FLT, 2, &loops_bf16},
};
const int refer_ntypes = sizeof refer_types / sizeof *refer_types;

void refer_start(void)
{
    static const char *const functions[] = {"shunt_type_float16", "shunt_type_bfloat16"};
    MPI_Datatype (*find)(void);

    for (int i = 0; i < 2; i++) {
        *(void **)&find = dlsym(RTLD_DEFAULT, functions[i]);
        if (find)
            refer_types[refer_ntypes - 2 + i].handle = find();
    }
}

const struct refer_op refer_ops[REFER_NOPS] = {
    [REFER_SUM] = {"SUM", MPI_SUM},          [REFER_PROD] = {"PROD", MPI_PROD},
    [REFER_MAX] = {"MAX", MPI_MAX},          [REFER_MIN] = {"MIN", MPI_MIN},
    [REFER_LAND] = {"LAND", MPI_LAND},       [REFER_LOR] = {"LOR", MPI_LOR},
    [REFER_LXOR] = {"LXOR", MPI_LXOR},       [REFER_BAND] = {"BAND", MPI_BAND},
    [REFER_BOR] = {"BOR", MPI_BOR},          [REFER_BXOR] = {"BXOR", MPI_BXOR},
    [REFER_MAXLOC] = {"MAXLOC", MPI_MAXLOC}, [REFER_MINLOC] = {"MINLOC", MPI_MINLOC},
};

const struct refer_type *refer_type_find(const char *name)
{
    for (int i = 0; i < refer_ntypes; i++)
        if (strcmp(refer_types[i].name, name) == 0)
            return &refer_types[i];
    return NULL;
}

int refer_op_find(const char *name)
{
    for (int i = 0; i < REFER_NOPS; i++)
        if (strcmp(refer_ops[i].name, name) == 0)
            return i;
    return -1;
}

bool refer_known(const struct refer_type *type, enum refer_op_id op)
{
    bool arithmetic = op <= REFER_PROD, order = op == REFER_MAX || op == REFER_MIN;
    bool logic = op >= REFER_LAND && op <= REFER_LXOR, bits = op >= REFER_BAND && op <= REFER_BXOR;

    switch (type->class) {
    case REFER_INT: return arithmetic || order || logic || bits;
    case REFER_FLT: return arithmetic || order;
    case REFER_CPX: return arithmetic;
    case REFER_BYTE: return bits;
    case REFER_LOGICAL: return logic;
    case REFER_PAIR: return op >= REFER_MAXLOC;
    }
    return false;
}

/*
 * Found by trying. Open MPI 4.1 compares unsigned long as signed and MPI_Offset as unsigned, and its AVX component
 * saturates sums of 8 and 16 bits; MPICH 4.0 compares all unsigned integers as signed.
 */
bool refer_host_flawed(const struct refer_type *type, enum refer_op_id op)
{
    bool order = op == REFER_MAX || op == REFER_MIN;

#ifdef OPEN_MPI
    bool two = type->handle == MPI_UNSIGNED_LONG || type->handle == MPI_OFFSET;
    return (order && two) || (op == REFER_SUM && type->class == REFER_INT && type->size <= 2);
#else
    const struct refer_loops *loops = type->loops;
    return order && (loops == &loops_u8 || loops == &loops_u16 || loops == &loops_u32 || loops == &loops_u64);
#endif
}

/* MPICH 4.0 accepts the logical operations on C's floating types, which MPI does not have, and then aborts. */
bool refer_host_crashes(const struct refer_type *type, enum refer_op_id op)
{
#ifdef MPICH
    return type->class == REFER_FLT && op >= REFER_LAND && op <= REFER_LXOR;
#else
    (void)type, (void)op;
    return false;
#endif
}

/* ---- data and results ---- */

static uint64_t key_of(const struct refer_source *source, int who)
{
    return mix(source->seed ^ mix((uint64_t)who + 1));
}

static void put_one(const struct refer_source *source, int who, uint64_t key, size_t i, void *at)
{
    source->type->loops->put(at, source->op, source->data == REFER_ROUGH, mix(key ^ i), who);
}

void refer_fill(const struct refer_source *source, int who, size_t count, void *out)
{
    uint64_t key = key_of(source, who);
    char *at = out;

    memset(out, 0x5a, count * source->type->size);
    for (size_t i = 0; i < count; i++, at += source->type->size)
        put_one(source, who, key, i, at);
}

static void reduce_short(const struct refer_source *source, int first, int n, size_t count, uint16_t *work,
                         uint16_t *out)
{
    const struct short_layout *layout = source->type->loops->layout;
    float *sum = malloc((count + 1) * sizeof *sum), x;

    for (int who = first; who < first + n; who++) {
        refer_fill(source, who, count, work);
        for (size_t i = 0; i < count; i++) {
            x = short_value(layout, work[i]);
            if (who == first)
                sum[i] = x;
            else
                combine_f32(source->op, 1, &x, &sum[i]);
        }
    }
    for (size_t i = 0; i < count; i++)
        out[i] = short_nearest(layout, sum[i]);
    free(sum);
}

void refer_reduce(const struct refer_source *source, int first, int n, size_t count, void *work, void *out)
{
    if (source->type->loops->layout) {
        reduce_short(source, first, n, count, work, out);
        return;
    }
    refer_fill(source, first, count, out);
    for (int i = 1; i < n; i++) {
        refer_fill(source, first + i, count, work);
        source->type->loops->combine(source->op, count, work, out);
    }
}

static bool element_differs(const struct refer_type *type, const char *a, const char *b)
{
    const struct refer_loops *loops = type->loops;

    if (!loops->parts[0].bytes)
        return memcmp(a, b, type->size) != 0;
    for (int p = 0; p < 2; p++)
        if (memcmp(a + loops->parts[p].at, b + loops->parts[p].at, loops->parts[p].bytes) != 0)
            return true;
    return false;
}

long refer_differs(const struct refer_type *type, size_t count, const void *a, const void *b)
{
    if (memcmp(a, b, count * type->size) == 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (element_differs(type, (const char *)a + i * type->size, (const char *)b + i * type->size))
            return (long)i;
    return -1;
}

static bool byte_matters(const struct refer_loops *loops, size_t byte)
{
    bool matters = !loops->parts[0].bytes;

    for (int p = 0; p < 2; p++) {
        size_t first = loops->parts[p].at;
        matters = matters || (byte >= first && byte < first + loops->parts[p].bytes);
    }
    return matters;
}

uint64_t refer_hash(const struct refer_type *type, size_t count, const void *data)
{
    const struct refer_loops *loops = type->loops;
    uint64_t hash = 0;

    for (size_t i = 0; i < count; i++) {
        const unsigned char *at = (const unsigned char *)data + i * type->size;
        for (size_t byte = 0; byte < type->size; byte++) {
            if (byte_matters(loops, byte))
                hash = (hash ^ at[byte]) * 1099511628211u;
        }
    }
    return hash;
}

static long double component(const struct refer_type *type, const void *data, size_t i, size_t c)
{
    const char *at = (const char *)data + i * type->size + c * type->loops->real;
    long double wide = 0;
    double two;
    float one;
    uint16_t half;

    switch (type->loops->real) {
    case 2: memcpy(&half, at, sizeof half); return short_value(type->loops->layout, half);
    case sizeof(float): memcpy(&one, at, sizeof one); return one;
    case sizeof(double): memcpy(&two, at, sizeof two); return two;
    default: memcpy(&wide, at, 10); return wide;
    }
}

/* How large element i would be if nothing cancelled: what rounding errors are measured against. */
static long double magnitude(const struct refer_source *source, int first, int n, size_t i)
{
    const struct refer_type *type = source->type;
    long double size = source->op == REFER_PROD ? 1 : 0;

    for (int who = first; who < first + n; who++) {
        long double element[2] = {0}, sum = 0;
        put_one(source, who, key_of(source, who), i, element);
        for (size_t c = 0; c < type->size / type->loops->real; c++)
            sum += fabsl(component(type, element, 0, c));
        size = source->op == REFER_PROD ? size * sum : size + sum;
    }
    return size;
}

static bool within(const struct refer_type *type, size_t i, const void *a, const void *b, long double slack)
{
    for (size_t c = 0; c < type->size / type->loops->real; c++)
        if (!(fabsl(component(type, a, i, c) - component(type, b, i, c)) <= slack))
            return false;
    return true;
}

long refer_differs_roughly(const struct refer_source *source, int first, int n, size_t count, const void *a,
                           const void *b)
{
    const struct refer_type *type = source->type;
    unsigned real = type->loops->real;
    long double epsilon = real == 2   ? ldexp(1, -type->loops->layout->fraction)
                          : real == 4 ? 0x1p-23L
                          : real == 8 ? 0x1p-52L
                                      : 0x1p-63L;
    long found = refer_differs(type, count, a, b);

    if (!real || source->op > REFER_PROD || source->data != REFER_ROUGH)
        return found;
    for (size_t i = found < 0 ? count : (size_t)found; i < count; i++)
        if (!within(type, i, a, b, 4 * n * epsilon * magnitude(source, first, n, i)))
            return (long)i;
    return -1;
}

const char *refer_show(const struct refer_type *type, const void *data, size_t i)
{
    static char text[2][80];
    static int turn;
    const unsigned char *at = (const unsigned char *)data + i * type->size;
    char *out = text[turn = !turn];

    for (size_t byte = 0; byte < type->size; byte++) /* the most significant byte first */
        snprintf(out + 2 * byte, 3, "%02x", at[type->size - 1 - byte]);
    return out;
}
