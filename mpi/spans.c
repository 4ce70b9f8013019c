/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tasks of collectives whose blocks differ; spans.h.
 *
 * Whatever form a call has, on each rank it comes to a span {place, bytes} of the send buffer for each rank that gets
 * something, and one of the receive buffer for each from which something comes. Types must be without gaps. Places begin at
 * the first byte that is used, so that none is negative. Where a rank is a neighbour several times, the first block between
 * two ranks is in the first wave of the operation, the second one in the next, and so on.
 */
#include "mpi/spans.h"

#include "mpi/classify.h"
#include "mpi/edges.h"
#include "mpi/operand.h"
#include "mpi/rows.h"
#include "mpi/types.h"

#include <string.h>

/* One side of a call on this rank. */
struct side {
    bool counts, recv;
    char *buffer;
};

/* What the spans of a call are made from. */
struct maker {
    const struct shunt_call *call;
    const struct shunt_collective *shape;
    const struct shunt_comm *comm;
    struct shunt_groups groups;
    struct shunt_spans *spans; /* of each wave; places are from their buffer on, and signed, until they are settled */
    uint32_t waves;   /* in use, and set */
    uint64_t element; /* bytes of one, of collectives that combine; 0: those of each type */
    enum shunt_reason reason;
    bool on_host; /* both sides have been seen to lie in host memory */
};

bool shunt_spans_may(unsigned coll)
{
    return shunt_coll_has(coll, SHUNT_TRAIT_SEND_ROWS | SHUNT_TRAIT_RECV_ROWS) ||
           shunt_collectives[coll].recv.blocks == SHUNT_BLOCKS_SOURCES;
}

/* What this rank sends to each other one in a wave, or receives from it. */
static struct shunt_span *spans_of(const struct maker *maker, bool recv, uint32_t wave)
{
    return recv ? maker->spans[wave].out : maker->spans[wave].in;
}

/* One message from each rank to each other is what the kernels know. */
static void add_span(struct maker *maker, bool recv, int q, uint32_t wave, struct shunt_span span)
{
    if (span.bytes == 0)
        return;
    if (wave >= SHUNT_SPAN_WAVES) {
        maker->reason = SHUNT_REASON_NEIGHBOURS;
        return;
    }
    for (; maker->waves <= wave; maker->waves++)
        maker->spans[maker->waves] = (struct shunt_spans){ 0 };
    spans_of(maker, recv, wave)[q] = span;
}

static bool is_twice(const int *peers, int n, int i)
{
    int times = 0;

    for (int k = 0; k < n; k++)
        times += peers[k] == peers[i];
    return times > 1;
}

/* The same of a neighbour: number i of those on this side. */
static void add_edge(struct maker *maker, bool recv, const int *peers, int n, int i, struct shunt_span span)
{
    enum shunt_edges edges = SHUNT_EDGES_IN_ORDER;

    if (peers[i] == MPI_PROC_NULL || span.bytes == 0)
        return;
    if (recv && is_twice(peers, n, i))
        edges = shunt_edges_of(maker->call, &maker->groups);
    if (edges == SHUNT_EDGES_UNKNOWN)
        maker->reason = SHUNT_REASON_NEIGHBOURS;
    add_span(maker, recv, peers[i], shunt_edge_number(peers, n, i, edges), span);
}

/* Row i, which begins `behind` elements behind the first unless rows have places. False: the call is wrong. */
static bool find_row(struct maker *maker, const struct shunt_side_rows *rows, int i, int64_t *behind, struct shunt_span *span)
{
    int64_t count = shunt_row_count(rows, i + rows->first), place = rows->displs ? shunt_row_place(rows, i) : *behind;
    MPI_Datatype type = rows->types ? rows->types[i] : rows->type;

    *span = (struct shunt_span){ 0, 0 };
    *behind += count;
    if (count <= 0 || type == MPI_DATATYPE_NULL)
        return count == 0;
    uint64_t size = maker->element ? maker->element : shunt_classify_dense(shunt_types_find(type), type);
    if (size == 0)
        maker->reason = SHUNT_REASON_DERIVED_TYPE;
    *span = (struct shunt_span){ (uint64_t)place * (rows->types ? 1 : size), (uint64_t)count * size };
    return true;
}

/* The one block of a side goes to, or comes from: the root, all neighbours, or all ranks. */
static void add_to_all(struct maker *maker, bool recv, struct shunt_span span)
{
    const struct shunt_groups *groups = &maker->groups;
    bool rooted = maker->shape->send.who == SHUNT_WHO_ROOT || maker->shape->recv.who == SHUNT_WHO_ROOT;

    if (rooted) {
        add_span(maker, recv, maker->call->root, 0, span);
    } else if (groups->neighbours) {
        const int *peers = groups->neighbours + (recv ? 0 : groups->sources);
        int n = recv ? groups->sources : groups->destinations;
        for (int i = 0; i < n; i++)
            add_edge(maker, recv, peers, n, i, span);
    } else {
        for (int q = 0; q < groups->own; q++)
            add_span(maker, recv, q, 0, span);
    }
}

