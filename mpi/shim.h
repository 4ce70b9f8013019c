/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the generated shims (shims.c) are made of.
 *
 * MPI libraries call MPI functions inside themselves, and Fortran and tools reach PMPI_X from MPI_X, so a shim must
 * know whether its call is the program's or comes from inside another. The outermost shim of a thread leaves a mark in
 * its stack frame and its address in struct shunt_thread; a shim that finds an intact mark further up the stack is
 * inside. An error handler of the program may leave a call by longjmp or an exception, which never clears the address:
 * then the stack has been cut back, and the next call's frame is not below the mark, or something else lies over it.
 */
#ifndef SHUNT_MPI_SHIM_H
#define SHUNT_MPI_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "cuda/gpu.h"
#include "front/front.h"
#include "mpi/host_mpi.h"
#include "mpi/call.h"

#pragma GCC visibility push(hidden)

/* Set by engine.c: the host's functions by slot, and the front's accessor. */
extern void *shunt_next[];
extern struct shunt_thread *(*shunt_thread)(void);

/* The tables at the end of shims.c, each ended by a slot of -1 (shims) or a symbol of NULL (host rows). */
struct shunt_shim {
    int slot;
    void *function;
    bool always; /* also where the host lacks the function */
};
extern const struct shunt_shim shunt_shims[];

struct shunt_host_row {
    size_t offset;      /* in struct shunt_host_table */
    int slot;           /* of the PMPI_ name, -1 if the front does not show it */
    const char *symbol; /* the PMPI_ name */
};
extern const struct shunt_host_row shunt_host_rows[];

#pragma GCC visibility pop

enum { SHUNT_MARK = 0x5a17 };

/* True, and the mark is set, if this is a call of the program. */
static inline __attribute__((always_inline, no_sanitize("address"))) bool
shunt_enter(struct shunt_thread *thread, volatile uintptr_t *mark, const char *symbol)
{
    volatile uintptr_t *outer = thread->outer;
    /* Above this frame: what an old mark has left may lie in a part of it that is not written yet. */
    if (outer && (uintptr_t)__builtin_frame_address(0) < (uintptr_t)outer && *outer == ((uintptr_t)outer ^ SHUNT_MARK))
        return false;
    *mark = (uintptr_t)mark ^ SHUNT_MARK;
    thread->outer = mark;
    shunt_trace("mpi", "%s", symbol);
    (void)symbol;
    return true;
}

static inline void shunt_leave(struct shunt_thread *thread, volatile uintptr_t *mark)
{
    *mark = 0;
    thread->outer = NULL;
}

/*
 * What each class does before and after the host's function. BEFORE is true if the call is done, with *rc set; `kept`
 * goes from BEFORE to AFTER.
 */
#define LOOK_AFTER_ORPHANS                                                                         \
    (__atomic_load_n(&shunt_requests_orphaned, __ATOMIC_RELAXED) > 0 ? shunt_requests_look() : (void)0)
#define BEFORE_depth(call, rc, kept) ((void)(call), (void)(kept), false)
#define AFTER_depth(call, rc, kept)  ((void)(kept), LOOK_AFTER_ORPHANS)
#define BEFORE_coll(call, rc, kept)  ((void)(kept), shunt_hook_coll(call), false)
#define AFTER_coll(call, rc, kept)   ((void)(kept))
#define BEFORE_stage(call, rc, kept) shunt_hook_stage_before(call, rc, kept)
#define AFTER_stage(call, rc, kept)                                                                \
    ((rc) != MPI_SUCCESS ? shunt_hook_refused(call, rc) : (void)0,                                 \
     (kept) ? (void)((rc) = shunt_hook_stage_after(call, kept, rc)) : (void)0)
#define BEFORE_move(call, rc, kept)  shunt_hook_move_before(call, rc, kept)
#define AFTER_move(call, rc, kept)                                                                 \
    ((kept) ? (void)((rc) = shunt_hook_move_after(call, kept, rc)) : (void)0, LOOK_AFTER_ORPHANS)
#define BEFORE_probe(call, rc, kept) shunt_hook_probe_before(call, rc, kept)
#define AFTER_probe(call, rc, kept)                                                                \
    ((kept) ? shunt_hook_probe_after(call, rc) : (void)0, LOOK_AFTER_ORPHANS)
