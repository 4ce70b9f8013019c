/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The patterns of datatypes, by handle; flatten.h.
 *
 * A handle that is freed may be given to another datatype at once. So each datatype that has been flattened carries an
 * attribute, whose callback takes it out when the host frees it. Who uses a pattern then has a reference of his own.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/log.h"
#include "mpi/flatten.h"
#include "mpi/life.h"
#include "mpi/map.h"

static struct shunt_map patterns = SHUNT_MAP_INITIALIZER;

/* Made on first use, under the lock. */
static int keyval = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What is known of a datatype. */
struct flat {
    struct shunt_pattern *pattern; /* NULL: it cannot be flattened */
    MPI_Datatype packed;           /* MPI_DATATYPE_NULL until asked for, and if there is none */
};

static void drop(struct flat *flat)
{
    if (!flat)
        return;
    shunt_pattern_release(flat->pattern);
    if (flat->packed != MPI_DATATYPE_NULL)
        shunt_host.Type_free(&flat->packed);
    free(flat);
}

/* The host frees a datatype. */
static int forget(MPI_Datatype datatype, int key, void *value, void *extra)
{
    int saved = errno;

    (void)key;
    (void)extra;
    if (!shunt_life_forked())
        drop(shunt_map_remove(&patterns, (uintptr_t)datatype, value));
    errno = saved;
    return MPI_SUCCESS;
}

/* Will its end be seen? Only then it may be remembered. */
static bool watch(MPI_Datatype datatype, struct flat *flat)
{
    if (keyval == MPI_KEYVAL_INVALID &&
        shunt_host.Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &keyval, NULL) != MPI_SUCCESS)
        keyval = MPI_KEYVAL_INVALID;
    return keyval != MPI_KEYVAL_INVALID && shunt_host.Type_set_attr(datatype, keyval, flat) == MPI_SUCCESS;
}

/* Under the lock. NULL: what is found out cannot be kept, and nothing is found out. */
static struct flat *add(MPI_Datatype datatype)
{
    struct flat *flat = calloc(1, sizeof *flat);
    void *stale = NULL;

    if (!flat)
        return NULL;
    flat->packed = MPI_DATATYPE_NULL;
    if (shunt_flatten(datatype, &flat->pattern) != SHUNT_OK) {
        flat->pattern = NULL;
        shunt_info("stage", "a datatype is not understood: its blocks are copied one by one");
    }
    if (!watch(datatype, flat) || shunt_map_put(&patterns, (uintptr_t)datatype, flat, &stale) != SHUNT_OK) {
        drop(flat);
        flat = NULL;
    }
    drop(stale);
    return flat;
}

static struct flat *find(MPI_Datatype datatype)
{
    struct flat *flat = shunt_map_find(&patterns, (uintptr_t)datatype);

    if (flat)
        return flat;
    pthread_mutex_lock(&lock);
    flat = shunt_map_find(&patterns, (uintptr_t)datatype); /* another thread may have been faster */
    if (!flat)
        flat = add(datatype);
    pthread_mutex_unlock(&lock);
    return flat;
}

struct shunt_pattern *shunt_pattern_of(MPI_Datatype datatype)
{
    struct flat *flat = find(datatype);

    return flat ? shunt_pattern_keep(flat->pattern) : NULL;
}

static MPI_Datatype make_packed(uint64_t bytes)
{
    MPI_Datatype packed;

    if (bytes > INT_MAX || shunt_host.Type_contiguous((int)bytes, MPI_BYTE, &packed) != MPI_SUCCESS)
        return MPI_DATATYPE_NULL;
    if (shunt_host.Type_commit(&packed) == MPI_SUCCESS)
        return packed;
    shunt_host.Type_free(&packed);
    return MPI_DATATYPE_NULL;
}

MPI_Datatype shunt_packed_type_of(MPI_Datatype datatype)
{
    struct flat *flat = find(datatype);
    MPI_Datatype packed = MPI_DATATYPE_NULL;

    if (!flat || !flat->pattern)
        return packed;
    pthread_mutex_lock(&lock);
    if (flat->packed == MPI_DATATYPE_NULL)
        flat->packed = make_packed(flat->pattern->bytes);
    packed = flat->packed;
    pthread_mutex_unlock(&lock);
    return packed;
}

void shunt_patterns_stop(void)
{
    struct flat *flat;

    while ((flat = shunt_map_pop(&patterns)))
        drop(flat);
    pthread_mutex_lock(&lock);
    if (keyval != MPI_KEYVAL_INVALID)
        shunt_host.Type_free_keyval(&keyval);
    keyval = MPI_KEYVAL_INVALID;
    pthread_mutex_unlock(&lock);
}

void shunt_patterns_abandon(void)
{
    shunt_map_abandon(&patterns);
}
