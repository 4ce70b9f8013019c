/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans for the copy engines; copies.h. */
#include "cuda/copies.h"

#include "cuda/linger.h"

/* The done words of the two streams: that of kernels, and that of staged copies. */
enum { TO_PEERS, BESIDE };

bool shunt_copies_possible(const struct shunt_device *device)
{
    return device->stream_words;
}

/* Of slices that differ, my own plan knows mine; where a peer's lies, its row says. */
static uint64_t offset_of(const struct shunt_launch *launch, struct shunt_ref ref)
{
    const struct shunt_plan *plan = launch->plan;

    if (plan->spans == NULL)
        return ref.slice * plan->slice_bytes;
    if (ref.space == SHUNT_SPACE_IN)
        return plan->spans->in[ref.slice].at;
    return ref.rank == plan->me ? plan->spans->out[ref.slice].at : launch->rows[ref.rank]->place[plan->me];
}

static uint64_t bytes_of(const struct shunt_plan *plan, struct shunt_ref from)
{
    if (plan->spans != NULL)
        return plan->spans->in[from.slice].bytes;
    return plan->slices == 1 ? plan->bytes : plan->slice_bytes;
}

static char *address_of(const struct shunt_launch *launch, struct shunt_ref ref)
{
    const struct shunt_plan *plan = launch->plan;
    uint64_t offset = offset_of(launch, ref);

    if (ref.space == SHUNT_SPACE_IN)
        return (char *)launch->in + offset;
    if (ref.rank == plan->me)
        return (char *)launch->out + offset;
    return shunt_peer_buffer(launch->slots[ref.rank], &launch->posts[ref.rank]->recv) + offset;
}

/* One of the plan's copies. That which stays here goes beside those to the peers, and in place there is none. */
static enum shunt_status copy_pair(struct shunt_device *device, const struct shunt_launch *launch,
                                   const struct shunt_ref *pair, bool *beside)
{
    const struct shunt_plan *plan = launch->plan;
    char *from = address_of(launch, pair[0]), *to = address_of(launch, pair[1]);
    bool stays = pair[1].rank == plan->me;
    uint64_t bytes = bytes_of(plan, pair[0]);

    if (from == to)
        return SHUNT_OK;
    *beside |= stays;
    return SHUNT_CUDA(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes,
                                    stays ? device->gpu->copies : device->gpu->stream));
}

/* The stream writes the done word when it comes to it, behind what was copied before. */
static enum shunt_status say_done(struct shunt_device *device, const struct shunt_launch *launch, int word,
                                  CUstream stream)
{
    return SHUNT_CUDA(cuStreamWriteValue64_v2(stream, (CUdeviceptr)&device->done[word],
                                              launch->ticket << 2 | SHUNT_DONE_OK, 0));
}

enum shunt_status shunt_copies_start(struct shunt_device *device, struct shunt_launch *launch)
{
    const struct shunt_step *copy = &launch->plan->steps[0];
    const struct shunt_ref *refs = &launch->plan->refs[copy->first_ref];
    enum shunt_status status = SHUNT_OK;
    bool beside = false;

    shunt_linger_quit(device);
    for (uint32_t i = 0; i < copy->n_in && status == SHUNT_OK; i++)
        status = copy_pair(device, launch, &refs[2 * i], &beside);
    launch->grid = beside ? BESIDE + 1 : TO_PEERS + 1;
    if (status == SHUNT_OK)
        status = say_done(device, launch, TO_PEERS, device->gpu->stream);
    if (status == SHUNT_OK && beside)
        status = say_done(device, launch, BESIDE, device->gpu->copies);
    return status;
}

bool shunt_copies_arrived(struct shunt_arena *arena, const struct shunt_launch *launch)
{
    const struct shunt_plan *plan = launch->plan;
    const struct shunt_step *last = &plan->steps[plan->n_steps - 1];

    for (uint32_t q = 0; q < plan->n && last->kind == SHUNT_STEP_WAIT; q++) {
        if ((last->wait[0].ranks >> q & 1) && shunt_peer_ended(arena, launch->slots[q]) < launch->ticket)
            return false;
    }
    return true;
}
