/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of device buffers, from and to their images or within them, for an operation that goes on after its call, made where it
 * harms nobody.
 *
 * A copy may wait in the driver, for as long as another thread sits in a call that waits for the whole GPU. Who has begun the
 * operation has asked for that. Any other thread is in some call of MPI whose end that wait may depend on: for it the
 * helper copies, which makes no call of MPI.
 */
#ifndef SHUNT_MPI_COPYING_H
#define SHUNT_MPI_COPYING_H

#include <pthread.h>

#include "coll/helper.h"
#include "mpi/aside.h"
#include "mpi/image.h"

enum shunt_copying_way { SHUNT_COPYING_OUT, SHUNT_COPYING_BACK, SHUNT_COPYING_SETTLE };

struct shunt_copying {
    pthread_t caller; /* has begun the operation. Set by the owner */
    struct shunt_errand errand;
    const struct shunt_images *images; /* of OUT and BACK */
    const struct shunt_aside *aside;   /* of SETTLE */
    enum shunt_copying_way way;
    int status; /* enum shunt_status; AGAIN: it is under way */
};

/* Copy the images, which stay until it has ended. here: in any case by this thread. */
void shunt_copying_begin(struct shunt_copying *copying, const struct shunt_images *images, enum shunt_copying_way way, bool here);

/* The same of a result that was made aside: it goes to its place. */
void shunt_copying_settle(struct shunt_copying *copying, const struct shunt_aside *aside);

/* OK or an error: it has ended; AGAIN: not yet. wait: until it has. */
enum shunt_status shunt_copying_look(struct shunt_copying *copying, bool wait);

#endif
