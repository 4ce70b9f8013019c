/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI functions that libshunt.so shows. Each is a jump through its slot; a slot first leads to code that calls
 * shunt_front_resolve(slot, return address) with the caller's arguments kept, and goes on where that says. For each
 * there is also a function without arguments that calls shunt_absent_ask(slot).
 *
 * Only integer registers are kept: no MPI function takes a floating-point argument.
 */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

    .hidden shunt_slots
    .hidden shunt_functions
    .hidden shunt_asks
    .hidden shunt_own_init
    .hidden shunt_front_resolve
    .hidden shunt_absent_ask

#if defined(__x86_64__)

.macro function index, name /* 16 bytes, as SHUNT_SLOT_BYTES says */
    .globl \name
    .type \name, @function
\name:
    _CET_ENDBR
    jmp *shunt_slots + 8 * \index(%rip)
    .size \name, . - \name
    .balign 16
.endm

.macro ask index, name /* 16 bytes */
    _CET_ENDBR
    movl $\index, %edi
    jmp shunt_absent_ask
    .balign 16
.endm

.macro first index, name
.Lfirst_\index:
    _CET_ENDBR
    pushq $\index
    jmp resolve
.endm

    .text
    .type resolve, @function
resolve: /* on the stack: the slot, the return address */
    .cfi_startproc
    .cfi_adjust_cfa_offset 8
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    .cfi_adjust_cfa_offset 48
    movq 48(%rsp), %rdi
    movq 56(%rsp), %rsi
    call shunt_front_resolve
    movq %rax, %r11
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    leaq 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -56
    jmp *%r11
    .cfi_endproc
    .size resolve, . - resolve

#elif defined(__aarch64__)

.macro function index, name /* 16 bytes, as SHUNT_SLOT_BYTES says */
    .globl \name
    .type \name, %function
\name:
    hint #34 /* bti c */
    adrp x16, shunt_slots + 8 * \index
    ldr x16, [x16, :lo12:shunt_slots + 8 * \index]
    br x16
    .size \name, . - \name
.endm

.macro ask index, name /* 16 bytes */
    hint #34
    mov w0, #\index
    b shunt_absent_ask
    nop
.endm

.macro first index, name
.Lfirst_\index:
    hint #34
    mov w17, #\index
    b resolve
.endm

    .text
    .type resolve, %function
resolve: /* w17: the slot, x30: the return address */
    .cfi_startproc
    stp x29, x30, [sp, #-96]!
    .cfi_def_cfa_offset 96
    .cfi_offset x29, -96
    .cfi_offset x30, -88
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    mov w0, w17
    mov x1, x30
    bl shunt_front_resolve
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp x29, x30, [sp], #96
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size resolve, . - resolve

#else
#error "slots are written for x86-64 and 64-bit ARM"
#endif

.macro slot index, name
    .quad .Lfirst_\index
.endm

#define SLOT(index, name, lack) first index, name
#include "front/slots.def"
#undef SLOT

    .balign 16
shunt_functions:
#define SLOT(index, name, lack) function index, name
#include "front/slots.def"
#undef SLOT

    .balign 16
shunt_asks:
#define SLOT(index, name, lack) ask index, name
#include "front/slots.def"
#undef SLOT

    .data
    .balign 8
shunt_slots:
#define SLOT(index, name, lack) slot index, name
#include "front/slots.def"
#undef SLOT
    .size shunt_slots, . - shunt_slots

    /* our PMPI_Init, whoever else has one */
    .set shunt_own_init, PMPI_Init
    .globl shunt_slots, shunt_functions, shunt_asks, shunt_own_init
    .section .note.GNU-stack, "", %progbits