#define BEFORE_receive(call, rc, kept) BEFORE_move(call, rc, kept)
#define AFTER_receive(call, rc, kept)  AFTER_move(call, rc, kept)
#define BEFORE_issue(call, rc, kept) shunt_hook_issue_before(call, rc, kept)
#define AFTER_issue(call, rc, kept)                                                                \
    ((kept) || __atomic_load_n(&shunt_requests_tracked, __ATOMIC_RELAXED) > 0                      \
         ? (void)((rc) = shunt_hook_issue_after(call, kept, rc))                                   \
         : (void)0,                                                                                \
     LOOK_AFTER_ORPHANS)
#define BEFORE_ireceive(call, rc, kept) BEFORE_issue(call, rc, kept)
#define AFTER_ireceive(call, rc, kept)  AFTER_issue(call, rc, kept)
#define BEFORE_icoll(call, rc, kept) shunt_hook_icoll_before(call, rc, kept)
#define AFTER_icoll(call, rc, kept)                                                                \
    ((rc) != MPI_SUCCESS ? shunt_hook_refused(call, rc) : (void)0, AFTER_issue(call, rc, kept))
#define BEFORE_access(call, rc, kept) shunt_hook_access_before(call, rc, kept)
#define AFTER_access(call, rc, kept)                                                               \
    ((kept) || __atomic_load_n(&shunt_requests_tracked, __ATOMIC_RELAXED) > 0                      \
         ? (void)((rc) = shunt_hook_access_after(call, kept, rc))                                  \
         : (void)0,                                                                                \
     LOOK_AFTER_ORPHANS)
#define BEFORE_sync(call, rc, kept)  ((void)(call), (void)(kept), false)
#define AFTER_sync(call, rc, kept)                                                                 \
    ((void)(kept),                                                                                 \
     __atomic_load_n(&shunt_accesses_staged, __ATOMIC_RELAXED) > 0                                 \
         ? (void)((rc) = shunt_hook_sync_after(call, rc))                                          \
         : (void)0,                                                                                \
     LOOK_AFTER_ORPHANS)
#define BEFORE_pack(call, rc, kept) shunt_hook_pack_before(call, rc, kept)
#define AFTER_pack(call, rc, kept)                                                                 \
    ((kept) ? (void)((rc) = shunt_hook_pack_after(call, kept, rc)) : (void)0, LOOK_AFTER_ORPHANS)
#define BEFORE_file(call, rc, kept) shunt_hook_file_before(call, rc, kept)
#define AFTER_file(call, rc, kept)                                                                 \
    ((kept) ? (void)((rc) = shunt_hook_file_after(call, kept, rc)) : (void)0, LOOK_AFTER_ORPHANS)
#define BEFORE_begin(call, rc, kept) shunt_hook_begin_before(call, rc, kept)
#define AFTER_begin(call, rc, kept)                                                                 \
    ((kept) ? (void)((rc) = shunt_hook_begin_after(call, kept, rc)) : (void)0, LOOK_AFTER_ORPHANS)
#define BEFORE_end(call, rc, kept) shunt_hook_end_before(call, rc, kept)
#define AFTER_end(call, rc, kept)                                                                 \
    ((kept) ? (void)((rc) = shunt_hook_end_after(call, kept, rc)) : (void)0, LOOK_AFTER_ORPHANS)
#define BEFORE_window(call, rc, kept) shunt_hook_window_before(call, rc, kept)
#define AFTER_window(call, rc, kept)  ((void)(kept), LOOK_AFTER_ORPHANS)
#define BEFORE_attach(call, rc, kept) shunt_hook_attach_before(call, rc, kept)
#define AFTER_attach(call, rc, kept)  AFTER_window(call, rc, kept)
#define BEFORE_lend(call, rc, kept)   shunt_hook_lend_before(call, rc, kept)
#define AFTER_lend(call, rc, kept)    ((kept) ? shunt_hook_lend_after(kept, rc) : (void)0, LOOK_AFTER_ORPHANS)
#define BEFORE_regain(call, rc, kept) ((void)(kept), false)
#define AFTER_regain(call, rc, kept)  (shunt_hook_regain_after(call, rc), LOOK_AFTER_ORPHANS)
#define BEFORE_comm(call, rc, kept)  ((void)(kept), shunt_hook_comm_before(call), false)
#define AFTER_comm(call, rc, kept)   (shunt_hook_comm_after(call, rc), shunt_hook_hints_after(call, rc))
#define BEFORE_hints(call, rc, kept) ((void)(kept), false)
#define AFTER_hints(call, rc, kept)  (shunt_hook_hints_after(call, rc), LOOK_AFTER_ORPHANS)
#define BEFORE_free(call, rc, kept)  ((void)(kept), shunt_hook_free(call), false)
#define AFTER_free(call, rc, kept)   ((void)(kept))
#define BEFORE_kinds(call, rc, kept) ((void)(kept), false)
#define AFTER_kinds(call, rc, kept)  (shunt_hook_kinds_after(call, rc), shunt_hook_hints_told(call, rc), LOOK_AFTER_ORPHANS)
#define BEFORE_done(call, rc, kept)                                                                \
    (__atomic_load_n(&shunt_requests_tracked, __ATOMIC_RELAXED) > 0 && shunt_hook_done_before(call, rc, kept))
