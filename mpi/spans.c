/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tasks of collectives whose blocks differ; spans.h.
 *
 * Whatever form a call has, on each rank it comes to a span {place, bytes} of the send buffer for each rank that gets
 * something, and one of the receive buffer for each from which something comes. Types must be without gaps. Places begin at
 * the first byte that is used, so that none is negative.
 */
#include "mpi/spans.h"

#include "mpi/classify.h"
#include "mpi/operand.h"
#include "mpi/rows.h"
#include "mpi/types.h"

/* One side of a call on this rank. */
struct side {
    bool counts;
    char *buffer;
    struct shunt_span *spans; /* of each rank; places are from the buffer on, and signed, until they are settled */
};

/* What the spans of a call are made from. */
struct maker {
    const struct shunt_call *call;
    const struct shunt_collective *shape;
    const struct shunt_comm *comm;
    struct shunt_groups groups;
    uint64_t element; /* bytes of one, of collectives that combine; 0: those of each type */
    enum shunt_reason reason;
    bool on_host; /* both sides have been seen to lie in host memory */
};

bool shunt_spans_may(unsigned coll)
{
    return shunt_coll_has(coll, SHUNT_TRAIT_SEND_ROWS | SHUNT_TRAIT_RECV_ROWS) ||
           shunt_collectives[coll].recv.blocks == SHUNT_BLOCKS_SOURCES;
}

/* One message from each rank to each other is what the kernels know. */
static void add_span(struct maker *maker, struct shunt_span *spans, int q, struct shunt_span span)
{
    if (span.bytes == 0)
        return;
    if (spans[q].bytes != 0)
        maker->reason = SHUNT_REASON_NEIGHBOURS;
    spans[q] = span;
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
static void add_to_all(struct maker *maker, bool recv, struct shunt_span *spans, struct shunt_span span)
{
    const struct shunt_groups *groups = &maker->groups;
    bool rooted = maker->shape->send.who == SHUNT_WHO_ROOT || maker->shape->recv.who == SHUNT_WHO_ROOT;

    if (rooted) {
        add_span(maker, spans, maker->call->root, span);
    } else if (groups->neighbours) {
        int n = recv ? groups->sources : groups->destinations;
        for (int i = 0; i < n; i++) {
            int q = groups->neighbours[recv ? i : groups->sources + i];
            if (q != MPI_PROC_NULL)
                add_span(maker, spans, q, span);
        }
    } else {
        for (int q = 0; q < groups->own; q++)
            add_span(maker, spans, q, span);
    }
}

static bool find_spans(struct maker *maker, bool recv, struct shunt_span *spans)
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
        add_to_all(maker, recv, spans, span);
        return true;
    }
    for (int i = 0; i < rows.n; i++) {
        int q = rows.peers ? rows.peers[i] : i;
        if (!find_row(maker, &rows, i, &behind, &span))
            return false;
        if (q != MPI_PROC_NULL)
            add_span(maker, spans, q, span);
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
    case SHUNT_IN_PLACE_ITS_ROW: add_to_all(maker, false, send->spans, recv->spans[me]); return true;
    case SHUNT_IN_PLACE_ITS_ROWS:
        for (int q = 0; q < maker->comm->size; q++)
            send->spans[q] = recv->spans[q];
        return true;
    default: return find_spans(maker, false, send->spans);
    }
}

/* Fill the spans of both sides. False: the call is wrong. */
static bool find_sides(struct maker *maker, struct side *send, struct side *recv)
{
    const struct shunt_call *call = maker->call;
    int me = maker->comm->rank;

    if (recv->counts && (void *)recv->buffer == MPI_IN_PLACE) { /* only Scatterv's root, whose own block stays */
        if (!send->counts || maker->shape->send.who != SHUNT_WHO_ROOT || !find_spans(maker, false, send->spans))
            return false;
        recv->buffer = send->buffer;
        recv->spans[call->root] = send->spans[me];
        return true;
    }
    if (recv->counts && !find_spans(maker, true, recv->spans))
        return false;
    if (!send->counts)
        return true;
    return call->sendbuf == MPI_IN_PLACE ? send_in_place(maker, send, recv) : find_spans(maker, false, send->spans);
}

