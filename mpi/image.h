/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images of device buffers in host memory, for calls that are staged.
 *
 * Predefined types are copied as they lie, with the holes that pair types have inside of an element. Of a derived type
 * the whole span is copied out, but only the bytes of its type map are copied back, block by block: what lies in the gaps
 * may be changing meanwhile. That is right, not fast.
 */
#ifndef SHUNT_MPI_IMAGE_H
#define SHUNT_MPI_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "mpi/call.h"

/* Elements of a buffer, and where they lie, in bytes from the buffer's address. */
struct shunt_layout {
    MPI_Datatype datatype;
    int64_t count;                          /* 0: none; nothing else is set then */
    MPI_Count extent, true_lb, true_extent; /* of one element */
    int64_t first;                          /* lowest byte of all elements */
    size_t span;                            /* from there to the end of the highest */
    bool derived;
};

/* A buffer of the caller in device memory and its image in host memory. */
struct shunt_image {
    char *device; /* the caller's address */
    char *host;   /* stands for it in the host's call: byte i of the one is byte i of the other */
};

enum { SHUNT_IMAGES = 2 }; /* of a call at most */

/* The datatype must be one of the host's; a count that is not above 0 gives an empty layout. */
enum shunt_status shunt_layout_find(MPI_Datatype datatype, int64_t count, struct shunt_layout *layout);

/*
 * Image number `slot` of the calling thread, for all elements of the layouts a and b, either of which may be empty (not
 * both). Contents undefined. A thread has one staged call at a time, since inside of it no hook runs.
 */
enum shunt_status shunt_image_make(int slot, void *device, const struct shunt_layout *a, const struct shunt_layout *b,
                                   struct shunt_image *image);

/* Copy all elements of the layout to the image, with what lies between them. */
enum shunt_status shunt_image_fill(const struct shunt_image *image, const struct shunt_layout *layout);

/* Copy the elements back, and nothing of what lies between them. */
enum shunt_status shunt_image_return(const struct shunt_image *image, const struct shunt_layout *layout);

/*
 * Give the memory of the thread's images back: after a call, and before one, since an error handler of the program may
 * have jumped out of the call before.
 */
void shunt_images_release(void);

#endif
