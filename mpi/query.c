/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs are told of device memory; query.h. MPIX_Query_cuda_support is Open MPI's and MPICH's question,
 * MPIX_GPU_query_support MPICH's. Since MPI 4.1 one asks the info of a session, a communicator or a file for the key
 * mpi_memory_alloc_kinds: to the kinds that the host knows those of CUDA are added. Not in the info of windows, whose
 * memory has to be the host's.
 */
#include "mpi/query.h"

#include <errno.h>
#include <string.h>

#include "mpi/call.h"
#include "mpi/life.h"

enum { TYPE_CUDA = 0 }; /* MPIX_GPU_SUPPORT_CUDA, of MPICH and Intel MPI */

static const char key[] = "mpi_memory_alloc_kinds";
static const char *const cuda_kinds[] = { "cuda", "cuda:host", "cuda:device", "cuda:managed" };

static bool node_has_gpu;

void shunt_query_start(bool gpu)
{
    node_has_gpu = gpu;
}

static bool serves_cuda(void)
{
    return node_has_gpu && !shunt_life_forked();
}

int shunt_answer_MPIX_Query_cuda_support(void)
{
    if (serves_cuda())
        return 1;
    return shunt_host.MPIX_Query_cuda_support ? shunt_host.MPIX_Query_cuda_support() : 0;
}

int shunt_answer_MPIX_GPU_query_support(int gpu_type, int *is_supported)
{
    *is_supported = gpu_type == TYPE_CUDA && serves_cuda();
    if (*is_supported || !shunt_host.MPIX_GPU_query_support)
        return MPI_SUCCESS;
    return shunt_host.MPIX_GPU_query_support(gpu_type, is_supported);
}

/* ---- mpi_memory_alloc_kinds ---- */

static bool has_kind(const char *list, const char *kind)
{
    size_t length = strlen(kind);

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, kind, length) == 0 && (at[length] == ',' || at[length] == 0))
            return true;
    return false;
}

/* False, and nothing is done, where there is no room: hosts refuse values that are too long. */
static bool add_kind(char list[MPI_MAX_INFO_VAL], const char *kind)
{
    size_t used = strlen(list), length = strlen(kind);

    if (used + 1 + length >= MPI_MAX_INFO_VAL)
        return false;
    list[used] = ',';
    memcpy(list + used + 1, kind, length + 1);
    return true;
}

static void complete_kinds(MPI_Info info)
{
    char list[MPI_MAX_INFO_VAL] = "";
    int found = 0;
    bool more = false;

    if (shunt_host.Info_get(info, key, MPI_MAX_INFO_VAL - 1, list, &found) != MPI_SUCCESS)
        return;
    if (!found) /* a host older than MPI 4.1: what every MPI takes */
        strcpy(list, "mpi,system");
    for (size_t i = 0; i < sizeof cuda_kinds / sizeof *cuda_kinds; i++)
        more |= !has_kind(list, cuda_kinds[i]) && add_kind(list, cuda_kinds[i]);
    if (more)
        shunt_host.Info_set(info, key, list);
}

void shunt_hook_kinds_after(const struct shunt_call *call, int rc)
{
    int saved = errno;
    MPI_Info *info = call->recvbuf;

    if (rc == MPI_SUCCESS && serves_cuda() && *info != MPI_INFO_NULL)
        complete_kinds(*info);
    errno = saved;
}
