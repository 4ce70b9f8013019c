/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels: one translation unit, compiled to one image for all GPUs. */
