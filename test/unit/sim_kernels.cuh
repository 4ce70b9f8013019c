/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that sim_kernels.cpp runs, some with the mistakes that must be found. */
#ifndef SHUNT_TEST_UNIT_SIM_KERNELS_CUH
#define SHUNT_TEST_UNIT_SIM_KERNELS_CUH

#include "sim/gpu.cuh"

struct index_args {
    uint32_t *out; /* per thread of the grid: what it thinks it is */
};

extern "C" __global__ void __launch_bounds__(64) t_index(GPU_ARGS(index_args) args)
{
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
    gpu_store(&args.out[i], i * 7 + 1);
}
GPU_KERNEL(t_index, index_args);

/* Many kernels from one line, as the real ones are made; a local shared array in a template. */
struct sum_args {
    const void *in;
    void *out;
    unsigned n;
};

template <class T>
static __device__ void block_sum(const sum_args &args)
{
    __shared__ T part[64];
    T sum = 0;
    for (unsigned i = threadIdx.x; i < args.n; i += blockDim.x)
        sum += gpu_load(static_cast<const T *>(args.in) + i);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        gpu_store(static_cast<T *>(args.out) + blockIdx.x, part[0]);
}

#define TYPES(X) X(I32, int32_t) X(F64, double)
#define X(id, type)                                                                                \
    extern "C" __global__ void t_sum_##id(GPU_ARGS(sum_args) args)                                 \
    {                                                                                              \
        block_sum<type>(args);                                                                     \
    }                                                                                              \
    GPU_KERNEL(t_sum_##id, sum_args);
TYPES(X)
#undef X

struct grid_args {
    uint64_t *flags; /* one per block */
    uint32_t *bad, *started, *order, *now, *most;
    unsigned rounds;
};

/* All blocks wait for each other again and again; what each keeps in shared memory must stay its own. */
extern "C" __global__ void t_grid(GPU_ARGS(grid_args) args)
{
    __shared__ uint32_t mine[32];
    mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    for (unsigned round = 1; round <= args.rounds; round++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            gpu_release_gpu(&args.flags[blockIdx.x], round);
            for (unsigned b = 0; b < gridDim.x; b++)
                while (gpu_acquire_gpu(&args.flags[b]) < round)
                    gpu_spin();
        }
        __syncthreads();
        if (mine[threadIdx.x ^ 1] != blockIdx.x * 100 + (threadIdx.x ^ 1))
            gpu_add_gpu(args.bad, 1);
        __syncthreads();
        mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    }
}
GPU_KERNEL(t_grid, grid_args);

/* In which order blocks start, and how many are there at the same time. */
extern "C" __global__ void t_order(GPU_ARGS(grid_args) args)
{
    gpu_store(&args.order[gpu_add_gpu(args.started, 1)], blockIdx.x);
    uint32_t now = gpu_add_gpu(args.now, 1) + 1;
    if (now > gpu_load(args.most))
        gpu_store(args.most, now);
    for (unsigned i = 0; i < 20; i++)
        gpu_spin();
    gpu_add_gpu(args.now, UINT32_MAX);
}
GPU_KERNEL(t_order, grid_args);

extern "C" __global__ void t_garbage(GPU_ARGS(grid_args) args)
{
    __shared__ uint32_t never_written[8];
    if (threadIdx.x > args.rounds)
        never_written[threadIdx.x] = 0;
    if (never_written[threadIdx.x])
        gpu_add_gpu(args.bad, 1);
}
GPU_KERNEL(t_garbage, grid_args);

struct vote_args {
    uint32_t *bad;
};

extern "C" __global__ void t_votes(GPU_ARGS(vote_args) args)
{
    unsigned t = threadIdx.x, lane = t % 32, bad = 0;
    bad += __syncthreads_count(t % 3 == 0) != (int)(blockDim.x + 2) / 3;
    bad += __syncthreads_or(t == 17) != 1;
    bad += __syncthreads_or(t == 1000) != 0;
    bad += __syncthreads_and(t < 1000) != 1;
    bad += __syncthreads_and(t != 17) != 0;
    uint32_t sum = lane;
    for (int bits = 16; bits; bits /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, bits);
    bad += sum != 31 * 32 / 2;
    bad += __shfl_sync(0xffffffffu, (double)t, 5) != (double)(t - lane + 5);
    bad += __shfl_sync(0xffffffffu, t, 1, 8) != t / 8 * 8 + 1;
    bad += __shfl_up_sync(0xffffffffu, t, 3) != (lane < 3 ? t : t - 3);
    bad += __shfl_down_sync(0xffffffffu, t, 3) != (lane > 28 ? t : t + 3);
    bad += __shfl_down_sync(0xffffffffu, t, 3, 8) != (t % 8 > 4 ? t : t + 3);
    bad += __ballot_sync(0xffffffffu, lane < 4) != 0xf;
    bad += __any_sync(0xffffffffu, lane == 9) != 1 || __any_sync(0xffffffffu, lane == 99) != 0;
    bad += __all_sync(0xffffffffu, lane < 32) != 1 || __all_sync(0xffffffffu, lane != 9) != 0;
    if (lane < 16) {
        bad += __ballot_sync(0xffffu, 1) != 0xffffu;
        __syncwarp(0xffffu);
    }
    if (t >= 40)
        return; /* the barrier below waits for the others only */
    bad += __syncthreads_count(1) != 40;
    gpu_add_gpu(args.bad, bad);
}
GPU_KERNEL(t_votes, vote_args);

