/* SPDX-License-Identifier: BSD-3-Clause */
/* Images of device buffers in host memory; image.h. */
#include "mpi/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cuda/gpu.h"
#include "mpi/classify.h"
#include "mpi/types.h"

enum { ALIGNMENT = 64 };

/* The elements of a piece, and where they lie, in bytes from the buffer's address. */
struct layout {
    MPI_Datatype datatype;
    int64_t count;
    MPI_Count size, extent, true_lb, true_extent; /* of one element */
    int64_t start;                                /* of the first element, without its lower bound */
    int64_t first;                                /* lowest byte of all elements */
    size_t span;                                  /* from there to the end of the highest */
    bool derived;
};

/* `layout` is the one found before, or zero: rows mostly have one type. */
static enum shunt_status find_layout(const struct shunt_piece *piece, struct layout *layout)
{
    MPI_Count lb;

    if (layout->count == 0 || layout->datatype != piece->datatype) {
        layout->datatype = piece->datatype;
        layout->derived = !shunt_types_find(piece->datatype);
        if (shunt_host.Type_size_x(piece->datatype, &layout->size) != MPI_SUCCESS ||
            shunt_host.Type_get_extent_x(piece->datatype, &lb, &layout->extent) != MPI_SUCCESS ||
            shunt_host.Type_get_true_extent_x(piece->datatype, &layout->true_lb, &layout->true_extent) != MPI_SUCCESS)
            return SHUNT_ERR_INVALID;
    }
    layout->count = piece->count;
    layout->start = piece->offset;
    /* The extent may be negative: then the last element lies lowest. */
    int64_t reach = (piece->count - 1) * layout->extent;
    layout->first = piece->offset + layout->true_lb + (reach < 0 ? reach : 0);
    layout->span = (reach < 0 ? -reach : reach) + layout->true_extent;
    return SHUNT_OK;
}

/* ---- memory ---- */

static enum shunt_status find_bounds(const struct shunt_pieces *pieces, int64_t *first, int64_t *end)
{
    struct layout layout = { .count = 0 };
    enum shunt_status status = SHUNT_OK;

    for (int i = 0; i < pieces->n && (status = find_layout(shunt_piece_get(pieces, i), &layout)) == SHUNT_OK; i++) {
        int64_t top = layout.first + (int64_t)layout.span;
        *first = layout.first < *first ? layout.first : *first;
        *end = top > *end ? top : *end;
    }
    return status;
}

enum shunt_status shunt_image_make(void *device, const struct shunt_pieces *a, const struct shunt_pieces *b,
                                   struct shunt_image *image)
{
    int64_t first = INT64_MAX, end = INT64_MIN;
    enum shunt_status status = find_bounds(a, &first, &end);

    *image = (struct shunt_image){ .device = device };
    if (status == SHUNT_OK)
        status = find_bounds(b, &first, &end);
    if (status != SHUNT_OK)
        return status;
    /* Elements are as aligned in the image as they are in the buffer. */
    size_t skew = ((uintptr_t)device + (uintptr_t)first) % ALIGNMENT;
    image->bytes = (size_t)(end - first) + skew;
    image->memory = shunt_bounce_get(image->bytes);
    if (!image->memory) {
        shunt_warn("stage", "no host memory for %zu bytes", image->bytes);
        return SHUNT_ERR_MEMORY;
    }
    image->host = (char *)image->memory + skew - first;
    return SHUNT_OK;
}

void shunt_image_release(struct shunt_image *image)
{
    if (image->memory)
        shunt_bounce_put(image->memory, image->bytes);
    *image = (struct shunt_image){ 0 };
}

/* ---- out ---- */

static bool lies_on_host(const struct shunt_image *image, const struct shunt_piece *piece)
{
    return image->mixed && !shunt_classify_device(image->device + piece->offset, piece->count, piece->datatype);
}

enum shunt_status shunt_image_fill(const struct shunt_image *image, const struct shunt_pieces *pieces)
{
    struct layout layout = { .count = 0 };
    enum shunt_status status = SHUNT_OK;

    for (int i = 0; i < pieces->n && status == SHUNT_OK; i++) {
        const struct shunt_piece *piece = shunt_piece_get(pieces, i);
        status = find_layout(piece, &layout);
        if (status == SHUNT_OK && lies_on_host(image, piece))
            memcpy(image->host + layout.first, image->device + layout.first, layout.span);
        else if (status == SHUNT_OK)
            status = shunt_stage_out(image->host + layout.first, image->device + layout.first, layout.span);
    }
    return status;
}