static bool find_spans(struct maker *maker, bool recv)
{
    struct shunt_side_rows rows = shunt_side_rows(maker->call, maker->shape, recv, &maker->groups);
    enum shunt_blocks blocks = recv ? maker->shape->recv.blocks : maker->shape->send.blocks;
    struct shunt_span span;
    int64_t behind = 0;

    if (rows.missing)
        return false;
    if (blocks == SHUNT_BLOCKS_ONE || blocks == SHUNT_BLOCKS_OWN_ROW) {
        if (!find_row(maker, &rows, 0, &behind, &span))
            return false;
        add_to_all(maker, recv, span);
        return true;
    }
    for (int i = 0; i < rows.n; i++) {
        if (!find_row(maker, &rows, i, &behind, &span))
            return false;
        if (rows.peers)
            add_edge(maker, recv, rows.peers, rows.n, i, span);
        else
            add_span(maker, recv, i, 0, span);
    }
    return true;
}

/* The sender in place: what it sends lies in the receive buffer. */
static bool send_in_place(struct maker *maker, struct side *send, const struct side *recv)
{
    int me = maker->comm->rank;

    if (!recv->counts || maker->shape->recv.blocks == SHUNT_BLOCKS_SOURCES)
        return false;
    send->buffer = recv->buffer;
    switch (maker->shape->in_place) {
    case SHUNT_IN_PLACE_ITS_ROW: add_to_all(maker, false, maker->spans->out[me]); return true;
    case SHUNT_IN_PLACE_ITS_ROWS:
        memcpy(maker->spans->in, maker->spans->out, sizeof maker->spans->in);
        return true;
    default: return find_spans(maker, false);
    }
}

/* Fill the spans of both sides. False: the call is wrong. */
static bool find_sides(struct maker *maker, struct side *send, struct side *recv)
{
    const struct shunt_call *call = maker->call;
    int me = maker->comm->rank;

    if (recv->counts && (void *)recv->buffer == MPI_IN_PLACE) { /* only Scatterv's root, whose own block stays */
        if (!send->counts || maker->shape->send.who != SHUNT_WHO_ROOT || !find_spans(maker, false))
            return false;
        recv->buffer = send->buffer;
        maker->spans->out[call->root] = maker->spans->in[me];
        return true;
    }
    if (recv->counts && !find_spans(maker, true))
        return false;
    if (!send->counts)
        return true;
    return call->sendbuf == MPI_IN_PLACE ? send_in_place(maker, send, recv) : find_spans(maker, false);
}

/* Let places begin at the first byte used. False: nothing is used. */
static bool settle(const struct maker *maker, struct side *side)
{
    const uint32_t n = (uint32_t)maker->comm->size, all = side->counts ? maker->waves * n : 0;
    bool used = false;
    int64_t low = 0;

    for (uint32_t i = 0; i < all; i++) {
        const struct shunt_span *span = &spans_of(maker, side->recv, i / n)[i % n];
        if (span->bytes == 0)
            continue;
        low = !used || (int64_t)span->at < low ? (int64_t)span->at : low;
        used = true;
    }
    for (uint32_t i = 0; i < all && used; i++) {
        struct shunt_span *span = &spans_of(maker, side->recv, i / n)[i % n];
        span->at = span->bytes ? span->at - (uint64_t)low : 0;
    }
    side->buffer = used ? side->buffer + low : side->buffer;
    return used;
}

/* A buffer of which nothing is used still tells where this rank's memory is, if it is one. */
static char *any_buffer(const struct side *send, const struct side *recv)
{
    if (recv->counts && recv->buffer && (void *)recv->buffer != MPI_IN_PLACE)
        return recv->buffer;
    return send->counts && (void *)send->buffer != MPI_IN_PLACE ? send->buffer : NULL;
}

/* Where both sides are, one standing for the other if that is not used. False: on host memory, or nowhere. */
static bool find_memory(struct maker *maker, struct side *send, struct side *recv, struct shunt_task *task)
{
    bool bottom = (send->counts && send->buffer == (char *)MPI_BOTTOM) || (recv->counts && recv->buffer == (char *)MPI_BOTTOM);
    bool sends = settle(maker, send), receives = settle(maker, recv);
    char *any = any_buffer(send, recv);

    if (bottom && (sends || receives)) /* rows may lie in any memory */
        return false;
    task->send = sends ? send->buffer : receives ? recv->buffer : any;
    task->recv = receives ? recv->buffer : (char *)task->send;
    if (!task->send)
        return false;
    shunt_gpu_classify(task->send, &task->send_mem);
    task->recv_mem = task->send_mem;
    if (task->recv != task->send)
        shunt_gpu_classify(task->recv, &task->recv_mem);
    maker->on_host = task->send_mem.kind == SHUNT_MEM_HOST && task->recv_mem.kind == SHUNT_MEM_HOST;
    return !maker->on_host;
}

