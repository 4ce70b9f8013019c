/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The compiled kernels as bytes of the library: shunt_kernels_fatbin (kernels.cu) and shunt_pack_fatbin (pack.cu), and
 * their sizes: shunt_kernels_fatbin_size, shunt_pack_fatbin_size (0: built without nvcc).
 */
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

        .balign 16
        .globl shunt_pack_fatbin
        .hidden shunt_pack_fatbin
        .type shunt_pack_fatbin, %object
shunt_pack_fatbin:
#ifdef HAVE_KERNELS
        .incbin "cuda/pack.fatbin"
#endif
.Lpack_end:
        .size shunt_pack_fatbin, .Lpack_end - shunt_pack_fatbin

        .balign 8
        .globl shunt_kernels_fatbin_size
        .hidden shunt_kernels_fatbin_size
        .type shunt_kernels_fatbin_size, %object
        .size shunt_kernels_fatbin_size, 8
shunt_kernels_fatbin_size:
        .quad .Lend - shunt_kernels_fatbin

        .globl shunt_pack_fatbin_size
        .hidden shunt_pack_fatbin_size
        .type shunt_pack_fatbin_size, %object
        .size shunt_pack_fatbin_size, 8
shunt_pack_fatbin_size:
        .quad .Lpack_end - shunt_pack_fatbin

        .section .note.GNU-stack, "", %progbits