/* Let places begin at the first byte used. False: nothing is used. */
static bool settle(struct side *side, int n)
{
    bool used = false;
    int64_t low = 0;

    for (int q = 0; q < n && side->counts; q++) {
        if (side->spans[q].bytes == 0)
            continue;
        low = !used || (int64_t)side->spans[q].at < low ? (int64_t)side->spans[q].at : low;
        used = true;
    }
    for (int q = 0; q < n && used; q++)
        side->spans[q].at = side->spans[q].bytes ? side->spans[q].at - (uint64_t)low : 0;
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
    bool sends = settle(send, maker->comm->size), receives = settle(recv, maker->comm->size);
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
static bool do_overlap(const struct shunt_task *task, const struct shunt_spans *spans, int n)
{
    uintptr_t send = (uintptr_t)task->send, recv = (uintptr_t)task->recv;

    for (int q = 0; q < n; q++)
        for (int p = 0; p < n; p++)
            if (spans->in[q].bytes && spans->out[p].bytes &&
                send + spans->in[q].at < recv + spans->out[p].at + spans->out[p].bytes &&
                recv + spans->out[p].at < send + spans->in[q].at + spans->in[q].bytes)
                return true;
    return false;
}

/* Elements of the largest block. */
static uint64_t largest(const struct maker *maker, const struct shunt_spans *spans)
{
    uint64_t bytes = 0;

    for (int q = 0; q < maker->comm->size; q++) {
        bytes = spans->in[q].bytes > bytes ? spans->in[q].bytes : bytes;
        bytes = spans->out[q].bytes > bytes ? spans->out[q].bytes : bytes;
    }
    return maker->element ? bytes / maker->element : bytes;
}

/*
 * What Reduce_scatter has in place overlaps its result, and other blocks would be overwritten before they have been sent. So
 * the result takes the place of this rank's own block, which nobody else gets, and is moved when the operation has ended.
 */
static void put_aside(struct shunt_task *task, struct side *recv, const struct shunt_span *own, int n)
{
    task->home = recv->buffer;
    recv->buffer += own->at;
    for (int q = 0; q < n; q++)
        recv->spans[q].at = 0;
}

static bool make_task(struct maker *maker, struct shunt_spans *spans, struct shunt_task *task)
{
    const struct shunt_call *call = maker->call;
    const struct shunt_collective *shape = maker->shape;
    struct side send = { shunt_groups_count(shape->send.who, call, &maker->groups), (char *)call->sendbuf, spans->in };
    struct side recv = { shunt_groups_count(shape->recv.who, call, &maker->groups), call->recvbuf, spans->out };

    if (!find_sides(maker, &send, &recv))
        return false;
    task->in_place = (send.counts && call->sendbuf == MPI_IN_PLACE) || (recv.counts && call->recvbuf == MPI_IN_PLACE);
    if (task->in_place && shape->traits & SHUNT_TRAIT_COMBINES && spans->out[maker->comm->rank].bytes != 0)
        put_aside(task, &recv, &spans->in[maker->comm->rank], maker->comm->size);
    bool both = send.counts && recv.counts, of_all = shape->recv.blocks != SHUNT_BLOCKS_SOURCES;
    if (both && of_all && call->sendbuf == call->recvbuf && maker->reason == SHUNT_REASON_NONE)
        maker->reason = SHUNT_REASON_ALIASED;
    if (!find_memory(maker, &send, &recv, task))
        return false;
    if (both && !task->in_place && maker->reason == SHUNT_REASON_NONE && do_overlap(task, spans, maker->comm->size))
        maker->reason = SHUNT_REASON_ALIASED;
    task->count = largest(maker, spans);
    task->spans = spans;
    return true;
}

bool shunt_spans_task(const struct shunt_call *call, const struct shunt_comm *comm, struct shunt_spans *spans,
                      struct shunt_task *task, enum shunt_reason *reason)
{
    struct maker maker = { .call = call, .shape = &shunt_collectives[task->coll], .comm = comm };

    if (comm->size > SHUNT_SPAN_RANKS || !shunt_groups_find(call, maker.shape, &maker.groups))
        return false;
    *spans = (struct shunt_spans){ 0 };
    task->type = SHUNT_TYPE_U8;
    task->op = SHUNT_OP_MOVE;
    if (maker.shape->traits & SHUNT_TRAIT_COMBINES) {
        maker.reason = shunt_classify_pair(shunt_types_find(call->datatype), call->op, task);
        maker.element = maker.reason == SHUNT_REASON_NONE ? shunt_type_size(task->type) : 1;
    }
    bool made = make_task(&maker, spans, task);
    shunt_groups_release(&maker.groups);
    /* What a derived type leads to has not been looked at. */
    *reason = made || (maker.on_host && maker.reason == SHUNT_REASON_NONE) ? maker.reason : SHUNT_REASON_NO_ALGORITHM;
    return made;
}
