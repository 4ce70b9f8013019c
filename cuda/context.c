/* SPDX-License-Identifier: BSD-3-Clause */
/* One record per GPU that this process's buffers lie on; see context.h. */
#include "cuda/context.h"

#include <stdatomic.h>

#include "cuda/gpu.h"
#include "cuda/packer.h"

static struct shunt_gpu gpus[SHUNT_GPUS];
static _Atomic(struct shunt_gpu *) open_gpus[SHUNT_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* NULL if that context is none of this GPU: memory of another process may lie elsewhere than where it was opened. */
static CUcontext context_on(CUdevice device, CUcontext context)
{
    CUdevice own = -1;
    CUcontext popped;

    if (context == NULL || SHUNT_CUDA(cuCtxPushCurrent_v2(context)) != SHUNT_OK)
        return NULL;
    SHUNT_CUDA(cuCtxGetDevice(&own));
    SHUNT_CUDA(cuCtxPopCurrent_v2(&popped));
    return own == device ? context : NULL;
}

/* The context to work in on this GPU: the primary one if the application uses it, else the buffer's own. */
static CUcontext choose_context(int ordinal, CUcontext of_buffer)
{
    unsigned flags;
    int active = 0;
    CUdevice device;
    CUcontext context = NULL;

    if (SHUNT_CUDA(cuDeviceGet(&device, ordinal)) != SHUNT_OK)
        return NULL;
    if (SHUNT_CUDA(cuDevicePrimaryCtxGetState(device, &flags, &active)) != SHUNT_OK || !active)
        return context_on(device, of_buffer);
    if (SHUNT_CUDA(cuDevicePrimaryCtxRetain(&context, device)) != SHUNT_OK)
        return context_on(device, of_buffer);
    /* We keep no reference: the application's reset or exit must find its context as it left it. */
    shunt_driver.cuDevicePrimaryCtxRelease_v2(device);
    return context;
}

static enum shunt_status make_streams(struct shunt_gpu *gpu)
{
    struct shunt_gpu_scope scope;
    int low = 0, high = 0;
    enum shunt_status status = shunt_gpu_enter(gpu, &scope);

    if (status != SHUNT_OK)
        return status;
    SHUNT_CUDA(cuCtxGetStreamPriorityRange(&low, &high));
    status = SHUNT_CUDA(cuStreamCreateWithPriority(&gpu->stream, CU_STREAM_NON_BLOCKING, high));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuStreamCreateWithPriority(&gpu->copies, CU_STREAM_NON_BLOCKING, high));
    if (status == SHUNT_OK)
        status = SHUNT_CUDA(cuEventCreate(&gpu->legacy, CU_EVENT_DISABLE_TIMING));
    shunt_gpu_leave(&scope);
    return status;
}

static struct shunt_gpu *open_gpu(int ordinal, CUcontext of_buffer)
{
    struct shunt_gpu *gpu = NULL;

    pthread_mutex_lock(&lock);
    gpu = atomic_load(&open_gpus[ordinal]);
    if (gpu == NULL || gpu->dead) {
        if (gpu != NULL)
            shunt_stage_forget(); /* the pinned pool may have gone with that context */
        gpu = &gpus[ordinal];
        *gpu = (struct shunt_gpu){ .ordinal = ordinal, .context = choose_context(ordinal, of_buffer) };
        if (gpu->context != NULL && SHUNT_CUDA(cuCtxGetId(gpu->context, &gpu->id)) == SHUNT_OK &&
            make_streams(gpu) == SHUNT_OK)
            atomic_store_explicit(&open_gpus[ordinal], gpu, memory_order_release);
        else
            gpu = NULL;
    }
    pthread_mutex_unlock(&lock);
    return gpu;
}

/* Does the context still exist, and is it the same one? After a reset it is not. */
static bool still_there(struct shunt_gpu *gpu)
{
    unsigned long long id = 0;

    if (!gpu->dead && (shunt_driver.cuCtxGetId(gpu->context, &id) != CUDA_SUCCESS || id != gpu->id))
        gpu->dead = true;
    return !gpu->dead;
}

/* The record of the calling thread's current context, else any other. */
static struct shunt_gpu *any_gpu(void)
{
    struct shunt_gpu *gpu = NULL;
    CUcontext current = NULL;
    CUdevice device = -1;

