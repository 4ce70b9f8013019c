/* SPDX-License-Identifier: BSD-3-Clause */
/* Images of device buffers in host memory; image.h. */
#include "mpi/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cuda/gpu.h"
#include "mpi/types.h"

enum { ALIGNMENT = 64 };

/* The bounce memory of the running call. */
static _Thread_local struct {
    void *memory;
    size_t bytes;
} held[SHUNT_IMAGES];

void shunt_images_release(void)
{
    for (int i = 0; i < SHUNT_IMAGES; i++) {
        if (held[i].memory)
            shunt_bounce_put(held[i].memory, held[i].bytes);
        held[i].memory = NULL;
    }
}

enum shunt_status shunt_layout_find(MPI_Datatype datatype, int64_t count, struct shunt_layout *layout)
{
    MPI_Count lb;

    *layout = (struct shunt_layout){ .datatype = datatype, .count = count > 0 ? count : 0 };
    if (count <= 0)
        return SHUNT_OK;
    layout->derived = !shunt_types_find(datatype);
    if (shunt_host.Type_get_extent_x(datatype, &lb, &layout->extent) != MPI_SUCCESS ||
        shunt_host.Type_get_true_extent_x(datatype, &layout->true_lb, &layout->true_extent) != MPI_SUCCESS)
        return SHUNT_ERR_INVALID;
    /* The extent may be negative: then the last element lies lowest. */
    int64_t reach = (count - 1) * layout->extent;
    layout->first = layout->true_lb + (reach < 0 ? reach : 0);
    layout->span = (reach < 0 ? -reach : reach) + layout->true_extent;
    return SHUNT_OK;
}

enum shunt_status shunt_image_make(int slot, void *device, const struct shunt_layout *a, const struct shunt_layout *b,
                                   struct shunt_image *image)
{
    if (a->count == 0)
        a = b;
    if (b->count == 0)
        b = a;
    int64_t first = a->first < b->first ? a->first : b->first;
    int64_t a_end = a->first + (int64_t)a->span, b_end = b->first + (int64_t)b->span;
    /* Elements of a derived type are as aligned in the image as they are in the buffer. */
    size_t skew = a->derived || b->derived ? ((uintptr_t)device + (uintptr_t)first) % ALIGNMENT : 0;
    size_t bytes = (size_t)((a_end > b_end ? a_end : b_end) - first) + skew;
    char *memory = shunt_bounce_get(bytes);

    if (!memory) {
        shunt_warn("stage", "no host memory for %zu bytes", bytes);
        return SHUNT_ERR_MEMORY;
    }
    held[slot].memory = memory;
    held[slot].bytes = bytes;
    *image = (struct shunt_image){ .device = device, .host = memory + skew - first };
    return SHUNT_OK;
}

enum shunt_status shunt_image_fill(const struct shunt_image *image, const struct shunt_layout *layout)
{
    return shunt_stage_out(image->host + layout->first, image->device + layout->first, layout->span);
}

/* ---- the way back for derived types ---- */

/* Pack and unpack one element; what is not packed in `from` stays in `to`. Both lack the type's true lower bound. */
static enum shunt_status repack(const struct shunt_layout *layout, const char *from, char *to)
{
    int size = 0, in = 0, out = 0;
    char *packed = NULL;

    if (shunt_host.Pack_size(1, layout->datatype, MPI_COMM_SELF, &size) != MPI_SUCCESS || size <= 0 ||
        !(packed = malloc(size)))
        return SHUNT_ERR_MEMORY;
    int rc = shunt_host.Pack(from - layout->true_lb, 1, layout->datatype, packed, size, &in, MPI_COMM_SELF);
    if (rc == MPI_SUCCESS)
        rc = shunt_host.Unpack(packed, in, &out, to - layout->true_lb, 1, layout->datatype, MPI_COMM_SELF);
    free(packed);
    return rc == MPI_SUCCESS ? SHUNT_OK : SHUNT_ERR_INVALID;
}

/*
 * Which bytes of an element its type map covers: an element of ones, packed and unpacked over zeros by the host, which
 * alone knows its types. NULL if that fails. To be freed by the caller.
 */
static char *find_covered(const struct shunt_layout *layout)
{
    char *ones = malloc(layout->true_extent), *covered = calloc(1, layout->true_extent);

    if (ones && covered) {
        memset(ones, 0xff, layout->true_extent);
        if (repack(layout, ones, covered) == SHUNT_OK) {
            free(ones);
            return covered;
        }
    }
    free(ones);
    free(covered);
    return NULL;
}

static enum shunt_status copy_element(const struct shunt_image *image, const struct shunt_layout *layout,
                                      const char *covered, int64_t offset)
{
    enum shunt_status status = SHUNT_OK;

    for (MPI_Count start = 0, end; status == SHUNT_OK && start < layout->true_extent; start = end) {
        for (end = start + 1; end < layout->true_extent && !covered[end] == !covered[start]; end++)
            ;
        if (covered[start])
            status = shunt_stage_in(image->device + offset + start, image->host + offset + start, end - start);
    }
    return status;
}

static enum shunt_status copy_blocks(const struct shunt_image *image, const struct shunt_layout *layout)
{
    char *covered = find_covered(layout);
    enum shunt_status status = covered ? SHUNT_OK : SHUNT_ERR_MEMORY;
    bool dense = covered && !memchr(covered, 0, layout->true_extent) && layout->extent == layout->true_extent;

    if (dense)
        status = shunt_stage_in(image->device + layout->first, image->host + layout->first, layout->span);
    for (int64_t i = 0; !dense && status == SHUNT_OK && i < layout->count; i++)
        status = copy_element(image, layout, covered, layout->true_lb + i * layout->extent);
    free(covered);
    return status;
}

enum shunt_status shunt_image_return(const struct shunt_image *image, const struct shunt_layout *layout)
{
    if (layout->count == 0)
        return SHUNT_OK;
    if (layout->derived)
        return copy_blocks(image, layout);
    return shunt_stage_in(image->device + layout->first, image->host + layout->first, layout->span);
}
