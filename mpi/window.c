/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows in device memory are refused, in words: a host that does not know CUDA would crash at the first access. Those in
 * managed memory are the host's, where the CPU may touch it at any time; who accesses them looks after the order of that and
 * his kernels, as with any other access to managed memory.
 *
 * Win_create is collective, and a rank that failed alone would leave the others in the host. Where all ranks of the
 * communicator run under shunt on one node (it has a board), they agree first by a reduction, and all fail. Elsewhere the rank
 * that fails takes part in the host's call with no memory, and keeps that window: the others have theirs, in which this
 * rank has none.
 */
#include <errno.h>
#include <pthread.h>

#include "cuda/gpu.h"
#include "mpi/comm.h"
#include "mpi/life.h"

/* The error, made on first use; MPI_ERR_OTHER until then, and where the host gives none. */
static int find_error(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int code = MPI_ERR_OTHER;
    int class, made;

    pthread_mutex_lock(&lock);
    if (code == MPI_ERR_OTHER && shunt_host.Add_error_class(&class) == MPI_SUCCESS &&
        shunt_host.Add_error_code(class, &made) == MPI_SUCCESS) {
        char text[] = "shunt: windows in device memory are not supported by this MPI; use host memory";
        shunt_host.Add_error_string(class, text);
        shunt_host.Add_error_string(made, text);
        code = made;
    }
    int found = code;
    pthread_mutex_unlock(&lock);
    return found;
}

static bool is_untouchable(const struct shunt_call *call)
{
    struct shunt_mem mem;

    if (!shunt_gpu_in_use() || shunt_life_forked() || call->count <= 0 || !call->recvbuf)
        return false;
    shunt_gpu_classify(call->recvbuf, &mem);
    return !shunt_gpu_host_may_touch(&mem);
}

bool shunt_hook_window_before(struct shunt_call *call, int *rc, void **kept)
{
    struct shunt_comm *comm = shunt_comm_get(call->comm);
    int saved = errno, mine = is_untouchable(call), any = mine;

    (void)kept;
    shunt_hook_coll(call);
    if (comm && comm->board && shunt_host.Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, call->comm) != MPI_SUCCESS)
        any = mine;
    if (any) {
        MPI_Win none;
        if (!comm || !comm->board)
            shunt_host.Win_create(NULL, 0, 1, MPI_INFO_NULL, call->comm, &none);
        *rc = find_error();
        shunt_host.Comm_call_errhandler(call->comm, *rc);
    }
    errno = saved;
    return any;
}

bool shunt_hook_attach_before(struct shunt_call *call, int *rc, void **kept)
{
    int saved = errno;
    bool refused = is_untouchable(call);

    (void)kept;
    if (refused) {
        *rc = find_error();
        shunt_host.Win_call_errhandler(call->win, *rc);
    }
    errno = saved;
    return refused;
}
