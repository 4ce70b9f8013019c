/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a call as they are kept; kept.h. */
#include "mpi/kept.h"

#include "mpi/types.h"

static const bool rows_forms[SHUNT_NCALLS] = { SHUNT_CALL_ROWS };
static const bool two_types[SHUNT_NCALLS] = { SHUNT_CALL_TWO_TYPES };

/* The program may free the datatype of a call at once. Ours and the predefined ones stay. */
static bool keep_type(MPI_Datatype *type, MPI_Datatype *duplicate)
{
    if (*type == MPI_DATATYPE_NULL || shunt_types_find(*type))
        return true;
    if (shunt_host.Type_dup(*type, duplicate) != MPI_SUCCESS)
        return false;
    *type = *duplicate;
    return true;
}

bool shunt_kept_make(const struct shunt_call *call, struct shunt_kept *kept)
{
    kept->call = *call;
    kept->types[0] = kept->types[1] = MPI_DATATYPE_NULL;
    if (rows_forms[call->id]) {
        kept->rows = *call->rows;
        kept->call.rows = &kept->rows;
    }
    if (keep_type(&kept->call.datatype, &kept->types[0]) &&
        (!two_types[call->id] || keep_type(&kept->call.recvtype, &kept->types[1])))
        return true;
    shunt_kept_release(kept);
    return false;
}

void shunt_kept_release(struct shunt_kept *kept)
{
    for (int i = 0; i < 2; i++)
        if (kept->types[i] != MPI_DATATYPE_NULL)
            shunt_host.Type_free(&kept->types[i]);
}
