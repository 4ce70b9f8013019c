/* SPDX-License-Identifier: BSD-3-Clause */
/* What gpu.c needs of CUDA's runtime, by the driver alone: for programs that have no runtime. */
#ifndef SHUNT_TEST_BY_DRIVER_H
#define SHUNT_TEST_BY_DRIVER_H

/* The function that does what the runtime's of that name does; one that fails where there is none. `driver` is libcuda. */
void *by_driver_find(void *driver, const char *name);

#endif
