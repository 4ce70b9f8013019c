/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running the kernels of a test: on this thread, on others, in a process of its own. Cases run in processes of their
 * own because the settings are read once, and because some abort.
 */
#ifndef SHUNT_TEST_SIM_RUN_H
#define SHUNT_TEST_SIM_RUN_H

#include "sim/gpu.cuh"

#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
}

static inline void launch(const char *name, const void *args, unsigned blocks, unsigned threads)
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

static inline void *run_launch(void *context)
{
    auto *l = static_cast<started_launch *>(context);
    launch(l->name, l->args, l->blocks, l->threads);
    return nullptr;
}

static inline void start(started_launch *l)
{
    if (pthread_create(&l->thread, nullptr, run_launch, l) != 0)
        abort();
}

/* What came of a case: its exit status (128 + signal if it was killed), and what it said on stderr. */
struct outcome {
    int status;
    std::string said;
};

static inline outcome in_child(int (*body)(), const char *mean, const char *seed = "1", const char *resident = "")
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

static inline void expect_good(int (*body)())
{
    for (const char *mean : {"0", "1"}) {
        outcome o = in_child(body, mean);
        if (o.status || !o.said.empty())
            fail_msg("mean %s: status %d, %s", mean, o.status, o.said.c_str());
    }
}

static inline void expect_line(outcome o, const char *line)
{
    if (o.status != 128 + SIGABRT || o.said.find(line) == std::string::npos)
        fail_msg("status %d, and not \"%s\" but: %s", o.status, line, o.said.c_str());
}

#endif