#define AFTER_done(call, rc, kept)                                                                 \
    ((kept) ? (void)((rc) = shunt_hook_done_after(call, kept, rc)) : (void)0, LOOK_AFTER_ORPHANS)
#define BEFORE_init(call, rc, kept)  ((void)(kept), shunt_hook_init_before(call), false)
#define AFTER_init(call, rc, kept)   shunt_hook_init_after(call, rc)
#define BEFORE_final(call, rc, kept) ((void)(kept), shunt_hook_final_before(call), false)
#define AFTER_final(call, rc, kept)  shunt_hook_final_after(call, rc)

/* While there are flights: a look, or what has to be decided before the call. Those of other classes do it in their hooks. */
#define FLYING           __builtin_expect(__atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) > 0, 0)
#define FLIGHTS(action)  (FLYING ? (action) : (void)0)
#define FENCE_depth(id)  FLIGHTS(shunt_flights_depth(id))
#define FENCE_coll(id)   FLIGHTS(shunt_flights_fence(MPI_COMM_NULL))
#define FENCE_comm(id)   FENCE_coll(id)
#define FENCE_free(id)   FENCE_coll(id)
#define FENCE_window(id) FENCE_coll(id)
#define FENCE_sync(id)   FENCE_coll(id)
#define FENCE_file(id)   FENCE_coll(id)
#define FENCE_begin(id)  FENCE_coll(id)
#define FENCE_end(id)    FENCE_coll(id)
#define FENCE_move(id)   FLIGHTS(shunt_flights_look())
#define FENCE_probe(id)  FENCE_depth(id)
#define FENCE_receive(id) FENCE_move(id)
#define FENCE_ireceive(id) FENCE_move(id)
#define FENCE_issue(id)  FENCE_move(id)
#define FENCE_access(id) FENCE_move(id)
#define FENCE_lend(id)   ((void)0)
#define FENCE_regain(id) FENCE_coll(id)
#define FENCE_pack(id)   ((void)0)
#define FENCE_attach(id) ((void)0)
#define FENCE_stage(id)  ((void)0)
#define FENCE_icoll(id)  ((void)0)
#define FENCE_done(id)   ((void)0)
#define FENCE_init(id)   ((void)0)
#define FENCE_final(id)  ((void)0)
#define FENCE_kinds(id)  ((void)0)
#define FENCE_hints(id)  FENCE_depth(id)

/* Nothing is for the hooks of the class to do, so not even a struct shunt_call is needed. */
#define SKIP_depth  false
#define SKIP_coll   false
#define SKIP_stage  false
#define SKIP_comm   false
#define SKIP_free   false
#define SKIP_done   false
#define SKIP_init   false
#define SKIP_final  false
#define SKIP_move   (!shunt_gpu_in_use())
#define SKIP_probe   (!shunt_gpu_in_use())
#define SKIP_receive (!shunt_gpu_in_use())
#define SKIP_ireceive (!shunt_gpu_in_use() && !shunt_receive_early())
#define SKIP_access (!shunt_gpu_in_use())
#define SKIP_sync   false
#define SKIP_window false
#define SKIP_kinds  false
#define SKIP_hints  false
#define SKIP_attach (!shunt_gpu_in_use())
#define SKIP_lend   (!shunt_gpu_in_use())
#define SKIP_regain (!shunt_gpu_in_use())
#define SKIP_pack   (!shunt_gpu_in_use())
#define SKIP_file   (!shunt_gpu_in_use())
#define SKIP_begin  (!shunt_gpu_in_use())
#define SKIP_end    (!shunt_gpu_in_use())
#define SKIP_issue  (!shunt_gpu_in_use())
#define SKIP_icoll  false

#endif
