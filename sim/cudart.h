/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated CUDA runtime: a thin layer over the simulated driver. What its files share.
 */
#ifndef SHUNT_SIM_CUDART_H
#define SHUNT_SIM_CUDART_H

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

/* An entry point that the headers declare for nvcc only */
#define SIM_RUNTIME_API __attribute__((visibility("default")))

/* The calling thread has a usable context from here on: its own, or its device's primary one. */
cudaError_t sim_runtime_ready(void);

/*
 * Returns `error`, and remembers it as the thread's last if it is one. Both enums give an error the
 * same number.
 */
cudaError_t sim_runtime_note(cudaError_t error);

static inline cudaError_t sim_runtime_result(CUresult result)
{
    return sim_runtime_note((cudaError_t)result);
}

#endif
