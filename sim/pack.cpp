/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that pack and unpack, compiled for the CPU as those in kernels.cpp are. */
#include "sim/gpu.cuh"

#include "cuda/pack.cu"
