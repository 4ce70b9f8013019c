/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls MPI_Init without knowing an MPI, and prints its answer and what shunt says it does. */
#include <stdio.h>

int MPI_Init(int *, char ***);
int MPI_Finalize(void) __attribute__((weak));
const char *shunt_mode(void) __attribute__((weak));

int main(void)
{
    printf("before %s\n", shunt_mode ? shunt_mode() : "-");
    int rc = MPI_Init(0, 0);
    printf("answer %d mode %s\n", rc, shunt_mode ? shunt_mode() : "-");
    return rc == 0 && MPI_Finalize ? MPI_Finalize() : 0;
}
