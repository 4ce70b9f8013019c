/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking file access on device memory, by way of host memory, and split collectives, whose image lives from the begin to
 * the end: a file has one of them at most.
 *
 * What a read brings less than was asked for its status does not always tell (ROMIO's and OMPIO's collective ones). So what is
 * read into is copied to the image before, and all of it is copied back; what was not read is then as it was.
 */
#include <errno.h>
#include <stdlib.h>

#include "cuda/gpu.h"
#include "mpi/comm.h"
#include "mpi/image.h"
#include "mpi/life.h"
#include "mpi/map.h"
#include "mpi/tally.h"

/* Images of split collectives under way, by file. */
static struct shunt_map splits = SHUNT_MAP_INITIALIZER;

static uintptr_t file_word(MPI_File file)
{
    return (uintptr_t)file;
}

static int fail_call(MPI_File file)
{
    shunt_host.File_call_errhandler(file, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

static enum shunt_status prepare(struct shunt_call *call, struct shunt_images *images)
{
    enum shunt_status status = shunt_images_make(call, images);

    if (status != SHUNT_OK)
        return status;
    shunt_tally_staged(call, images, SHUNT_REASON_NO_ALGORITHM);
    status = images->recv.staged ? shunt_image_fill(&images->recv_image, &images->recv.written)
                                 : shunt_images_fill(images);
    if (status != SHUNT_OK)
        shunt_images_release(images);
    return status;
}

/* A buffer may be in device memory. `images`: where to keep it. */
static bool stage_access(struct shunt_call *call, struct shunt_images *images, int *rc, void **kept)
{
    enum shunt_status status = prepare(call, images);

    *kept = status == SHUNT_OK ? images : NULL;
    if (status == SHUNT_OK || status == SHUNT_PASS)
        return false;
    *rc = fail_call(call->file);
    return true;
}

static const void *find_buffer(const struct shunt_call *call)
{
    return call->sendbuf ? call->sendbuf : call->recvbuf;
}

bool shunt_hook_file_before(struct shunt_call *call, int *rc, void **kept)
{
    const void *buffer = find_buffer(call);
    int saved = errno;

    if (shunt_gpu_surely_host(buffer, buffer) || shunt_life_forked())
        return false;
    bool done = stage_access(call, shunt_images_own(), rc, kept);
    errno = saved;
    return done;
}

/* Whatever the answer: what has been read in vain is as it was. */
int shunt_hook_file_after(const struct shunt_call *call, void *kept, int rc)
{
    struct shunt_images *images = kept;
    int saved = errno;
    enum shunt_status status = shunt_images_return(images, SHUNT_RECEIVED_ALL);

    shunt_images_release(images);
    errno = saved;
    return status == SHUNT_OK ? rc : fail_call(call->file);
}

/* ---- split collectives ---- */

static void drop_split(struct shunt_images *images)
{
    if (images)
        shunt_images_release(images);
    free(images);
}

bool shunt_hook_begin_before(struct shunt_call *call, int *rc, void **kept)
{
    const void *buffer = find_buffer(call);
    int saved = errno;

    if (shunt_gpu_surely_host(buffer, buffer) || shunt_life_forked())
        return false;
    struct shunt_images *images = calloc(1, sizeof *images);
    bool done = false;
    if (images)
        done = stage_access(call, images, rc, kept);
    else {
        *rc = fail_call(call->file);
        done = true;
    }
    if (!*kept)
        free(images);
    errno = saved;
    return done;
}

int shunt_hook_begin_after(const struct shunt_call *call, void *kept, int rc)
{
    void *stale = NULL;
    int saved = errno;

    if (rc != MPI_SUCCESS) {
        drop_split(kept);
    } else if (shunt_map_put(&splits, file_word(call->file), kept, &stale) != SHUNT_OK) {
        /* The host may write to the image until the end: it stays for good. */
        rc = fail_call(call->file);
    }
    drop_split(stale);
    errno = saved;
    return rc;
}

bool shunt_hook_end_before(struct shunt_call *call, int *rc, void **kept)
{
    struct shunt_images *images = shunt_map_find(&splits, file_word(call->file));

    (void)rc;
    if (!images || shunt_life_forked())
        return false;
    call->sendbuf = images->send_image.host;
    call->recvbuf = images->recv_image.host;
    *kept = images;
    return false;
}

int shunt_hook_end_after(const struct shunt_call *call, void *kept, int rc)
{
    int saved = errno;

    enum shunt_status status = shunt_images_return(kept, SHUNT_RECEIVED_ALL);
    drop_split(shunt_map_remove(&splits, file_word(call->file), kept));
    errno = saved;
    return status == SHUNT_OK ? rc : fail_call(call->file);
}
