/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start and end: Init, Finalize, sessions, fork.
 *
 * The process registers in the arena before the host's Init and the set is sealed after it, so that all local ranks
 * that run with shunt are in it. At Finalize everything is given back before the host's function runs. Nothing happens
 * at exit: a program that never calls MPI_Finalize leaves nothing behind, since the arena's file is unlinked early.
 */
#include "mpi/life.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/stats.h"
#include "coll/helper.h"
#include "coll/nodes.h"
#include "coll/run.h"
#include "cuda/gpu.h"
#include "mpi/access.h"
#include "mpi/comm.h"
#include "mpi/exchange.h"
#include "mpi/flatten.h"
#include "mpi/flight.h"
#include "mpi/float16.h"
#include "mpi/parcel.h"
#include "mpi/receipt.h"
#include "mpi/request.h"
#include "pt2pt/distant.h"
#include "pt2pt/spill.h"
#include "ucx/net.h"

enum phase { BEFORE, STARTING, RUNNING, ENDING, OVER };

static struct {
    enum phase phase;
    struct shunt_arena *arena;
    MPI_Group world;
    atomic_int sessions;
    atomic_bool forked;
} life = { .world = MPI_GROUP_NULL };

struct shunt_arena *shunt_life_arena(void)
{
    return life.phase == RUNNING ? life.arena : NULL;
}

MPI_Group shunt_life_world_group(void)
{
    return life.world;
}

bool shunt_life_forked(void)
{
    return atomic_load_explicit(&life.forked, memory_order_relaxed);
}

bool shunt_life_has_threads(void)
{
    int provided = MPI_THREAD_MULTIPLE;

    return shunt_host.Query_thread(&provided) != MPI_SUCCESS || provided == MPI_THREAD_MULTIPLE;
}

int shunt_life_flush(void)
{
    int saved = errno, left = 0;

    if (!shunt_life_forked() && shunt_life_arena() && shunt_gpu_in_use())
        left = shunt_coll_flush();
    errno = saved;
    return left;
}

bool shunt_life_has_session(void)
{
    return atomic_load(&life.sessions) > 0;
}

static void enter_child(void)
{
    atomic_store_explicit(&life.forked, true, memory_order_relaxed);
    shunt_comm_abandon();
    shunt_patterns_abandon();
    shunt_accesses_abandon();
    shunt_flights_abandon();
    shunt_receipts_stop();
    shunt_net_abandon();
}

static void start_process(void)
{
    pthread_atfork(NULL, NULL, enter_child);
    shunt_select_start();
}

static void start_process_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start_process);
}

/*
 * Open marker.so, which lies beside the engine: coming after all that MPI_Init opened, it marks the end of the list of
 * loaded objects, and whoever loads CUDA later shows behind it.
 */
static void watch_for_cuda(void)
{
    static const char name[] = "marker.so";
    char path[PATH_MAX];
    Dl_info info;

    if (!dladdr(&life, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    size_t folder = slash ? slash + 1 - info.dli_fname : 0;
    if (folder == 0 || folder + sizeof name > sizeof path)
        return;
    memcpy(path, info.dli_fname, folder);
    memcpy(path + folder, name, sizeof name);
    shunt_gpu_watch(path);
}

/* ---- MPI_Init, MPI_Finalize ---- */

static bool is_session(const struct shunt_call *call)
{
    return call->id == SHUNT_CALL_Session_init || call->id == SHUNT_CALL_Session_finalize;
}

static void start_world(void)
{
    int rank = 0, size = 1;

    shunt_host.Comm_rank(MPI_COMM_WORLD, &rank);
    shunt_host.Comm_size(MPI_COMM_WORLD, &size);
    shunt_host.Comm_group(MPI_COMM_WORLD, &life.world);
    shunt_log_set_rank(rank);
    if (life.arena) {
        shunt_arena_set_world(life.arena, rank, size);
        shunt_arena_seal(life.arena);
    }
    life.phase = RUNNING;
    shunt_exchange(life.arena, rank, size);
    watch_for_cuda();
    shunt_comm_start();
    shunt_info("mpi", "rank %d of %d, %s", rank, size, life.arena ? "in the node's arena" : "without an arena");
}

static void leave_arena(void)
{
    shunt_stats_attach(NULL);
    shunt_arena_leave(life.arena);
    life.arena = NULL;
}

void shunt_hook_init_before(const struct shunt_call *call)
{
    int saved = errno;

    if (shunt_life_forked())
        return;
    start_process_once();
    if (!is_session(call) && life.phase == BEFORE) {
        life.phase = STARTING;
        if (shunt_arena_join(&life.arena) != SHUNT_OK)
            life.arena = NULL;
        shunt_stats_attach(life.arena); /* already now: a peer that is done before we are through Init must wait for us */
    }
    errno = saved;
}

void shunt_hook_init_after(const struct shunt_call *call, int rc)
{
    int saved = errno;

    if (shunt_life_forked())
        return;
    if (is_session(call)) {
        if (rc == MPI_SUCCESS)
            atomic_fetch_add(&life.sessions, 1);
    } else if (life.phase == STARTING && rc == MPI_SUCCESS) {
        start_world();
    } else if (life.phase == STARTING) {
        leave_arena();
        life.phase = BEFORE;
    }
    errno = saved;
}

void shunt_hook_final_before(const struct shunt_call *call)
{
    int saved = errno;

    if (shunt_life_forked())
        return;
    /* With the last session MPI itself goes, and with it our attribute key. */
    if (is_session(call) && life.phase != RUNNING && atomic_load(&life.sessions) == 1) {
        shunt_requests_drain(MPI_COMM_NULL);
        shunt_comm_stop();
        shunt_accesses_clear();
        shunt_patterns_stop();
        shunt_float16_stop();
    }
    if (!is_session(call)) {
        shunt_patterns_stop();
        shunt_float16_stop();
    }
    if (is_session(call) || life.phase != RUNNING)
        return;
    shunt_flights_finish();
    shunt_helper_stop(life.arena);
    shunt_requests_drain(MPI_COMM_NULL);
    shunt_parcels_finish();
    life.phase = ENDING;
    shunt_stats_finish(life.arena);
    shunt_comm_stop();
    shunt_nodes_end();
    shunt_accesses_clear();
    shunt_receipts_stop();
    shunt_spill_close();
    shunt_gpu_finish();
    shunt_host.Group_free(&life.world);
    life.world = MPI_GROUP_NULL;
    errno = saved;
}

void shunt_hook_final_after(const struct shunt_call *call, int rc)
{
    int saved = errno;

    if (shunt_life_forked())
        return;
    if (is_session(call)) {
        /* The last session of a program that never called MPI_Init: what belongs to no communicator ends here. */
        if (rc == MPI_SUCCESS && atomic_fetch_sub(&life.sessions, 1) == 1 && life.phase == BEFORE)
            shunt_stats_finish(NULL);
    } else if (life.phase == ENDING) {
        /* Not before the host has waited for all: ranks that are not here yet may still ask what this one has not taken part in. */
        shunt_nodes_stop();
        shunt_distant_stop();
        leave_arena();
        life.phase = OVER;
    }
    errno = saved;
}
