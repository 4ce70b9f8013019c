/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that go on while the caller does something else; flow.h. */
#include "cuda/flow.h"

#include "cuda/context.h"
#include "cuda/stage.h"

/* Both pieces and both events; what there is of them is given back by close. */
static bool take_all(struct shunt_flow *flow)
{
    for (int i = 0; i < SHUNT_FLOW_PIECES; i++) {
        CUevent event;
        if ((flow->piece[i] = shunt_pool_take()) == NULL ||
            SHUNT_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) != SHUNT_OK)
            return false;
        flow->done[i] = event;
    }
    return true;
}

bool shunt_flow_open(const void *device, struct shunt_flow *flow)
{
    struct shunt_gpu_scope scope;
    bool foreign;

    *flow = (struct shunt_flow){ .gpu = shunt_gpu_of(device, &foreign) };
    if (flow->gpu == NULL || shunt_gpu_enter(flow->gpu, &scope) != SHUNT_OK)
        return false;
    shunt_pool_ready();
    bool taken = take_all(flow);
    if (taken)
        shunt_gpu_after_legacy(flow->gpu, flow->gpu->copies);
    shunt_gpu_leave(&scope);
    if (!taken)
        shunt_flow_close(flow);
    return taken;
}

void shunt_flow_close(struct shunt_flow *flow)
{
    struct shunt_gpu_scope scope;
    const bool entered = flow->gpu != NULL && shunt_gpu_enter(flow->gpu, &scope) == SHUNT_OK;

    for (int i = 0; i < SHUNT_FLOW_PIECES; i++) {
        if (entered && flow->done[i] != NULL)
            SHUNT_CUDA(cuEventDestroy_v2(flow->done[i]));
        shunt_pool_give(flow->piece[i]);
    }
    if (entered)
        shunt_gpu_leave(&scope);
}

static enum shunt_status begin(struct shunt_flow *flow, unsigned piece, void *to, const void *from, size_t bytes)
{
    struct shunt_gpu_scope scope;
    enum shunt_status status = shunt_gpu_enter(flow->gpu, &scope);

    if (status != SHUNT_OK)
        return status;
    status = SHUNT_CUDA(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, flow->gpu->copies));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuEventRecord(flow->done[piece], flow->gpu->copies));
    shunt_gpu_leave(&scope);
    return status;
}

enum shunt_status shunt_flow_out(struct shunt_flow *flow, unsigned piece, const void *device, size_t bytes)
{
    return begin(flow, piece, flow->piece[piece], device, bytes);
}

enum shunt_status shunt_flow_back(struct shunt_flow *flow, unsigned piece, void *device, size_t bytes)
{
    return begin(flow, piece, device, flow->piece[piece], bytes);
}

enum shunt_status shunt_flow_wait(struct shunt_flow *flow, unsigned piece)
{
    struct shunt_gpu_scope scope;
    enum shunt_status status = shunt_gpu_enter(flow->gpu, &scope);

    if (status != SHUNT_OK)
        return status;
    status = SHUNT_CUDA(cuEventSynchronize(flow->done[piece]));
    shunt_gpu_leave(&scope);
    return status;
}
