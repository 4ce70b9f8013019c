/* SPDX-License-Identifier: BSD-3-Clause */
/* The first calls of a process to MPI come from many threads at once; for the library of fake.c, which answers 77. */
#include <pthread.h>
#include <stdio.h>

int MPI_Init(int *, char ***);

enum { THREADS = 16 };
static pthread_barrier_t barrier;

static void *call(void *answer)
{
    pthread_barrier_wait(&barrier);
    *(int *)answer = MPI_Init(0, 0);
    return 0;
}

int main(void)
{
    pthread_t threads[THREADS];
    int answers[THREADS], right = 0;
    pthread_barrier_init(&barrier, 0, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, call, &answers[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], 0);
        right += answers[i] == 77;
    }
    printf("right %d\n", right);
    return 0;
}
