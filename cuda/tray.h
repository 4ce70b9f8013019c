/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trays: pieces of device memory of ours, in which messages lie without gaps while they are on their way, because their
 * receivers cannot read them where they are, or because they have to be put in their places afterwards.
 *
 * They lie in few large blocks of the process's own GPU, since peers open blocks. The blocks are made when they are needed, up to
 * SHUNT_MESSAGE_ROOM bytes together, and kept to the end. Thread-safe.
 */
#ifndef SHUNT_CUDA_TRAY_H
#define SHUNT_CUDA_TRAY_H

#include <stdint.h>

/* NULL: there is no room now. */
char *shunt_tray_take(uint64_t bytes);
void shunt_tray_give(const char *at);

/* At Finalize, inside the device's context. */
void shunt_trays_close(void);

#endif
