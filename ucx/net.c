/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network of the process: its start and end, its lock, and the thread that answers what comes. The thread sleeps until UCX or
 * one of ours has something for it; while threads of the application wait for the network, they drive it, and it looks in only now
 * and then, in case they are kept somewhere.
 */
#include "ucx/net.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "ucx/inner.h"
#include "ucx/interfaces.h"

#define STOP_SECONDS 1.0 /* for what is still under way at the end */

enum { TURNS = 1000 }; /* of progress under one hold of the lock */

struct net net;

static struct {
    pthread_t thread;
    atomic_bool runs, stop;
    atomic_int attended, parallel; /* threads of the application that drive the network; those that want help */
    int wake, event;               /* descriptors: from us, from UCX */
    pid_t owner;
    bool watched; /* the process's end is */
} helper = { .wake = -1, .event = -1 };

bool net_runs(void)
{
    return atomic_load_explicit(&helper.runs, memory_order_acquire);
}

void shunt_net_lock(void)
{
    pthread_mutex_lock(&net.lock);
}

void shunt_net_unlock(void)
{
    pthread_mutex_unlock(&net.lock);
}

/* ---- the thread ---- */

static void rouse(void)
{
    uint64_t one = 1;

    /* Full is as good as written. */
    if (write(helper.wake, &one, sizeof one) < 0)
        return;
}

/* Under the lock: all that there is to do. True if UCX has promised to wake us. *soon: somebody wants to be looked after. */
static bool work_off(bool *soon)
{
    int turns = 0;

    while (turns < TURNS && shunt_ucp.ucp_worker_progress(net.worker) != 0)
        turns++;
    net_look_for_ended();
    *soon = net.look();
    return turns < TURNS && shunt_ucp.ucp_worker_arm(net.worker) == UCS_OK;
}

static void sleep_until_work(bool armed, bool soon)
{
    bool attended = atomic_load(&helper.attended) > 0;
    struct pollfd look[2] = { { .fd = helper.wake, .events = POLLIN }, { .fd = helper.event, .events = POLLIN } };
    struct timespec pause = { .tv_nsec = !attended && !armed ? 0 : attended ? 1000000 : 100000 };
    uint64_t count;

    ppoll(look, attended ? 1 : 2, armed && !soon && !attended ? NULL : &pause, NULL);
    if ((look[0].revents & POLLIN) && read(helper.wake, &count, sizeof count) < 0)
        return;
}

static void *help(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "shunt-net");
    prctl(PR_SET_TIMERSLACK, 1000ul); /* ns: the usual 50 us are longer than a message */
    while (!atomic_load(&helper.stop)) {
        bool soon = false, armed = false;
        if (atomic_load_explicit(&helper.parallel, memory_order_relaxed) > 0) {
            shunt_net_progress();
            sched_yield();
            continue;
        }
        shunt_net_lock();
        if (!atomic_load(&helper.stop))
            armed = work_off(&soon);
        shunt_net_unlock();
        sleep_until_work(armed, soon);
    }
    return NULL;
}

static void stop_thread(void)
{
    struct timespec end;

    if (atomic_exchange(&helper.stop, true))
        return;
    rouse();
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 2;
    pthread_timedjoin_np(helper.thread, NULL, &end);
}

/* exit without MPI_Finalize: UCX's own end comes behind us, and the thread must not be in it then. */
static void end_process(void)
{
    if (getpid() == helper.owner && net_runs())
        stop_thread();
}

