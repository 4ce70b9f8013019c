/* SPDX-License-Identifier: BSD-3-Clause */
/* Floating types of 16 bits, told from what they mean and not from their bits: what shunt makes of them must be this. */
#ifndef SHUNT_TEST_SHORT_FLOAT_H
#define SHUNT_TEST_SHORT_FLOAT_H

#include <math.h>
#include <stdint.h>

/* Bits of the fraction, and what is added to exponents. */
struct short_layout {
    int fraction, bias;
};

static inline float short_value(const struct short_layout *layout, uint16_t bits)
{
    int exponent = (bits & 0x7fff) >> layout->fraction, most = 0x7fff >> layout->fraction;
    double part = ldexp(bits & ((1 << layout->fraction) - 1), -layout->fraction);
    float sign = bits & 0x8000 ? -1 : 1;

    if (exponent == most)
        return part > 0 ? NAN : sign * INFINITY;
    return sign * (float)ldexp(exponent ? 1 + part : part, (exponent ? exponent : 1) - layout->bias);
}

/* The nearest, of two nearest the even one. Numbers of one exponent lie `fraction` bits below it apart. */
static inline uint16_t short_nearest(const struct short_layout *layout, float value)
{
    unsigned infinity = 0x7fffu >> layout->fraction << layout->fraction, sign = signbit(value) ? 0x8000 : 0, bits;
    int exponent = 0, least = 1 - layout->bias;

    if (isnan(value))
        return 0x7fff;
    if (isinf(value))
        return (uint16_t)(sign | infinity);
    frexp(value, &exponent);
    exponent = value == 0 || exponent - 1 < least ? least : exponent - 1;
    bits = (unsigned)nearbyint(ldexp(fabs(value), layout->fraction - exponent));
    bits += (unsigned)(exponent - least) << layout->fraction; /* a carry out of the fraction is the next exponent */
    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

#endif
