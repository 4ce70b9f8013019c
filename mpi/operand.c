/* SPDX-License-Identifier: BSD-3-Clause */
/* The operands of calls; operand.h. */
#include "mpi/operand.h"

#include <stdlib.h>
#include <string.h>

#include "coll/colls.h"
#include "mpi/classify.h"
#include "mpi/flatten.h"
#include "mpi/rows.h"
#include "mpi/types.h"

/* Traits of calls that are no collectives, behind those of coll/colls.h. */
enum {
    UPDATES = 1 << 16,    /* the receive buffer is also an input */
    KEEPS_TYPE = 1 << 17, /* the host is called with the caller's datatype */
};

#define SIDE(who) { SHUNT_WHO_##who, SHUNT_BLOCKS_ONE }

/* The host converts elements to external32, so it must know them. */
#define READ_FILE  { SIDE(NOBODY), SIDE(ALL), .traits = SHUNT_TRAIT_ONE_BUFFER | KEEPS_TYPE }
#define WRITE_FILE { SIDE(ALL), SIDE(NOBODY), .traits = KEEPS_TYPE }

/* What is no collective: those have coll/colls.def. */
static const struct shunt_collective others[SHUNT_NCALLS] = {
    [SHUNT_CALL_Reduce_local] = { SIDE(ALL), SIDE(ALL), .traits = SHUNT_TRAIT_COMBINES | UPDATES },
    [SHUNT_CALL_Send] = { SIDE(TO_PEER), SIDE(NOBODY) },
    [SHUNT_CALL_Ssend] = { SIDE(TO_PEER), SIDE(NOBODY) },
    [SHUNT_CALL_Rsend] = { SIDE(TO_PEER), SIDE(NOBODY) },
    [SHUNT_CALL_Bsend] = { SIDE(TO_PEER), SIDE(NOBODY) },
    [SHUNT_CALL_Recv] = { SIDE(NOBODY), SIDE(FROM_PEER), .traits = SHUNT_TRAIT_ONE_BUFFER },
    [SHUNT_CALL_Mrecv] = { SIDE(NOBODY), SIDE(ALL), .traits = SHUNT_TRAIT_ONE_BUFFER },
    [SHUNT_CALL_Sendrecv] = { SIDE(TO_PEER), SIDE(FROM_PEER), .traits = SHUNT_TRAIT_TWO_TYPES },
    [SHUNT_CALL_Sendrecv_replace] = { SIDE(TO_PEER), SIDE(FROM_PEER), .traits = SHUNT_TRAIT_ONE_BUFFER },
    [SHUNT_CALL_File_read] = READ_FILE,
    [SHUNT_CALL_File_read_all] = READ_FILE,
    [SHUNT_CALL_File_read_at] = READ_FILE,
    [SHUNT_CALL_File_read_at_all] = READ_FILE,
    [SHUNT_CALL_File_read_shared] = READ_FILE,
    [SHUNT_CALL_File_read_ordered] = READ_FILE,
    [SHUNT_CALL_File_read_all_begin] = READ_FILE,
    [SHUNT_CALL_File_read_at_all_begin] = READ_FILE,
    [SHUNT_CALL_File_read_ordered_begin] = READ_FILE,
    [SHUNT_CALL_File_write] = WRITE_FILE,
    [SHUNT_CALL_File_write_all] = WRITE_FILE,
    [SHUNT_CALL_File_write_at] = WRITE_FILE,
    [SHUNT_CALL_File_write_at_all] = WRITE_FILE,
    [SHUNT_CALL_File_write_shared] = WRITE_FILE,
    [SHUNT_CALL_File_write_ordered] = WRITE_FILE,
    [SHUNT_CALL_File_write_all_begin] = WRITE_FILE,
    [SHUNT_CALL_File_write_at_all_begin] = WRITE_FILE,
    [SHUNT_CALL_File_write_ordered_begin] = WRITE_FILE,
};

