/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of enum shunt_status. */
#include "base/status.h"

const char *shunt_status_text(enum shunt_status status)
{
    switch (status) {
    case SHUNT_OK:
        return "success";
    case SHUNT_PASS:
        return "not a call for the GPUs";
    case SHUNT_AGAIN:
        return "not finished yet";
    case SHUNT_ERR_MEMORY:
        return "out of memory";
    case SHUNT_ERR_SYSTEM:
        return "a system call failed";
    case SHUNT_ERR_CUDA:
        return "the CUDA driver refused";
    case SHUNT_ERR_LIMIT:
        return "a table of shunt is full";
    case SHUNT_ERR_INVALID:
        return "an argument or setting that cannot be used";
    case SHUNT_ERR_DEAD:
        return "a peer has ended";
    }
    return "unknown status";
}
