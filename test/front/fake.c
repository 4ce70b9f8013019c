/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that looks like an MPI to libshunt.so and answers every call with 77. */
int PMPI_Init(int *, char ***);
int MPI_Init(int *, char ***);
int PMPI_Init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 77;
}
int MPI_Init(int *argc, char ***argv)
{
    return PMPI_Init(argc, argv);
}
