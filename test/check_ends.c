/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that end, fork or lose their GPU in the middle of MPI_Allreduce: check_ends MS MODE. The modes are the table at
 * the end; MS: milliseconds after which the last rank does it, in those where one does, or -1: at the very first. Only
 * MPI_Allreduce on device memory is called meanwhile: what the host MPI does when a rank dies is not asked.
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include "test/case.h"
#include "test/gpu.h"
#include "test/sum.h"

#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5 /* Open MPI 5 says that it is MPI 3.1, and has those of MPI 4 */
#define ALLREDUCE_INIT MPIX_Allreduce_init
#else
#define ALLREDUCE_INIT MPI_Allreduce_init
#endif

extern char **environ;

static int milliseconds;

static void some_sums(void)
{
    struct sum sum;

    sum_make(&sum, 'D', SUM_LARGE);
    for (int i = 0; i < 3; i++)
        sum_once(&sum);
    sum_free(&sum);
}

/* ---- one rank goes, the others call on ---- */

static void *wait_then(void *action)
{
    usleep((useconds_t)milliseconds * 1000);
    ((void (*)(void))action)();
    return NULL;
}

static void kill_self(void)
{
    kill(getpid(), SIGKILL);
}

static void exit_now(void)
{
    exit(1);
}

static void abort_now(void)
{
    MPI_Abort(MPI_COMM_WORLD, 42);
}

static int begin_and_wait(const struct sum *sum)
{
    MPI_Request request;
    int rc = MPI_Iallreduce(sum->send.base, sum->recv.base, sum->n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);

    return rc == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : rc;
}

static int make_persistent(const struct sum *sum, MPI_Request *request)
{
    return ALLREDUCE_INIT(sum->send.base, sum->recv.base, sum->n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request);
}

static int start_and_wait(MPI_Request *request)
{
    int rc = MPI_Start(request);

    return rc == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : rc;
}

