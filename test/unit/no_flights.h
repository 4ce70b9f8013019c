/* SPDX-License-Identifier: BSD-3-Clause */
/* No collective goes on after its call: what mpi/flight.c has, for one test program. */
#ifndef SHUNT_TEST_UNIT_NO_FLIGHTS_H
#define SHUNT_TEST_UNIT_NO_FLIGHTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "mpi/call.h"

int shunt_flights;

void shunt_flights_meet(MPI_Comm comm)
{
    (void)comm;
}

void shunt_flights_part(MPI_Comm comm)
{
    (void)comm;
}

void shunt_flights_look(void)
{
    fail_msg("nothing goes on here");
}

void shunt_flights_fence(MPI_Comm comm)
{
    (void)comm;
    fail_msg("nothing goes on here");
}

#endif
