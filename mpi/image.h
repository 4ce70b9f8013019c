/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images of device buffers in host memory, for calls that are staged.
 *
 * Predefined types are copied as they lie, with the holes that pair types have inside of an element. Derived types are
 * packed and unpacked on the GPU: nothing of what lies between their blocks is touched, here or there. Where a call only
 * moves data, the image is packed, too (packed.h), and nobody moves the blocks in host memory. Else (reductions, files)
 * byte i of the image stands for byte i of the buffer.
 */
#ifndef SHUNT_MPI_IMAGE_H
#define SHUNT_MPI_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "mpi/operand.h"
#include "mpi/packed.h"

/* A buffer of the caller in device memory and its image in host memory. */
struct shunt_image {
    char *device; /* the caller's address */
    char *host;   /* stands for it in the host's call */
    bool packed;  /* elements follow each other without gaps, from `host` on; else byte i of the one is byte i of the other */
    void *memory; /* owned, where the image lies */
    size_t bytes;
    size_t skew; /* so many of them are in front of the first that counts */
    bool mixed; /* some of the "device" memory is host memory */
    bool clean; /* only its first page has been touched, if at all */
};

/* CUT: the message was too long. Of hosts of MPICH's family some write what there is room for, others nothing. */
enum { SHUNT_RECEIVED_ALL = -1, SHUNT_RECEIVED_CUT = -2 };

/* An image with room for all pieces of a and b, either of which may be empty (not both). Contents undefined. */
enum shunt_status shunt_image_make(void *device, const struct shunt_pieces *a, const struct shunt_pieces *b, bool packed,
                                   struct shunt_image *image);
void shunt_image_release(struct shunt_image *image);

/* Copy the pieces to the image. */
enum shunt_status shunt_image_fill(const struct shunt_image *image, const struct shunt_pieces *pieces);

/*
 * Copy the pieces back. `received`: only so many bytes of the first
 * piece have come, counted without gaps in the order of the type map; SHUNT_RECEIVED_ALL: all of all pieces; SHUNT_RECEIVED_CUT:
 * all or nothing, as the host has written since shunt_images_mark; all if there is no mark.
 */
enum shunt_status shunt_image_return(const struct shunt_image *image, const struct shunt_pieces *pieces,
                                     int64_t received);

/*
 * The operands of one call and their images. Whoever owns it may keep it beyond the call, as nonblocking and persistent
 * operations do; the caller's datatypes may be freed then. Zero: empty.
 *
 *     make     the operands are found, and images stand in the call in place of staged buffers, with their datatypes
 *     fill     before each start of the operation
 *     return   after each end of it that was a success
 *     release
 */
struct shunt_images {
    struct shunt_operand send, recv;
    struct shunt_image send_image, recv_image; /* without memory where there is none */
    struct shunt_packed send_packed, recv_packed;
    bool marked; /* it can be told whether the host has written to recv_image */
    bool one; /* the send buffer's pieces, too, are in recv_image and count from the receive buffer on */
    struct shunt_rows rows; /* what stands in the call for the caller's, if an image with rows is packed */
};

/* PASS: nothing to stage, and the call is as it was. After anything but OK there is nothing to release. */
enum shunt_status shunt_images_make(struct shunt_call *call, struct shunt_images *images);
enum shunt_status shunt_images_fill(const struct shunt_images *images);
enum shunt_status shunt_images_return(const struct shunt_images *images, int64_t received);

/*
 * Before each start of a receive: what comes may be too long for the buffer. A result of which all is written, or read
 * before, needs no mark, and gets none.
 */
void shunt_images_mark(struct shunt_images *images);
void shunt_images_release(struct shunt_images *images);

/* The same for operands that the caller has found himself; they are in `images`, and go with it. */
enum shunt_status shunt_images_place(struct shunt_call *call, struct shunt_images *images);

/* Bytes that are copied, for statistics. */
uint64_t shunt_images_bytes(const struct shunt_images *images);

/*
 * The calling thread's own, for blocking calls: emptied, since an error handler of the program may have jumped out of the
 * call before. A thread has one such call at a time, as inside of it no hook runs.
 */
struct shunt_images *shunt_images_own(void);

#endif
