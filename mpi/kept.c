/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a call as they are kept; kept.h. */
#include "mpi/kept.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/operand.h"
#include "mpi/rows.h"
#include "mpi/types.h"

/* The program may free the datatype of a call at once. Ours and the predefined ones stay. */
static bool keep_type(struct shunt_kept *kept, MPI_Datatype *type)
{
    MPI_Datatype duplicate;

    if (*type == MPI_DATATYPE_NULL || shunt_types_find(*type))
        return true;
    if (shunt_host.Type_dup(*type, &duplicate) != MPI_SUCCESS)
        return false;
    *type = kept->types[kept->n_types++] = duplicate;
    return true;
}

/* n elements, behind what is in `arrays` already. */
static const void *keep_array(char **at, const void *array, size_t n, size_t size)
{
    char *copy = *at;

    if (!array)
        return NULL;
    memcpy(copy, array, n * size);
    *at += (n * size + 7) / 8 * 8;
    return copy;
}

/* The arrays of one side. Answers its types, if it has some: the caller makes duplicates. */
static MPI_Datatype *keep_side(const struct shunt_side_rows *rows, bool recv, char **at, struct shunt_kept *kept)
{
    const size_t n = (size_t)rows->n;
    const void *counts = keep_array(at, rows->counts, n, rows->large ? sizeof(MPI_Count) : sizeof(int));
    const void *displs = keep_array(at, rows->displs, n, rows->aints ? sizeof(MPI_Aint) : sizeof(int));
    MPI_Datatype *types = (MPI_Datatype *)keep_array(at, rows->types, n, sizeof(MPI_Datatype));

    if (recv) {
        kept->rows.recvcounts = counts;
        kept->rows.recvdispls = displs;
        kept->rows.recvtypes = types;
    } else {
        kept->rows.sendcounts = counts;
        kept->rows.senddispls = displs;
        kept->rows.sendtypes = types;
    }
    return types;
}

/* Each array may have to be filled up to 8 bytes. */
static size_t room_for(const struct shunt_side_rows *rows)
{
    return rows->counts ? 3 * ((size_t)rows->n + 1) * 8 : 0;
}

/* What counts of a call on this rank: the rest may be anything, and the host does not look at it either. */
struct sides {
    bool rows[2], types[2]; /* of the receive side and the send side: has it arrays; has it a datatype of its own */
    struct shunt_side_rows arrays[2];
};

static struct sides find_sides(const struct shunt_call *call, const struct shunt_collective *shape,
                               const struct shunt_groups *groups)
{
    const bool reduces = shape->traits & SHUNT_TRAIT_COMBINES, two = shunt_call_has_two_types(call->id);
    const bool typed = shunt_call_has_rows(call->id) && call->rows->recvtypes; /* with one for each row */
    const bool receives = shunt_groups_count(shape->recv.who, call, groups) && call->recvbuf != MPI_IN_PLACE;
    const bool sends = shunt_groups_count(shape->send.who, call, groups) && call->sendbuf != MPI_IN_PLACE;
    struct sides sides = { .types = { two && receives, !typed && (sends || !two) } };

    sides.rows[0] = shape->traits & SHUNT_TRAIT_RECV_ROWS && receives;
    sides.rows[1] = shape->traits & SHUNT_TRAIT_SEND_ROWS && sends && !reduces;
    for (int i = 0; i < 2; i++)
        if (sides.rows[i])
            sides.arrays[i] = shunt_side_rows(call, shape, i == 0, groups);
    if (sides.rows[0] && reduces) /* one array for both sides */
        sides.arrays[0].n = groups->own;
    return sides;
}

static bool keep_all(struct shunt_kept *kept, const struct sides *sides)
{
    /* An even number, so that what follows is aligned, too. */
    size_t n = ((size_t)(sides->arrays[0].n + sides->arrays[1].n) + 3) & ~(size_t)1;
    bool good = true;

    kept->arrays = malloc(n * sizeof(MPI_Datatype) + room_for(&sides->arrays[0]) + room_for(&sides->arrays[1]));
    if (!kept->arrays)
        return false;
    kept->types = kept->arrays;
    char *at = (char *)(kept->types + n);
    if (shunt_call_has_rows(kept->call.id)) {
        kept->rows = *kept->call.rows;
        kept->call.rows = &kept->rows;
    }
    for (int i = 0; i < 2; i++) {
        MPI_Datatype *types = sides->rows[i] ? keep_side(&sides->arrays[i], i == 0, &at, kept) : NULL;
        for (int j = 0; types && j < sides->arrays[i].n && good; j++)
            good = keep_type(kept, &types[j]);
    }
    good = good && (!sides->types[0] || keep_type(kept, &kept->call.recvtype));
    return good && (!sides->types[1] || keep_type(kept, &kept->call.datatype));
}

bool shunt_kept_make(const struct shunt_call *call, struct shunt_kept *kept)
{
    const struct shunt_collective *shape = &shunt_collectives[shunt_call_coll(shunt_call_family(call->id))];
    struct shunt_groups groups;

    *kept = (struct shunt_kept){ .call = *call };
    if (!shunt_groups_find(call, shape, &groups))
        return false;
    struct sides sides = find_sides(call, shape, &groups);
    bool good = keep_all(kept, &sides);
    shunt_groups_release(&groups);
    if (!good)
        shunt_kept_release(kept);
    return good;
}

void shunt_kept_release(struct shunt_kept *kept)
{
    for (int i = 0; i < kept->n_types; i++)
        shunt_host.Type_free(&kept->types[i]);
    free(kept->arrays);
    kept->arrays = NULL;
    kept->n_types = 0;
}
