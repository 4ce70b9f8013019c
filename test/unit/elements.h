/* SPDX-License-Identifier: BSD-3-Clause */
/* What a kernel should compute: every type and operation as plain C++, random elements, comparison of results. */
#ifndef SHUNT_TEST_ELEMENTS_H
#define SHUNT_TEST_ELEMENTS_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

extern "C" {
#include "cuda/types.h"
}

static std::mt19937_64 rng(20251);

static inline uint64_t random_below(uint64_t n)
{
    return rng() % n;
}

template <class R>
struct shunt_complex {
    R re, im;
};

/* 16-bit floats as their bits: what they are is in Layout. */
enum class shunt_f16 : uint16_t {};
enum class shunt_bf16 : uint16_t {};

template <class T>
struct Layout {
    static const bool is_short = false;
};
template <>
struct Layout<shunt_f16> {
    static const bool is_short = true;
    static const int fraction = 10, bias = 15;
};
template <>
struct Layout<shunt_bf16> {
    static const bool is_short = true;
    static const int fraction = 7, bias = 127;
};

template <class T>
static double value_of(T x)
{
    unsigned bits = (unsigned)x, fraction = Layout<T>::fraction, whole = 1u << fraction;
    unsigned exponent = (bits & 0x7fff) >> fraction, most = 0x7fffu >> fraction;
    double sign = bits & 0x8000 ? -1 : 1, part = (double)(bits & (whole - 1)) / whole;

    if (exponent == most)
        return part > 0 ? NAN : sign * INFINITY;
    return sign * ldexp(exponent ? 1 + part : part, (int)(exponent ? exponent : 1) - Layout<T>::bias);
}

/* The nearest, of two nearest the even one; any NaN. The steps from one to the next are told from the exponent. */
template <class T>
static T nearest(float v)
{
    unsigned infinity = 0x7fffu >> Layout<T>::fraction << Layout<T>::fraction, sign = std::signbit(v) ? 0x8000 : 0;
    int exponent = 0, least = 1 - Layout<T>::bias;

    if (std::isnan(v))
        return (T)0x7fff;
    if (std::isinf(v))
        return (T)(sign | infinity);
    frexp(v, &exponent);
    exponent = exponent - 1 < least || v == 0 ? least : exponent - 1; /* v is in [2^exponent, 2^(exponent + 1)) */
    double steps = nearbyint(ldexp(fabs((double)v), Layout<T>::fraction - exponent));
    unsigned bits = (unsigned)steps + ((unsigned)(exponent - least) << Layout<T>::fraction); /* a carry is the next one */
    return (T)(sign | (bits < infinity ? bits : infinity));
}

/* Value and location, and the padding that C has between or behind them: an element is taken whole. */
template <class V, int bytes = sizeof(V)>
struct shunt_pair {
    V value;
    int32_t where;
};
template <class V>
struct shunt_pair<V, 2> {
    V value;
    uint16_t padding;
    int32_t where;
};
template <class V>
struct shunt_pair<V, 8> {
    V value;
    int32_t where;
    uint32_t padding;
};

template <class V>
struct shunt_twin {
    V value, where;
};

template <class T, class = void>
struct is_pair : std::false_type {};
template <class T>
struct is_pair<T, decltype((void)T::where)> : std::true_type {};

/* The better value, NaN before all; of equal ones the smaller location. */
template <class T>
static T better(shunt_op op, T a, T b)
{
    if constexpr (std::is_floating_point<decltype(T::value)>::value) {
        if (std::isnan(a.value) != std::isnan(b.value))
            return std::isnan(a.value) ? a : b;
        if (std::isnan(a.value))
            return b.where < a.where ? b : a;
    }
    if (a.value == b.value)
        return b.where < a.where ? b : a;
    return (op == SHUNT_OP_MINLOC) == (a.value < b.value) ? a : b;
}

