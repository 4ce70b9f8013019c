/* SPDX-License-Identifier: BSD-3-Clause */
/* Tracking of communicators: hooks of creation and free, members, boards. */
#include "mpi/comm.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "mpi/forms.h"
#include "mpi/idup.h"
#include "mpi/life.h"
#include "mpi/request.h"

struct shunt_map shunt_comms = SHUNT_MAP_INITIALIZER;

/* The attribute by which we learn of frees that no hook saw. Made on first use, under the lock. */
static int keyval = MPI_KEYVAL_INVALID;
static pthread_mutex_t keyval_lock = PTHREAD_MUTEX_INITIALIZER;

/* The world ranks of a group's members, in order. */
struct members {
    int n;
    int *ranks;   /* owned */
    bool foreign; /* some are not in our MPI_COMM_WORLD, or there is none */
};

static enum shunt_kind find_kind(enum shunt_call_id id)
{
    switch (id) {
    case SHUNT_CALL_Comm_dup:
    case SHUNT_CALL_Comm_dup_with_info: return SHUNT_KIND_DUP;
    case SHUNT_CALL_Comm_idup:
    case SHUNT_CALL_Comm_idup_with_info: return SHUNT_KIND_IDUP;
    case SHUNT_CALL_Comm_split: return SHUNT_KIND_SPLIT;
    case SHUNT_CALL_Comm_split_type: return SHUNT_KIND_SPLIT_TYPE;
    case SHUNT_CALL_Comm_create: return SHUNT_KIND_CREATE;
    case SHUNT_CALL_Comm_create_group: return SHUNT_KIND_CREATE_GROUP;
    case SHUNT_CALL_Intercomm_create: return SHUNT_KIND_INTER_CREATE;
    case SHUNT_CALL_Intercomm_merge: return SHUNT_KIND_INTER_MERGE;
    case SHUNT_CALL_Cart_create: return SHUNT_KIND_CART;
    case SHUNT_CALL_Cart_sub: return SHUNT_KIND_CART_SUB;
    case SHUNT_CALL_Graph_create: return SHUNT_KIND_GRAPH;
    case SHUNT_CALL_Dist_graph_create:
    case SHUNT_CALL_Dist_graph_create_adjacent: return SHUNT_KIND_DIST_GRAPH;
    case SHUNT_CALL_Comm_create_from_group:
    case SHUNT_CALL_Intercomm_create_from_groups: return SHUNT_KIND_FROM_GROUP;
    default: return SHUNT_KIND_DYNAMIC;
    }
}

static bool is_from_group(enum shunt_call_id id)
{
    return id == SHUNT_CALL_Comm_create_from_group || id == SHUNT_CALL_Intercomm_create_from_groups;
}

/* ---- members ---- */

static void translate_members(MPI_Group group, MPI_Group world, struct members *members)
{
    int *own = malloc(members->n * sizeof *own);

    members->foreign = true;
    if (!own || !members->ranks)
        goto out;
    for (int i = 0; i < members->n; i++)
        own[i] = i;
    if (shunt_host.Group_translate_ranks(group, members->n, own, world, members->ranks) != MPI_SUCCESS)
        goto out;
    members->foreign = false;
    for (int i = 0; i < members->n; i++)
        members->foreign |= members->ranks[i] == MPI_UNDEFINED;
out:
    free(own);
}

static void find_members(MPI_Comm handle, bool remote, struct members *members)
{
    MPI_Group world = shunt_life_world_group(), group;
    int rc = remote ? shunt_host.Comm_remote_group(handle, &group) : shunt_host.Comm_group(handle, &group);

    *members = (struct members){ .foreign = true };
    if (rc != MPI_SUCCESS)
        return;
    if (world != MPI_GROUP_NULL && shunt_host.Group_size(group, &members->n) == MPI_SUCCESS && members->n > 0) {
        members->ranks = malloc(members->n * sizeof *members->ranks);
        translate_members(group, world, members);
    }
    shunt_host.Group_free(&group);
}

/* ---- boards ---- */

