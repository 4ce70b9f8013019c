/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPU memory for the test programs, by dlopen of the CUDA runtime and driver: compiles without CUDA, and a rank that
 * never asks for device memory never maps libcuda. A failing CUDA call ends the program: it is no test result.
 */
#ifndef SHUNT_TEST_GPU_H
#define SHUNT_TEST_GPU_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Kinds of memory, a letter each:
 *   H malloc   P cudaMallocHost   D cudaMalloc   B cudaMalloc, data at the very start of the block
 *   S an odd place deep inside a large cudaMalloc block   M managed   A cudaMallocAsync   V cuMemCreate + cuMemMap
 *   X cudaMalloc on another GPU than the current one
 *   E as V, exportable as a file descriptor   R the same in several pieces, the data from the first to the next
 */
#define GPU_KINDS "HPDBSMAVXER"
#define GPU_PIECES 16 /* of a block of kind R at most */

bool gpu_kind_known(char kind);
bool gpu_kind_on_host(char kind); /* the host MPI may touch it and shunt calls it host memory */

struct gpu_block {
    char kind;
    char *base; /* where the usable bytes begin */
    size_t bytes;
    void *root; /* what to free */
    size_t root_bytes;
    size_t piece;                      /* kinds V, E, R: bytes of a piece, */
    unsigned long long vmm[GPU_PIECES]; /* the memory of each */
};

/* Open CUDA and make `device` (modulo how many there are) current. Idempotent. */
void gpu_start(int device);
bool gpu_started(void);

/* In a thread of its own: make that device current there too. Otherwise it is device 0, as CUDA has it. */
void gpu_start_thread(void);
int gpu_count(void);

/* Any other function of CUDA's runtime or driver, after gpu_start. */
void *gpu_function(const char *name);

void gpu_alloc(struct gpu_block *block, char kind, size_t bytes);
void gpu_free(struct gpu_block *block);

/* Of kind E: put other memory behind the same addresses; *old is what was there. Put it back, free the other. */
void gpu_swap(struct gpu_block *block, unsigned long long *old);
void gpu_swap_back(struct gpu_block *block, unsigned long long old);

/* Of kind R: nothing is mapped at that piece any more. */
void gpu_make_hole(struct gpu_block *block, int piece);

/* CUDA IPC, as an application uses it. */
struct gpu_handle {
    char bytes[64];
};
void gpu_export(const struct gpu_block *block, struct gpu_handle *handle);
void *gpu_open(const struct gpu_handle *handle);
void gpu_close(void *opened);

/* Of kind E: a new descriptor of its memory; a block of another process's memory, to be freed by gpu_free. */
int gpu_descriptor(const struct gpu_block *block);
void gpu_import(struct gpu_block *block, int descriptor, size_t bytes);

/* Copies between any two kinds; complete on return. */
void gpu_copy(void *to, const void *from, size_t bytes);

void gpu_synchronize(void);
void gpu_reset(void);

/* What a library may not change. */
struct gpu_state {
    int device;
    void *context;
    int error; /* cudaPeekAtLastError */
    int depth; /* contexts on this thread's stack, counted by popping and pushing them */
};
/* bare: only the driver is asked, so that a thread that has no context gets none by asking. */
void gpu_look(struct gpu_state *state, bool bare);
bool gpu_state_same(const struct gpu_state *a, const struct gpu_state *b);

/* Leave a pending, harmless error for cudaPeekAtLastError to find; forget it. */
void gpu_provoke_error(void);
void gpu_forget_error(void);

/* Bytes free on the current GPU. */
size_t gpu_free_bytes(void);

/* Is a library with this name part mapped into this process? */
bool gpu_mapped(const char *part);

/* The launcher's local rank of this process, from its environment. */
int gpu_local_rank(void);

#endif
