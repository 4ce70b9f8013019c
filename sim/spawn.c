/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The application's side of an executor: starting it, asking it, ending it.
 */
#include "sim/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/*
 * The environment without what would load other libraries into the executor, and with `gpu`, a
 * definition of SHUNT_SIM_GPU. Freed by the caller.
 */
static char **make_environment(char *gpu)
{
    size_t n = 0, kept = 0;
    while (environ && environ[n])
        n++;
    char **copy = calloc(n + 2, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11))
            copy[kept++] = environ[i];
    if (copy)
        copy[kept] = gpu;
    return copy;
}

/*
 * `ours` and `theirs` above all numbers that the executor is given, so that no duplication
 * overwrites another
 */
static bool make_socket(int *ours, int *theirs)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return false;
    *ours = fcntl(pair[0], F_DUPFD_CLOEXEC, 64);
    *theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, 64);
    close(pair[0]);
    close(pair[1]);
    if (*ours >= 0 && *theirs >= 0)
        return true;
    close(*ours);
    close(*theirs);
    return false;
}

static bool spawn(const char *path, int socket, int gpu)
{
    posix_spawn_file_actions_t actions;
    char pid_text[16], gpu_text[32], name[] = "shunt-sim-executor";
    char *arguments[] = {name, pid_text, NULL};
    char **environment = make_environment(gpu_text);
    pid_t pid;
    snprintf(pid_text, sizeof pid_text, "%d", getpid());
    snprintf(gpu_text, sizeof gpu_text, "SHUNT_SIM_GPU=%d", gpu);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, SIM_FD_SOCKET);
    posix_spawn_file_actions_adddup2(&actions, sim.shared_fd, SIM_FD_SHARED);
    posix_spawn_file_actions_adddup2(&actions, sim.host_fd, SIM_FD_HOST);
    bool started = environment && !posix_spawn(&pid, path, &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    /*
     * It forks at once, so this does not take long; if somebody else's wait() was faster, that is
     * as well.
     */
    while (started && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return started;
}

static bool receive(int socket, struct sim_reply *reply, int ms)
{
    struct pollfd on = {socket, POLLIN, 0};
    int ready;
    do
        ready = poll(&on, 1, ms);
    while (ready < 0 && errno == EINTR);
    return ready == 1 && recv(socket, reply, sizeof *reply, 0) == sizeof *reply;
}

CUresult sim_executor_start(struct sim_executor *e, int gpu)
{
    char path[PATH_MAX];
    int ours, theirs, saved = errno;
    struct sim_reply ready;
    CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
    if (!sim_beside("shunt-sim-executor", path, sizeof path))
        return CUDA_ERROR_SYSTEM_NOT_READY;
    if (!make_socket(&ours, &theirs))
        return CUDA_ERROR_OPERATING_SYSTEM;
    bool started = spawn(path, theirs, gpu);
    close(theirs);
    if (started && receive(ours, &ready, 30000)) {
        e->socket = ours;
        e->pid = ready.pid;
        result = CUDA_SUCCESS;
    } else {
        close(ours);
    }
    errno = saved;
    return result;
}

void sim_executor_stop(struct sim_executor *e)
{
    char none;
    if (e->socket < 0)
        return;
    shutdown(e->socket, SHUT_WR);
    /* Its end closes with the process: after this nothing of it runs any more */
    while (recv(e->socket, &none, sizeof none, 0) > 0)
        ;
    close(e->socket);
    e->socket = -1;
}

bool sim_executor_gone(struct sim_executor *e)
{
    struct pollfd on = {e->socket, 0, 0};
    return e->socket < 0 || (poll(&on, 1, 0) == 1 && on.revents & (POLLHUP | POLLERR));
}

static CUresult result_of(int error)
{
    switch (error) {
    case 0:
        return CUDA_SUCCESS;
    case ENOENT:
        return CUDA_ERROR_NOT_FOUND;
    case ENOMEM:
    case EEXIST:
    case EMFILE:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
}

CUresult sim_request(struct sim_executor *e, const struct sim_request *request,
                     struct sim_reply *reply)
{
    struct sim_reply own;
    int saved = errno;
    reply = reply ? reply : &own;
    pthread_mutex_lock(&e->lock);
    bool done = e->socket >= 0 &&
                send(e->socket, request, sizeof *request, MSG_NOSIGNAL) == sizeof *request &&
                receive(e->socket, reply, -1);
    pthread_mutex_unlock(&e->lock);
    errno = saved;
    if (!done) {
        int error = atomic_load(&sim.shared->error);
        return error ? (CUresult)error : CUDA_ERROR_LAUNCH_FAILED;
    }
    return result_of(reply->error);
}

CUresult sim_map_everywhere(const struct sim_request *map)
{
    CUresult result = CUDA_SUCCESS;
    for (struct CUctx_st *c = sim.contexts; c && !result; c = c->next)
        if (c->live)
            result = sim_request(&c->executor, map, NULL);
    if (result)
        sim_unmap_everywhere(map->address, map->bytes);
    return result;
}

void sim_unmap_everywhere(CUdeviceptr address, size_t bytes)
{
    sim_request_everywhere(
        &(struct sim_request){.verb = SIM_UNMAP, .address = address, .bytes = bytes});
}

void sim_request_everywhere(const struct sim_request *request)
{
    for (struct CUctx_st *c = sim.contexts; c; c = c->next)
        if (c->live)
            sim_request(&c->executor, request, NULL);
}
