/* SPDX-License-Identifier: BSD-3-Clause */
/* What the handshakes with kernels that wait for orders call: for the tests of linger.c and stay.c, one program each. */
#ifndef SHUNT_TEST_UNIT_FAKE_STREAM_H
#define SHUNT_TEST_UNIT_FAKE_STREAM_H

#include <sched.h>

#include "base/board.h"
#include "base/conf.h"
#include "cuda/driver.h"

struct shunt_driver shunt_driver;
static struct shunt_conf conf;
const struct shunt_conf *shunt_conf = &conf;

/* What a kernel does while the driver is being asked for the stream, and the driver's answer: NULL is "not ready". */
static void (*meanwhile)(void);

static CUresult query_stream(CUstream stream)
{
    (void)stream;
    if (meanwhile == NULL)
        return CUDA_ERROR_NOT_READY;
    meanwhile();
    return CUDA_SUCCESS;
}

void shunt_board_relax(unsigned *spins)
{
    if (++*spins % 8 == 0)
        sched_yield();
}

#endif
