/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies for staged operations that go on after their call; copying.h. */
#include "mpi/copying.h"

#include <stddef.h>

#include "mpi/life.h"

static enum shunt_status copy_now(const struct shunt_copying *copying)
{
    switch (copying->way) {
    case SHUNT_COPYING_OUT: return shunt_images_fill(copying->images);
    case SHUNT_COPYING_BACK: return shunt_images_return(copying->images, SHUNT_RECEIVED_ALL);
    default: return shunt_aside_settle(copying->aside);
    }
}

static void copy(struct shunt_copying *copying)
{
    enum shunt_status status = copy_now(copying);

    /* Release: what was copied comes before. */
    __atomic_store_n(&copying->status, status == SHUNT_AGAIN ? SHUNT_ERR_CUDA : status, __ATOMIC_RELEASE);
}

static void copy_as_errand(struct shunt_errand *errand)
{
    copy((struct shunt_copying *)((char *)errand - offsetof(struct shunt_copying, errand)));
}

static void begin(struct shunt_copying *copying, enum shunt_copying_way way, bool here)
{
    copying->way = way;
    copying->status = SHUNT_AGAIN;
    copying->errand.run = copy_as_errand;
    if (here || pthread_equal(copying->caller, pthread_self()) ||
        !shunt_helper_send(shunt_life_arena(), &copying->errand))
        copy(copying);
}

void shunt_copying_begin(struct shunt_copying *copying, const struct shunt_images *images, enum shunt_copying_way way, bool here)
{
    copying->images = images;
    begin(copying, way, here);
}

void shunt_copying_settle(struct shunt_copying *copying, const struct shunt_aside *aside)
{
    copying->aside = aside;
    begin(copying, SHUNT_COPYING_SETTLE, false);
}

enum shunt_status shunt_copying_look(struct shunt_copying *copying, bool wait)
{
    unsigned spins = 0;
    int status;

    while ((status = __atomic_load_n(&copying->status, __ATOMIC_ACQUIRE)) == SHUNT_AGAIN) {
        if (shunt_helper_take_back(&copying->errand))
            copy(copying);
        else if (!wait)
            break;
        shunt_board_relax(&spins);
    }
    return (enum shunt_status)status;
}
