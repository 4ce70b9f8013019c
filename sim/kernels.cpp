/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of cuda/, compiled for the CPU: the first header has cuda/gpu.cuh's guard, and so takes its place. */
#include "sim/gpu.cuh"

#include "cuda/kernels.cu"
