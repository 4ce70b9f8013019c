/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a shim hands on: the arguments of one MPI call as they came, and the hooks that the shims call.
 *
 * Shims are written by gen.py from calls.txt and shim.c.in, one per name, for both MPI_X and PMPI_X. A shim does
 * nothing but count the depth, fill struct shunt_call with the fields of its row and call the hooks of its class, and
 * then the host's function of the same name. Hooks run only at depth 0, that is for calls of the program, not for
 * those that an MPI library makes inside itself.
 */
#ifndef SHUNT_MPI_CALL_H
#define SHUNT_MPI_CALL_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "call_ids.h" /* generated: enum shunt_call_id { SHUNT_CALL_Allreduce, ... }, SHUNT_CALL_FAMILIES */

/* The arrays of a call that has a count, and maybe a place and a type, for each peer. */
struct shunt_rows {
    const void *sendcounts; /* int, of large calls MPI_Count */
    const void *senddispls; /* int; of large calls and of Neighbor_alltoallw MPI_Aint */
    const MPI_Datatype *sendtypes;
    const void *recvcounts, *recvdispls;
    const MPI_Datatype *recvtypes;
};

/* A shim clears it in each call: at most 80 bytes, up to which compilers do that without a loop. */
struct shunt_call {
    uint16_t id; /* enum shunt_call_id, the family and form: Allreduce, Iallreduce, Allreduce_init */
    bool large;  /* of MPI_X_c: arrays have elements for large counts */
    int root;    /* also the rank that is sent to */
    union {
        const void *sendbuf;
        const char *stringtag; /* ..._from_group(s) */
    };
    void *recvbuf;
    MPI_Count count;       /* where one side has arrays, the other's */
    MPI_Datatype datatype; /* of both sides, or of the one that sends */
    union {
        MPI_Op op;
        struct {
            int source;  /* the rank that is received from */
            int sendtag; /* of calls that send, too */
        };
        MPI_File file;
    };
    union {
        MPI_Comm comm; /* the (parent) communicator */
        MPI_Win win;   /* of one-sided calls */
    };
    union {
        int tag;                       /* Comm_create_group, Intercomm_create */
        MPI_Count recvcount;           /* of calls with two counts; `count` is the other. Bytes of a packed buffer */
        MPI_Count partitions;          /* of calls that have some; `count` is of each */
        const struct shunt_rows *rows; /* of calls with arrays */
        MPI_Info info;                 /* with hints for a communicator */
    };
    union {
        MPI_Request *requests; /* creation of a request: where the host writes it */
        MPI_Status *status;    /* of a call that receives and returns no request */
        void *position;        /* in a packed buffer: int *, of external packing MPI_Aint *, of large calls MPI_Count * */
    };
    union {
        MPI_Comm *newcomm;     /* creation calls: where the host writes it; Comm_free, Comm_disconnect: what ends */
        MPI_Datatype recvtype; /* of calls with two types */
        const void *compare;   /* of Compare_and_swap */
        const MPI_Message *message; /* of Mrecv */
    };
};
_Static_assert(sizeof(struct shunt_call) <= 80, "clearing a struct shunt_call becomes slow");

/* The same for the calls that complete or start requests. */
struct shunt_wait {
    enum shunt_call_id id;
    int n_requests; /* 1, or the array's length */
    MPI_Request *requests;
    MPI_Status *statuses; /* what the host is called with: ours where the program ignores them */
    int *flag;            /* NULL: the call waits */
    int *index;           /* ..any: which one has completed; ..some: how many */
    int *indices;         /* ..some: which */
    int partition, last_partition; /* Pready, Pready_range, Parrived: from the one to the other */
    int n_partitions;              /* Pready_list */
    const int *partitions;
};