/* Open the board of an intra-communicator of several ranks, or say why it has none. */
static void open_board(struct shunt_comm *comm, const struct members *members)
{
    struct shunt_arena *arena = shunt_life_arena();
    bool all = true;

    if (!arena) {
        comm->reason = SHUNT_REASON_NO_ARENA;
        return;
    }
    comm->reason = SHUNT_REASON_NOT_REGISTERED;
    if (!comm->keyed || !(comm->slots = malloc(members->n * sizeof *comm->slots)))
        return;
    if (shunt_hier_open(arena, comm->key, members->n, members->ranks, comm->rank, &comm->hier) != SHUNT_OK)
        comm->hier = NULL;
    for (int i = 0; i < members->n; i++) {
        comm->slots[i] = shunt_arena_slot(arena, members->ranks[i]);
        all &= comm->slots[i] >= 0;
    }
    if (comm->hier)
        comm->reason = SHUNT_REASON_SEVERAL_NODES;
    if (!all || comm->hier)
        return;
    comm->reason = SHUNT_REASON_NONE;
    if (shunt_board_open(arena, comm->key, members->n, comm->slots, comm->rank, &comm->board) != SHUNT_OK) {
        comm->board = NULL;
        comm->reason = SHUNT_REASON_BOARD_FULL;
    }
}

static void describe_comm(struct shunt_comm *comm, const struct shunt_origin *origin)
{
    struct members local, remote = { 0 };

    find_members(comm->handle, false, &local);
    if (comm->intercomm)
        find_members(comm->handle, true, &remote);
    comm->keyed = comm->keyed && !local.foreign && !remote.foreign;
    if (comm->keyed)
        comm->key = shunt_key_make(origin, local.ranks, local.n, remote.ranks, remote.n);
    if (comm->intercomm)
        comm->reason = SHUNT_REASON_INTERCOMM;
    else if (comm->size > 1)
        open_board(comm, &local);
    free(local.ranks);
    free(remote.ranks);
}

/* ---- attribute ---- */

static void release_comm(struct shunt_comm *comm)
{
    if (comm && comm->board)
        shunt_board_close(comm->board);
    if (comm && comm->hier)
        shunt_hier_close(comm->hier);
    if (comm) {
        free(comm->neighbours);
        free(comm->slots);
    }
    free(comm);
}

/* The host frees a communicator. In most cases a hook has seen that before, and nothing is found. */
static int forget_comm(MPI_Comm handle, int key, void *value, void *extra)
{
    int saved = errno;

    (void)key;
    (void)extra;
    if (!shunt_life_forked())
        release_comm(shunt_map_remove(&shunt_comms, shunt_comm_word(handle), value));
    errno = saved;
    return MPI_SUCCESS;
}

static void watch_comm(struct shunt_comm *comm)
{
    pthread_mutex_lock(&keyval_lock);
    if (keyval == MPI_KEYVAL_INVALID)
        shunt_host.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_comm, &keyval, NULL);
    pthread_mutex_unlock(&keyval_lock);
    if (keyval != MPI_KEYVAL_INVALID)
        shunt_host.Comm_set_attr(comm->handle, keyval, comm);
}

/* ---- in and out ---- */

void shunt_comm_enter(MPI_Comm handle, const struct shunt_origin *origin, bool keyed)
{
    int intercomm = 0;
    void *stale = NULL;
    struct shunt_comm *comm = calloc(1, sizeof *comm);

    if (!comm)
        return;
    comm->handle = handle;
    comm->keyed = keyed;
    if (shunt_host.Comm_test_inter(handle, &intercomm) != MPI_SUCCESS ||
        shunt_host.Comm_size(handle, &comm->size) != MPI_SUCCESS ||
        shunt_host.Comm_rank(handle, &comm->rank) != MPI_SUCCESS)
        goto undo_alloc;
    comm->intercomm = intercomm;
    describe_comm(comm, origin);
    if (shunt_map_put(&shunt_comms, shunt_comm_word(handle), comm, &stale) != SHUNT_OK)
        goto undo_alloc;
    release_comm(stale);
    if (origin->kind != SHUNT_KIND_ROOT)
        watch_comm(comm);
    shunt_trace("comm", "entered a communicator of %d ranks, key %016llx, %s", comm->size,
                (unsigned long long)comm->key.word[0],
                comm->board ? "with a board" : comm->hier ? "over several nodes" : shunt_reason_text(comm->reason));
    return;
undo_alloc:
    release_comm(comm);
}

struct shunt_comm *shunt_comm_get(MPI_Comm handle)
{
    struct shunt_comm *comm = shunt_comm_find(handle);

    /* Relaxed: the caller uses the new communicator, so it is ordered after the call that raised the counter. */
    if (!comm && __atomic_load_n(&shunt_requests_tracked, __ATOMIC_RELAXED) > 0 && shunt_idup_adopt(handle))
        comm = shunt_comm_find(handle);
    return comm;
}

void shunt_comm_start(void)
{
    struct shunt_origin world = { .kind = SHUNT_KIND_ROOT }, self = { .kind = SHUNT_KIND_ROOT, .tag = 1 };

    shunt_comm_enter(MPI_COMM_WORLD, &world, true);
    shunt_comm_enter(MPI_COMM_SELF, &self, true);
}