static bool start_thread(void)
{
    sigset_t all, before;

    helper.owner = getpid();
    atomic_store(&helper.stop, false);
    /* The application's signals are for its own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&helper.thread, NULL, help, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        shunt_warn("net", "no thread for the network: error %d", error);
    else if (!helper.watched)
        helper.watched = atexit(end_process) == 0;
    return error == 0;
}

/* ---- start ---- */

static bool is_set(const char *own, const char *general)
{
    const char *a = shunt_env(own), *b = shunt_env(general);

    return (a != NULL && *a != 0) || (b != NULL && *b != 0);
}

/* What we want otherwise than UCX does by itself, where the user has not said how it is to be. */
static ucs_status_t read_config(bool without_cuda, ucp_config_t **config)
{
    char names[1024];
    ucs_status_t status = shunt_ucp.ucp_config_read("SHUNT", NULL, config);

    if (status != UCS_OK)
        return status;
    if (without_cuda)
        shunt_ucp.ucp_config_modify(*config, "TLS", "^cuda");
    if (!is_set("SHUNT_UCX_KEEPALIVE_INTERVAL", "UCX_KEEPALIVE_INTERVAL"))
        shunt_ucp.ucp_config_modify(*config, "KEEPALIVE_INTERVAL", "1s");
    if (shunt_interfaces_choose(shunt_conf->net_ifname, names, sizeof names)) {
        status = shunt_ucp.ucp_config_modify(*config, "NET_DEVICES", names);
        shunt_info("net", "network devices: %s", names);
    }
    return status;
}

static ucs_status_t init_context(bool without_cuda)
{
    ucp_config_t *config;
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .name = "shunt",
    };
    ucs_status_t status = read_config(without_cuda, &config);

    if (status != UCS_OK)
        return status;
    status = shunt_ucp.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &net.context);
    shunt_ucp.ucp_config_release(config);
    return status;
}

/*
 * It gets host memory only, so its transports for CUDA memory are left out, where it has any. (Where it has none it would
 * complain about their names.)
 */
static ucs_status_t create_context(void)
{
    ucp_context_attr_t attr = { .field_mask = UCP_ATTR_FIELD_MEMORY_TYPES };
    ucs_status_t status = init_context(false);

    if (status != UCS_OK || is_set("SHUNT_UCX_TLS", "UCX_TLS") ||
        shunt_ucp.ucp_context_query(net.context, &attr) != UCS_OK || !(attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)))
        return status;
    shunt_ucp.ucp_cleanup(net.context);
    net.context = NULL;
    return init_context(true);
}

static ucs_status_t create_worker(void)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED, /* all is under the lock */
        .events = UCP_WAKEUP_RX | UCP_WAKEUP_TX,
    };

    ucs_status_t status = shunt_ucp.ucp_worker_create(net.context, &params, &net.worker);
    if (status != UCS_OK)
        return status;
    status = net_listen();
    if (status == UCS_OK)
        status = shunt_ucp.ucp_worker_get_efd(net.worker, &helper.event);
    if (status == UCS_OK)
        status = shunt_ucp.ucp_worker_get_address(net.worker, &net.address, &net.address_bytes);
    return status;
}

static void close_ucx(void)
{
    if (net.address != NULL)
        shunt_ucp.ucp_worker_release_address(net.worker, net.address);
    if (net.worker != NULL)
        shunt_ucp.ucp_worker_destroy(net.worker);
    if (net.context != NULL)
        shunt_ucp.ucp_cleanup(net.context);
    if (helper.wake >= 0)
        close(helper.wake);
    helper.wake = -1;
    net.address = NULL;
    net.worker = NULL;
    net.context = NULL;
}

static void prepare_lock(void)
{
    pthread_mutexattr_t kind;

    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&net.lock, &kind);
    pthread_mutexattr_destroy(&kind);
}

enum shunt_status shunt_net_start(const struct shunt_net_hooks *hooks)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int saved = errno;

    pthread_once(&once, prepare_lock);
    if (net_runs())
        return SHUNT_OK;
    shunt_signals_keep();
    bool found = shunt_ucp_open();
    ucs_status_t status = found ? create_context() : UCS_ERR_NO_ELEM;
    if (status == UCS_OK)
        status = create_worker();
    shunt_signals_restore();
    net.look = hooks->look;
    net.hear[SHUNT_NET_CONSENT] = hooks->note;
    helper.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool runs = status == UCS_OK && helper.wake >= 0 && start_thread();
    if (found && status != UCS_OK)
        shunt_warn("net", "UCX cannot be used: error %d", (int)status);
    if (!runs)
        close_ucx();
    atomic_store_explicit(&helper.runs, runs, memory_order_release);
    errno = saved;
    return runs ? SHUNT_OK : SHUNT_PASS;
}

