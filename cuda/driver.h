/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA driver, found at run time: never linked, never loaded by us. Only once the program itself has mapped
 * libcuda.so.1 and initialised it are its functions looked up.
 */
#ifndef SHUNT_CUDA_DRIVER_H
#define SHUNT_CUDA_DRIVER_H

#include <cuda.h>
#include <stdbool.h>

#include "base/log.h"
#include "base/status.h"

/* Declared since CUDA 13.0; the driver has it if it is as new. */
#if CUDA_VERSION >= 13000
#define SHUNT_DRIVER_BATCHES
#endif

struct shunt_driver {
#define DRIVER(name) __typeof__(&name) name;
#define NEWER(name)  DRIVER(name) /* NULL: the driver is older */
#include "cuda/driver.def"
#undef NEWER
#undef DRIVER
};

extern struct shunt_driver shunt_driver;

/* The driver's name of a result ("CUDA_ERROR_INVALID_VALUE"). */
const char *shunt_cuda_text(CUresult result);

/* The one way to call the driver: logs the call's own text and the driver's answer at `level`, yields a status. */
enum shunt_status shunt_cuda_check(CUresult result, int level, const char *call);
#define SHUNT_CUDA_AT(level, call) shunt_cuda_check(shunt_driver.call, level, #call)
#define SHUNT_CUDA(call)           SHUNT_CUDA_AT(SHUNT_LOG_WARN, call)

#endif
