/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that drives operations that go on after the call that began them; helper.h. */
#include "coll/helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "coll/drive.h"
#include "coll/start.h"

#define PAUSE_MIN 10e-6
#define PAUSE_MAX 500e-6
#define HEALTH    0.1 /* seconds between looks whether the peers live */

static struct {
    pthread_mutex_t lock; /* for starting and stopping */
    pthread_t thread;
    atomic_bool exists, stop;
    pid_t owner;
    bool watched; /* the process's end is */
} helper = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct {
    pthread_mutex_t lock;
    struct shunt_errand *first;
    pthread_mutex_t running; /* held while one is */
} errands = { .lock = PTHREAD_MUTEX_INITIALIZER, .running = PTHREAD_MUTEX_INITIALIZER };

/* The first; NULL: there is none, or none is to be begun any more. */
static struct shunt_errand *take_errand(void)
{
    pthread_mutex_lock(&errands.lock);
    struct shunt_errand *errand = shunt_drive_closed() ? NULL : errands.first;
    if (errand != NULL)
        errands.first = errand->next;
    pthread_mutex_unlock(&errands.lock);
    return errand;
}

static void run_errands(void)
{
    struct shunt_errand *errand;

    pthread_mutex_lock(&errands.running);
    while ((errand = take_errand()) != NULL)
        errand->run(errand);
    pthread_mutex_unlock(&errands.running);
}

static uint64_t pause_ns(double busy)
{
    double pause = busy / 8 < PAUSE_MIN ? PAUSE_MIN : busy / 8 > PAUSE_MAX ? PAUSE_MAX : busy / 8;

    return (uint64_t)(pause * 1e9);
}

static void *help(void *context)
{
    struct shunt_arena *arena = context;
    double since = 0, checked = 0; /* since when there has been something to look at; 0: there is nothing */

    prctl(PR_SET_NAME, "shunt");
    prctl(PR_SET_TIMERSLACK, 1000ul); /* ns: the usual 50 us are longer than small operations */
    while (!atomic_load(&helper.stop)) {
        uint32_t word = shunt_arena_doze(arena);
        double now = shunt_seconds();
        bool check = since != 0 && now - checked > HEALTH;
        run_errands();
        bool meets = shunt_starts_look();
        enum shunt_need need = shunt_drive_detached(arena, check);
        need = meets ? SHUNT_NEED_LOOKS : need;
        if (need != SHUNT_NEED_LOOKS) {
            since = 0;
            if (!atomic_load(&helper.stop))
                shunt_arena_sleep(arena, word, 0);
            continue;
        }
        if (since == 0)
            since = checked = now;
        else if (check)
            checked = now;
        shunt_arena_sleep(arena, word, pause_ns(now - since));
    }
    return NULL;
}

/* exit without MPI_Finalize: the driver ends behind us, and must not be called any more. */
static void end_process(void)
{
    struct timespec until;

    if (getpid() != helper.owner)
        return;
    shunt_drive_close();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1; /* as in shunt_drive_close */
    if (pthread_mutex_timedlock(&errands.running, &until) == 0)
        pthread_mutex_unlock(&errands.running);
    shunt_starts_close();
}

static bool create(struct shunt_arena *arena)
{
    sigset_t all, before;

    /* The application's signals are for its own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&helper.thread, NULL, help, arena);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        shunt_warn("coll", "no thread for operations that go on by themselves: error %d", error);
        return false;
    }
    shunt_info("coll", "there is a thread for operations that go on by themselves");
    helper.owner = getpid();
    if (!helper.watched)
        helper.watched = atexit(end_process) == 0;
    return true;
}

bool shunt_helper_ensure(struct shunt_arena *arena)
{
    if (atomic_load_explicit(&helper.exists, memory_order_acquire))
        return true;
    pthread_mutex_lock(&helper.lock);
    if (!atomic_load(&helper.exists)) {
        atomic_store(&helper.stop, false);
        atomic_store(&helper.exists, create(arena));
    }
    bool exists = atomic_load(&helper.exists);
    pthread_mutex_unlock(&helper.lock);
    return exists;
}

void shunt_helper_nudge(struct shunt_arena *arena)
{
    shunt_arena_wake(arena, shunt_arena_self(arena));
}

bool shunt_helper_send(struct shunt_arena *arena, struct shunt_errand *errand)
{
    struct shunt_errand **at = &errands.first;

    if (shunt_drive_closed() || !atomic_load_explicit(&helper.exists, memory_order_acquire))
        return false;
    errand->next = NULL;
    pthread_mutex_lock(&errands.lock);
    while (*at != NULL)
        at = &(*at)->next;
    *at = errand;
    pthread_mutex_unlock(&errands.lock);
    shunt_helper_nudge(arena);
    return true;
}

bool shunt_helper_take_back(struct shunt_errand *errand)
{
    struct shunt_errand **at = &errands.first;

    if (!shunt_drive_closed() && atomic_load_explicit(&helper.exists, memory_order_acquire))
        return false;
    pthread_mutex_lock(&errands.lock);
    while (*at != NULL && *at != errand)
        at = &(*at)->next;
    bool found = *at != NULL;
    if (found)
        *at = errand->next;
    pthread_mutex_unlock(&errands.lock);
    return found;
}

void shunt_helper_stop(struct shunt_arena *arena)
{
    pthread_mutex_lock(&helper.lock);
    if (atomic_load(&helper.exists)) {
        atomic_store(&helper.stop, true);
        shunt_helper_nudge(arena);
        pthread_join(helper.thread, NULL);
        atomic_store(&helper.exists, false);
    }
    pthread_mutex_unlock(&helper.lock);
}
