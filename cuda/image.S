/* SPDX-License-Identifier: BSD-3-Clause */
/* The compiled kernels as bytes of the library: shunt_kernels_fatbin, shunt_kernels_fatbin_size (0: built without nvcc). */
#include "config.h"

        .section .rodata
        .balign 16
        .globl shunt_kernels_fatbin
        .hidden shunt_kernels_fatbin
        .type shunt_kernels_fatbin, %object
shunt_kernels_fatbin:
#ifdef HAVE_KERNELS
        .incbin "cuda/kernels.fatbin"
#endif
.Lend:
        .size shunt_kernels_fatbin, .Lend - shunt_kernels_fatbin

        .balign 8
        .globl shunt_kernels_fatbin_size
        .hidden shunt_kernels_fatbin_size
        .type shunt_kernels_fatbin_size, %object
        .size shunt_kernels_fatbin_size, 8
shunt_kernels_fatbin_size:
        .quad .Lend - shunt_kernels_fatbin

        .section .note.GNU-stack, "", %progbits
