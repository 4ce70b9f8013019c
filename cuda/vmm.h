/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMemCreate and cuMemMap whose handle type is a file descriptor: exported and opened piece by piece. A range
 * of addresses that was reserved may hold several pieces; each is exported by itself.
 */
#ifndef SHUNT_CUDA_VMM_H
#define SHUNT_CUDA_VMM_H

#include "cuda/driver.h"

/* The piece that p lies in, if it can be exported. SHUNT_PASS: it cannot. */
enum shunt_status shunt_vmm_piece(CUdeviceptr p, CUdeviceptr *base, size_t *size);

/* A new descriptor of that piece, to be closed. It keeps the memory as long as it is open. */
enum shunt_status shunt_vmm_export(CUdeviceptr base, int *descriptor);

/* Map the memory of a descriptor for GPU `ordinal`, to be closed by shunt_vmm_close. Does not close the descriptor. */
enum shunt_status shunt_vmm_open(int descriptor, size_t size, int ordinal, CUdeviceptr *address);
void shunt_vmm_close(CUdeviceptr address, size_t size);

#endif
