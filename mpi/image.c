/* SPDX-License-Identifier: BSD-3-Clause */
/* Images of device buffers in host memory; image.h. */
#include "mpi/image.h"

#include <string.h>

#include "base/log.h"
#include "coll/colls.h"
#include "cuda/gpu.h"
#include "cuda/pack.h"
#include "mpi/classify.h"
#include "mpi/covered.h"
#include "mpi/flatten.h"
#include "mpi/types.h"

enum { ALIGNMENT = 64 };

/* The elements of a piece, and where they lie, in bytes from the buffer's address. */
struct layout {
    MPI_Datatype datatype;
    MPI_Count size, extent, true_lb, true_extent; /* of one element */
    int64_t first;                                /* lowest byte of all elements */
    size_t span;                                  /* from there to the end of the highest */
};

static bool ask_host(MPI_Datatype datatype, struct layout *layout)
{
    MPI_Count lb;

    return shunt_host.Type_size_x(datatype, &layout->size) == MPI_SUCCESS &&
           shunt_host.Type_get_extent_x(datatype, &lb, &layout->extent) == MPI_SUCCESS &&
           shunt_host.Type_get_true_extent_x(datatype, &layout->true_lb, &layout->true_extent) == MPI_SUCCESS;
}

static enum shunt_status find_layout(const struct shunt_piece *piece, struct layout *layout)
{
    const struct shunt_pattern *pattern = piece->pattern;

    *layout = (struct layout){ .datatype = piece->datatype };
    if (pattern) {
        layout->size = (MPI_Count)pattern->bytes;
        layout->extent = pattern->extent;
        layout->true_lb = pattern->low;
        layout->true_extent = pattern->high - pattern->low;
    } else if (!ask_host(piece->datatype, layout)) {
        return SHUNT_ERR_INVALID;
    }
    /* The extent may be negative: then the last element lies lowest. */
    int64_t reach = (piece->count - 1) * layout->extent;
    layout->first = piece->offset + layout->true_lb + (reach < 0 ? reach : 0);
    layout->span = (reach < 0 ? -reach : reach) + layout->true_extent;
    return SHUNT_OK;
}

/* ---- memory ---- */

static enum shunt_status find_bounds(const struct shunt_pieces *pieces, bool packed, int64_t *first, int64_t *end)
{
    struct layout layout;

    for (int i = 0; i < pieces->n; i++) {
        const struct shunt_piece *piece = shunt_piece_get(pieces, i);
        if (find_layout(piece, &layout) != SHUNT_OK)
            return SHUNT_ERR_INVALID;
        if (packed) {
            layout.first = piece->packed;
            layout.span = (size_t)layout.size * (size_t)piece->count;
        }
        int64_t top = layout.first + (int64_t)layout.span;
        *first = layout.first < *first ? layout.first : *first;
        *end = top > *end ? top : *end;
    }
    return SHUNT_OK;
}

enum shunt_status shunt_image_make(void *device, const struct shunt_pieces *a, const struct shunt_pieces *b, bool packed,
                                   struct shunt_image *image)
{
    int64_t first = packed ? 0 : INT64_MAX, end = INT64_MIN;
    enum shunt_status status = find_bounds(a, packed, &first, &end);

    *image = (struct shunt_image){ .device = device, .packed = packed };
    if (status == SHUNT_OK)
        status = find_bounds(b, packed, &first, &end);
    if (status != SHUNT_OK)
        return status;
    /* Elements are as aligned in the image as they are in the buffer. */
    image->skew = packed ? 0 : ((uintptr_t)device + (uintptr_t)first) % ALIGNMENT;
    image->bytes = (size_t)(end - first) + image->skew;
    image->memory = shunt_bounce_get(image->bytes);
    if (!image->memory) {
        shunt_warn("stage", "no host memory for %zu bytes", image->bytes);
        return SHUNT_ERR_MEMORY;
    }
    image->host = (char *)image->memory + image->skew - first;
    return SHUNT_OK;
}

void shunt_image_release(struct shunt_image *image)
{
    if (image->memory)
        shunt_bounce_put(image->memory, image->clean ? 0 : image->bytes);
    *image = (struct shunt_image){ 0 };
}

/* ---- out and back ---- */

/* A piece on its way between a buffer and an image of the same layout. */
struct route {
    char *device, *host; /* of the piece's first element */
    bool out;            /* to the image */
    bool on_host;        /* the "device" is host memory */
};

static enum shunt_status copy_run(void *context, int64_t offset, uint64_t bytes)
{
    const struct route *route = context;
    char *device = route->device + offset, *host = route->host + offset;

    if (route->on_host)
        memcpy(route->out ? host : device, route->out ? device : host, bytes);
    else
        return route->out ? shunt_stage_out(host, device, bytes) : shunt_stage_in(device, host, bytes);
    return SHUNT_OK;
}

static enum shunt_status copy_block(void *context, int64_t offset, uint64_t packed, uint64_t bytes)
{
    (void)packed;
    return copy_run(context, offset, bytes);
}

