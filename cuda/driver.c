/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is CUDA in use, and where are the driver's functions?
 *
 * The question comes with every call, also in programs that never use a GPU, so it must cost nothing: a program that
 * has mapped libcuda.so.1 has grown its list of loaded objects, and the loader counts that. Counting alone (25 ns) is
 * avoided by an object of our own at the end of the list (shunt_gpu_watch): as long as nothing follows it, nothing was
 * loaded since.
 */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "cuda/gpu.h"

struct shunt_driver shunt_driver;

enum use { NOT_MAPPED, MAPPED, IN_USE, FORBIDDEN };

static _Atomic int use;
static const struct link_map *watch; /* our own last object in the loader's list, never unloaded */
static _Atomic unsigned long long seen_loads = (unsigned long long)-1;

const char *shunt_cuda_text(CUresult result)
{
    const char *text;

    if (shunt_driver.cuGetErrorName == NULL || shunt_driver.cuGetErrorName(result, &text) != CUDA_SUCCESS)
        return "unknown result";
    return text;
}

enum shunt_status shunt_cuda_check(CUresult result, int level, const char *call)
{
    if (result == CUDA_SUCCESS)
        return SHUNT_OK;
    SHUNT_LOG_AT(level, "cuda", "%s: %s", call, shunt_cuda_text(result));
    return result == CUDA_ERROR_OUT_OF_MEMORY ? SHUNT_ERR_MEMORY : SHUNT_ERR_CUDA;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
    (void)size;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1; /* the first object tells */
}

/* Has anything been loaded since the last look? *loads: what to remember once that look has been taken. */
static bool something_loaded(unsigned long long *loads)
{
    if (watch != NULL && *(struct link_map *const volatile *)&watch->l_next == NULL)
        return false;
    dl_iterate_phdr(count_loads, loads);
    return atomic_load_explicit(&seen_loads, memory_order_acquire) != *loads;
}

static void forbid(void)
{
    atomic_store(&use, FORBIDDEN);
}

static bool find_functions(void *libcuda)
{
    static const struct {
        const char *name;
        size_t offset;
        bool newer;
    } functions[] = {
#define DRIVER(name) { #name, offsetof(struct shunt_driver, name), false },
#define NEWER(name)  { #name, offsetof(struct shunt_driver, name), true },
#include "cuda/driver.def"
#undef NEWER
#undef DRIVER
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(libcuda, functions[i].name);
        if (f == NULL && !functions[i].newer) {
            shunt_warn("cuda", "libcuda.so.1 has no %s: device memory is not recognised", functions[i].name);
            return false;
        }
        memcpy((char *)&shunt_driver + functions[i].offset, &f, sizeof f);
    }
    return true;
}

static void map_driver(void)
{
    /* RTLD_NOLOAD: only if the program has it. The reference is kept: our function pointers point there. */
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);

    if (libcuda == NULL)
        return;
    if (!find_functions(libcuda)) {
        atomic_store(&use, FORBIDDEN);
        return;
    }
    pthread_atfork(NULL, NULL, forbid); /* a child of fork must not touch CUDA */
    atomic_store(&use, MAPPED);
}

/* Initialised? A query is cheap and changes nothing; before cuInit it says NOT_INITIALIZED. */
static bool driver_initialised(void)
{
    CUcontext context;

    return shunt_driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS;
}

/* Look, unless somebody has since `loads` objects were counted: is the driver mapped now, is it initialised? */
static bool look(bool mapped, unsigned long long loads)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int keep = errno;

    pthread_mutex_lock(&lock);
    if (!mapped && atomic_load(&use) == NOT_MAPPED) {
        map_driver();
        atomic_store_explicit(&seen_loads, loads, memory_order_release); /* only now: others must not skip this look */
    }
    if (atomic_load(&use) == MAPPED && driver_initialised())
        atomic_store_explicit(&use, IN_USE, memory_order_release);
    pthread_mutex_unlock(&lock);
    errno = keep;
    return atomic_load(&use) == IN_USE;
}

bool shunt_gpu_in_use(void)
{
    int now = atomic_load_explicit(&use, memory_order_acquire);
    unsigned long long loads = 0;

    if (now == IN_USE)
        return true;
    if (now == NOT_MAPPED && !something_loaded(&loads)) {
        /* Or another thread has looked meanwhile, who tells what it has found before it tells that it has looked. */
        now = atomic_load_explicit(&use, memory_order_acquire);
        if (now == NOT_MAPPED)
            return false;
    }
    if (now == FORBIDDEN)
        return false;
    return now == IN_USE || look(now == MAPPED, loads);
}

void shunt_gpu_watch(const char *path)
{
    unsigned long long loads = 0;
    struct link_map *map;
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (object == NULL || dlinfo(object, RTLD_DI_LINKMAP, &map) != 0)
        return;
    /* What is in the list before the mark is looked at now, what comes behind it shows as its successor. */
    dl_iterate_phdr(count_loads, &loads);
    look(false, loads);
    watch = map;
}
