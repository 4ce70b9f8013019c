/* SPDX-License-Identifier: BSD-3-Clause */
/* A driver that is the test's, of which only the stream of a kernel is asked. */
#ifndef SHUNT_TEST_UNIT_FAKE_QUERY_H
#define SHUNT_TEST_UNIT_FAKE_QUERY_H

#include <stddef.h>

#include "cuda/driver.h"

struct shunt_driver shunt_driver;

/* What the kernel does while the driver is being asked for its stream, and ends by that. NULL: it is "not ready". */
static void (*meanwhile)(void);

static CUresult query_stream(CUstream stream)
{
    (void)stream;
    if (meanwhile == NULL)
        return CUDA_ERROR_NOT_READY;
    meanwhile();
    return CUDA_SUCCESS;
}

#endif
