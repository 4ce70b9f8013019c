/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic: one functor per operation, applied to one element or to the elements of a 16-byte vector.
 *
 * Integers wrap (computed unsigned). Complex products are written out and compiled without contraction, so that every
 * kernel gives the same bits. MIN and MAX give NaN if any operand is NaN, whoever holds it; of equal operands (+0 and
 * -0) the later rank's.
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
#undef SHUNT_OP
#undef SHUNT_COMPARE

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

/* Operands V, which are elements T or vectors of them, combined one after the other in the order of the calls. */
template <class T, class Op, class V> struct shunt_total {
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

#endif
