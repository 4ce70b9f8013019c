/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launching kernels.
 */
#include "sim/launch.h"

#include <string.h>

static uint32_t room(uint32_t bytes)
{
    return (bytes + 15) & ~15u;
}

/* Each argument at a multiple of 16, so that kernels find any type aligned */
static CUresult pack(const struct CUfunc_st *f, void **params, struct sim_launch *launch)
{
    uint32_t offset = 0;
    for (int i = 0; f->arg_sizes[i]; i++) {
        if (!params || !params[i] || offset + room(f->arg_sizes[i]) > sizeof launch->args)
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(launch->args + offset, params[i], f->arg_sizes[i]);
        offset += room(f->arg_sizes[i]);
    }
    launch->cmd.launch.arg_bytes = offset;
    launch->cmd.bytes = (uint32_t)sizeof launch->cmd + offset;
    return CUDA_SUCCESS;
}

CUresult sim_launch_build(const struct CUfunc_st *f, const unsigned grid[3],
                          const unsigned block[3], unsigned shared, void **params, void **extra,
                          struct sim_launch *launch)
{
    if (extra)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffff || grid[1] > 65535 ||
        grid[2] > 65535 || !block[0] || !block[1] || !block[2] || block[0] > 1024 ||
        block[1] > 1024 || block[2] > 64 || block[0] * block[1] * block[2] > 1024 ||
        shared > (unsigned)f->dynamic_shared)
        return CUDA_ERROR_INVALID_VALUE;
    launch->cmd = (struct sim_cmd){
        .op = SIM_OP_LAUNCH,
        .launch = {.kernel = f->kernel,
                   .grid = {grid[0], grid[1], grid[2]},
                   .block = {block[0], block[1], block[2]},
                   .shared = shared},
    };
    return pack(f, params, launch);
}

static CUresult launch(CUfunction function, const unsigned grid[3], const unsigned block[3],
                       unsigned shared, CUstream stream, void **params, void **extra)
{
    struct CUfunc_st *f;
    struct CUstream_st *s;
    struct sim_launch command;
    CUresult result = sim_stream_of(stream, &s);
    if (!result)
        result = sim_function_of(function, &f);
    if (!result && s->ctx != f->ctx)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = sim_launch_build(f, grid, block, shared, params, extra, &command);
    if (!result && !f->loaded)
        result = sim_function_load(f);
    sim_count(SIM_LAUNCHES);
    if (!result)
        result = sim_submit(s, &command.cmd, command.args, NULL);
    return !result && sim_config()->blocking && !s->capture ? sim_stream_wait(s) : result;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                        void **extra)
{
    return launch(function, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, stream,
                  params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function, (unsigned[]){c->gridDimX, c->gridDimY, c->gridDimZ},
                  (unsigned[]){c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes,
                  c->hStream, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                   unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                   CUstream stream, void **params)
{
    int per_sm;
    CUresult result =
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, function, (int)(bx * by * bz), shared);
    if (result)
        return result;
    if ((uint64_t)gx * gy * gz > (uint64_t)per_sm * sim_config()->sms)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block,
                                                     size_t shared)
{
    struct CUfunc_st *f;
    CUresult result = sim_ready();
    if (!result)
        result = sim_function_of(function, &f);
    if (result)
        return result;
    if (!blocks || block <= 0 || block > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    int by_threads = 2048 / ((block + 31) / 32 * 32);
    int by_shared = (int)(233472 / (shared + 1024));
    int most = by_threads < 32 ? by_threads : 32;
    *blocks = by_shared < most ? by_shared : most;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int block, size_t shared,
                                                              unsigned flags)
{
    (void)flags;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, shared);
}