const void *shunt_net_address(size_t *bytes)
{
    *bytes = net_runs() ? net.address_bytes : 0;
    return net_runs() ? net.address : NULL;
}

enum shunt_status shunt_net_peers(int n, int self, const void *addresses, const size_t *begins,
                                  const struct shunt_process *processes)
{
    struct net_peer *peers = calloc((size_t)n, sizeof *peers);
    char *bytes = malloc(begins[n] + 1);
    size_t *copy = malloc(((size_t)n + 1) * sizeof *copy);

    if (!net_runs() || peers == NULL || bytes == NULL || copy == NULL) {
        free(peers);
        free(bytes);
        free(copy);
        return net_runs() ? SHUNT_ERR_MEMORY : SHUNT_PASS;
    }
    const struct shunt_process own = shunt_process_self();
    for (int i = 0; i < n; i++) {
        peers[i].process = processes[i];
        peers[i].local = processes[i].pid != 0 && processes[i].start != 0 && processes[i].space == own.space;
    }
    memcpy(bytes, addresses, begins[n]);
    memcpy(copy, begins, ((size_t)n + 1) * sizeof *copy);
    shunt_net_lock();
    net.n = n;
    net.self = self;
    net.addresses = bytes;
    net.begins = copy;
    net.peers = peers;
    shunt_net_unlock();
    return SHUNT_OK;
}

/* ---- driving ---- */

bool shunt_net_progress(void)
{
    if (!net_runs() || pthread_mutex_trylock(&net.lock) != 0)
        return false;
    bool busy = net.worker != NULL && shunt_ucp.ucp_worker_progress(net.worker) != 0;
    if (!busy && net.worker != NULL)
        net_look_for_ended();
    pthread_mutex_unlock(&net.lock);
    return busy;
}

void shunt_net_attend(bool parallel)
{
    atomic_fetch_add(&helper.attended, 1);
    if (parallel && atomic_fetch_add(&helper.parallel, 1) == 0)
        rouse();
}

void shunt_net_leave(bool parallel)
{
    if (parallel)
        atomic_fetch_sub(&helper.parallel, 1);
    /* What has not quite left, the thread sees off. */
    if (atomic_fetch_sub(&helper.attended, 1) == 1)
        rouse();
}

/* ---- end ---- */

bool net_await(void *request, double seconds)
{
    double end = shunt_seconds() + seconds;

    while (shunt_ucp.ucp_request_check_status(request) == UCS_INPROGRESS) {
        shunt_ucp.ucp_worker_progress(net.worker);
        if (shunt_seconds() > end)
            return false;
    }
    return true;
}

void shunt_net_stop(void)
{
    ucp_request_param_t none = { 0 };
    int saved = errno;

    if (!net_runs() || getpid() != helper.owner)
        return;
    stop_thread();
    shunt_net_lock();
    void *request = shunt_ucp.ucp_worker_flush_nbx(net.worker, &none);
    if (UCS_PTR_IS_PTR(request) && net_await(request, STOP_SECONDS))
        shunt_ucp.ucp_request_free(request);
    net_disconnect_all();
    net_forget_messages();
    atomic_store_explicit(&helper.runs, false, memory_order_release);
    close_ucx();
    free(net.peers);
    free(net.addresses);
    free(net.begins);
    net.peers = NULL;
    net.addresses = NULL;
    net.begins = NULL;
    net.n = 0;
    shunt_net_unlock();
    errno = saved;
}

void shunt_net_abandon(void)
{
    atomic_store_explicit(&helper.runs, false, memory_order_release);
}
