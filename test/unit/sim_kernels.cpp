/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CPU that plays GPU for kernels: threads, barriers, warps, shared memory, peer exchange, and that it finds the
 * mistakes it is meant to find.
 *
 * Every case runs in a process of its own, because the settings are read once, and some cases abort.
 */
#include "test/unit/sim_kernels.cuh"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <pthread.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
}

/* ---- running them ---- */

static void launch(const char *name, const void *args, unsigned blocks, unsigned threads)
{
    const unsigned grid[3] = {blocks, 1, 1}, block[3] = {threads, 1, 1};
    const struct sim_kernel *kernel = sim_kernel_find(name);
    void *const list[] = {const_cast<void *>(args)};
    kernel->run(list, grid, block, 0);
}

struct started_launch {
    const char *name;
    const void *args;
    unsigned blocks, threads;
    pthread_t thread;
};

static void *run_launch(void *context)
{
    auto *l = static_cast<started_launch *>(context);
    launch(l->name, l->args, l->blocks, l->threads);
    return nullptr;
}

static void start(started_launch *l)
{
    if (pthread_create(&l->thread, nullptr, run_launch, l) != 0)
        abort();
}

/* What came of a case: its exit status (128 + signal if it was killed), and what it said on stderr. */
struct outcome {
    int status;
    std::string said;
};

static outcome in_child(int (*body)(), const char *mean, const char *seed = "1", const char *resident = "")
{
    int pipes[2];
    outcome o;
    char text[512];
    ssize_t got;
    assert_int_equal(pipe(pipes), 0);
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        close(pipes[0]);
        setenv("SHUNT_SIM_MEAN", mean, 1);
        setenv("SHUNT_SIM_SEED", seed, 1);
        setenv("SHUNT_SIM_RESIDENT", resident, 1);
        alarm(100);
        exit(body());
    }
    close(pipes[1]);
    while ((got = read(pipes[0], text, sizeof text)) > 0)
        o.said.append(text, (size_t)got);
    close(pipes[0]);
    assert_int_equal(waitpid(child, &o.status, 0), child);
    o.status = WIFEXITED(o.status) ? WEXITSTATUS(o.status) : 128 + WTERMSIG(o.status);
    return o;
}

static void expect_good(int (*body)())
{
    for (const char *mean : {"0", "1"}) {
        outcome o = in_child(body, mean);
        if (o.status || !o.said.empty())
            fail_msg("mean %s: status %d, %s", mean, o.status, o.said.c_str());
    }
}

static void expect_line(outcome o, const char *line)
{
    if (o.status != 128 + SIGABRT || o.said.find(line) == std::string::npos)
        fail_msg("status %d, and not \"%s\" but: %s", o.status, line, o.said.c_str());
}

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
    grid_args args = {flags, &bad, nullptr, nullptr, nullptr, nullptr, 20};
    launch("t_grid", &args, 32, 32);
    return bad != 0;
}

static void shared_memory_of_many_blocks(void **)
{
    expect_good(run_grid);
}

/* What a case in a child process found, as seen by the parent: a pipe would do, but stderr is at hand. */
static int run_order()
{
    uint32_t order[16] = {}, started = 0, now = 0, most = 0;
    grid_args args = {nullptr, nullptr, &started, order, &now, &most, 0};
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
    grid_args args = {nullptr, &bad, nullptr, nullptr, nullptr, nullptr, 8};
    launch("t_garbage", &args, 2, 8);
    return bad != 0;
}

static void shared_memory_begins_as_garbage(void **)
{
    assert_int_equal(in_child(run_garbage, "0").status, 0);
    assert_int_equal(in_child(run_garbage, "1").status, 1);
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
    message_args args = {data, &flag, nullptr, &bad, 1, RIGHT};
    launch("t_receive_stale", &args, 1, 4);
    return bad != 0;
}

static void a_missing_acquire_is_found(void **)
{
    assert_int_equal(in_child(run_stale, "0").status, 0);
    expect_line(in_child(run_stale, "1"), ": gpu_load_fresh without an acquire");
}

static int run_own_writes()
{
    std::vector<uint32_t> data(128);
    uint32_t bad = 0;
    message_args args = {data.data(), nullptr, nullptr, &bad, 50, RIGHT};
    launch("t_own_writes", &args, 1, 128);
    return bad != 0;
}

static void a_block_sees_its_own_writes(void **)
{
    expect_good(run_own_writes);
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

/* Not a check: what a turn and a barrier cost on this machine, and a whole grid of both. */
static int run_speed()
{
    spin_args args = {2000};
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
        cmocka_unit_test(order_of_blocks),
        cmocka_unit_test(shared_memory_begins_as_garbage),
        cmocka_unit_test(ll_words_between_two_launches),
        cmocka_unit_test(a_missing_release_is_found),
        cmocka_unit_test(a_missing_acquire_is_found),
        cmocka_unit_test(a_block_sees_its_own_writes),
        cmocka_unit_test(mistakes_end_with_a_line),
        cmocka_unit_test(impossible_launches_end_with_a_line),
        cmocka_unit_test(speed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
