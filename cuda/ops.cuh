/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic: one functor per operation, applied to one element or to the elements of a 16-byte vector.
 *
 * Integers wrap (computed unsigned). Complex products are written out and compiled without contraction, so that every
 * kernel gives the same bits. MIN and MAX give NaN if any operand is NaN, whoever holds it; of equal operands (+0 and
 * -0) the later rank's. To MINLOC and MAXLOC a NaN is what they look for, and any two NaNs are equal; of equal values
 * the smallest location counts. 16-bit floats are combined as float, and rounded when the last operand is in.
 */
#ifndef SHUNT_CUDA_OPS_CUH
#define SHUNT_CUDA_OPS_CUH

#include <gpu.cuh>

template <class R> struct shunt_complex {
    R re, im;
};

template <class R>
static __device__ __forceinline__ shunt_complex<R> operator+(shunt_complex<R> a, shunt_complex<R> b)
{
    return { a.re + b.re, a.im + b.im };
}

template <class R>
static __device__ __forceinline__ shunt_complex<R> operator*(shunt_complex<R> a, shunt_complex<R> b)
{
    return { a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

/* 16-bit floats as their bits: IEEE's, and the upper half of a float. */
enum class shunt_f16 : uint16_t {};
enum class shunt_bf16 : uint16_t {};

/*
 * Value and location as C lays them out. Padding has a name, so that it travels with the element: then ranks have the
 * same bits.
 */
template <class V, int bytes = sizeof(V)> struct shunt_pair {
    V value;
    int32_t where;
};
template <class V> struct shunt_pair<V, 2> {
    V value;
    uint16_t padding;
    int32_t where;
};
template <class V> struct shunt_pair<V, 8> {
    V value;
    int32_t where;
    uint32_t padding;
};

/* The same of two reals, as Fortran has them. */
template <class V> struct shunt_twin {
    V value, where;
};

/* The type to compute in: small unsigned integers would otherwise be promoted to int, whose overflow is undefined. */
template <class T>
using shunt_wide = typename std::conditional<std::is_integral<T>::value && sizeof(T) < 4, uint32_t, T>::type;

#define SHUNT_OP(id, expression)                                                                   \
    struct shunt_op_##id {                                                                         \
        template <class T> static __device__ __forceinline__ T apply(T x, T y)                     \
        {                                                                                          \
            using W = shunt_wide<T>;                                                               \
            W a = (W)x, b = (W)y;                                                                  \
            return (T)(expression);                                                                \
        }                                                                                          \
    }
#define SHUNT_COMPARE(id, expression)                                                              \
    struct shunt_op_##id {                                                                         \
        template <class T> static __device__ __forceinline__ T apply(T a, T b)                     \
        {                                                                                          \
            return (expression) ? a : b;                                                           \
        }                                                                                          \
    }
#define SHUNT_LOCATE(id, order)                                                                    \
    struct shunt_op_##id {                                                                         \
        template <class T> static __device__ __forceinline__ T apply(T a, T b)                     \
        {                                                                                          \
            bool nan = a.value != a.value, equal = nan ? b.value != b.value : a.value == b.value;  \
            return (equal ? a.where <= b.where : nan || a.value order b.value) ? a : b;            \
        }                                                                                          \
    }
SHUNT_OP(SUM, a + b);
SHUNT_OP(PROD, a * b);
SHUNT_OP(BAND, a & b);
SHUNT_OP(BOR, a | b);
SHUNT_OP(BXOR, a ^ b);
SHUNT_OP(LAND, a && b);
SHUNT_OP(LOR, a || b);
SHUNT_OP(LXOR, !a != !b);
SHUNT_COMPARE(MIN, a < b || a != a);
SHUNT_COMPARE(MAX, a > b || a != a);
SHUNT_COMPARE(MOVE, false); /* what comes takes the place of what is there */
#undef SHUNT_OP
SHUNT_LOCATE(MINLOC, <);
SHUNT_LOCATE(MAXLOC, >);
#undef SHUNT_COMPARE
#undef SHUNT_LOCATE

