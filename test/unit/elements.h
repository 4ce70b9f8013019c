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

template <class T>
static void combine_all(shunt_op op, char *sum, const char *next, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        T a, b;
        memcpy(&a, sum + i * sizeof a, sizeof a);
        memcpy(&b, next + i * sizeof b, sizeof b);
        a = combine(op, a, b);
        memcpy(sum + i * sizeof a, &a, sizeof a);
    }
}

template <class R>
static bool same(R a, R b)
{
    if constexpr (std::is_floating_point<R>::value)
        if (std::isnan(a) && std::isnan(b)) /* of which kind depends on the machine */
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
    void (*combine)(shunt_op, char *, const char *, size_t);
    size_t (*difference)(const char *, const char *, size_t);
} rules[] = {
#define X(id, type, bytes, class) {fill<type>, combine_all<type>, first_difference<type>},
    SHUNT_TYPES(X)
#undef X
};

#endif