/* For ever, or until MPI returns an error; in the form that FORM says: persistent, nonblocking, or blocking. */
static void sum_until_error(void)
{
    const char *form = getenv("FORM") ? getenv("FORM") : "";
    bool persistent = strcmp(form, "persistent") == 0, nonblocking = strcmp(form, "nonblocking") == 0;
    MPI_Request requests[2];
    struct sum sums[2];
    int rc = MPI_SUCCESS, error_class = 0;

    for (int i = 0; i < 2; i++) {
        sum_make(&sums[i], 'D', i ? SUM_LARGE : SUM_SMALL);
        if (persistent && rc == MPI_SUCCESS)
            rc = make_persistent(&sums[i], &requests[i]);
    }
    for (int i = 0; rc == MPI_SUCCESS; i++) {
        const struct sum *sum = &sums[i % 2];
        if (persistent)
            rc = start_and_wait(&requests[i % 2]);
        else if (nonblocking)
            rc = begin_and_wait(sum);
        else
            rc = MPI_Allreduce(sum->send.base, sum->recv.base, sum->n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Error_class(rc, &error_class);
    printf("rank %d: an error%s\n", sum_rank, error_class == MPI_ERR_OTHER ? "" : " of an unknown class");
    fflush(stdout);
}

/* milliseconds < 0: before anybody has set up anything for the GPUs. */
static void one_goes(void (*action)(void))
{
    pthread_t thread;

    if (milliseconds < 0)
        milliseconds = 0;
    else
        some_sums();
    if (sum_rank == sum_size - 1)
        pthread_create(&thread, NULL, wait_then, (void *)action);
    sum_until_error();
}

static void kill_one(void)
{
    one_goes(kill_self);
}

static void exit_one(void)
{
    one_goes(exit_now);
}

static void abort_one(void)
{
    one_goes(abort_now);
}

/* A communicator without the rank that has gone works as before. */
static void sum_among_survivors(MPI_Comm survivors)
{
    long before = test_tally.failures;

    sum_size--; /* what the sums are checked against */
    for (int i = 0; i < 6; i++) {
        struct sum sum;
        sum_make(&sum, 'D', i % 2 ? SUM_LARGE : SUM_SMALL);
        sum_fill(&sum);
        sum_call(&sum, survivors);
        sum_check(&sum);
        sum_free(&sum);
    }
    printf("rank %d: %s among the survivors\n", sum_rank, test_tally.failures == before ? "right sums" : "a failure");
    fflush(stdout);
}

/* The survivors get an error, and again at once when they call again; then they go on without the one, and leave. */
static void errors_return(void)
{
    MPI_Comm survivors;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_split(MPI_COMM_WORLD, sum_rank == sum_size - 1, sum_rank, &survivors);
    one_goes(kill_self);
    sum_until_error();
    sum_among_survivors(survivors);
    _exit(0);
}

/* ---- ways out ---- */

/* Of a mode that does not return. */
static bool summarise(void)
{
    test_tally.cases++;
    return sum_summary();
}

static void *finalize(void *good)
{
    *(bool *)good = summarise();
    MPI_Finalize();
    return NULL;
}

static void finalize_in_thread(void)
{
    pthread_t thread;
    bool good = false;

    some_sums();
    pthread_create(&thread, NULL, finalize, &good);
    pthread_join(thread, NULL);
    quick_exit(good ? 0 : 1);
}

/* The root, on host memory, has gone when those on device memory come, which ask whether it is on the GPUs. */
static void finalize_before_others_call(void)
{
    const int wanted = 4711;
    int word = sum_rank == 0 ? wanted : 0;
    struct sum sum;

    some_sums();
    sum_make(&sum, 'D', 1);
    bool good = summarise();
    if (sum_rank == 0) {
        MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    } else {
        usleep(700000);
        MPI_Bcast(sum.recv.base, 1, MPI_INT, 0, MPI_COMM_WORLD);
        gpu_copy(&word, sum.recv.base, sizeof word);
    }
    MPI_Finalize();
    if (word != wanted)
        fprintf(stderr, "rank %d: a wrong word\n", sum_rank);
    quick_exit(good && word == wanted ? 0 : 1);
}

static void leave_by_quick_exit(void)
{
    some_sums();
    printf("%s\n", test_tally.failures ? "wrong sums" : "right sums");
    fflush(stdout);
    quick_exit(0);
}

/* ---- ways out, with operations that go on by themselves ---- */

struct going {
    struct sum sum;
    MPI_Request request;
};

static void going_begin(struct going *going)
{
    sum_fill(&going->sum);
    sum_begin(&going->sum, MPI_COMM_WORLD, &going->request);
}

static void going_end(struct going *going)
{
    MPI_Wait(&going->request, MPI_STATUS_IGNORE);
    sum_check(&going->sum);
}

static void going_once(void)
{
    struct going going;

    sum_make(&going.sum, 'D', SUM_SMALL);
    going_begin(&going);
    going_end(&going);
    sum_free(&going.sum);
}

static struct going under_way[2];

/* Of all that happens at exit this is the last but what ends CUDA: the program may use both still. */
static void call_at_exit(void)
{
    for (int i = 0; i < 2; i++)
        going_end(&under_way[i]);
    some_sums();
    going_once();
    summarise();
    MPI_Finalize();
}

static void calls_at_exit(void)
{
    some_sums();
    atexit(call_at_exit);
    going_once(); /* only now is there a thread of shunt's, and what shunt does at exit comes before the above */
    for (int i = 0; i < 2; i++) {
        sum_make(&under_way[i].sum, 'D', i ? SUM_LARGE : SUM_SMALL);
        if (sum_rank == i)
            usleep(30000);
        going_begin(&under_way[i]);
    }
    exit(0);
}

static MPI_Request repeated; /* a persistent sum, which is not freed */

/* What peers have open of each other, persistent requests, a thread: all that may be there at an end. */
static void use_everything(void)
{
    static struct gpu_block block;
    static MPI_Request persistent[2];
    MPI_Status statuses[2];
    struct sum sum;

    sum_make(&sum, 'B', SUM_LARGE * 4);
    for (int i = 0; i < 6; i++)
        sum_once(&sum); /* and never freed */
    going_once();
    make_persistent(&sum, &repeated);
    for (int i = 0; i < 3; i++) {
        sum_fill(&sum);
        sum_count_call();
        start_and_wait(&repeated);
        sum_check(&sum);
    }
    gpu_alloc(&block, 'D', 2 * 4096);
    MPI_Send_init(block.base, 4096, MPI_BYTE, (sum_rank + 1) % sum_size, 5, MPI_COMM_WORLD, &persistent[0]);
    MPI_Recv_init(block.base + 4096, 4096, MPI_BYTE, (sum_rank + sum_size - 1) % sum_size, 5, MPI_COMM_WORLD, &persistent[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, persistent);
        MPI_Waitall(2, persistent, statuses);
    }
}

/* Registered before the program has used CUDA, so the driver has ended before this runs. */
static void finalize_late(void)
{
    if (sum_size == 0)
        return;
    summarise();
    MPI_Finalize();
}

static void finalize_at_exit(void)
{
    use_everything();
    exit(0);
}

static void reset_at_the_end(void)
{
    use_everything();
    summarise();
    gpu_reset();
    if (sum_rank == 0)
        MPI_Request_free(&repeated);
    MPI_Finalize();
    quick_exit(0);
}

/* Some are undecided, as the last rank has not begun them; the others run or have run. */
static void exit_under_way(void)
{
    some_sums();
    going_once();
    for (int i = 0; i < 2; i++) {
        sum_make(&under_way[i].sum, 'D', i ? SUM_LARGE : SUM_SMALL);
        if (i == 0 || sum_rank != sum_size - 1)
            going_begin(&under_way[i]);
    }
    printf("%s\n", test_tally.failures ? "wrong sums" : "right sums");
    exit(0);
}

/* ---- a GPU that is reset, and used again ---- */

static void reset_and_go_on(void)
{
    struct sum sum;

    for (int round = 0; round < 3; round++) {
        sum_make(&sum, 'D', round == 1 ? SUM_SMALL : SUM_LARGE);
        sum_once(&sum);
        sum_once(&sum);
        sum_free(&sum);
        MPI_Barrier(MPI_COMM_WORLD);
        if (sum_rank == round % 2)
            gpu_reset();
    }
}

/* ---- children, while another thread is in MPI_Allreduce, or waits for one that goes on by itself ---- */

static atomic_bool enough;
static atomic_int sums_beside;

static void *sum_on(void *comm)
{
    struct sum sums[2];
    MPI_Request request;
    int done = 0, others = 0;

    gpu_start_thread();
    sum_make(&sums[0], 'D', SUM_SMALL);
    sum_make(&sums[1], 'D', SUM_LARGE);
    for (int i = 0; !others; i++) {
        sum_fill(&sums[i % 2]);
        if (i % 4 < 2)
            sum_call(&sums[i % 2], *(MPI_Comm *)comm);
        else
            sum_begin(&sums[i % 2], *(MPI_Comm *)comm, &request);
        if (i % 4 >= 2)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        sum_check(&sums[i % 2]);
        sums_beside++;
        done = enough;
        MPI_Allreduce(&done, &others, 1, MPI_INT, MPI_MIN, *(MPI_Comm *)comm);
    }
    sum_free(&sums[0]);
    sum_free(&sums[1]);
    return NULL;
}

/* malloc and stdio, as a child may use them after fork. */
static void make_noise(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    for (int i = 0; i < 1000; i++)
        fprintf(stream, "%d ", i);
    fclose(stream);
    free(text);
}

enum { BY_EXIT_NOW, BY_EXIT, BY_EXEC, BY_SYSTEM, BY_POPEN, BY_SPAWN, WAYS };

static pid_t start_child(int how)
{
    static char *const words[] = {"true", NULL};
    pid_t child;

    if (how == BY_SPAWN)
        return posix_spawnp(&child, words[0], NULL, NULL, words, environ) == 0 ? child : -1;
    child = fork();
    if (child != 0)
        return child;
    make_noise();
    if (how == BY_EXEC)
        execvp(words[0], words);
    if (how == BY_EXIT)
        exit(0); /* runs destructors and what was registered with atexit */
    _exit(how == BY_EXIT_NOW ? 0 : 1);
}

static int run_child(int how)
{
    pid_t child;
    int status = -1;
    FILE *pipe;

    if (how == BY_SYSTEM)
        return system("true");
    if (how == BY_POPEN) {
        pipe = popen("cat >/dev/null", "w");
        return !pipe || fputs("words\n", pipe) < 0 ? -1 : pclose(pipe);
    }
    child = start_child(how);
    alarm(20);
    if (child < 0 || waitpid(child, &status, 0) != child)
        status = -1;
    alarm(0);
    return status;
}

static void children(void)
{
    pthread_t thread;
    MPI_Comm comm;

    some_sums();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    pthread_create(&thread, NULL, sum_on, &comm);
    fflush(NULL);
    for (int i = 0; i < 3 * WAYS || sums_beside < 10; i++) {
        if (run_child(i % WAYS) != 0)
            sum_fail("a child did not end as it should");
        usleep(2000);
    }
    enough = true;
    pthread_join(thread, NULL);
    MPI_Comm_free(&comm);
    some_sums();
}

int main(int argc, char **argv)
{
    static const struct sum_mode modes[] = {
        {"kill", kill_one},
        {"exit", exit_one},
        {"abort", abort_one},
        {"errors-return", errors_return},
        {"finalize-in-thread", finalize_in_thread},
        {"finalize-before-others-call", finalize_before_others_call},
        {"quick-exit", leave_by_quick_exit},
        {"calls-at-exit", calls_at_exit},
        {"finalize-at-exit", finalize_at_exit},
        {"reset-at-the-end", reset_at_the_end},
        {"exit-under-way", exit_under_way},
        {"reset-and-go-on", reset_and_go_on},
        {"children", children},
        {NULL, NULL},
    };

    milliseconds = argc > 1 ? atoi(argv[1]) : 0;
    if (argc > 2 && strcmp(argv[2], "finalize-at-exit") == 0)
        atexit(finalize_late);
    return sum_main(argc, argv, 2, modes, NULL);
}
