/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fibers: contexts that take turns on one OS thread, and the stacks they run on.
 *
 * A switch saves what the calling convention lets a function call keep (callee-saved registers) on the old stack,
 * stores the stack pointer, and restores the same from the new stack: a few nanoseconds, no system call. Under
 * AddressSanitizer every switch is announced, because it keeps bounds and shadow per stack.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/fiber.h"

#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef SIM_ASAN
#define STACK_BYTES ((size_t)128 << 10) /* instrumented frames are several times larger */
#else
#define STACK_BYTES ((size_t)32 << 10)
#endif
#define GUARD_BYTES ((size_t)4 << 10) /* one page, or nothing where pages are larger */
#define SLAB_STACKS 64
#define GUARDED_STACKS 8192 /* a guard costs two of the 65530 mappings that a process may have */

void sim_fiber_swap(void **save, void *to);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl sim_fiber_swap\n"
        ".hidden sim_fiber_swap\n"
        ".type sim_fiber_swap,@function\n"
        "sim_fiber_swap:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size sim_fiber_swap,.-sim_fiber_swap\n");

/* Six registers, the address to return to, and an empty word that stands for the return address of `entry`. */
static void *first_frame(void *top, void (*entry)(void))
{
    void **sp = (void **)top - 8;
    memset(sp, 0, 8 * sizeof *sp);
    sp[6] = (void *)entry;
    return sp;
}
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl sim_fiber_swap\n"
        ".hidden sim_fiber_swap\n"
        ".type sim_fiber_swap,%function\n"
        "sim_fiber_swap:\n"
        "    stp x19, x20, [sp, #-160]!\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x19, x20, [sp], #160\n"
        "    ret\n"
        ".size sim_fiber_swap,.-sim_fiber_swap\n");

/* Twenty registers, of which x30 is the address to return to. */
static void *first_frame(void *top, void (*entry)(void))
{
    void **sp = (void **)top - 20;
    memset(sp, 0, 20 * sizeof *sp);
    sp[11] = (void *)entry;
    return sp;
}
#else
#error "no context switch for this architecture"
#endif

void sim_context_make(struct sim_context *context, struct sim_stack *stack, void (*entry)(void))
{
#ifdef SIM_ASAN
    /* The fiber that was here before never returned from its last frame, which is still marked as in use. */
    __asan_unpoison_memory_region(stack->bottom, (size_t)((char *)stack->top - (char *)stack->bottom));
    context->fake = NULL;
    context->bottom = stack->bottom;
    context->size = (size_t)((char *)stack->top - (char *)stack->bottom);
#endif
    context->sp = first_frame(stack->top, entry);
}

void sim_context_entered(struct sim_context *from)
{
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(NULL, &from->bottom, &from->size);
#else
    (void)from;
#endif
}

void sim_context_switch(struct sim_context *from, struct sim_context *to)
{
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->size);
    sim_fiber_swap(&from->sp, to->sp);
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#else
    sim_fiber_swap(&from->sp, to->sp);
#endif
}

void sim_context_leave(struct sim_context *to)
{
    void *unused;
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(NULL, to->bottom, to->size);
#endif
    sim_fiber_swap(&unused, to->sp);
    __builtin_unreachable();
}

/* What no launch uses at the moment. Stacks are never unmapped: the next launch needs as many. */
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_stack *spare;
static unsigned guarded;

/*
 * Under the lock: a slab of stacks, each above its guard page. They lie a whole number of pages apart; their tops are
 * shifted, or they would all share a few sets of the cache.
 */
static void map_slab(void)
{
    const size_t each = GUARD_BYTES + STACK_BYTES;
    char *slab = mmap(NULL, SLAB_STACKS * each, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slab == MAP_FAILED)
        return;
    for (unsigned i = 0; i < SLAB_STACKS; i++) {
        char *low = slab + i * each, *high = low + each;
        struct sim_stack *stack = (struct sim_stack *)(high - sizeof *stack - i % 32 * 64);
        if (guarded < GUARDED_STACKS && mprotect(low, GUARD_BYTES, PROT_NONE) == 0)
            guarded++;
        stack->bottom = low + GUARD_BYTES;
        stack->top = (void *)((uintptr_t)stack & ~(uintptr_t)63);
        stack->next = spare;
        spare = stack;
    }
}

/* Move up to a slab's worth of stacks from the process's pool to an empty one. */
static void refill(struct sim_stack_pool *pool)
{
    pthread_mutex_lock(&spare_lock);
    if (!spare)
        map_slab();
    pool->first = pool->last = spare;
    for (unsigned i = 1; spare && i < SLAB_STACKS && pool->last->next; i++)
        pool->last = pool->last->next;
    if (spare) {
        spare = pool->last->next;
        pool->last->next = NULL;
    }
    pthread_mutex_unlock(&spare_lock);
}

struct sim_stack *sim_stack_get(struct sim_stack_pool *pool)
{
    if (!pool->first)
        refill(pool);
    struct sim_stack *stack = pool->first;
    if (stack)
        pool->first = stack->next;
    return stack;
}

void sim_stack_put(struct sim_stack_pool *pool, struct sim_stack *stack)
{
    if (!pool->first)
        pool->last = stack;
    stack->next = pool->first;
    pool->first = stack;
}

void sim_stack_return(struct sim_stack_pool *pool)
{
    if (!pool->first)
        return;
    pthread_mutex_lock(&spare_lock);
    pool->last->next = spare;
    spare = pool->first;
    pthread_mutex_unlock(&spare_lock);
    pool->first = NULL;
}
