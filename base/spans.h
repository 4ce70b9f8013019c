/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the blocks of an operation lie whose blocks differ: from the call's arguments to the kernels. */
#ifndef SHUNT_BASE_SPANS_H
#define SHUNT_BASE_SPANS_H

#include <stdint.h>

/*
 * Slices that differ in size and lie anywhere, of an exchange: slice q of the send buffer is what goes to rank q, slice q of
 * the receive buffer what comes from it (where ranks are combined: the result). `at`: bytes from the buffer on.
 */
#define SHUNT_SPAN_RANKS 16
struct shunt_span {
    uint64_t at, bytes;
};
struct shunt_spans {
    struct shunt_span in[SHUNT_SPAN_RANKS], out[SHUNT_SPAN_RANKS];
};

#endif