/* The first `bytes` bytes of a derived type's elements. */
static enum shunt_status move_derived(const struct shunt_image *image, const struct shunt_piece *piece, struct route *route,
                                      uint64_t bytes)
{
    const struct shunt_pattern *pattern = piece->pattern;
    char *device = route->device, *host = route->host;

    if (!pattern)
        return shunt_covered_walk(piece->datatype, piece->count, bytes, copy_run, route);
    if (route->on_host)
        return shunt_pattern_walk(pattern, 0, bytes, copy_block, route);
    if (image->packed)
        return route->out ? shunt_pack_out(pattern, device, piece->count, bytes, host)
                          : shunt_pack_in(pattern, device, piece->count, bytes, host);
    return route->out ? shunt_pack_fill(pattern, device, piece->count, bytes, host)
                      : shunt_pack_return(pattern, device, piece->count, bytes, host);
}

/* `received` as for shunt_image_return. */
static enum shunt_status move_piece(const struct shunt_image *image, const struct shunt_piece *piece, bool out,
                                    int64_t received)
{
    struct route route = { .device = image->device + piece->offset,
                           .host = image->host + (image->packed ? piece->packed : piece->offset),
                           .out = out };
    struct layout layout;
    enum shunt_status status = find_layout(piece, &layout);

    if (status != SHUNT_OK)
        return status;
    int64_t bytes = layout.size * piece->count;
    bool all = received == SHUNT_RECEIVED_ALL || received >= bytes;
    bytes = all ? bytes : received;
    route.on_host = image->mixed && !shunt_piece_on_device(image->device, piece, true);
    if (piece->pattern || !shunt_types_find(piece->datatype))
        return move_derived(image, piece, &route, (uint64_t)bytes);
    if (all)
        return copy_run(&route, layout.first - piece->offset, layout.span);
    /* A part of predefined ones, which may have holes. */
    if (layout.size == layout.extent && layout.size == layout.true_extent)
        return copy_run(&route, layout.true_lb, (uint64_t)bytes);
    return shunt_covered_walk(piece->datatype, piece->count, (uint64_t)bytes, copy_run, &route);
}

enum shunt_status shunt_image_fill(const struct shunt_image *image, const struct shunt_pieces *pieces)
{
    enum shunt_status status = SHUNT_OK;

    for (int i = 0; i < pieces->n && status == SHUNT_OK; i++)
        status = move_piece(image, shunt_piece_get(pieces, i), true, SHUNT_RECEIVED_ALL);
    return status;
}

enum shunt_status shunt_image_return(const struct shunt_image *image, const struct shunt_pieces *pieces,
                                     int64_t received)
{
    enum shunt_status status = SHUNT_OK;

    for (int i = 0; i < pieces->n && status == SHUNT_OK && (i == 0 || received == SHUNT_RECEIVED_ALL); i++)
        status = move_piece(image, shunt_piece_get(pieces, i), false, received);
    return status;
}

/* ---- the images of a call ---- */

/* Do all that is read and all that is written have a byte in common, as far as their bounds tell? */
static bool do_overlap(const struct shunt_operand *send, const struct shunt_operand *recv)
{
    int64_t read = INT64_MAX, read_end = INT64_MIN, written = INT64_MAX, written_end = INT64_MIN;

    if (find_bounds(&send->read, false, &read, &read_end) != SHUNT_OK ||
        find_bounds(&recv->written, false, &written, &written_end) != SHUNT_OK || read >= read_end || written >= written_end)
        return false;
    return shunt_bytes_overlap((const char *)send->buffer + read, (uint64_t)(read_end - read),
                               (const char *)recv->buffer + written, (uint64_t)(written_end - written));
}

/*
 * Hosts look whether the buffers of collectives and of Reduce_local are one, which MPI does not allow. Not those of neighbours,
 * who exchange parts of one array, nor of what is no collective.
 */
static bool must_be_apart(const struct shunt_call *call)
{
    unsigned family = shunt_call_family(call->id), coll = shunt_call_coll(family);

    return family == SHUNT_CALL_Reduce_local ||
           (coll < SHUNT_NCOLLS && shunt_collectives[coll].recv.blocks != SHUNT_BLOCKS_SOURCES);
}

/* Then two buffers that overlap are one image: the host shall see it. */
static bool are_one(const struct shunt_call *call, const struct shunt_images *images)
{
    return images->send.staged && images->recv.staged && must_be_apart(call) &&
           (images->send.buffer == images->recv.buffer || do_overlap(&images->send, &images->recv));
}

/* From the receive buffer on, as its image has them. */
static void shift_pieces(struct shunt_pieces *pieces, int64_t bytes)
{
    for (int i = 0; i < pieces->n; i++) {
        struct shunt_piece *piece = pieces->list ? &pieces->list[i] : &pieces->first;
        piece->offset += bytes;
    }
}

static enum shunt_status make_both(struct shunt_images *images)
{
    struct shunt_operand *send = &images->send, *recv = &images->recv;
    bool one = images->one;
    enum shunt_status status = SHUNT_OK;

