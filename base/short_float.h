/* SPDX-License-Identifier: BSD-3-Clause */
/* 16-bit floats, IEEE's and the upper half of a float ("brain"), as float and back: to the nearest, ties to even. */
#ifndef SHUNT_BASE_SHORT_FLOAT_H
#define SHUNT_BASE_SHORT_FLOAT_H

#include <stdint.h>
#include <string.h>

static inline float shunt_float_of(uint32_t word)
{
    float v;

    memcpy(&v, &word, sizeof v);
    return v;
}

static inline uint32_t shunt_word_of(float v)
{
    uint32_t word;

    memcpy(&word, &v, sizeof word);
    return word;
}

/* Right also where the program has the processor take subnormal numbers for zero: none of float occurs. */
static inline float shunt_widen_ieee(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;

    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return shunt_float_of(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

/* To the nearest, ties to even. */
static inline uint16_t shunt_narrow_ieee(float v)
{
    uint32_t word = shunt_word_of(v), sign = word >> 16 & 0x8000, size = word & 0x7fffffff;

    if (v != v)
        return 0x7fff;
    if (size >= 0x47800000) /* 65536 */
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) /* 2^-14: below it numbers are multiples of 2^-24, as those of float are at 1/2 */
        return (uint16_t)(sign | (shunt_word_of(shunt_float_of(size) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

static inline float shunt_widen_brain(uint16_t bits)
{
    return shunt_float_of((uint32_t)bits << 16);
}

static inline uint16_t shunt_narrow_brain(float v)
{
    uint32_t word = shunt_word_of(v);

    return v != v ? 0x7fff : (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

#endif
