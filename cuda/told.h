/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words in the GPU's memory between the host and a kernel that can be called back while it waits for room (recall.h;
 * packer.c, fetcher.c), each the number of a launch, which grows: the last that has begun, and the last that has been called back.
 * Read by C and CUDA.
 */
#ifndef SHUNT_CUDA_TOLD_H
#define SHUNT_CUDA_TOLD_H

enum { SHUNT_TOLD_BEGUN, SHUNT_TOLD_RECALLED, SHUNT_TOLD_WORDS };

#endif
