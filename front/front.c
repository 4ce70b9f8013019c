/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libshunt.so: every MPI function is a jump through a slot (slots.S). A slot leads here until its function is called;
 * the first call finds the program's MPI library, loads the engine for it, and sets all slots: to the engine's shims
 * where there are any, else to the host's own functions. Without an engine, each slot is set by its own first call.
 *
 * Nothing happens in a process that never calls MPI. A function that the host does not have answers MPI_ERR_OTHER.
 */
#include "front/front.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/log.h"
#include "call_ids.h"
#include "config.h"
#include "front/absent.h"
#include "front/library.h"
#include "front/slots.h"
#include "include/shunt.h"

static struct shunt_services services;
static void *next[SHUNT_NSLOTS], *target[SHUNT_NSLOTS];
static struct shunt_conf conf;
static struct shunt_library library;
static bool have_library;
static atomic_uchar missed[SHUNT_NSLOTS]; /* said so already */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool started; /* release: the variables above are final, but for next and target without an engine */
static _Atomic(const char *) mode = "unused";

static _Thread_local struct shunt_thread this_thread __attribute__((tls_model("initial-exec")));

static struct shunt_thread *get_thread(void)
{
    return &this_thread;
}

/* Our function, whoever else has one of the public name. */
extern __typeof__(shunt_version) own_version __attribute__((alias("shunt_version"), visibility("hidden")));

/* ---- the engine ---- */

static void *find_symbol(const char *symbol)
{
    return shunt_library_symbol(&library, symbol);
}

/* The folder of libshunt.so, as it was when it was loaded: the program may have gone elsewhere since. */
static void find_own_folder(char folder[PATH_MAX])
{
    Dl_info info;
    void *self = dladdr(&conf, &info) ? dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    if (!self)
        return;
    dlinfo(self, RTLD_DI_ORIGIN, folder);
    dlclose(self);
}

enum { ENGINE_PATH_BYTES = PATH_MAX + 64 };

/* In SHUNT_ENGINE_DIR, else where it is installed, else beside libshunt.so as a build leaves it. */
static void find_engine(char path[ENGINE_PATH_BYTES])
{
    char folder[PATH_MAX] = "?", beside[ENGINE_PATH_BYTES];
    const char *given = shunt_env("SHUNT_ENGINE_DIR");
    if (given && *given) {
        snprintf(path, ENGINE_PATH_BYTES, "%s/engine-%s.so", given, library.family);
        return;
    }
    find_own_folder(folder);
    snprintf(path, ENGINE_PATH_BYTES, "%s/shunt/engine-%s.so", folder, library.family);
    snprintf(beside, sizeof beside, "%s/engine-%s.so", folder, library.family);
    if (access(path, F_OK) != 0 && access(beside, F_OK) == 0)
        strcpy(path, beside);
}

static bool node_has_gpu(void)
{
    const char *simulated = shunt_env("SHUNT_SIM_PRESET");
    return (simulated && *simulated) || access("/dev/nvidiactl", F_OK) == 0;
}

static void *open_engine(void)
{
    char path[ENGINE_PATH_BYTES];
    find_engine(path);
    if (access(path, F_OK) != 0) {
        shunt_log_always("no engine for %s (%s) at %s: its calls pass through", library.path, library.family, path);
        return NULL;
    }
    void *engine = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!engine)
        shunt_log_always("the engine for %s cannot be loaded: %s; its calls pass through", library.path, dlerror());
    return engine;
}

static bool start_engine(void)
{
    void *engine = open_engine();
    if (!engine)
        return false;
    shunt_engine_start_function *start;
    *(void **)&start = dlsym(engine, SHUNT_ENGINE_START);
    if (!start) {
        shunt_log_always("the engine for %s is not an engine; its calls pass through", library.path);
        return false;
    }
    for (int slot = 0; slot < SHUNT_NSLOTS; slot++)
        target[slot] = next[slot] = find_symbol(shunt_slot_name(slot));
    static struct shunt_front front = {
        .version = PACKAGE_VERSION,
        .digest = SHUNT_CALLS_DIGEST,
        .conf = &conf,
        .thread = get_thread,
        .find = find_symbol,
        .next = next,
        .target = target,
        .services = &services,
    };
    front.log = shunt_log;
    front.gpu = node_has_gpu();
    if (start(&front) != SHUNT_OK)
        return false;
    for (int slot = 0; slot < SHUNT_NSLOTS; slot++)
        if (target[slot]) /* release: a thread that jumps to a shim finds the engine started */
            atomic_store_explicit(&shunt_slots[slot], target[slot], memory_order_release);
    shunt_info("front", "serving %s by the engine for %s", library.path, library.family);
    return true;
}

/* ---- which way ---- */

