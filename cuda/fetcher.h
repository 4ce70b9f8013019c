/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small copies from a peer's memory by a kernel (fetch.cuh), for lane.c, which locks: what is to be fetched, launching it,
 * and looking whether it is there.
 *
 * A kernel may find no room on the GPU for as long as one of the application runs. It is called back then
 * (recall.h), and until it is gone there is no fetching with this one. In bursts a kernel stays for what comes next (stay.h).
 * All but pieces, done and due is called in the context.
 */
#ifndef SHUNT_CUDA_FETCHER_H
#define SHUNT_CUDA_FETCHER_H

#include <stdbool.h>

#include "cuda/context.h"
#include "cuda/fetch_args.h"
#include "cuda/recall.h"
#include "cuda/stay.h"
#include "cuda/told.h"

/* Pinned memory of each, whole lines: orders, the done words, and what the looks at those of told.h need. */
#define SHUNT_FETCHER_WORDS (SHUNT_STAY_WORDS + SHUNT_FETCH_PIECES + 8)
_Static_assert(SHUNT_TOLD_WORDS <= 8, "they have a line");

struct shunt_fetcher {
    bool ready; /* all that follows is there */
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUdeviceptr told;
    _Atomic uint64_t *done; /* pinned, SHUNT_FETCHER_WORDS */
    struct shunt_fetch_args args;
    unsigned n;             /* pieces of the last launch or order */
    uint64_t number;        /* of that */
    unsigned awaited, seen; /* done words that it ends with, and how many of them are known to be there */
    bool ordered;           /* it needed no launch */
    double asked;           /* when the driver was last asked for it */
    struct shunt_recall recall;
    bool stuck;             /* it was called back, and is still there */
    struct shunt_stay stay;
};

/* Load the kernel, with `pinned`, SHUNT_FETCHER_WORDS, for its words. Where that fails it is not ready. */
void shunt_fetcher_open(struct shunt_fetcher *fetcher, struct shunt_gpu *gpu, void *pinned);

/* False: a kernel that was called back is still there, and will write its words when it begins. */
bool shunt_fetcher_close(struct shunt_fetcher *fetcher);

/* Can something be launched now? */
bool shunt_fetcher_free(struct shunt_fetcher *fetcher);

/* Into how many pieces a copy falls; 0: it is none for kernels. */
unsigned shunt_fetcher_pieces(const void *to, const void *from, uint64_t bytes);

/* How many copies may go together: as many as an order has, if a kernel stays, else a few. */
unsigned shunt_fetcher_most(const struct shunt_fetcher *fetcher);

/* Begin copies that fall into SHUNT_FETCH_PIECES pieces at most. */
enum shunt_status shunt_fetcher_launch(struct shunt_fetcher *fetcher, const CUdeviceptr *to, const CUdeviceptr *from,
                                       const size_t *bytes, unsigned n);

/* Is everything there? */
bool shunt_fetcher_done(struct shunt_fetcher *fetcher);

/* Not everything is there: is it time to ask for it? */
bool shunt_fetcher_due(struct shunt_fetcher *fetcher);

/*
 * It is. AGAIN: it runs, or is there after all; PASS: it was called back, or has ended with something undone, and touches
 * nothing any more: its pieces are to be copied otherwise; or an error, after which it touches nothing any more either.
 */
enum shunt_status shunt_fetcher_hurry(struct shunt_fetcher *fetcher, struct shunt_gpu *gpu);

/* Then: put its copies on a stream instead. It has nothing under way then. */
enum shunt_status shunt_fetcher_copy(struct shunt_fetcher *fetcher, CUstream stream);

#endif
