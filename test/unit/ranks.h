/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stands for a launcher: gives ranks an identity by the environment, and runs processes as ranks.
 *
 * A rank can be a process (ranks_start), or one of several views that a single process holds: each shunt_arena_join
 * makes a member of its own.
 */
#ifndef SHUNT_TEST_UNIT_RANKS_H
#define SHUNT_TEST_UNIT_RANKS_H

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena_layout.h"
#include "base/board.h"

/* In a process that is a rank, where cmocka's assertions would end in the wrong place. */
#define RANK_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: rank process %d: %s\n", __FILE__, __LINE__, getpid(), #condition); \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* The test program: part of its jobs' names, so that test programs that run at the same time do not meet. */
static pid_t ranks_origin;

/* Forget the launcher that runs the tests. */
static inline void ranks_forget(void)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "PMIX_SERVER_URI2", "PMIX_RANK", "PMI_FD", "PMI_RANK",
                                        "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID",
                                        "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE", "MPI_LOCALNRANKS",
                                        "MPI_LOCALRANKID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

static inline void ranks_set(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* Be world rank `rank` of `local_size` ranks of the job `job`, as Open MPI's mpirun says it. rank -1: not told. */
static inline void ranks_be(const char *job, int rank, int local_size)
{
    char space[64];
    ranks_forget();
    if (!ranks_origin)
        ranks_origin = getpid(); /* before the first process is started */
    snprintf(space, sizeof space, "test.%s.%d", job, (int)ranks_origin);
    setenv("PMIX_NAMESPACE", space, 1);
    ranks_set("OMPI_COMM_WORLD_LOCAL_SIZE", local_size);
    if (rank >= 0)
        ranks_set("OMPI_COMM_WORLD_RANK", rank);
}

/* A view of this process that is such a rank; NULL: it could not join. */
static inline struct shunt_arena *ranks_view(const char *job, int rank, int local_size)
{
    struct shunt_arena *arena;

    ranks_be(job, rank, local_size);
    return shunt_arena_join(&arena) == SHUNT_OK ? arena : NULL;
}

/* A process that is rank `rank`; ends with its starter. */
static inline pid_t ranks_start(const char *job, int rank, int local_size, void (*body)(int rank, void *context),
                                void *context)
{
    if (!ranks_origin)
        ranks_origin = getpid();
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    ranks_be(job, rank, local_size);
    body(rank, context);
    _exit(0);
}

/* Did the process end by itself and well? */
static inline bool ranks_end(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Run ranks 0 ... n-1 as processes; true if all ended well. */
static inline bool ranks_run(const char *job, int n, void (*body)(int rank, void *context), void *context)
{
    pid_t pids[64];
    bool good = true;
    for (int rank = 0; rank < n; rank++)
        pids[rank] = ranks_start(job, rank, n, body, context);
    for (int rank = 0; rank < n; rank++)
        good &= ranks_end(pids[rank]);
    return good;
}

/* Files of the job's arenas in /dev/shm. Changes who this process is. */
static inline int ranks_files(const char *job)
{
    struct shunt_identity identity;
    int files = 0;
    ranks_be(job, 0, 1);
    if (shunt_identity_find(&identity) != SHUNT_OK)
        return -1;
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *item; folder && (item = readdir(folder));)
        files += strncmp(item->d_name, identity.name, strlen(identity.name)) == 0;
    if (folder)
        closedir(folder);
    return files;
}

#endif