/* Find the library and decide; answers the word for shunt_mode. */
static const char *choose_mode(const void *caller)
{
    have_library = shunt_library_find(caller, &library);
    if (!have_library) {
        shunt_log_always("an MPI function was called, but no MPI library is in this process: it must be linked too "
                         "(with --no-as-needed if the linker drops it)");
        return "no-mpi";
    }
    /* an earlier libshunt.so (preloaded and linked from different folders) sees all calls before us */
    if (dlsym(RTLD_DEFAULT, "shunt_version") != (void *)own_version)
        return "second";
    if (conf.disable)
        return "off";
    if (!node_has_gpu() && conf.net == SHUNT_NET_MPI)
        return "no-gpu";
    if (library.mixed) {
        shunt_log_always("libraries of the standard MPI ABI and of another ABI are in one process (one is %s): "
                         "calls pass through", library.path);
        return "mixed-mpi";
    }
    if (!library.family) {
        shunt_log_always("%s is an MPI that shunt does not know: its calls pass through", library.path);
        return "unknown-mpi";
    }
    return start_engine() ? "engine" : "no-engine";
}

static void load_settings(void)
{
    shunt_conf_load(&conf);
    shunt_conf_use(&conf);
    shunt_log_start();
}

static void start(const void *caller)
{
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&started, memory_order_relaxed)) {
        load_settings();
        atomic_store_explicit(&mode, choose_mode(caller), memory_order_release);
        atomic_store_explicit(&started, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- calls ---- */

static int answer_other(void)
{
    return have_library ? library.err_other : 15;
}

static int answer_no(void)
{
    return 0;
}

static int write_no(int gpu_type, int *is_supported)
{
    (void)gpu_type;
    *is_supported = 0;
    return 0;
}

static void *answer_missing(unsigned slot)
{
    enum shunt_lack lack = shunt_slot_lack(slot);
    if (lack == SHUNT_SHOWN_MEANS_NO || lack == SHUNT_SHOWN_WRITES_NO)
        return lack == SHUNT_SHOWN_MEANS_NO ? (void *)answer_no : (void *)write_no;
    if (!atomic_exchange_explicit(&missed[slot], 1, memory_order_relaxed))
        shunt_warn("front", "%s was called, which %s does not have", shunt_slot_name(slot),
                   have_library ? library.path : "this process");
    return lack == SHUNT_MEANS_NO ? (void *)answer_no : (void *)answer_other;
}

/* Where to go with a call whose slot was not set; called from slots.S with the slot and the return address. */
void *shunt_front_resolve(unsigned slot, const void *caller)
{
    int saved = errno;
    if (!atomic_load_explicit(&started, memory_order_acquire))
        start(caller);
    pthread_mutex_lock(&lock); /* an engine that starts late must have the last word */
    void *function = target[slot]; /* set by an engine, or NULL */
    if (!function && have_library)
        function = find_symbol(shunt_slot_name(slot));
    if (function)
        atomic_store_explicit(&shunt_slots[slot], function, memory_order_release);
    pthread_mutex_unlock(&lock);
    if (!function)
        function = answer_missing(slot);
    errno = saved;
    return function;
}

/* ---- at load ---- */

/*
 * Costs a process without MPI a look-up and a change of 24 KB, some microseconds. Linked after the MPI library, no call
 * would ever come here: this is the only place to say so.
 */
__attribute__((constructor)) static void begin(void)
{
    shunt_absent_watch();
    if (!shunt_library_first())
        return;
    load_settings();
    atomic_store_explicit(&mode, "wrong-order", memory_order_release);
    if (!conf.disable)
        shunt_log_always("libshunt.so comes after the MPI library and sees none of its calls: link -lshunt before "
                         "the MPI library, or preload libshunt.so");
}

/* ---- shunt's own datatypes ---- */

static bool in_mode(const char *word)
{
    return strcmp(atomic_load_explicit(&mode, memory_order_acquire), word) == 0;
}

/* On a node without a GPU the engine is started only now: calls with these types must come to it. */
static void start_late(const void *caller)
{
    pthread_mutex_lock(&lock);
    if (in_mode("no-gpu") && library.family && !library.mixed)
        atomic_store_explicit(&mode, start_engine() ? "engine" : "no-engine", memory_order_release);
    else if (in_mode("wrong-order") && !have_library) /* to know what no datatype is */
        have_library = shunt_library_find(caller, &library);
    pthread_mutex_unlock(&lock);
}

static uintptr_t find_datatype(unsigned which, const void *caller)
{
    int saved = errno;
    if (!atomic_load_explicit(&started, memory_order_acquire) && !in_mode("wrong-order"))
        start(caller);
    if (in_mode("no-gpu") || in_mode("wrong-order"))
        start_late(caller);
    uintptr_t handle = in_mode("engine") ? services.datatype(which) : library.null_type;
    errno = saved;
    return handle;
}

/* In the header they answer an MPI_Datatype, which is an int or a pointer: what returns both returns this. */
SHUNT_PUBLIC uintptr_t shunt_type_float16(void);
SHUNT_PUBLIC uintptr_t shunt_type_bfloat16(void);

uintptr_t shunt_type_float16(void)
{
    return find_datatype(0, __builtin_return_address(0));
}

uintptr_t shunt_type_bfloat16(void)
{
    return find_datatype(1, __builtin_return_address(0));
}

/* ---- for everybody ---- */

const char *shunt_version(void)
{
    return PACKAGE_VERSION;
}

const char *shunt_mode(void)
{
    return atomic_load_explicit(&mode, memory_order_acquire);
}

int shunt_flush(void)
{
    /* Acquire: once started, the services are those of the engine, or none. */
    return atomic_load_explicit(&started, memory_order_acquire) && services.flush ? services.flush() : 0;
}