    if (SHUNT_CUDA(cuCtxGetCurrent(&current)) == SHUNT_OK && current != NULL &&
        SHUNT_CUDA(cuCtxGetDevice(&device)) == SHUNT_OK && device >= 0 && device < SHUNT_GPUS)
        gpu = open_gpu(device, current);
    for (int i = 0; i < SHUNT_GPUS && gpu == NULL; i++) {
        gpu = atomic_load_explicit(&open_gpus[i], memory_order_acquire);
        if (gpu != NULL && !still_there(gpu))
            gpu = NULL;
    }
    return gpu;
}

struct shunt_gpu *shunt_gpu_of(const void *p, bool *foreign)
{
    CUpointer_attribute wanted[2] = { CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT };
    int ordinal = -1;
    CUcontext context = NULL;
    void *values[2] = { &ordinal, &context };

    struct shunt_gpu *gpu = NULL;

    *foreign = true;
    if (SHUNT_CUDA(cuPointerGetAttributes(2, wanted, values, (CUdeviceptr)p)) != SHUNT_OK)
        return NULL;
    if (ordinal >= 0 && ordinal < SHUNT_GPUS) {
        gpu = atomic_load_explicit(&open_gpus[ordinal], memory_order_acquire);
        if (gpu == NULL || !still_there(gpu))
            gpu = open_gpu(ordinal, context);
    }
    /* Memory that was imported from another process may lie on a GPU that the application does not use, or see. */
    if (gpu == NULL)
        return any_gpu();
    /* Pool and VMM memory belong to no context and are good in any. */
    *foreign = context != NULL && context != gpu->context;
    return gpu;
}

enum shunt_status shunt_gpu_enter(struct shunt_gpu *gpu, struct shunt_gpu_scope *scope)
{
    if (!still_there(gpu))
        return SHUNT_ERR_CUDA;
    enum shunt_status status = SHUNT_CUDA(cuCtxPushCurrent_v2(gpu->context));
    if (status != SHUNT_OK) {
        gpu->dead = true;
        return status;
    }
    scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    SHUNT_CUDA(cuThreadExchangeStreamCaptureMode(&scope->mode));
    return SHUNT_OK;
}

void shunt_gpu_leave(struct shunt_gpu_scope *scope)
{
    CUcontext popped;

    SHUNT_CUDA(cuThreadExchangeStreamCaptureMode(&scope->mode));
    SHUNT_CUDA(cuCtxPopCurrent_v2(&popped));
}

/*
 * While a blocking stream is being captured the legacy stream cannot be used, and trying to would spoil the capture. Then
 * there is nothing on it that we could wait for either. To ask is harmless.
 */
static bool legacy_usable(void)
{
    CUstreamCaptureStatus status;

    return SHUNT_CUDA_AT(SHUNT_LOG_TRACE, cuStreamIsCapturing(CU_STREAM_LEGACY, &status)) == SHUNT_OK;
}

bool shunt_gpu_legacy_idle(void)
{
    return legacy_usable() && shunt_driver.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_SUCCESS;
}

bool shunt_gpu_mark_legacy(struct shunt_gpu *gpu)
{
    return legacy_usable() && SHUNT_CUDA_AT(SHUNT_LOG_TRACE, cuEventRecord(gpu->legacy, CU_STREAM_LEGACY)) == SHUNT_OK;
}

bool shunt_gpu_after_legacy(struct shunt_gpu *gpu, CUstream stream)
{
    return shunt_gpu_mark_legacy(gpu) && SHUNT_CUDA(cuStreamWaitEvent(stream, gpu->legacy, 0)) == SHUNT_OK;
}

bool shunt_gpu_legacy_passed(struct shunt_gpu *gpu)
{
    return shunt_driver.cuEventQuery(gpu->legacy) != CUDA_ERROR_NOT_READY;
}

void shunt_gpus_close(void)
{
    for (int i = 0; i < SHUNT_GPUS; i++) {
        struct shunt_gpu *gpu = atomic_exchange(&open_gpus[i], NULL);
        struct shunt_gpu_scope scope;

        /* The application may have reset the device, or the driver may be gone at exit: then nothing is left. */
        if (gpu == NULL || shunt_gpu_enter(gpu, &scope) != SHUNT_OK)
            continue;
        shunt_stage_close();
        shunt_packer_close(gpu);
        shunt_driver.cuEventDestroy_v2(gpu->legacy);
        shunt_driver.cuStreamDestroy_v2(gpu->stream);
        shunt_driver.cuStreamDestroy_v2(gpu->copies);
        shunt_gpu_leave(&scope);
    }
}
