/* SPDX-License-Identifier: BSD-3-Clause */
/* Hooks that do nothing, for as long as others do not replace them. */
#include <stddef.h>

#include "mpi/call.h"

#define WEAK __attribute__((weak))

WEAK int shunt_requests_tracked;

WEAK void shunt_hook_coll(const struct shunt_call *call)
{
    (void)call;
}

WEAK bool shunt_hook_take(const struct shunt_call *call, int *rc)
{
    (void)call;
    (void)rc;
    return false;
}

WEAK void shunt_hook_comm_before(struct shunt_call *call)
{
    (void)call;
}

WEAK void shunt_hook_comm_after(struct shunt_call *call, int rc)
{
    (void)call;
    (void)rc;
}

WEAK void shunt_hook_free(const struct shunt_call *call)
{
    (void)call;
}

WEAK void *shunt_hook_done_before(const struct shunt_call *call)
{
    (void)call;
    return NULL;
}

WEAK void shunt_hook_done_after(const struct shunt_call *call, void *before, int rc)
{
    (void)call;
    (void)before;
    (void)rc;
}

WEAK void shunt_hook_init_before(const struct shunt_call *call)
{
    (void)call;
}

WEAK void shunt_hook_init_after(const struct shunt_call *call, int rc)
{
    (void)call;
    (void)rc;
}

WEAK void shunt_hook_final_before(const struct shunt_call *call)
{
    (void)call;
}

WEAK void shunt_hook_final_after(const struct shunt_call *call, int rc)
{
    (void)call;
    (void)rc;
}
