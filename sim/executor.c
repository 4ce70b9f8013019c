/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shunt-sim-executor: the GPU of one context of one application process. It alone has device memory
 * mapped readable and writable, each piece at the address that the application knows it by.
 *
 * The main thread answers the application's requests; a thread per stream does the work. It ends
 * with the application: when their socket hangs up, or when the application is gone while a forked
 * child holds its end of the socket open. (A parent-death signal would not do: that comes when the
 * *thread* ends that started us.)
 */
#include "sim/executor.h"

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/config.h"
#include "sim/request.h"

static struct sim_shared *shared;
static int application; /* pidfd, or -1 */

_Noreturn void sim_executor_die(int error)
{
    int none = 0;
    atomic_compare_exchange_strong(&shared->error, &none, error);
    for (unsigned i = 0; i < SIM_STREAMS; i++)
        if (atomic_load(&shared->queue[i].state) == SIM_SLOT_LIVE)
            sim_wake(sim_low_half(&shared->queue[i].completed));
    _exit(0);
}

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* nobody listens */
}

/*
 * A kernel or a copy went wrong. On hardware that ends the context with a code; here it also says
 * where.
 */
static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    char text[160];
    if (number == SIGABRT)
        sim_executor_die(CUDA_ERROR_LAUNCH_FAILED);
    snprintf(text, sizeof text,
             "shunt-sim: device work touched %p, which is not mapped on the GPU\n", info->si_addr);
    say(text);
    sim_executor_die(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void catch_faults(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
        sigaction(faults[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* In the folder of this program; in a build tree, where libtool puts it */
static void *open_kernels(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    if (length < 0)
        return NULL;
    path[length] = 0;
    char *name = strrchr(path, '/') + 1;
    strcpy(name, "libshunt-simkernels.so");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library;
    strcpy(name, "../.libs/libshunt-simkernels.so");
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

const struct sim_kernel *sim_executor_kernel(const char *name)
{
    static const struct sim_kernel *(*find)(const char *);
    if (!find) {
        void *library = open_kernels();
        void *symbol = library ? dlsym(library, "sim_kernel_find") : NULL;
        memcpy(&find, &symbol, sizeof find);
    }
    return find ? find(name) : NULL;
}

/* Descriptor `fd` of process `pid`, as a new one of ours; negative errno */
static int open_foreign(int pid, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    int own = open(path, O_RDWR | O_CLOEXEC);
    return own < 0 ? -errno : own;
}

static int map(const struct sim_request *q)
{
    bool own = !q->pid || q->pid == getpid();
    int fd = own ? q->fd : open_foreign(q->pid, q->fd);
    if (fd < 0)
        return -fd;
    bool lost = !own && !q->host && sim_has_fault(SIM_FAULT_LOST);
    void *want = (void *)(uintptr_t)q->address;
    void *got = mmap(want, q->bytes, PROT_READ | PROT_WRITE,
                     (lost ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, (off_t)q->offset);
    int error = got == MAP_FAILED ? errno : 0;
    if (!error && got != want) { /* a kernel that does not know FIXED_NOREPLACE */
        munmap(got, q->bytes);
        error = EEXIST;
    }
    if (!error && !own && !q->host)
        sim_foreign_add(q->address, q->bytes, q->pid);
    if (!own)
        close(fd);
    return error;
}

static int unmap(const struct sim_request *q)
{
    int error = munmap((void *)(uintptr_t)q->address, q->bytes) ? errno : 0;
    sim_foreign_remove(q->address);
    if (q->pid == getpid())
        fallocate(SIM_FD_DEVICE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)q->offset,
                  (off_t)q->bytes);
    return error;
}

static int create_file(uint64_t bytes, int *fd)
{
    *fd = memfd_create("shunt-sim", MFD_CLOEXEC);
    if (*fd < 0)
        return errno;
    if (!ftruncate(*fd, (off_t)bytes))
        return 0;
    int error = errno;
    close(*fd);
    return error;
}

static int find_kernel(const struct sim_request *q, struct sim_reply *reply)
{
    const struct sim_kernel *kernel = sim_executor_kernel(q->name);
    if (!kernel)
        return ENOENT;
    reply->value = (uintptr_t)kernel;
    for (int i = 0; kernel->arg_sizes[i]; i++) {
        if (i == SIM_MAX_ARGS)
            return E2BIG;
        reply->arg_sizes[i] = kernel->arg_sizes[i];
    }
    return 0;
}

static int answer(const struct sim_request *q, struct sim_reply *reply)
{
    switch ((enum sim_verb)q->verb) {
    case SIM_MAP:
        return map(q);
    case SIM_UNMAP:
        return unmap(q);
    case SIM_CREATE:
        return create_file(q->bytes, &reply->fd);
    case SIM_ADOPT:
        reply->fd = open_foreign(q->pid, q->fd);
        return reply->fd < 0 ? -reply->fd : 0;
    case SIM_CLOSE:
        return close(q->fd) ? errno : 0;
    case SIM_STREAM:
        return sim_worker_start(shared, q->queue);
    case SIM_FIND:
        return find_kernel(q, reply);
    }
    return ENOSYS;
}

static _Noreturn void serve(void)
{
    struct pollfd on[] = {{SIM_FD_SOCKET, POLLIN, 0}, {application, POLLIN, 0}};
    struct sim_request request;
    for (;;) {
        if (poll(on, application < 0 ? 1 : 2, -1) < 0)
            continue;
        if (application >= 0 && on[1].revents)
            _exit(0);
        if (recv(SIM_FD_SOCKET, &request, sizeof request, 0) != sizeof request)
            _exit(0);
        struct sim_reply reply = {0};
        reply.error = answer(&request, &reply);
        if (send(SIM_FD_SOCKET, &reply, sizeof reply, MSG_NOSIGNAL) != sizeof reply)
            _exit(0);
    }
}

/*
 * Keep nothing of the application but its standard error: not its sockets, not its process group,
 * not its folder. But its session: Linux schedules each session as a group, and between groups one
 * that is asked to wait by sched_yield, as waiting ranks do, may leave the others without a
 * processor for many seconds.
 */
static void detach(void)
{
    setpgid(0, 0);
    close_range(SIM_FD_HOST + 1, ~0u, 0);
    int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    close(null);
    if (chdir("/"))
        _exit(0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    struct rlimit files, no_core = {0, 0};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max; /* each cuMemCreate is a descriptor here */
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_CORE, &no_core);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "shunt-sim-executor is started by the simulated libcuda\n");
        return 2;
    }
    /* A grandchild of the application, so that no wait() of its own ever meets us */
    pid_t child = fork();
    if (child)
        _exit(child < 0);
    detach();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                  SIM_FD_SHARED, 0);
    int memory;
    if (shared == MAP_FAILED || create_file(1ull << 46, &memory))
        return 1;
    if (memory != SIM_FD_DEVICE && dup3(memory, SIM_FD_DEVICE, O_CLOEXEC) < 0)
        return 1;
    application =
        (int)syscall(SYS_pidfd_open, atoi(argv[1]), 0); /* after the numbers above are taken */
    catch_faults();
    struct sim_reply ready = {.pid = getpid()};
    if (send(SIM_FD_SOCKET, &ready, sizeof ready, MSG_NOSIGNAL) != sizeof ready)
        return 0;
    serve();
}
