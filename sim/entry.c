/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated driver as a whole: coming to life in a process, ending with it, errors in words,
 * and finding entry points by name.
 */
#include "sim/driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sim/errors.def"

struct sim_process sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .shared_fd = -1, .host_fd = -1};

/*
 * In a fork child the executors are the parent's: the driver is as if it had never been
 * initialised.
 */
static void in_fork_child(void)
{
    atomic_store(&sim.life, SIM_ENDED);
}

static bool forked(void)
{
    static _Atomic pid_t owner;
    pid_t none = 0, self = getpid();
    return !atomic_compare_exchange_strong(&owner, &none, self) && none != self;
}

CUresult sim_ready(void)
{
    switch (atomic_load_explicit(&sim.life, memory_order_acquire)) {
    case SIM_ALIVE:
        return CUDA_SUCCESS;
    case SIM_UNBORN:
        return CUDA_ERROR_NOT_INITIALIZED;
    default:
        return forked() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_DEINITIALIZED;
    }
}

static atomic_ullong counts[SIM_COUNTED];

void sim_count(enum sim_counted what)
{
    atomic_fetch_add_explicit(&counts[what], 1, memory_order_relaxed);
}

unsigned long long shunt_sim_count(const char *what)
{
    static const char *const words[] = {[SIM_LAUNCHES] = "launches", [SIM_REGISTRATIONS] = "registrations", [SIM_COPIES] = "copies"};

    for (int i = 0; i < SIM_COUNTED; i++)
        if (strcmp(what, words[i]) == 0)
            return atomic_load(&counts[i]);
    return 0;
}

