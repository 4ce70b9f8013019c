/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels: loading, launching an operation, looking whether it is done. */
#ifndef SHUNT_CUDA_LAUNCH_H
#define SHUNT_CUDA_LAUNCH_H

#include "cuda/peer.h"
#include "cuda/recall.h"

#define SHUNT_THREADS 512

/* One operation, as the launcher needs it. Filled by coll, owned by it until the operation is done. */
struct shunt_launch {
    const struct shunt_plan *plan;
    enum shunt_type type;
    enum shunt_op op;
    const void *in;
    void *out;
    bool managed;                   /* one of them is managed memory */
    bool legacy_idle;               /* nothing on the legacy stream that it has to wait for */
    const int *slots;               /* arena slot of each rank */
    const struct shunt_post *const *posts; /* of each rank */
    const struct shunt_row *const *rows;   /* and its row, of plans with spans */
    uint64_t ticket;
    uint32_t launches;              /* how often it has been launched */
    bool lingered;                  /* instead of its first launch, a kernel that lingered got it */
    uint32_t turns;                 /* LL: bit q: the parity used with rank q */
    uint32_t grid, threads;         /* thread blocks, and threads of each: the same in all launches */
    uint64_t units;                 /* LL, LL128: of the operation */
    uint32_t seen;                  /* thread blocks of this launch known to have answered */
    uint64_t skip[SHUNT_GRID / 64]; /* bit b: thread block b has done its part */
    bool aborted;
    struct shunt_recall recall;
};

/* Load every kernel into the GPU's context and find how many thread blocks of any of them are resident at once. */
enum shunt_status shunt_kernels_load(struct shunt_gpu *gpu, uint16_t *max_blocks);
void shunt_kernels_unload(void);

/*
 * May it be launched? Not as long as a peer has still to read what an earlier operation has sent to it through the same
 * slots; it reads that without our help.
 */
bool shunt_launch_ready(struct shunt_arena *arena, const struct shunt_launch *launch);

/*
 * Launch, or launch again for the blocks that left. The caller holds the process's launch lock and launches in ticket
 * order, the next only when the one before is done: there is one set of done words.
 */
enum shunt_status shunt_launch_start(struct shunt_device *device, struct shunt_launch *launch);

/* 0 while running, else SHUNT_DONE_OK, _AGAIN or _ABORTED. */
unsigned shunt_launch_done(struct shunt_device *device, struct shunt_launch *launch);

/*
 * room.c: the kernel finds no room, since an application's kernels have the whole GPU. Asked now and then, `now` in
 * seconds; true: for SHUNT_ROOM_MS no thread block has begun, and none of this launch will do anything any more.
 */
#define SHUNT_ROOM_BYTES (256 + SHUNT_GRID * 8)
bool shunt_launch_unbegun(struct shunt_device *device, struct shunt_launch *launch, double now);

/* Has no block that has answered touched user memory? */
bool shunt_launch_untouched(const struct shunt_launch *launch);

/*
 * Ranks (a mask) of whose kernels nothing is known when this rank's has ended: it need not hear from them. Who leaves before they
 * have begun leaves them alone with a GPU that has no room.
 */
uint64_t shunt_launch_unheard(const struct shunt_plan *plan);

/* Ranks (a mask) that store into this rank's receive buffer until their own kernels end, which only their hosts can tell. */
uint64_t shunt_launch_writers(const struct shunt_plan *plan);

/* This rank's kernel has done all its part: can all be done again as if it had not, since its input is still there? */
bool shunt_launch_repeatable(const struct shunt_launch *launch);

/* The operation ends here, with an error, though its kernel has left, or not begun. */
void shunt_launch_forsake(struct shunt_device *device, const struct shunt_launch *launch);

/* The same where all ranks stage it after all: then it did not take place, nor did any of the `waves` that have been launched. */
void shunt_launch_withdraw(struct shunt_device *device, struct shunt_launch *launch, uint32_t waves);

/* Is a kernel that was withdrawn still waiting for room? As long as it is, nothing is launched behind it. */
bool shunt_device_blocked(struct shunt_device *device);

/* End every wait of the running kernel (a peer is proven dead), or allow waits again. */
void shunt_launch_abort(struct shunt_device *device, bool abort);

/* Has the driver reported a fault of our stream? For waits that last long. */
enum shunt_status shunt_launch_check(struct shunt_device *device);

#endif