/* ---- back ---- */

static enum shunt_status copy_back(const struct shunt_image *image, bool on_host, int64_t offset, size_t bytes)
{
    if (!on_host)
        return shunt_stage_in(image->device + offset, image->host + offset, bytes);
    memcpy(image->device + offset, image->host + offset, bytes);
    return SHUNT_OK;
}

/*
 * Pack and unpack one element; what is not packed in `from` stays in `to`. Both lack the type's true lower bound. Packed
 * bytes from `received` on are zeros.
 */
static enum shunt_status repack(const struct layout *layout, const char *from, char *to, int64_t received)
{
    int size = 0, in = 0, out = 0;
    char *packed = NULL;

    if (shunt_host.Pack_size(1, layout->datatype, MPI_COMM_SELF, &size) != MPI_SUCCESS || size <= 0 ||
        !(packed = malloc(size)))
        return SHUNT_ERR_MEMORY;
    int rc = shunt_host.Pack(from - layout->true_lb, 1, layout->datatype, packed, size, &in, MPI_COMM_SELF);
    if (rc == MPI_SUCCESS && received < in)
        memset(packed + received, 0, in - received);
    if (rc == MPI_SUCCESS)
        rc = shunt_host.Unpack(packed, in, &out, to - layout->true_lb, 1, layout->datatype, MPI_COMM_SELF);
    free(packed);
    return rc == MPI_SUCCESS ? SHUNT_OK : SHUNT_ERR_INVALID;
}

/*
 * Which bytes of an element its type map covers, as far as `received` bytes of it go: an element of ones, packed and
 * unpacked over zeros by the host, which alone knows its types. NULL if that fails. To be freed by the caller.
 */
static char *find_covered(const struct layout *layout, int64_t received)
{
    char *ones = malloc(layout->true_extent), *covered = calloc(1, layout->true_extent);

    if (ones && covered) {
        memset(ones, 0xff, layout->true_extent);
        if (repack(layout, ones, covered, received) == SHUNT_OK) {
            free(ones);
            return covered;
        }
    }
    free(ones);
    free(covered);
    return NULL;
}

/* `offset`: of the element's true lower bound. */
static enum shunt_status copy_element(const struct shunt_image *image, const struct layout *layout, bool on_host,
                                      const char *covered, int64_t offset)
{
    enum shunt_status status = SHUNT_OK;

    for (MPI_Count start = 0, end; status == SHUNT_OK && start < layout->true_extent; start = end) {
        for (end = start + 1; end < layout->true_extent && !covered[end] == !covered[start]; end++)
            ;
        if (covered[start])
            status = copy_back(image, on_host, offset + start, end - start);
    }
    return status;
}

static enum shunt_status copy_blocks(const struct shunt_image *image, const struct layout *layout, bool on_host)
{
    char *covered = find_covered(layout, layout->size);
    enum shunt_status status = covered ? SHUNT_OK : SHUNT_ERR_MEMORY;
    bool dense = covered && !memchr(covered, 0, layout->true_extent) && layout->extent == layout->true_extent;

    if (dense)
        status = copy_back(image, on_host, layout->first, layout->span);
    for (int64_t i = 0; !dense && status == SHUNT_OK && i < layout->count; i++)
        status = copy_element(image, layout, on_host, covered, layout->start + layout->true_lb + i * layout->extent);
    free(covered);
    return status;
}

/* The element behind the last whole one, of which `received` bytes have come. */
static enum shunt_status copy_rest(const struct shunt_image *image, const struct layout *layout, bool on_host,
                                   int64_t received)
{
    char *covered = find_covered(layout, received);
    enum shunt_status status = SHUNT_ERR_MEMORY;

    if (covered)
        status = copy_element(image, layout, on_host, covered, layout->start + layout->true_lb);
    free(covered);
    return status;
}

static enum shunt_status return_piece(const struct shunt_image *image, const struct shunt_piece *piece,
                                      struct layout *layout)
{
    bool on_host = lies_on_host(image, piece);
    enum shunt_status status = find_layout(piece, layout);