unsigned shunt_call_coll(unsigned family)
{
    switch (family) {
#define COLLECTIVE(ID, word, call, ...) case SHUNT_CALL_##call: return SHUNT_COLL_##ID;
#include "coll/colls.def"
#undef COLLECTIVE
    default: return SHUNT_NCOLLS;
    }
}

static const struct shunt_collective *shape_of(unsigned family)
{
    unsigned coll = shunt_call_coll(family);

    return coll == SHUNT_NCOLLS ? &others[family] : &shunt_collectives[coll];
}

/* ---- pieces ---- */

static struct shunt_piece *piece_at(struct shunt_pieces *pieces, int i)
{
    return pieces->list ? &pieces->list[i] : &pieces->first;
}

static void release_pieces(struct shunt_pieces *pieces)
{
    for (int i = 0; i < pieces->n; i++) {
        struct shunt_piece *piece = piece_at(pieces, i);
        shunt_pattern_release(piece->pattern);
        if (piece->duplicate)
            shunt_host.Type_free(&piece->datatype);
    }
    free(pieces->list);
    *pieces = (struct shunt_pieces){ 0 };
}

/* `extent` of the piece's type: what follows the last piece becomes a part of it. 0: not known. */
static enum shunt_status add_piece(struct shunt_pieces *pieces, int capacity, const struct shunt_piece *piece,
                                   int64_t extent)
{
    struct shunt_piece *last = pieces->n == 0 ? NULL : piece_at(pieces, pieces->n - 1);

    if (last && extent && last->datatype == piece->datatype && piece->offset == last->offset + last->count * extent) {
        last->count += piece->count;
        return SHUNT_OK;
    }
    if (last && !pieces->list) {
        if (!(pieces->list = malloc(capacity * sizeof *piece)))
            return SHUNT_ERR_MEMORY;
        pieces->list[0] = pieces->first;
    }
    *piece_at(pieces, pieces->n++) = *piece;
    return SHUNT_OK;
}

/* Rows that follow each other without a gap. */
static void add_block(const struct shunt_side_rows *rows, struct shunt_pieces *pieces)
{
    int64_t elements;

    if (rows->count <= 0 || rows->n == 0 || __builtin_mul_overflow(rows->count, (int64_t)rows->n, &elements))
        return;
    pieces->first = (struct shunt_piece){ .count = elements, .datatype = rows->type };
    pieces->n = 1;
}

/* 0 also of what is no datatype. */
static int64_t size_of(MPI_Datatype datatype)
{
    MPI_Count size;

    return datatype == MPI_DATATYPE_NULL || shunt_host.Type_size_x(datatype, &size) != MPI_SUCCESS ? 0 : size;
}

/* The rows one by one. Displacements are bytes where each row has a type, else they count elements. */
static enum shunt_status add_rows(const struct shunt_side_rows *rows, int only, struct shunt_pieces *pieces)
{
    MPI_Count lb, extent = 0;
    int64_t behind = 0, packed = 0, size = rows->types ? 0 : size_of(rows->type);
    enum shunt_status status = SHUNT_OK;

    if (!rows->types && shunt_host.Type_get_extent_x(rows->type, &lb, &extent) != MPI_SUCCESS)
        return SHUNT_PASS;
    for (int i = 0; i < rows->n && status == SHUNT_OK; i++) {
        struct shunt_piece piece = { .count = shunt_row_count(rows, i + rows->first),
                                     .datatype = rows->types ? rows->types[i] : rows->type };
        int64_t place = rows->displs ? shunt_row_place(rows, i) : behind;
        bool fits = rows->types ? (piece.offset = place, true) : !__builtin_mul_overflow(place, extent, &piece.offset);
        if (rows->types)
            size = piece.count > 0 ? size_of(piece.datatype) : 0;
        piece.packed = packed;
        packed += piece.count * size;
        behind += piece.count;
        if (piece.count <= 0 || !fits || (only >= 0 && i != only) ||
            (rows->peers && rows->peers[i] == MPI_PROC_NULL) || (rows->types && size == 0))
            continue;
        status = add_piece(pieces, rows->n, &piece, extent);
    }
    return status;
}