/* Small integers are computed unsigned, because an overflow wraps. */
template <class T>
static T combine(shunt_op op, T a, T b)
{
    if constexpr (std::is_integral<T>::value) {
        typedef unsigned long long W;
        switch (op) {
        case SHUNT_OP_SUM:
            return (T)((W)a + (W)b);
        case SHUNT_OP_PROD:
            return (T)((W)a * (W)b);
        case SHUNT_OP_BAND:
            return (T)(a & b);
        case SHUNT_OP_BOR:
            return (T)(a | b);
        case SHUNT_OP_BXOR:
            return (T)(a ^ b);
        case SHUNT_OP_LAND:
            return (T)(a != 0 && b != 0);
        case SHUNT_OP_LOR:
            return (T)(a != 0 || b != 0);
        case SHUNT_OP_LXOR:
            return (T)((a != 0) != (b != 0));
        case SHUNT_OP_MIN:
            return b < a ? b : a;
        default:
            return b > a ? b : a;
        }
    } else if constexpr (std::is_floating_point<T>::value) {
        if (op == SHUNT_OP_SUM)
            return a + b;
        if (op == SHUNT_OP_PROD)
            return a * b;
        if (std::isnan(a) || std::isnan(b))
            return std::isnan(a) ? a : b;
        return (op == SHUNT_OP_MIN ? a < b : a > b) ? a : b;
    } else if constexpr (is_pair<T>::value) {
        return better(op, a, b);
    } else {
        if (op == SHUNT_OP_SUM)
            return {a.re + b.re, a.im + b.im};
        return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    }
}

/* Any integer; floating point numbers of every kind, but mostly ordinary ones. */
template <class T>
static T random_element()
{
    if constexpr (std::is_integral<T>::value) {
        return random_below(4) ? (T)rng() : (T)random_below(2);
    } else if constexpr (std::is_floating_point<T>::value) {
        static const T special[] = {(T)NAN, (T)INFINITY, (T)-INFINITY, 0, (T)-0.0, std::numeric_limits<T>::denorm_min(),
                                    std::numeric_limits<T>::max(), 1};
        if (random_below(16) == 0)
            return special[random_below(8)];
        return (T)((double)random_below(2000001) / 1000 - 1000);
    } else if constexpr (Layout<T>::is_short) {
        return random_below(16) ? nearest<T>((float)random_below(2000001) / 1000 - 1000) : (T)random_below(1 << 16);
    } else if constexpr (is_pair<T>::value) { /* ties are common */
        T v;
        for (size_t i = 0; i < sizeof v; i++)
            reinterpret_cast<char *>(&v)[i] = (char)rng();
        if (random_below(4))
            v.value = (decltype(v.value))((int)random_below(3) - 1);
        if (std::is_floating_point<decltype(v.value)>::value && random_below(16) == 0)
            v.value = (decltype(v.value))NAN;
        v.where = (decltype(v.where))((int)random_below(9) - 4);
        return v;
    } else {
        typedef decltype(T::re) R;
        return {random_element<R>(), random_element<R>()};
    }
}

template <class T>
static void fill(char *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        T v = random_element<T>();
        memcpy(to + i * sizeof v, &v, sizeof v);
    }
}

/* Combine the operands of n ranks in rank order. 16-bit floats as float, rounded at the end. */
template <class T>
static void combine_all(shunt_op op, unsigned n, char *const *in, char *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        T x[16] = {};
        for (unsigned r = 0; r < n; r++)
            memcpy(&x[r], in[r] + i * sizeof(T), sizeof(T));
        if constexpr (Layout<T>::is_short) {
            float sum = (float)value_of(x[0]);
            for (unsigned r = 1; r < n; r++)
                sum = combine(op, sum, (float)value_of(x[r]));
            x[0] = nearest<T>(sum);
        } else {
            for (unsigned r = 1; r < n; r++)
                x[0] = combine(op, x[0], x[r]);
        }
        memcpy(out + i * sizeof(T), &x[0], sizeof(T));
    }
}

template <class R>
static bool same(R a, R b)
{
    if constexpr (std::is_floating_point<R>::value)
        if (std::isnan(a) && std::isnan(b)) /* of which kind depends on the machine */
            return true;
    if constexpr (Layout<R>::is_short)
        if (std::isnan(value_of(a)) && std::isnan(value_of(b)))
            return true;
    return memcmp(&a, &b, sizeof a) == 0;
}

template <class R>
static bool same(shunt_complex<R> a, shunt_complex<R> b)
{
    return same(a.re, b.re) && same(a.im, b.im);
}

/* The index of the first element that differs; count if none does. */
template <class T>
static size_t first_difference(const char *x, const char *y, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        T a, b;
        memcpy(&a, x + i * sizeof a, sizeof a);
        memcpy(&b, y + i * sizeof b, sizeof b);
        if (!same(a, b))
            return i;
    }
    return count;
}

static const struct {
    void (*fill)(char *, size_t);
    void (*combine)(shunt_op, unsigned, char *const *, char *, size_t);
    size_t (*difference)(const char *, const char *, size_t);
} rules[] = {
#define X(id, type, bytes, class) {fill<type>, combine_all<type>, first_difference<type>},
    SHUNT_TYPES(X)
#undef X
};

#endif