/*
 * The classes of calls.txt. The host's function runs between before and after.
 *
 *   pass    no shim at all: the slot leads straight to the host
 *   depth   only counts the depth (calls that call covered ones inside themselves: I/O, windows ...)
 *   coll    a collective that we do not take: shunt_hook_coll before
 *   stage   a collective that takes device buffers, on the GPUs or by way of host memory: shunt_hook_stage_before, which may
 *           put other buffers into the call, answers true if the call is done; shunt_hook_stage_after if it has done so
 *   move    any other call that takes device buffers by way of host memory: as stage, with shunt_hook_move_before and
 *           shunt_hook_move_after, while the process uses CUDA
 *   probe   asks for messages: shunt_hook_probe_before, shunt_hook_probe_after, while the process uses CUDA
 *   receive and ireceive: as move and issue, of calls that receive messages
 *   issue   begins an operation and creates its request: shunt_hook_issue_before, which may put other buffers into the
 *           call, answers true if the call is done; shunt_hook_issue_after
 *   icoll   the same for a collective: shunt_hook_icoll_before; shunt_hook_issue_after
 *   access  a one-sided call: shunt_hook_access_before, shunt_hook_access_after, as issue
 *   sync    ends one-sided operations: shunt_hook_sync_after, only while some are staged
 *   pack    the same for packing: shunt_hook_pack_before, shunt_hook_pack_after
 *   file    and for blocking access to files: shunt_hook_file_before, shunt_hook_file_after
 *   begin   and end: for split collectives on files
 *   lend    memory that the host keeps for buffered sends: shunt_hook_lend_before and _after, which give it other memory if
 *           that is device memory; regain: shunt_hook_regain_after, which gives the program its own back
 *   window  and attach: memory that others access: shunt_hook_window_before, shunt_hook_attach_before, which refuse that
 *           of devices
 *   comm    creates a communicator: shunt_hook_comm_before, shunt_hook_comm_after
 *   hints   gives an info to one: as depth, then shunt_hook_hints_after
 *   free    ends a communicator: shunt_hook_free before
 *   done    completes, starts or frees requests: shunt_hook_done_before, which may have other statuses written, answers
 *           true if the call is done; shunt_hook_done_after (both only while shunt_requests_tracked > 0)
 *   answer  "do you know this GPU": shunt_answer_NAME in place of the host's
 *   kinds   gives the info of an object: shunt_hook_kinds_after completes the kinds of memory in it
 *   init    Init, Init_thread, Session_init: shunt_hook_init_before, shunt_hook_init_after
 *   final   Finalize, Session_finalize: shunt_hook_final_before, shunt_hook_final_after
 */
void shunt_hook_coll(const struct shunt_call *call);
void shunt_hook_refused(const struct shunt_call *call, int rc); /* after what shunt_hook_coll is before, if rc is an error */
bool shunt_hook_stage_before(struct shunt_call *call, int *rc, void **kept);
int shunt_hook_stage_after(const struct shunt_call *call, void *kept, int rc);
bool shunt_hook_move_before(struct shunt_call *call, int *rc, void **kept);
int shunt_hook_move_after(const struct shunt_call *call, void *kept, int rc);
bool shunt_hook_icoll_before(struct shunt_call *call, int *rc, void **kept);
bool shunt_hook_probe_before(struct shunt_call *call, int *rc, void **kept);
void shunt_hook_probe_after(const struct shunt_call *call, int rc);
bool shunt_receive_early(void); /* a nonblocking receive begins before CUDA is in use: is it recorded? (receipt.c) */
bool shunt_hook_issue_before(struct shunt_call *call, int *rc, void **kept);
int shunt_hook_issue_after(const struct shunt_call *call, void *kept, int rc);
bool shunt_hook_access_before(struct shunt_call *call, int *rc, void **kept);
int shunt_hook_access_after(const struct shunt_call *call, void *kept, int rc);
extern int shunt_accesses_staged; /* atomically read and written: one-sided operations that have not been seen to end */
int shunt_hook_sync_after(const struct shunt_call *call, int rc);
bool shunt_hook_pack_before(struct shunt_call *call, int *rc, void **kept);
int shunt_hook_pack_after(const struct shunt_call *call, void *kept, int rc);
bool shunt_hook_file_before(struct shunt_call *call, int *rc, void **kept);
int shunt_hook_file_after(const struct shunt_call *call, void *kept, int rc);
bool shunt_hook_begin_before(struct shunt_call *call, int *rc, void **kept);
int shunt_hook_begin_after(const struct shunt_call *call, void *kept, int rc);
bool shunt_hook_end_before(struct shunt_call *call, int *rc, void **kept);
int shunt_hook_end_after(const struct shunt_call *call, void *kept, int rc);
bool shunt_hook_window_before(struct shunt_call *call, int *rc, void **kept);
bool shunt_hook_attach_before(struct shunt_call *call, int *rc, void **kept);