/* Does a block that is sent have a byte in common with one that comes? MPI does not allow it, and hosts may look. */
static bool do_overlap(const struct maker *maker, const struct shunt_task *task)
{
    const uint32_t n = (uint32_t)maker->comm->size, all = maker->waves * n;
    const char *send = task->send, *recv = task->recv;

    for (uint32_t i = 0; i < all; i++) {
        const struct shunt_span *in = &maker->spans[i / n].in[i % n];
        for (uint32_t k = 0; k < all && in->bytes; k++) {
            const struct shunt_span *out = &maker->spans[k / n].out[k % n];
            if (shunt_bytes_overlap(send + in->at, in->bytes, recv + out->at, out->bytes))
                return true;
        }
    }
    return false;
}

/* Elements of the largest block. */
static uint64_t largest(const struct maker *maker)
{
    const uint32_t n = (uint32_t)maker->comm->size;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < maker->waves * n; i++) {
        const struct shunt_spans *spans = &maker->spans[i / n];
        bytes = spans->in[i % n].bytes > bytes ? spans->in[i % n].bytes : bytes;
        bytes = spans->out[i % n].bytes > bytes ? spans->out[i % n].bytes : bytes;
    }
    return maker->element ? bytes / maker->element : bytes;
}

/*
 * What Reduce_scatter has in place overlaps its result, and other blocks would be overwritten before they have been sent. So
 * the result takes the place of this rank's own block, which nobody else gets, and is moved when the operation has ended.
 */
static void put_aside(const struct maker *maker, struct shunt_task *task, struct side *recv)
{
    task->home = recv->buffer;
    recv->buffer += maker->spans->in[maker->comm->rank].at;
    for (int q = 0; q < maker->comm->size; q++)
        maker->spans->out[q].at = 0;
}

static bool make_task(struct maker *maker, struct shunt_task *task)
{
    const struct shunt_call *call = maker->call;
    const struct shunt_collective *shape = maker->shape;
    struct side send = { shunt_groups_count(shape->send.who, call, &maker->groups), false, (char *)call->sendbuf };
    struct side recv = { shunt_groups_count(shape->recv.who, call, &maker->groups), true, call->recvbuf };

    if (!find_sides(maker, &send, &recv))
        return false;
    task->in_place = (send.counts && call->sendbuf == MPI_IN_PLACE) || (recv.counts && call->recvbuf == MPI_IN_PLACE);
    if (task->in_place && shape->traits & SHUNT_TRAIT_COMBINES && maker->spans->out[maker->comm->rank].bytes != 0)
        put_aside(maker, task, &recv);
    bool both = send.counts && recv.counts, of_all = shape->recv.blocks != SHUNT_BLOCKS_SOURCES;
    if (both && of_all && call->sendbuf == call->recvbuf && maker->reason == SHUNT_REASON_NONE)
        maker->reason = SHUNT_REASON_ALIASED;
    if (!find_memory(maker, &send, &recv, task))
        return false;
    if (both && !task->in_place && maker->reason == SHUNT_REASON_NONE && do_overlap(maker, task))
        maker->reason = SHUNT_REASON_ALIASED;
    task->count = largest(maker);
    task->spans = maker->spans;
    task->waves = maker->waves;
    return true;
}

bool shunt_spans_task(const struct shunt_call *call, const struct shunt_comm *comm, struct shunt_spans *spans,
                      struct shunt_task *task, enum shunt_reason *reason)
{
    struct maker maker = { .call = call, .shape = &shunt_collectives[task->coll], .comm = comm, .spans = spans, .waves = 1 };

    if (comm->size > SHUNT_SPAN_RANKS || !shunt_groups_find(call, maker.shape, &maker.groups))
        return false;
    *spans = (struct shunt_spans){ 0 };
    task->type = SHUNT_TYPE_U8;
    task->op = SHUNT_OP_MOVE;
    if (maker.shape->traits & SHUNT_TRAIT_COMBINES) {
        maker.reason = shunt_classify_pair(shunt_types_find(call->datatype), call->op, task);
        maker.element = maker.reason == SHUNT_REASON_NONE ? shunt_type_size(task->type) : 1;
    }
    bool made = make_task(&maker, task);
    shunt_groups_release(&maker.groups);
    /* What a derived type leads to has not been looked at. */
    *reason = made || (maker.on_host && maker.reason == SHUNT_REASON_NONE) ? maker.reason : SHUNT_REASON_NO_ALGORITHM;
    return made;
}
