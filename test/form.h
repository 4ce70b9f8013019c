/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocking, nonblocking or persistent form of a collective, as the command line says; for one test program. */
#ifndef SHUNT_TEST_FORM_H
#define SHUNT_TEST_FORM_H

#include <mpi.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include "test/counted.h"

/* BEGUN: nonblocking, and left alone if it does not end soon. */
static enum { BLOCKING, NONBLOCKING, PERSISTENT, BEGUN } form;
static MPI_Request form_request;

/* Take "nonblocking" or "persistent" from the front of the command line. */
static inline void form_start(int *argc, char ***argv)
{
    static const char *const words[] = {"", "nonblocking", "persistent"};

    for (int i = 1; i < 3; i++) {
        if (*argc > 1 && strcmp((*argv)[1], words[i]) == 0) {
            form = i;
            (*argv)[1] = (*argv)[0];
            (*argc)--;
            (*argv)++;
            return;
        }
    }
}

/* MPICH 4.0 frees what some need for the next time. */
#ifdef MPICH_NAME
#define FORM_ROUNDS 1
#else
#define FORM_ROUNDS 2
#endif

/* What the starts of persistent ones took, on simulated GPUs: launches at most, memory made known to anybody. */
static unsigned long long form_most_launches, form_registrations;
static bool form_in_waves; /* several edges between two ranks: one launch for each, which are not looked at */

static inline int form_run_once(void)
{
    unsigned long long launches = sim_counted("launches"), registrations = sim_counted("registrations");
    int rc = MPI_Start(&form_request);

    if (rc == MPI_SUCCESS)
        rc = MPI_Wait(&form_request, MPI_STATUS_IGNORE);
    launches = sim_counted("launches") - launches;
    form_most_launches = !form_in_waves && launches > form_most_launches ? launches : form_most_launches;
    form_registrations += sim_counted("registrations") - registrations;
    return rc;
}

static inline int form_wait_a_little(void)
{
    int rc = MPI_SUCCESS, flag = 0;

    for (int i = 0; i < 100 && !flag && rc == MPI_SUCCESS; i++) {
        rc = MPI_Test(&form_request, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    return rc;
}

/* Complete what has been begun with success; what is persistent runs several times. */
static inline int form_finish(int rc)
{
    if (rc != MPI_SUCCESS)
        return rc;
    if (form == NONBLOCKING)
        return MPI_Wait(&form_request, MPI_STATUS_IGNORE);
    if (form == BEGUN)
        return form_wait_a_little();
    for (int i = 0; i < FORM_ROUNDS && rc == MPI_SUCCESS; i++)
        rc = form_run_once();
    MPI_Request_free(&form_request);
    return rc;
}

#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5 /* Open MPI 5 says that it is MPI 3.1, and has those of MPI 4 */
#define FORM_INIT(name, suffix) MPIX_##name##_init
#else
#define FORM_INIT(name, suffix) MPI_##name##_init##suffix
#endif

/* FORM(Bcast, Ibcast, , arguments); the suffix is _c for large counts. */
#define FORM(name, iname, suffix, ...)                                                             \
    (form == BLOCKING      ? MPI_##name##suffix(__VA_ARGS__)                                       \
     : form != PERSISTENT  ? form_finish(MPI_##iname##suffix(__VA_ARGS__, &form_request))          \
                           : form_finish(FORM_INIT(name, suffix)(__VA_ARGS__, MPI_INFO_NULL, &form_request)))

#if MPI_VERSION >= 4
#define FORM_CALL(large, name, iname, ...)                                                         \
    ((large) ? FORM(name, iname, _c, __VA_ARGS__) : FORM(name, iname, , __VA_ARGS__))
#else
#define FORM_CALL(large, name, iname, ...) FORM(name, iname, , __VA_ARGS__)
#endif

#endif