    if (send->staged && !one)
        status = shunt_image_make(send->buffer, &send->read, &send->written, images->send_packed.used, &images->send_image);
    images->send_image.mixed = send->mixed;
    if (status == SHUNT_OK && recv->staged && !one)
        status = shunt_image_make(recv->buffer, &recv->read, &recv->written, images->recv_packed.used, &images->recv_image);
    else if (status == SHUNT_OK && one)
        status = shunt_image_make(recv->buffer, &send->read, &recv->written, false, &images->recv_image);
    images->recv_image.mixed = recv->mixed || (one && send->mixed);
    return status;
}

enum shunt_status shunt_images_place(struct shunt_call *call, struct shunt_images *images)
{
    enum shunt_status status = shunt_operand_hold(&images->send);
    int64_t between = images->send.buffer - images->recv.buffer; /* bytes, where they are one */

    if (status == SHUNT_OK)
        status = shunt_operand_hold(&images->recv);
    images->one = status == SHUNT_OK && are_one(call, images);
    if (images->one)
        shift_pieces(&images->send.read, between);
    if (status == SHUNT_OK && !images->one) {
        shunt_packed_choose(call, &images->send, false, &images->send_packed);
        shunt_packed_choose(call, &images->recv, true, &images->recv_packed);
    }
    if (status == SHUNT_OK)
        status = make_both(images);
    if (status != SHUNT_OK) {
        shunt_images_release(images);
        return status;
    }
    if (images->send.staged)
        call->sendbuf = images->one ? images->recv_image.host + between : images->send_image.host;
    if (images->recv.staged)
        call->recvbuf = images->recv_image.host;
    else if (images->send.staged && images->recv.buffer == images->send.buffer && must_be_apart(call))
        call->recvbuf = (void *)call->sendbuf; /* it does not count on this rank, but hosts look at it all the same */
    shunt_packed_place(call, false, &images->send_packed, &images->rows);
    shunt_packed_place(call, true, &images->recv_packed, &images->rows);
    return SHUNT_OK;
}

enum shunt_status shunt_images_make(struct shunt_call *call, struct shunt_images *images)
{
    *images = (struct shunt_images){ .send_image = { 0 } };
    enum shunt_status status = shunt_operands_find(call, &images->send, &images->recv);

    return status == SHUNT_OK ? shunt_images_place(call, images) : status;
}

/* At the beginning of an image that is only written: what comes does not begin so by chance, unless it is of very few bytes. */
static const unsigned char mark[] = { 0x9b, 0x2e, 0xd3, 0x54, 0xf1, 0x68, 0xa7, 0x3d };

static size_t mark_bytes(const struct shunt_image *image)
{
    size_t room = image->bytes - image->skew;

    return room < sizeof mark ? room : sizeof mark;
}

static bool is_written(const struct shunt_images *images)
{
    const struct shunt_image *image = &images->recv_image;

    return !images->marked || memcmp((char *)image->memory + image->skew, mark, mark_bytes(image)) != 0;
}

void shunt_images_mark(struct shunt_images *images)
{
    const struct shunt_image *image = &images->recv_image;

#ifndef OPEN_MPI
    images->marked = images->recv.staged && !images->one && images->recv.read.n == 0;
#endif
    if (images->marked)
        memcpy((char *)image->memory + image->skew, mark, mark_bytes(image));
}

enum shunt_status shunt_images_fill(const struct shunt_images *images)
{
    bool one = images->one;
    enum shunt_status status = SHUNT_OK;

    if (images->send.staged)
        status = shunt_image_fill(one ? &images->recv_image : &images->send_image, &images->send.read);
    if (status == SHUNT_OK && images->recv.staged)
        status = shunt_image_fill(&images->recv_image, &images->recv.read);
    return status;
}

enum shunt_status shunt_images_return(const struct shunt_images *images, int64_t received)
{
    if (!images->recv.staged || (received == SHUNT_RECEIVED_CUT && !is_written(images)))
        return SHUNT_OK;
    return shunt_image_return(&images->recv_image, &images->recv.written,
                              received == SHUNT_RECEIVED_CUT ? SHUNT_RECEIVED_ALL : received);
}

void shunt_images_release(struct shunt_images *images)
{
    shunt_image_release(&images->send_image);
    shunt_image_release(&images->recv_image);
    shunt_operand_release(&images->send);
    shunt_operand_release(&images->recv);
    shunt_packed_release(&images->send_packed);
    shunt_packed_release(&images->recv_packed);
    images->send.staged = images->recv.staged = false;
}

uint64_t shunt_images_bytes(const struct shunt_images *images)
{
    return (images->send.staged ? shunt_operand_bytes(&images->send) : 0) +
           (images->recv.staged ? shunt_operand_bytes(&images->recv) : 0);
}

struct shunt_images *shunt_images_own(void)
{
    static _Thread_local struct shunt_images own;

    shunt_images_release(&own);
    return &own;
}
