/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Indivisible loads and stores of 16 aligned bytes, for LL words. Relaxed; neither C nor C++ has them without a lock.
 * x86-64 processors that have AVX promise it for aligned SSE moves, 64-bit Arm from version 8.4 on for pairs.
 */
#ifndef SHUNT_SIM_WORD16_H
#define SHUNT_SIM_WORD16_H

#if defined(__x86_64__)
#include <emmintrin.h>
static inline void sim_load16(const void *p, void *value)
{
    __m128i v;
    __asm__ volatile("movdqa %1, %0" : "=x"(v) : "m"(*(const __m128i *)p) : "memory");
    _mm_storeu_si128((__m128i *)value, v);
}

static inline void sim_store16(void *p, const void *value)
{
    __m128i v = _mm_loadu_si128((const __m128i *)value);
    __asm__ volatile("movdqa %1, %0" : "=m"(*(__m128i *)p) : "x"(v) : "memory");
}
#elif defined(__aarch64__)
static inline void sim_load16(const void *p, void *value)
{
    unsigned long v[2];
    __asm__ volatile("ldp %0, %1, [%2]" : "=r"(v[0]), "=r"(v[1]) : "r"(p) : "memory");
    __builtin_memcpy(value, v, 16);
}

static inline void sim_store16(void *p, const void *value)
{
    unsigned long v[2];
    __builtin_memcpy(v, value, 16);
    __asm__ volatile("stp %0, %1, [%2]" ::"r"(v[0]), "r"(v[1]), "r"(p) : "memory");
}
#else
#error "no indivisible access of 16 bytes on this processor"
#endif

#endif
