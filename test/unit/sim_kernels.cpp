/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU that plays GPU for kernels: threads, barriers, warps, shared memory, exchange between two launches. */
#include "sim_run.h"

#include <vector>

/* ---- kernels ---- */

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
    uint32_t *bad;
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
    gpu_vec *mine, *theirs; /* two halves of an LL word per thread */
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
        gpu_ll_store(&args.theirs[at], gpu_vec{{word, ~word, ~word, round}});
        gpu_vec v;
        for (v = gpu_ll_load(&args.mine[at]); v.w[3] != round; v = gpu_ll_load(&args.mine[at]))
            gpu_spin();
        float got;
        memcpy(&got, &v.w[0], sizeof got);
        sum += v.w[1] == ~v.w[0] && v.w[2] == ~v.w[0] ? got + value : -1e9f;
        value += 1;
    }
    gpu_store(&args.out[i], sum);
}
GPU_KERNEL(t_exchange, exchange_args);

struct own_args {
    uint32_t *data, *bad; /* data: one per thread */
    unsigned rounds;
};

/* A thread sees its own writes at once, its block's after a barrier, without any fence. */
extern "C" __global__ void t_own_writes(GPU_ARGS(own_args) args)
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
GPU_KERNEL(t_own_writes, own_args);

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

/* ---- cases ---- */

static int run_index()
{
    std::vector<uint32_t> out(2 * 3 * 4 * 64 + 1);
    index_args args = {out.data()};
    const unsigned grid[3] = {2, 3, 4}, block[3] = {8, 4, 2};
    void *const list[] = {&args};
    const struct sim_kernel *kernel = sim_kernel_find("t_index");
    kernel->run(list, grid, block, 0);
    for (uint32_t i = 0; i + 1 < out.size(); i++)
        if (out[i] != i * 7 + 1)
            return 1;
    return out.back() != 0 || kernel->arg_sizes[0] != sizeof args || kernel->arg_sizes[1] != 0 ||
           sim_kernel_find("t_none") != nullptr;
}

static void indices(void **)
{
    expect_good(run_index);
}

template <class T>
static int run_sum(const char *name)
{
    std::vector<T> in(1000), out(5);
    T sum = 0;
    for (unsigned i = 0; i < in.size(); i++)
        sum += in[i] = (T)(i * i % 101);
    sum_args args = {in.data(), out.data(), (unsigned)in.size()};
    launch(name, &args, 5, 64);
    for (T s : out)
        if (s != sum)
            return 1;
    return 0;
}

static int run_sums()
{
    return run_sum<int32_t>("t_sum_I32") || run_sum<double>("t_sum_F64");
}

static void barriers(void **)
{
    expect_good(run_sums);
}

static int run_votes()
{
    uint32_t bad = 0;
    vote_args args = {&bad};
    launch("t_votes", &args, 3, 96);
    return bad != 0;
}

static void votes_and_shuffles(void **)
{
    expect_good(run_votes);
}

static int run_grid()
{
    uint64_t flags[32] = {};
    uint32_t bad = 0;
    grid_args args = {flags, &bad, 20};
    launch("t_grid", &args, 32, 32);
    return bad != 0;
}

static void shared_memory_of_many_blocks(void **)
{
    expect_good(run_grid);
}

static int run_exchange()
{
    const unsigned blocks = 3, threads = 64, n = blocks * threads, rounds = 50;
    std::vector<gpu_vec> words[2] = {std::vector<gpu_vec>(2 * n), std::vector<gpu_vec>(2 * n)};
    std::vector<float> in[2] = {std::vector<float>(n), std::vector<float>(n)};
    std::vector<float> out[2] = {std::vector<float>(n), std::vector<float>(n)};
    exchange_args args[2];
    started_launch l[2];
    for (int r = 0; r < 2; r++) {
        for (unsigned i = 0; i < n; i++)
            in[r][i] = (float)(1000 * r + i);
        args[r] = {words[r].data(), words[1 - r].data(), in[r].data(), out[r].data(), rounds};
        l[r] = {"t_exchange", &args[r], blocks, threads, {}};
        start(&l[r]);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(l[r].thread, nullptr);
    for (unsigned i = 0; i < n; i++)
        for (int r = 0; r < 2; r++)
            if (out[r][i] != (float)(rounds * (1000 + 2 * i) + rounds * (rounds - 1)))
                return 1;
    return 0;
}

static void ll_words_between_two_launches(void **)
{
    expect_good(run_exchange);
}

static int run_own_writes()
{
    std::vector<uint32_t> data(128);
    uint32_t bad = 0;
    own_args args = {data.data(), &bad, 50};
    launch("t_own_writes", &args, 1, 128);
    return bad != 0;
}

static void a_block_sees_its_own_writes(void **)
{
    expect_good(run_own_writes);
}

/* Not a check: what a turn and a barrier cost on this machine, and a whole grid of both. */
static int run_speed()
{
    spin_args args = {300};
    static const struct {
        const char *kernel;
        unsigned blocks, threads;
    } cases[] = {{"t_spin", 1, 512}, {"t_spin", 32, 512}, {"t_barriers", 1, 512}, {"t_spin", 32, 1}};
    for (const auto &c : cases) {
        launch(c.kernel, &args, c.blocks, c.threads);
        uint64_t begin = sim_clock();
        launch(c.kernel, &args, c.blocks, c.threads);
        double ns = (double)(sim_clock() - begin) / args.n / c.blocks / c.threads;
        fprintf(stderr, "%s, %u x %u: %.1f ns each per thread\n", c.kernel, c.blocks, c.threads, ns);
    }
    return 0;
}

static void speed(void **)
{
    outcome o = in_child(run_speed, "0");
    print_message("%s", o.said.c_str());
    assert_int_equal(o.status, 0);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices),
        cmocka_unit_test(barriers),
        cmocka_unit_test(votes_and_shuffles),
        cmocka_unit_test(shared_memory_of_many_blocks),
        cmocka_unit_test(ll_words_between_two_launches),
        cmocka_unit_test(a_block_sees_its_own_writes),
        cmocka_unit_test(speed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
