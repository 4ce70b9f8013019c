/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of calls in the statistics; tally.h. */
#include "mpi/tally.h"

#include "base/conf.h"
#include "base/stats.h"
#include "coll/colls.h"

static unsigned find_coll(unsigned family)
{
    switch (family) {
#define CASE(call, coll) case SHUNT_CALL_##call: return SHUNT_COLL_##coll;
        CASE(Reduce_local, REDUCE_LOCAL)
        CASE(Send, SEND)
        CASE(Ssend, SEND)
        CASE(Rsend, SEND)
        CASE(Bsend, SEND)
        CASE(Psend_init, SEND)
        CASE(Recv, RECV)
        CASE(Mrecv, RECV)
        CASE(Precv_init, RECV)
        CASE(Sendrecv, SENDRECV)
        CASE(Sendrecv_replace, SENDRECV)
        CASE(Put, PUT)
        CASE(Get, GET)
        CASE(Accumulate, ACCUMULATE)
        CASE(Get_accumulate, ACCUMULATE)
        CASE(Fetch_and_op, ACCUMULATE)
        CASE(Compare_and_swap, ACCUMULATE)
        CASE(Pack, PACK)
        CASE(Pack_external, PACK)
        CASE(Unpack, UNPACK)
        CASE(Unpack_external, UNPACK)
        CASE(File_read, FILE_READ)
        CASE(File_read_all, FILE_READ)
        CASE(File_read_at, FILE_READ)
        CASE(File_read_at_all, FILE_READ)
        CASE(File_read_shared, FILE_READ)
        CASE(File_read_ordered, FILE_READ)
        CASE(File_read_all_begin, FILE_READ)
        CASE(File_read_at_all_begin, FILE_READ)
        CASE(File_read_ordered_begin, FILE_READ)
        CASE(File_write, FILE_WRITE)
        CASE(File_write_all, FILE_WRITE)
        CASE(File_write_at, FILE_WRITE)
        CASE(File_write_at_all, FILE_WRITE)
        CASE(File_write_shared, FILE_WRITE)
        CASE(File_write_ordered, FILE_WRITE)
        CASE(File_write_all_begin, FILE_WRITE)
        CASE(File_write_at_all_begin, FILE_WRITE)
        CASE(File_write_ordered_begin, FILE_WRITE)
#undef CASE
    default: return shunt_call_coll(family);
    }
}

/* The datatype's size is a call of the host, so it is asked only for who wants to see it. */
void shunt_tally_staged(const struct shunt_call *call, const struct shunt_images *images, enum shunt_reason reason)
{
    shunt_stats_count(find_coll(shunt_call_family(call->id)), SHUNT_PATH_STAGED, reason,
                      shunt_conf->stats ? shunt_images_bytes(images) : 0);
}