/* All rows, or only that one. Where the arguments make no sense there are none: the host says so. */
static enum shunt_status find_pieces(const struct shunt_side_rows *rows, int only, struct shunt_pieces *pieces)
{
    if (rows->missing || (rows->type == MPI_DATATYPE_NULL && !rows->types))
        return SHUNT_OK;
    if (!rows->counts && !rows->peers && only < 0) {
        add_block(rows, pieces);
        return SHUNT_OK;
    }
    return add_rows(rows, only, pieces);
}

/* ---- operands ---- */

static void note_arrays(const struct shunt_side_rows *rows, struct shunt_operand *operand)
{
    if (rows->counts && !rows->missing)
        operand->arrays = (struct shunt_arrays){ rows->n, rows->counts, rows->types, rows->large, rows->aints };
}

static enum shunt_status describe(const struct shunt_call *call, const struct shunt_collective *shape, const struct shunt_groups *groups,
                                  struct shunt_operand *send, struct shunt_operand *recv)
{
    bool sends = shunt_groups_count(shape->send.who, call, groups), receives = shunt_groups_count(shape->recv.who, call, groups);
    bool in_place = call->sendbuf == MPI_IN_PLACE && !(shape->traits & SHUNT_TRAIT_ONE_BUFFER);
    struct shunt_side_rows sent = shunt_side_rows(call, shape, false, groups),
                           received = shunt_side_rows(call, shape, true, groups);
    enum shunt_status status = SHUNT_OK;

    note_arrays(&sent, send);
    note_arrays(&received, recv);
    if (call->recvbuf == MPI_IN_PLACE) /* the root of Scatter, or a mistake */
        receives = false;
    if (receives)
        status = find_pieces(&received, -1, &recv->written);
    if (status == SHUNT_OK && receives && shape->traits & UPDATES)
        status = find_pieces(&received, -1, &recv->read);
    if (status != SHUNT_OK || !sends)
        return status;
    if (!(shape->traits & SHUNT_TRAIT_ONE_BUFFER) && !in_place)
        return find_pieces(&sent, -1, &send->read);
    /* Rank 0 of Exscan has its input in the receive buffer all the same. */
    if (call->recvbuf == MPI_IN_PLACE || (in_place && !receives && shape->recv.who != SHUNT_WHO_LATER))
        return SHUNT_OK;
    if (shape->in_place == SHUNT_IN_PLACE_AS_SENT)
        return find_pieces(&sent, -1, &recv->read);
    return find_pieces(&received, shape->in_place == SHUNT_IN_PLACE_ITS_ROW ? groups->rank : -1, &recv->read);
}

enum { BLOCKS_TO_LOOK_AT = 256 };

static bool has_device_block(const char *element, const struct shunt_pattern *pattern)
{
    for (size_t i = 0; i < pattern->n && i < BLOCKS_TO_LOOK_AT; i++) {
        int64_t offset = pattern->nests ? pattern->nests[i].offset : pattern->offsets[i];
        if (shunt_classify_device(element + offset, 1, MPI_BYTE))
            return true;
    }
    return false;
}

bool shunt_piece_on_device(const char *buffer, const struct shunt_piece *piece, bool all)
{
    const char *element = buffer + piece->offset;
    struct shunt_pattern *pattern;

    if (piece->pattern) /* the datatype may be gone */
        return has_device_block(element, piece->pattern);
    if (shunt_classify_device(element, piece->count, piece->datatype))
        return true;
    if (!all || shunt_types_find(piece->datatype) || !(pattern = shunt_pattern_of(piece->datatype)))
        return false;
    bool found = has_device_block(element, pattern);
    shunt_pattern_release(pattern);
    return found;
}

