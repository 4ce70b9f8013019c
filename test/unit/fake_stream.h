/* SPDX-License-Identifier: BSD-3-Clause */
/* What the handshakes with kernels that wait for orders call: for the tests of linger.c and stay.c, one program each. */
#ifndef SHUNT_TEST_UNIT_FAKE_STREAM_H
#define SHUNT_TEST_UNIT_FAKE_STREAM_H

#include <sched.h>

#include "base/board.h"
#include "base/conf.h"
#include "test/unit/fake_query.h"

static struct shunt_conf conf;
const struct shunt_conf *shunt_conf = &conf;

void shunt_board_relax(unsigned *spins)
{
    if (++*spins % 8 == 0)
        sched_yield();
}

#endif