    if (status != SHUNT_OK)
        return status;
    return layout->derived ? copy_blocks(image, layout, on_host) : copy_back(image, on_host, layout->first, layout->span);
}

/* The first `received` bytes of a piece. */
static enum shunt_status return_part(const struct shunt_image *image, const struct shunt_piece *piece, int64_t received)
{
    struct layout layout = { .count = 0 };
    struct shunt_piece whole = *piece;
    enum shunt_status status = find_layout(piece, &layout);

    if (status != SHUNT_OK || layout.size == 0)
        return status;
    if (received >= layout.size * piece->count)
        return return_piece(image, piece, &layout);
    whole.count = received / layout.size;
    if (whole.count > 0)
        status = return_piece(image, &whole, &layout);
    int64_t rest = received % layout.size;
    layout.start = piece->offset + whole.count * layout.extent;
    if (status == SHUNT_OK && rest > 0)
        status = copy_rest(image, &layout, lies_on_host(image, piece), rest);
    return status;
}

enum shunt_status shunt_image_return(const struct shunt_image *image, const struct shunt_pieces *pieces,
                                     int64_t received)
{
    struct layout layout = { .count = 0 };
    enum shunt_status status = SHUNT_OK;

    if (received != SHUNT_RECEIVED_ALL)
        return pieces->n > 0 ? return_part(image, shunt_piece_get(pieces, 0), received) : SHUNT_OK;
    for (int i = 0; i < pieces->n && status == SHUNT_OK; i++)
        status = return_piece(image, shunt_piece_get(pieces, i), &layout);
    return status;
}

/* ---- the images of a call ---- */

static const struct shunt_pieces nothing;

/* Two buffers that are one are one image: an error in most calls, the host shall see it; or both are MPI_BOTTOM. */
static bool is_one(const struct shunt_images *images)
{
    return images->send.staged && images->recv.staged && images->send.buffer == images->recv.buffer;
}

static enum shunt_status make_both(struct shunt_images *images)
{
    struct shunt_operand *send = &images->send, *recv = &images->recv;
    bool one = is_one(images);
    enum shunt_status status = SHUNT_OK;

    if (send->staged && !one)
        status = shunt_image_make(send->buffer, &send->read, &send->written, &images->send_image);
    images->send_image.mixed = send->mixed;
    if (status == SHUNT_OK && recv->staged && !one)
        status = shunt_image_make(recv->buffer, &recv->read, &recv->written, &images->recv_image);
    else if (status == SHUNT_OK && one)
        status = shunt_image_make(recv->buffer, &send->read, &recv->written, &images->recv_image);
    images->recv_image.mixed = recv->mixed || (one && send->mixed);
    return status;
}

enum shunt_status shunt_images_place(struct shunt_call *call, struct shunt_images *images)
{
    enum shunt_status status = make_both(images);

    if (status != SHUNT_OK) {
        shunt_images_release(images);
        return status;
    }
    if (images->send.staged)
        call->sendbuf = is_one(images) ? images->recv_image.host : images->send_image.host;
    if (images->recv.staged)
        call->recvbuf = images->recv_image.host;
    return SHUNT_OK;
}

enum shunt_status shunt_images_make(struct shunt_call *call, struct shunt_images *images)
{
    *images = (struct shunt_images){ .send_image = { 0 } };
    enum shunt_status status = shunt_operands_find(call, &images->send, &images->recv);

    return status == SHUNT_OK ? shunt_images_place(call, images) : status;
}

enum shunt_status shunt_images_fill(const struct shunt_images *images)
{
    bool one = is_one(images);
    enum shunt_status status = SHUNT_OK;

    if (images->send.staged)
        status = shunt_image_fill(one ? &images->recv_image : &images->send_image, &images->send.read);
    if (status == SHUNT_OK && images->recv.staged)
        status = shunt_image_fill(&images->recv_image, one ? &nothing : &images->recv.read);
    return status;
}

enum shunt_status shunt_images_return(const struct shunt_images *images, int64_t received)
{
    return images->recv.staged ? shunt_image_return(&images->recv_image, &images->recv.written, received) : SHUNT_OK;
}

void shunt_images_release(struct shunt_images *images)
{
    shunt_image_release(&images->send_image);
    shunt_image_release(&images->recv_image);
    shunt_operand_release(&images->send);
    shunt_operand_release(&images->recv);
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
