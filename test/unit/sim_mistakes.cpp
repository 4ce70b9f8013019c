/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulation finds the mistakes that kernels make, and is as mean as it says. */
#include "sim_run.h"

#include <vector>

/* ---- kernels ---- */

struct grid_args {
    uint32_t *bad, *started, *order, *now, *most;
    unsigned rounds;
};

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

enum send_how { RIGHT, WITHOUT_RELEASE, WITHOUT_BARRIER, WITHOUT_ACQUIRE };

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

/* The flag is not acquired: what is read after it may be older. */
extern "C" __global__ void t_receive_stale(GPU_ARGS(message_args) args)
{
    for (unsigned polls = 0; gpu_load(args.flag) < 1 || polls < 3; polls++)
        gpu_spin();
    if (args.how == RIGHT)
        gpu_fence_sys();
    if (gpu_load_fresh(&args.data[threadIdx.x]) != 1)
        gpu_add_gpu(args.bad, 1);
}
GPU_KERNEL(t_receive_stale, message_args);

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

/* ---- cases ---- */

/* What a case in a child process found, as seen by the parent: a pipe would do, but stderr is at hand. */
static int run_order()
{
    uint32_t order[16] = {}, started = 0, now = 0, most = 0;
    grid_args args = {nullptr, &started, order, &now, &most, 0};
    launch("t_order", &args, 16, 1);
    std::string text;
    for (uint32_t b : order)
        text += std::to_string(b) + " ";
    fprintf(stderr, "%s/ %u", text.c_str(), most);
    return started != 16 || now != 0;
}

static void order_of_blocks(void **)
{
    const char *straight = "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 / 16";
    assert_string_equal(in_child(run_order, "0").said.c_str(), straight);
    std::string first = in_child(run_order, "1", "7").said, other = in_child(run_order, "1", "8").said;
    assert_string_equal(in_child(run_order, "1", "7").said.c_str(), first.c_str());
    assert_string_not_equal(first.c_str(), straight);
    assert_string_not_equal(first.c_str(), other.c_str());
    std::string few = in_child(run_order, "1", "7", "3").said;
    assert_string_equal(few.substr(few.find('/')).c_str(), "/ 3");
}

static int run_garbage()
{
    uint32_t bad = 0;
    grid_args args = {&bad, nullptr, nullptr, nullptr, nullptr, 8};
    launch("t_garbage", &args, 2, 8);
    return bad != 0;
}

static void shared_memory_begins_as_garbage(void **)
{
    assert_int_equal(in_child(run_garbage, "0").status, 0);
    assert_int_equal(in_child(run_garbage, "1").status, 1);
}

static send_how message_how;

/* 1 if a message was read before it was complete */
static int run_message()
{
    std::vector<uint32_t> data(64);
    uint64_t flag = 0, back = 0;
    uint32_t bad = 0;
    message_args args = {data.data(), &flag, &back, &bad, 100, message_how};
    started_launch send = {"t_send", &args, 1, 64, {}}, receive = {"t_receive", &args, 1, 64, {}};
    start(&send);
    start(&receive);
    pthread_join(send.thread, nullptr);
    pthread_join(receive.thread, nullptr);
    return bad != 0;
}

static void a_missing_release_is_found(void **)
{
    message_how = RIGHT;
    expect_good(run_message);
    for (send_how wrong : {WITHOUT_RELEASE, WITHOUT_BARRIER}) {
        message_how = wrong;
        assert_int_equal(in_child(run_message, "1").status, 1);
    }
    message_how = WITHOUT_RELEASE; /* which a CPU that keeps the order of writes does not show */
#ifdef __x86_64__
    assert_int_equal(in_child(run_message, "0").status, 0);
#endif
}

static int run_stale()
{
    uint32_t data[4] = {1, 1, 1, 1}, bad = 0;
    uint64_t flag = 1;
    message_args args = {data, &flag, nullptr, &bad, 1, message_how};
    launch("t_receive_stale", &args, 1, 4);
    return bad != 0;
}

static void a_missing_acquire_is_found(void **)
{
    message_how = RIGHT;
    expect_good(run_stale);
    message_how = WITHOUT_ACQUIRE;
    assert_int_equal(in_child(run_stale, "0").status, 0);
    expect_line(in_child(run_stale, "1"), ": gpu_load_fresh after polls that were no acquires");
}

static int wrong_how;

static int run_wrong()
{
    alignas(16) char memory[64] = {};
    wrong_args args = {memory, wrong_how};
    launch("t_wrong", &args, 1, 8);
    return 0;
}

static void mistakes_end_with_a_line(void **)
{
    static const char *const lines[] = {
        "kernel t_wrong, block 0,0,0, thread 0,0,0: misaligned access",
        "is not a multiple of 16",
        "is not a multiple of 4",
        "divergent barrier: this thread has come to ",
        "cannot be reached by all: 3 threads wait there, 5 have ended, 0 wait elsewhere",
        "the mask of lanes is 0xff here, and 0xf where others wait",
        "the mask 0x2 of lanes is without the calling one",
    };
    for (wrong_how = 0; wrong_how < 7; wrong_how++)
        expect_line(in_child(run_wrong, "0"), lines[wrong_how]);
}

static int run_dynamic()
{
    spin_args args = {1};
    const unsigned one[3] = {1, 1, 1};
    void *const list[] = {&args};
    sim_kernel_find("t_spin")->run(list, one, one, 64);
    return 0;
}

static int run_too_large()
{
    spin_args args = {1};
    launch("t_spin", &args, 1, 1025);
    return 0;
}

static void impossible_launches_end_with_a_line(void **)
{
    expect_line(in_child(run_dynamic, "0"), "kernel t_spin: dynamic shared memory is not simulated");
    expect_line(in_child(run_too_large, "0"), "kernel t_spin: a grid of 1 blocks of 1025 threads cannot be launched");
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_of_blocks),
        cmocka_unit_test(shared_memory_begins_as_garbage),
        cmocka_unit_test(a_missing_release_is_found),
        cmocka_unit_test(a_missing_acquire_is_found),
        cmocka_unit_test(mistakes_end_with_a_line),
        cmocka_unit_test(impossible_launches_end_with_a_line),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