/* Does the kernel put what each rank sends into a place of its own, in place of combining it? */
template <class Op> constexpr bool shunt_moves = false;
template <> constexpr bool shunt_moves<shunt_op_MOVE> = true;

template <class Op> constexpr bool shunt_bitwise = false;
template <> constexpr bool shunt_bitwise<shunt_op_BAND> = true;
template <> constexpr bool shunt_bitwise<shunt_op_BOR> = true;
template <> constexpr bool shunt_bitwise<shunt_op_BXOR> = true;

/* a op b of two elements, or of each two elements of vectors: bitwise operations take words, wherever elements begin. */
template <class T, class Op> static __device__ __forceinline__ T combine(T a, T b)
{
    return Op::template apply<T>(a, b);
}

template <class T, class Op> static __device__ __forceinline__ gpu_vec combine(gpu_vec a, gpu_vec b)
{
    using E = typename std::conditional<shunt_bitwise<Op>, uint32_t, T>::type;
    E x[16 / sizeof(E)], y[16 / sizeof(E)];

    memcpy(x, &a, 16);
    memcpy(y, &b, 16);
#pragma unroll
    for (unsigned i = 0; i < 16 / sizeof(E); i++)
        x[i] = Op::template apply<E>(x[i], y[i]);
    memcpy(&a, x, 16);
    return a;
}

static __device__ __forceinline__ float widen(shunt_f16 x)
{
    return gpu_f16_to_float((uint16_t)x);
}

static __device__ __forceinline__ float widen(shunt_bf16 x)
{
    uint32_t word = (uint32_t)x << 16;
    float v;

    memcpy(&v, &word, sizeof v);
    return v;
}

static __device__ __forceinline__ void narrow(float v, shunt_f16 *x)
{
    *x = (shunt_f16)gpu_float_to_f16(v);
}

/* To the nearest, ties to even; NaN becomes 0x7fff. */
static __device__ __forceinline__ void narrow(float v, shunt_bf16 *x)
{
    uint32_t word;

    memcpy(&word, &v, sizeof word);
    *x = (shunt_bf16)(v != v ? 0x7fff : (word + 0x7fff + (word >> 16 & 1)) >> 16);
}

template <class T> constexpr bool shunt_widened = false;
template <> constexpr bool shunt_widened<shunt_f16> = true;
template <> constexpr bool shunt_widened<shunt_bf16> = true;

/* Operands V, which are elements T or vectors of them, combined one after the other in the order of the calls. */
template <class T, class Op, class V, bool widened = shunt_widened<T>> struct shunt_total {
    V total;

    __device__ __forceinline__ void first(V v)
    {
        total = v;
    }
    __device__ __forceinline__ void next(V v)
    {
        total = combine<T, Op>(total, v);
    }
    __device__ __forceinline__ V value() const
    {
        return total;
    }
};

template <class T, class Op, class V> struct shunt_total<T, Op, V, true> {
    float total[sizeof(V) / sizeof(T)];

    __device__ __forceinline__ void first(V v)
    {
        T x[sizeof(V) / sizeof(T)];

        memcpy(x, &v, sizeof v);
#pragma unroll
        for (unsigned i = 0; i < sizeof(V) / sizeof(T); i++)
            total[i] = widen(x[i]);
    }
    __device__ __forceinline__ void next(V v)
    {
        T x[sizeof(V) / sizeof(T)];

        memcpy(x, &v, sizeof v);
#pragma unroll
        for (unsigned i = 0; i < sizeof(V) / sizeof(T); i++)
            total[i] = Op::template apply<float>(total[i], widen(x[i]));
    }
    __device__ __forceinline__ V value() const
    {
        T x[sizeof(V) / sizeof(T)];
        V v;

#pragma unroll
        for (unsigned i = 0; i < sizeof(V) / sizeof(T); i++)
            narrow(total[i], &x[i]);
        memcpy(&v, x, sizeof v);
        return v;
    }
};

#endif