void shunt_comm_stop(void)
{
    struct shunt_comm *comm;

    shunt_requests_clear();
    while ((comm = shunt_map_pop(&shunt_comms)))
        release_comm(comm);
    shunt_key_reset();
    pthread_mutex_lock(&keyval_lock);
    if (keyval != MPI_KEYVAL_INVALID)
        shunt_host.Comm_free_keyval(&keyval);
    keyval = MPI_KEYVAL_INVALID;
    pthread_mutex_unlock(&keyval_lock);
}

void shunt_comm_abandon(void)
{
    shunt_requests_abandon();
    shunt_map_abandon(&shunt_comms);
}

int shunt_comm_fail(MPI_Comm handle)
{
    shunt_host.Comm_call_errhandler(handle, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

/* ---- hooks ---- */

void shunt_hook_coll(const struct shunt_call *call)
{
    struct shunt_comm *comm = shunt_comm_get(call->comm);

    if (!comm)
        return;
    if (__builtin_expect(__atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) > 0, 0))
        shunt_flights_part(call->comm);
    shunt_comm_pass(comm);
}

/* A host looks at all arguments before it does anything: with one of these errors it has taken no part in the collective. */
static bool is_refusal(int class)
{
    switch (class) {
    case MPI_ERR_BUFFER:
    case MPI_ERR_COUNT:
    case MPI_ERR_TYPE:
    case MPI_ERR_OP:
    case MPI_ERR_ROOT:
    case MPI_ERR_ARG: return true;
    default: return false;
    }
}

/* Of an operation that is made the step is not taken back: the ranks have agreed on it by then. */
void shunt_hook_refused(const struct shunt_call *call, int rc)
{
    struct shunt_comm *comm = shunt_comm_find(call->comm);
    int class = MPI_SUCCESS;

    if (shunt_call_is_persistent(call->id))
        return;
    shunt_host.Error_class(rc, &class);
    if (comm && is_refusal(class))
        shunt_board_retract(comm->hier ? shunt_hier_board(comm->hier) : comm->board);
}

/* Most creation calls are collective on the parent: a mismatch with another collective must be seen. */
void shunt_hook_comm_before(struct shunt_call *call)
{
    if (call->id != SHUNT_CALL_Comm_create_group && call->id != SHUNT_CALL_Comm_join && !is_from_group(call->id))
        shunt_hook_coll(call);
}

/* Count the call; all ranks of the parent come here, also those that are not members of what it made. */
static bool make_origin(const struct shunt_call *call, struct shunt_origin *origin)
{
    struct shunt_comm *parent = is_from_group(call->id) ? NULL : shunt_comm_get(call->comm);

    const int tag = call->id == SHUNT_CALL_Comm_dup_with_info ? 0 : call->tag; /* it has an info there */

    *origin = (struct shunt_origin){ .kind = find_kind(call->id), .tag = tag, .string = call->stringtag };
    switch (origin->kind) {
    case SHUNT_KIND_DYNAMIC: return false;
    /* The two sides have different local communicators: what both know is who they are. */
    case SHUNT_KIND_INTER_CREATE:
    case SHUNT_KIND_FROM_GROUP: return true;
    default: break;
    }
    if (!parent)
        return false;
    origin->parent = parent->key;
    if (!shunt_kind_by_group(origin->kind))
        origin->count = atomic_fetch_add_explicit(&parent->created[origin->kind], 1, memory_order_relaxed);
    return parent->keyed;
}

void shunt_hook_comm_after(struct shunt_call *call, int rc)
{
    struct shunt_origin origin;
    int saved = errno;

    if (rc != MPI_SUCCESS || !call->newcomm || shunt_life_forked())
        return;
    bool keyed = make_origin(call, &origin);
    if (origin.kind == SHUNT_KIND_IDUP && *call->requests != MPI_REQUEST_NULL)
        shunt_idup_add(*call->newcomm, *call->requests, &origin, keyed);
    else if (*call->newcomm != MPI_COMM_NULL)
        shunt_comm_enter(*call->newcomm, &origin, keyed);
    errno = saved;
}

void shunt_hook_free(const struct shunt_call *call)
{
    MPI_Comm handle = call->newcomm ? *call->newcomm : MPI_COMM_NULL;
    int saved = errno;

    if (handle == MPI_COMM_NULL || handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF || shunt_life_forked())
        return;
    if (call->id == SHUNT_CALL_Comm_disconnect)
        shunt_requests_drain(handle);
    release_comm(shunt_map_remove(&shunt_comms, shunt_comm_word(handle), NULL));
    errno = saved;
}
