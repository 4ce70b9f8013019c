/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the blocks of an operation lie whose blocks differ: from the call's arguments to the kernels. */
#ifndef SHUNT_BASE_SPANS_H
#define SHUNT_BASE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Slices that differ in size and lie anywhere, of an exchange: slice q of the send buffer is what goes to rank q, slice q of
 * the receive buffer what comes from it (where ranks are combined: the result). `at`: bytes from the buffer on.
 */
#define SHUNT_SPAN_RANKS 16

/*
 * Where something goes from one rank to another several times (neighbours), an operation has several waves, each with spans
 * of its own: so many at most.
 */
#define SHUNT_SPAN_WAVES 8
struct shunt_span {
    uint64_t at, bytes;
};
struct shunt_spans {
    struct shunt_span in[SHUNT_SPAN_RANKS], out[SHUNT_SPAN_RANKS];
};

/* Have two pieces of memory a byte in common? */
static inline bool shunt_bytes_overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return a_bytes != 0 && b_bytes != 0 && x < y + b_bytes && y < x + a_bytes;
}

#endif