struct exchange_args {
    gpu_vec *mine, *theirs; /* two halves of one LL word per thread */
    const float *in;
    float *out;
    unsigned rounds;
};

extern "C" __global__ void t_exchange(GPU_ARGS(exchange_args) args)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    uint32_t word;
    float value = gpu_load(&args.in[i]), sum = 0;
    for (uint32_t round = 1; round <= args.rounds; round++) {
        unsigned at = round % 2 * n + i;
        memcpy(&word, &value, sizeof word);
        gpu_ll_store(&args.theirs[at], gpu_vec{{word, round, ~word, round}});
        gpu_vec v;
        for (v = gpu_ll_load(&args.mine[at]); v.w[1] != round || v.w[3] != round; v = gpu_ll_load(&args.mine[at]))
            gpu_spin();
        float got;
        memcpy(&got, &v.w[0], sizeof got);
        sum += v.w[2] == ~v.w[0] ? got + value : -1e9f;
        value += 1;
    }
    gpu_store(&args.out[i], sum);
}
GPU_KERNEL(t_exchange, exchange_args);

enum send_how { RIGHT, WITHOUT_RELEASE, WITHOUT_BARRIER };

struct message_args {
    uint32_t *data; /* one per thread, of the receiver */
    uint64_t *flag, *back;
    uint32_t *bad;
    unsigned rounds;
    send_how how;
};

/* All threads write a message, then one raises a flag: by the rules, or with one of the usual mistakes. */
extern "C" __global__ void t_send(GPU_ARGS(message_args) args)
{
    for (unsigned round = 1; round <= args.rounds; round++) {
        gpu_store(&args.data[threadIdx.x], round);
        if (args.how != WITHOUT_BARRIER)
            __syncthreads();
        if (threadIdx.x == 0) {
            if (args.how == WITHOUT_RELEASE)
                gpu_store(args.flag, (uint64_t)round);
            else
                gpu_release_sys(args.flag, round);
            while (gpu_acquire_sys(args.back) < round)
                gpu_spin();
        }
        __syncthreads();
    }
}
GPU_KERNEL(t_send, message_args);

extern "C" __global__ void t_receive(GPU_ARGS(message_args) args)
{
    for (unsigned round = 1; round <= args.rounds; round++) {
        if (threadIdx.x == 0)
            while (gpu_acquire_sys(args.flag) < round)
                gpu_spin();
        __syncthreads();
        if (gpu_load_fresh(&args.data[threadIdx.x]) != round)
            gpu_add_gpu(args.bad, 1);
        __syncthreads();
        if (threadIdx.x == 0)
            gpu_release_sys(args.back, round);
    }
}
GPU_KERNEL(t_receive, message_args);

/* The message is read without an acquire: fails at the first load. */
extern "C" __global__ void t_receive_stale(GPU_ARGS(message_args) args)
{
    while (gpu_load(args.flag) < 1)
        gpu_spin();
    if (gpu_load_fresh(&args.data[threadIdx.x]) != 1)
        gpu_add_gpu(args.bad, 1);
}
GPU_KERNEL(t_receive_stale, message_args);

/* A thread sees its own writes at once, its block's after a barrier, without any fence. */
extern "C" __global__ void t_own_writes(GPU_ARGS(message_args) args)
{
    unsigned t = threadIdx.x, n = blockDim.x;
    for (unsigned round = 0; round < args.rounds; round++) {
        gpu_store(&args.data[t], t + round);
        if (gpu_load(&args.data[t]) != t + round)
            gpu_add_gpu(args.bad, 1);
        __syncthreads();
        if (gpu_load(&args.data[(t + 1) % n]) != (t + 1) % n + round)
            gpu_add_gpu(args.bad, 1);
        __syncthreads();
    }
}
GPU_KERNEL(t_own_writes, message_args);

struct wrong_args {
    char *p;
    int how;
};

extern "C" __global__ void t_wrong(GPU_ARGS(wrong_args) args)
{
    switch (args.how) {
    case 0:
        gpu_load_vec(args.p + 8);
        break;
    case 1:
        gpu_store_vec(args.p + 4, gpu_vec{});
        break;
    case 2:
        gpu_load((const float *)(args.p + 2));
        break;
    case 3:
        if (threadIdx.x < 3)
            __syncthreads();
        else
            __syncthreads();
        break;
    case 4:
        if (threadIdx.x < 3)
            __syncwarp();
        break;
    case 5:
        __syncwarp(threadIdx.x == 2 ? 0xff : 0xf);
        break;
    default:
        __syncwarp(2);
    }
}
GPU_KERNEL(t_wrong, wrong_args);

struct spin_args {
    unsigned n;
};

extern "C" __global__ void t_spin(GPU_ARGS(spin_args) args)
{
    for (unsigned i = 0; i < args.n; i++)
        gpu_spin();
}
GPU_KERNEL(t_spin, spin_args);

extern "C" __global__ void t_barriers(GPU_ARGS(spin_args) args)
{
    for (unsigned i = 0; i < args.n; i++)
        __syncthreads();
}
GPU_KERNEL(t_barriers, spin_args);

#endif