/* A file without a name, its descriptor out of the way of programs that count on low ones */
static int make_file(uint64_t bytes)
{
    int low = memfd_create("shunt-sim", MFD_CLOEXEC);
    if (low < 0)
        return -1;
    int fd = fcntl(low, F_DUPFD_CLOEXEC, 64);
    close(low);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * At exit, before what was registered before cuInit: that finds the driver shut down, as on
 * hardware.
 */
static void end(void)
{
    if (atomic_load(&sim.life) != SIM_ALIVE)
        return;
    atomic_store(&sim.life, SIM_ENDED);
    for (struct CUctx_st *c = sim.contexts; c; c = c->next)
        if (c->live)
            sim_executor_stop(&c->executor);
}

static CUresult come_alive(void)
{
    struct timespec now;
    if (!sim_config()->n_visible)
        return sim_config()->named_twice ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NO_DEVICE;
    sim.shared_fd = make_file(sizeof *sim.shared);
    sim.host_fd = make_file(1ull << 46);
    if (sim.shared_fd < 0 || sim.host_fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    void *shared = mmap(NULL, sizeof *sim.shared, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE, sim.shared_fd, 0);
    if (shared == MAP_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    sim.shared = shared;
    clock_gettime(CLOCK_REALTIME, &now);
    sim.shared->nonce =
        (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 40;
    pthread_atfork(NULL, NULL, in_fork_child);
    atexit(end);
    atomic_store_explicit(&sim.life, SIM_ALIVE, memory_order_release);
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags)
{
    CUresult result = sim_ready();
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_ERROR_NOT_INITIALIZED || forked())
        return result;
    pthread_mutex_lock(&sim.lock);
    result = atomic_load(&sim.life) == SIM_ALIVE ? CUDA_SUCCESS : come_alive();
    pthread_mutex_unlock(&sim.lock);
    return result;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    if (sim_ready() == CUDA_ERROR_DEINITIALIZED)
        return CUDA_ERROR_DEINITIALIZED;
    switch (error) {
    case CUDA_SUCCESS:
        *text = "CUDA_SUCCESS";
        return CUDA_SUCCESS;
#define SIM_X(driver, runtime, words)  \
    case CUDA_ERROR_##driver:          \
        *text = "CUDA_ERROR_" #driver; \
        return CUDA_SUCCESS;
        SIM_ERRORS(SIM_X)
#undef SIM_X
    default:
        *text = NULL;
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    if (sim_ready() == CUDA_ERROR_DEINITIALIZED)
        return CUDA_ERROR_DEINITIALIZED;
    switch (error) {
    case CUDA_SUCCESS:
        *text = "no error";
        return CUDA_SUCCESS;
#define SIM_X(driver, runtime, words) \
    case CUDA_ERROR_##driver:         \
        *text = words;                \
        return CUDA_SUCCESS;
        SIM_ERRORS(SIM_X)
#undef SIM_X
    default:
        *text = NULL;
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* This library's own path in `path`, cut after the last '/' */
static char *own_folder(char *path, size_t room)
{
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)sim_ready, &info) || strlen(info.dli_fname) >= room)
        return NULL;
    strcpy(path, info.dli_fname);
    char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool sim_beside(const char *name, char *path, size_t room)
{
    char folder[PATH_MAX];
    char *end = own_folder(folder, sizeof folder);
    if (!end)
        return false;
    *end = 0;
    /* Installed, both lie in one folder; in a build tree the library lies in .libs */
    for (int up = 0; up < 2; up++) {
        int length = snprintf(path, room, "%s%s%s", folder, up ? "../" : "", name);
        if (length > 0 && (size_t)length < room && !access(path, X_OK))
            return true;
    }
    return false;
}

static void *own_symbol(const char *name)
{
    static void *_Atomic self;
    if (!self) {
        Dl_info info;
        if (dladdr((void *)(uintptr_t)sim_ready, &info))
            self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    return self ? dlsym(self, name) : NULL;
}

/*
 * Entry points whose arguments changed: which form a program built for a CUDA version means. Newest
 * first.
 */
static const struct {
    const char *name, *suffix;
    int since;
} versions[] = {
    {"cuCtxCreate", "_v4", 12050},
    {"cuCtxCreate", "_v2", 3020},
    {"cuMemPrefetchAsync", "_v2", 12020},
    {"cuMemPrefetchAsync", "", 8000},
    {"cuMemAdvise", "_v2", 12020},
    {"cuMemAdvise", "", 8000},
    {"cuGraphAddKernelNode", "_v2", 12000},
    {"cuGraphExecKernelNodeSetParams", "_v2", 12000},
    {"cuGraphInstantiate", "WithFlags", 11040},
    {"cuStreamBeginCapture", "_v2", 10010},
    {"cuStreamGetCaptureInfo", "_v3", 12030},
    {"cuStreamGetCaptureInfo", "_v2", 11030},
    {"cuGetProcAddress", "_v2", 12000},
    {"cuGetProcAddress", "", 11030},
};

static void *find_entry(const char *name, int version)
{
    char full[160];
    static const char *const suffixes[] = {"_v3", "_v2", ""};
    void *found = NULL;
    bool listed = false;
    for (unsigned i = 0; i < sizeof versions / sizeof *versions && !found; i++) {
        if (strcmp(versions[i].name, name))
            continue;
        listed = true;
        snprintf(full, sizeof full, "%s%s", name, versions[i].suffix);
        if (version >= versions[i].since)
            found = own_symbol(full);
    }
    for (unsigned i = 0; i < 3 && !found && !listed; i++) {
        snprintf(full, sizeof full, "%s%s", name, suffixes[i]);
        found = own_symbol(full);
    }
    return found;
}

CUresult cuGetProcAddress(const char *name, void **entry, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status)
{
    (void)flags; /* per-thread default streams are asked for by handle only */
    if (!name || !entry)
        return CUDA_ERROR_INVALID_VALUE;
    *entry = strncmp(name, "cu", 2) || strlen(name) > 128 ? NULL : find_entry(name, version);
    if (status)
        *status = *entry ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *entry || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* The form of programs built before CUDA 12 */
#undef cuGetProcAddress
SIM_API CUresult cuGetProcAddress(const char *name, void **entry, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(name, entry, version, flags, NULL);
}