/* Is there a piece in memory that the host may not touch? `all`: look at each, and see whether some are elsewhere. */
static void look_at(const char *buffer, const struct shunt_pieces *pieces, bool all, struct shunt_operand *operand)
{
    for (int i = 0; i < (all || pieces->n < 1 ? pieces->n : 1); i++) {
        if (shunt_piece_on_device(buffer, shunt_piece_get(pieces, i), all))
            operand->staged = true;
        else
            operand->mixed = true;
    }
}

/* The rows of one buffer are in one memory, unless it is no buffer at all. */
void shunt_operand_look(struct shunt_operand *operand)
{
    bool all = operand->buffer == (char *)MPI_BOTTOM;

    operand->staged = operand->mixed = false;
    look_at(operand->buffer, &operand->read, all, operand);
    if (all || operand->read.n == 0)
        look_at(operand->buffer, &operand->written, all, operand);
}

enum shunt_status shunt_operands_find(const struct shunt_call *call, struct shunt_operand *send,
                                      struct shunt_operand *recv)
{
    const struct shunt_collective *shape = shape_of(shunt_call_family(call->id));
    struct shunt_groups groups;
    enum shunt_status status = SHUNT_PASS;

    *send = (struct shunt_operand){ .buffer = (char *)call->sendbuf };
    *recv = (struct shunt_operand){ .buffer = call->recvbuf };
    if (!shunt_groups_find(call, shape, &groups))
        return SHUNT_PASS;
    status = describe(call, shape, &groups, send, recv);
    shunt_groups_release(&groups);
    if (status == SHUNT_OK) {
        shunt_operand_look(send);
        shunt_operand_look(recv);
        status = send->staged || recv->staged ? SHUNT_OK : SHUNT_PASS;
    }
    if (status != SHUNT_OK) {
        shunt_operand_release(send);
        shunt_operand_release(recv);
    }
    return status;
}

/* Only derived types end before MPI does. */
static enum shunt_status hold_pieces(struct shunt_pieces *pieces)
{
    for (int i = 0; i < pieces->n; i++) {
        struct shunt_piece *piece = piece_at(pieces, i);
        if (shunt_types_find(piece->datatype) || (piece->pattern = shunt_pattern_of(piece->datatype)))
            continue;
        if (shunt_host.Type_dup(piece->datatype, &piece->datatype) != MPI_SUCCESS)
            return SHUNT_ERR_MEMORY;
        piece->duplicate = true;
    }
    return SHUNT_OK;
}

enum shunt_status shunt_operand_hold(struct shunt_operand *operand)
{
    enum shunt_status status = hold_pieces(&operand->read);

    return status == SHUNT_OK ? hold_pieces(&operand->written) : status;
}

static bool only_moves(const struct shunt_collective *shape)
{
    return !(shape->traits & (SHUNT_TRAIT_COMBINES | KEEPS_TYPE)) &&
           (shape->send.who != SHUNT_WHO_NOBODY || shape->recv.who != SHUNT_WHO_NOBODY);
}

MPI_Datatype *shunt_operand_type(struct shunt_call *call, bool recv)
{
    const struct shunt_collective *shape = shape_of(shunt_call_family(call->id));

    if (!only_moves(shape))
        return NULL;
    return recv && shape->traits & SHUNT_TRAIT_TWO_TYPES ? &call->recvtype : &call->datatype;
}

void shunt_operand_release(struct shunt_operand *operand)
{
    release_pieces(&operand->read);
    release_pieces(&operand->written);
}

static uint64_t count_bytes(const struct shunt_pieces *pieces)
{
    uint64_t bytes = 0;

    for (int i = 0; i < pieces->n; i++) {
        const struct shunt_piece *piece = shunt_piece_get(pieces, i);
        MPI_Count size = 0;
        shunt_host.Type_size_x(piece->datatype, &size);
        bytes += size > 0 ? (uint64_t)size * (uint64_t)piece->count : 0;
    }
    return bytes;
}

uint64_t shunt_operand_bytes(const struct shunt_operand *operand)
{
    return count_bytes(&operand->read) + count_bytes(&operand->written);
}
