/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of libshunt.so besides MPI's. No program needs them: shunt works on unmodified programs. They tell a
 * program that cares what it runs on:
 *
 *     #include <mpi.h>
 *     #include <shunt.h>
 *
 *     MPI_Init(&argc, &argv);
 *     if (strcmp(shunt_mode(), "engine") != 0)
 *         fprintf(stderr, "shunt %s does not take part: %s\n", shunt_version(), shunt_mode());
 *
 * Link with -lshunt before the MPI library. A program that may also run without shunt declares them weak.
 */
#ifndef SHUNT_H
#define SHUNT_H

#ifdef __cplusplus
extern "C" {
#endif

#define SHUNT_PUBLIC __attribute__((visibility("default")))

/* The version of the library that is loaded, like "0.1". */
SHUNT_PUBLIC const char *shunt_version(void);

/*
 * What shunt does in this process, a word:
 *
 *     engine       MPI calls are looked at, and run on the GPUs where they can
 *     unused       no MPI function has been called yet
 *     off          SHUNT_DISABLE is set
 *     no-gpu       there is no GPU on this node
 *     no-engine    there is no engine for this MPI, or it could not be started
 *     unknown-mpi  the MPI library is none that shunt knows
 *     mixed-mpi    libraries of the standard MPI ABI and of another are in this process
 *     no-mpi       there is no MPI library in this process
 *     wrong-order  the MPI library comes before libshunt.so, which sees no call
 *     second       another libshunt.so sees the calls first
 *
 * In all but "engine" every call goes straight to the MPI library. Static storage; never NULL.
 */
SHUNT_PUBLIC const char *shunt_mode(void);

/*
 * Close what this process holds open of other processes' device memory.
 *
 * Large buffers that come again are opened by the ranks that they are reduced with, and the driver keeps memory that
 * somebody has open, even when its owner has freed it. shunt closes such memory by itself in its next calls. A program
 * that wants it back at once, between two phases that each fill the GPU, calls this on all ranks:
 *
 *     cudaFree(old);
 *     shunt_flush();
 *     MPI_Barrier(MPI_COMM_WORLD);     now no rank has it open
 *     cudaMalloc(&new, almost_all_of_the_gpu);
 *
 * Answers how much is still open, in allocations: 0, unless another thread is inside an MPI call that runs on the GPUs;
 * then nothing is closed. What is used again is opened again. No buffer, request or communicator is touched, and no
 * other rank need call it. May be called by any thread at any time; does nothing outside of MPI_Init ... MPI_Finalize.
 * Like cudaFree it may wait for work that this process has given to its GPU.
 */
SHUNT_PUBLIC int shunt_flush(void);

/*
 * Datatypes for 16-bit floats, which MPI does not have: IEEE's (binary16, "half") and bfloat16, the upper half of a
 * float. An element is 2 bytes, at an even address. They are for MPI_Allreduce with MPI_SUM, MPI_PROD, MPI_MIN and
 * MPI_MAX, on device and on host memory:
 *
 *     MPI_Datatype bfloat16 = shunt_type_bfloat16();
 *     if (bfloat16 == MPI_DATATYPE_NULL)
 *         give_up("shunt does not take part: %s", shunt_mode());
 *     MPI_Allreduce(MPI_IN_PLACE, gradient, count, bfloat16, MPI_SUM, comm);
 *
 * On the GPUs the operands are combined as float, in rank order, and the result is rounded once; elsewhere each result
 * of two operands is rounded (doc/numerics.md). All ranks of a call must use them. In calls that only move data they
 * serve too. With other operations, in other reductions and inside of derived types MPI's rules for derived types hold:
 * an operation of your own works, a predefined one is an error.
 *
 * They answer MPI_DATATYPE_NULL before MPI_Init (or the first session), from MPI_Finalize on (or the end of the last
 * session), where the host MPI fails to make them, and where shunt does not take part; otherwise always the same handle.
 * On a node without a GPU the first call of these makes shunt take part. The handle belongs to shunt: it must not be
 * freed. Any thread may call them that may call MPI.
 *
 * Declared if mpi.h is included before this header.
 */
#ifdef MPI_VERSION
SHUNT_PUBLIC MPI_Datatype shunt_type_float16(void);
SHUNT_PUBLIC MPI_Datatype shunt_type_bfloat16(void);
#endif

#ifdef __cplusplus
}
#endif

#endif
