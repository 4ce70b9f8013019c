/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on packed images; packed.h. */
#include "mpi/packed.h"

#include <limits.h>
#include <stdlib.h>

#include "mpi/flatten.h"
#include "mpi/types.h"

/* Can a piece be packed? Of predefined types only those without padding; whether it gains anything goes to *gaps. */
static bool can_pack_piece(const struct shunt_piece *piece, bool *gaps)
{
    const struct shunt_pattern *pattern = piece->pattern;
    MPI_Count size, lb, extent;

    if (pattern) {
        *gaps = *gaps || !shunt_pattern_is_dense(pattern, piece->count);
        return pattern->bytes > 0;
    }
    return shunt_types_find(piece->datatype) && shunt_host.Type_size_x(piece->datatype, &size) == MPI_SUCCESS &&
           shunt_host.Type_get_extent_x(piece->datatype, &lb, &extent) == MPI_SUCCESS && size == extent;
}

static bool can_pack(const struct shunt_pieces *pieces, bool *gaps)
{
    for (int i = 0; i < pieces->n; i++)
        if (!can_pack_piece(shunt_piece_get(pieces, i), gaps))
            return false;
    return true;
}

/* The datatype for packed elements; predefined ones are themselves. */
static MPI_Datatype find_packed_type(MPI_Datatype datatype)
{
    return shunt_types_find(datatype) ? datatype : shunt_packed_type_of(datatype);
}

/* Where a row begins, as the call counts it: in bytes if rows have types, else in elements. */
static bool set_place(const struct shunt_arrays *arrays, void *displs, int i, int64_t place)
{
    if (arrays->aints)
        ((MPI_Aint *)displs)[i] = (MPI_Aint)place;
    else if (place <= INT_MAX)
        ((int *)displs)[i] = (int)place;
    else
        return false;
    return true;
}

/* Rows that are empty keep their types, which may be none. */
static bool pack_row(const struct shunt_arrays *arrays, int i, struct shunt_packed *packed, int64_t *place)
{
    int64_t count =
        arrays->large ? ((const MPI_Count *)arrays->counts)[i] : (MPI_Count)((const int *)arrays->counts)[i];
    MPI_Count size = 1;

    if (count < 0 || !set_place(arrays, packed->displs, i, *place))
        return false;
    if (arrays->types) {
        packed->types[i] = arrays->types[i];
        size = 0;
        if (count > 0 && shunt_host.Type_size_x(arrays->types[i], &size) == MPI_SUCCESS && size > 0)
            packed->types[i] = find_packed_type(arrays->types[i]);
        if (size > 0 && packed->types[i] == MPI_DATATYPE_NULL)
            return false;
    }
    *place += count * size;
    return true;
}

static bool pack_rows(const struct shunt_arrays *arrays, struct shunt_packed *packed)
{
    int64_t place = 0;

    packed->displs = malloc(((size_t)arrays->n + 1) * sizeof(MPI_Aint));
    packed->types = arrays->types ? malloc(((size_t)arrays->n + 1) * sizeof(MPI_Datatype)) : NULL;
    if (!packed->displs || (arrays->types && !packed->types))
        return false;
    for (int i = 0; i < arrays->n; i++)
        if (!pack_row(arrays, i, packed, &place))
            return false;
    return true;
}

void shunt_packed_choose(struct shunt_call *call, const struct shunt_operand *operand, bool recv,
                         struct shunt_packed *packed)
{
    MPI_Datatype *datatype = shunt_operand_type(call, recv);
    bool gaps = false;

    *packed = (struct shunt_packed){ .datatype = MPI_DATATYPE_NULL };
    if (!operand->staged || operand->mixed || !datatype || !can_pack(&operand->read, &gaps) ||
        !can_pack(&operand->written, &gaps) || !gaps)
        return;
    if (!operand->arrays.types && (packed->datatype = find_packed_type(*datatype)) == MPI_DATATYPE_NULL)
        return;
    packed->used = !operand->arrays.counts || pack_rows(&operand->arrays, packed);
    if (!packed->used)
        shunt_packed_release(packed);
}

void shunt_packed_place(struct shunt_call *call, bool recv, const struct shunt_packed *packed, struct shunt_rows *rows)
{
    if (!packed->used)
        return;
    if (!packed->types)
        *shunt_operand_type(call, recv) = packed->datatype;
    if (!packed->displs)
        return;
    if (call->rows != rows)
        *rows = *call->rows;
    call->rows = rows;
    *(recv ? &rows->recvdispls : &rows->senddispls) = packed->displs;
    if (packed->types)
        *(recv ? &rows->recvtypes : &rows->sendtypes) = packed->types;
}

void shunt_packed_release(struct shunt_packed *packed)
{
    free(packed->displs);
    free(packed->types);
    *packed = (struct shunt_packed){ .used = false };
}
