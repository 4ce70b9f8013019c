/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways of a program's life, each with MPI_Allreduce on device memory in it: check_life MODE [N]. The modes are the
 * table at the end. Prints the summary of case.c, except where the mode is about ending without one.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/case.h"
#include "test/gpu.h"

static int rank, size, number;
static bool good = true;

static void sums(int n)
{
    for (int i = 0; i < n; i++)
        case_sum(MPI_COMM_WORLD, "world", "D", 1000 + i, (uint64_t)i + 1);
}

static void begin(void)
{
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static void end(void)
{
    good = case_summary("check_life");
    case_finish();
    MPI_Finalize();
}

static void fail(const char *what)
{
    printf("FAIL rank %d: %s\n", rank, what);
    test_tally.failures++;
}

/* Device memory from before MPI_Init. */
static void early(void)
{
    struct gpu_block block;

    gpu_start(gpu_local_rank());
    gpu_alloc(&block, 'D', 1 << 20);
    begin();
    sums(2);
    MPI_Allreduce(MPI_IN_PLACE, block.base, 1000, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    test_tally.device_calls++;
    end();
    gpu_free(&block);
}

/* Nothing of CUDA until host traffic and communicators have come and gone. */
static void late(void)
{
    MPI_Comm comm;

    begin();
    case_sum(MPI_COMM_WORLD, "world", "H", 10, 3);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    case_sum(comm, "dup", "H", 10, 4);
    if (gpu_mapped("libcuda"))
        fail("a CUDA library is mapped before the program uses CUDA");
    sums(3);
    case_sum(comm, "dup", "D", 10, 5);
    MPI_Comm_free(&comm);
    end();
}

/* Memory of this process, in KiB. */
static long resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        fail("/proc/self/statm cannot be read");
    if (file != NULL)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* In the second half of many rounds no memory is needed that was not in the first. */
static void create_and_free(void)
{
    long half = 0;

    begin();
    test_options.blind = test_options.ordered = true;
    for (int i = 0; i < number; i++) {
        MPI_Comm comm;
        if (i == number / 2)
            half = resident();
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        case_sum(comm, "dup", "D", 2 + i % 7, (uint64_t)i);
        if (i % 3 == 2)
            MPI_Comm_disconnect(&comm);
        else
            MPI_Comm_free(&comm);
    }
    if (number >= 1000 && resident() > half + 512)
        fail("memory grows with communicators that come and go");
    end();
}

/* Freed while others of the same parent live; duplicates of duplicates; used in an order other than made. */
static void many_alive(void)
{
    MPI_Comm *comms;

    begin();
    comms = malloc((size_t)number * sizeof *comms);
    for (int i = 0; i < number; i++)
        MPI_Comm_dup(i % 4 == 3 ? comms[i - 1] : MPI_COMM_WORLD, &comms[i]);
    for (int i = number - 1; i >= 0; i--)
        case_sum(comms[i], "dup", "D", 3, (uint64_t)i);
    for (int i = 0; i < number; i++)
        MPI_Comm_free(&comms[(i * 7) % number]);
    free(comms);
    end();
}

/* Fresh device memory in each round, so that addresses come back with other contents. */
static void fresh_memory(void)
{
    static const long counts[] = {1 << 17, 1 << 18, (1 << 17) + 64, 1 << 16};

    begin();
    test_options.fresh = true;
    for (int i = 0; i < number; i++)
        case_sum(MPI_COMM_WORLD, "world", "D", counts[i % 4], (uint64_t)i);
    end();
}

static void without_finalize(void)
{
    begin();
    sums(3);
    good = case_summary("check_life");
}

static void exit_in_the_middle(void)
{
    begin();
    sums(3);
    case_summary("check_life");
    exit(0);
}

/* By then CUDA may be gone: nothing is given back. */
static void end_late(void)
{
    good = case_summary("check_life");
    MPI_Finalize();
}

static void finalize_at_exit(void)
{
    begin();
    atexit(end_late);
    sums(3);
}

static bool finalize_in_destructor;

__attribute__((destructor)) static void last(void)
{
    if (finalize_in_destructor)
        end_late();
}

static void destructor(void)
{
    begin();
    sums(3);
    finalize_in_destructor = true;
}

static void reset_before_finalize(void)
{
    begin();
    sums(4);
    good = case_summary("check_life");
    gpu_reset();
    MPI_Finalize();
}

/* One rank resets its device; it and the others go on with host memory. */
static void reset_one(void)
{
    begin();
    sums(2);
    good = case_summary("check_life");
    if (rank == 0)
        gpu_reset();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}

/*
 * Buffers that the peers write directly are freed, and the process ends, long before the peers close them. MPI_Finalize
 * may wait for all, so the others are late for it, too.
 */
static void first_to_finalize(void)
{
    begin();
    test_options.ordered = true;
    for (int i = 0; i < 6; i++)
        case_sum(MPI_COMM_WORLD, "world", "B", 400000, (uint64_t)i);
    good = case_summary("check_life");
    if (rank != 0)
        usleep(1500000);
    else
        case_finish();
    MPI_Finalize();
}

static void abort_job(void)
{
    begin();
    sums(2);
    if (rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 42);
    for (;;)
        sums(1);
}

static void kill_rank(void)
{
    begin();
    sums(3);
    if (rank == size - 1)
        kill(getpid(), SIGKILL);
    for (;;)
        sums(1);
}

/* Killed in MPI_Init of the others: the arena's file is there and was not sealed. */
static void kill_before_init(void)
{
    if (gpu_local_rank() == 1)
        kill(getpid(), SIGKILL);
    begin();
    end();
}

static void slow_rank(void)
{
    begin();
    for (int i = 0; i < 4; i++) {
        if (rank == i % size)
            usleep(300000);
        sums(2);
    }
    end();
}

/* Device memory must not be taken again and again: what is free after the first rounds stays free. */
static void memory_flat(void)
{
    size_t before = 0;

    begin();
    test_options.fresh = true;
    for (int i = 0; i < number; i++) {
        case_sum(MPI_COMM_WORLD, "world", "D", 1000 + 40000 * (i % 5), (uint64_t)i);
        case_finish();
        if (i == number / 4)
            before = gpu_free_bytes();
    }
    if (gpu_free_bytes() + (4u << 20) < before)
        fail("device memory has leaked");
    end();
}

#if MPI_VERSION >= 4
struct session {
    MPI_Session session;
    MPI_Comm comm;
};

static void session_begin(struct session *session)
{
    MPI_Group group;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session->session);
    MPI_Group_from_session_pset(session->session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "check_life", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session->comm);
    MPI_Group_free(&group);
    MPI_Comm_size(session->comm, &size);
}

static void session_sum(struct session *session)
{
    int ones[4] = {1, 1, 1, 1};
    struct gpu_block block;

    gpu_start(gpu_local_rank());
    gpu_alloc(&block, 'D', sizeof ones);
    gpu_copy(block.base, ones, sizeof ones);
    MPI_Allreduce(MPI_IN_PLACE, block.base, 4, MPI_INT, MPI_SUM, session->comm);
    gpu_copy(ones, block.base, sizeof ones);
    good = good && ones[0] == size && ones[3] == size;
    gpu_free(&block);
}

static void session_end(struct session *session)
{
    MPI_Comm_free(&session->comm);
    MPI_Session_finalize(&session->session);
}

static void say_of_sessions(void)
{
    printf("sessions: %s\n", good ? "good" : "wrong sums");
}

/* Once: the second session ends in a crash of MPICH 4.0's own. */
static void sessions(void)
{
    struct session session;

    session_begin(&session);
    session_sum(&session);
    session_end(&session);
    say_of_sessions();
}

/* One session begins before the world, one within it, and both are used when it has ended. */
static void sessions_and_world(void)
{
    struct session sessions[2];

    session_begin(&sessions[0]);
    session_sum(&sessions[0]);
    begin();
    sums(2);
    session_begin(&sessions[1]);
    for (int i = 0; i < 2; i++)
        session_sum(&sessions[i]);
    sums(2);
    good = case_summary("check_life") && good;
    case_finish();
    MPI_Finalize();
    for (int i = 0; i < 2; i++) {
        session_sum(&sessions[i]);
        session_end(&sessions[i]);
    }
    say_of_sessions();
}
#endif

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"early", early},
    {"late", late},
    {"create-and-free", create_and_free},
    {"many-alive", many_alive},
    {"fresh-memory", fresh_memory},
    {"without-finalize", without_finalize},
    {"exit", exit_in_the_middle},
    {"finalize-at-exit", finalize_at_exit},
    {"destructor", destructor},
    {"reset-before-finalize", reset_before_finalize},
    {"reset-one", reset_one},
    {"first-to-finalize", first_to_finalize},
    {"abort", abort_job},
    {"kill", kill_rank},
    {"kill-before-init", kill_before_init},
    {"slow-rank", slow_rank},
    {"memory-flat", memory_flat},
#if MPI_VERSION >= 4
    {"sessions", sessions},
    {"sessions-and-world", sessions_and_world},
#endif
};

int main(int argc, char **argv)
{
    number = argc > 2 ? atoi(argv[2]) : 1;
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, argv[1]) == 0) {
            modes[i].run();
            return good ? 0 : 1;
        }
    }
    fprintf(stderr, "check_life: no such mode\n");
    return 2;
}