/* Memory for buffered sends. kept: not NULL if the host has been given other memory. */
bool shunt_hook_lend_before(struct shunt_call *call, int *rc, void **kept);
void shunt_hook_lend_after(void *kept, int rc);
void shunt_hook_regain_after(const struct shunt_call *call, int rc);
void shunt_hook_comm_before(struct shunt_call *call);
void shunt_hook_comm_after(struct shunt_call *call, int rc);
void shunt_hook_free(const struct shunt_call *call);
extern int shunt_requests_tracked; /* atomically read and written: requests that somebody of ours waits for */
bool shunt_hook_done_before(struct shunt_wait *wait, int *rc, void **kept);
int shunt_hook_done_after(const struct shunt_wait *wait, void *kept, int rc);
extern int shunt_requests_orphaned; /* likewise: requests that the program has freed while they were under way */
void shunt_requests_look(void);     /* has any of them ended? After each call that may take long, while there are some */
int shunt_answer_MPIX_Query_cuda_support(void);
int shunt_answer_MPIX_GPU_query_support(int gpu_type, int *is_supported);
void shunt_hook_kinds_after(const struct shunt_call *call, int rc);
void shunt_hook_hints_after(const struct shunt_call *call, int rc); /* also where a communicator has been made */
void shunt_hook_hints_told(const struct shunt_call *call, int rc);  /* its info has been asked for */
extern int shunt_flights;                /* likewise: collectives that go on on the GPUs, or are on their way there */
void shunt_flights_look(void);           /* what has become of them? */
void shunt_flights_fence(MPI_Comm comm); /* before what must come after those that are undecided; MPI_COMM_NULL: of all */
/* Before another step on the board of a communicator: of those whose ranks have not met on the GPUs. Wait for that; or stage them. */
void shunt_flights_meet(MPI_Comm comm);
void shunt_flights_part(MPI_Comm comm);
static inline void shunt_flights_before(MPI_Comm comm)
{
    if (__builtin_expect(__atomic_load_n(&shunt_flights, __ATOMIC_RELAXED) > 0, 0))
        shunt_flights_fence(comm);
}
int shunt_host_begin(const struct shunt_call *call); /* the host's nonblocking collective with these arguments; in shims.c */
void shunt_flights_depth(enum shunt_call_id id); /* the same for the class depth, where the call may wait */
int shunt_poll_request(MPI_Request *request, MPI_Status *status); /* MPI_Wait that looks at them; poll.c */
void shunt_poll_turn(unsigned *spins);                            /* one turn of such a loop */
void shunt_hook_init_before(const struct shunt_call *call);
void shunt_hook_init_after(const struct shunt_call *call, int rc);
void shunt_hook_final_before(const struct shunt_call *call);
void shunt_hook_final_after(const struct shunt_call *call, int rc);

/*
 * The host's functions, for our own use: shunt_host.Allreduce(...) is the host's PMPI_Allreduce, never our shim.
 * One member per name of calls.txt (small count, and X_c where mpi.h declares it; NULL if the host lacks it) and for
 * the helper names listed under "host" in calls.txt (Comm_size, Comm_group, Type_size, Iprobe ...).
 */
#include "host_table.h" /* generated */
extern struct shunt_host_table shunt_host;

#endif
