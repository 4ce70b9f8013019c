/* SPDX-License-Identifier: BSD-3-Clause */
/* Fibers: contexts that take turns on one OS thread, and the stacks they run on. */
#ifndef SHUNT_SIM_FIBER_H
#define SHUNT_SIM_FIBER_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1 /* every switch of stacks is announced to it */
#endif

#ifdef __cplusplus
#define SIM_NORETURN [[noreturn]]
extern "C" {
#else
#define SIM_NORETURN _Noreturn
#endif

/* One mapped stack; the struct lies at its upper end. Belongs to a pool or to the fiber that runs on it. */
struct sim_stack {
    struct sim_stack *next; /* in a pool */
    void *top;              /* where a fiber begins: below the struct, at an address that differs in its cache set */
    void *bottom;
};

/* Where a fiber that is not running goes on. Zeroed: the context of the OS thread itself, before its first switch. */
struct sim_context {
    void *sp;
#ifdef SIM_ASAN
    void *fake; /* AddressSanitizer's record of the stack */
    const void *bottom;
    size_t size;
#endif
};

/* Make `context` begin in `entry`, which must call sim_context_entered first and never return. */
void sim_context_make(struct sim_context *context, struct sim_stack *stack, void (*entry)(void));

/* To be called at the begin of a fiber; `from` is the context that switched to it. */
void sim_context_entered(struct sim_context *from);

/* Go on in `to`; returns when somebody switches back to `from`. Both belong to the calling OS thread. */
void sim_context_switch(struct sim_context *from, struct sim_context *to);

/* Go on in `to` and never come back: the stack may be given to another fiber. */
SIM_NORETURN void sim_context_leave(struct sim_context *to);

/* Stacks that one OS thread has at hand; begins zeroed. */
struct sim_stack_pool {
    struct sim_stack *first, *last; /* last: of no meaning if first is NULL */
};

/*
 * A stack from `pool`, which is filled from the process's pool, and that by new mappings. NULL: out of memory.
 * sim_stack_return gives the whole pool back to the process.
 */
struct sim_stack *sim_stack_get(struct sim_stack_pool *pool);
void sim_stack_put(struct sim_stack_pool *pool, struct sim_stack *stack);
void sim_stack_return(struct sim_stack_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
