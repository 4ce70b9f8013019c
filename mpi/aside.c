/* SPDX-License-Identifier: BSD-3-Clause */
/* Results that are moved to their place when the operation has ended; aside.h. */
#include "mpi/aside.h"

#include "cuda/gpu.h"

/* The result is as long as the block in whose place it is made: of that, what lies behind the caller's place. */
bool shunt_aside_keep(const struct shunt_task *task, struct shunt_aside *aside)
{
    *aside = (struct shunt_aside){ 0 };
    if (!task->home)
        return true;
    size_t bytes = task->spans->out[0].bytes, gap = (size_t)((char *)task->recv - (char *)task->home);
    aside->from = task->recv;
    aside->to = task->home;
    aside->bytes = bytes;
    aside->at = (char *)task->home + (gap > bytes ? gap : bytes);
    aside->kept = gap < bytes ? gap : bytes;
    if (aside->kept == 0)
        return true;
    aside->image = shunt_bounce_get(aside->kept);
    return aside->image && shunt_stage_out(aside->image, aside->at, aside->kept) == SHUNT_OK;
}

/* To the caller's place; if that and where the result is overlap, by way of the host. */
static enum shunt_status move_result(const struct shunt_aside *aside)
{
    size_t gap = (size_t)(aside->from - aside->to);

    if (aside->from == aside->to || aside->bytes == 0)
        return SHUNT_OK;
    if (gap >= aside->bytes)
        return shunt_gpu_copy(aside->to, aside->from, aside->bytes);
    void *image = shunt_bounce_get(aside->bytes);
    if (!image)
        return SHUNT_ERR_MEMORY;
    enum shunt_status status = shunt_stage_out(image, aside->from, aside->bytes);
    if (status == SHUNT_OK)
        status = shunt_stage_in(aside->to, image, aside->bytes);
    shunt_bounce_put(image, aside->bytes);
    return status;
}

enum shunt_status shunt_aside_settle(const struct shunt_aside *aside)
{
    enum shunt_status status = aside->from ? move_result(aside) : SHUNT_OK;

    if (status == SHUNT_OK && aside->image)
        status = shunt_stage_in(aside->at, aside->image, aside->kept);
    return status;
}

void shunt_aside_drop(struct shunt_aside *aside)
{
    if (aside->image)
        shunt_bounce_put(aside->image, aside->kept);
    aside->image = NULL;
}
