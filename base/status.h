/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a function of shunt answers.
 *
 * The function that first finds out logs the exact cause; everybody above only passes the status on. Outputs are
 * set only on SHUNT_OK unless a header says otherwise.
 */
#ifndef SHUNT_BASE_STATUS_H
#define SHUNT_BASE_STATUS_H

enum shunt_status {
    SHUNT_OK = 0,
    SHUNT_PASS,        /* not a call for the GPUs: the host path is the right one, nothing is wrong */
    SHUNT_AGAIN,       /* not finished yet: ask again */
    SHUNT_ERR_MEMORY,  /* host, device or shared memory could not be had */
    SHUNT_ERR_SYSTEM,  /* a system call failed */
    SHUNT_ERR_CUDA,    /* the driver refused */
    SHUNT_ERR_LIMIT,   /* a table or pool of ours is full */
    SHUNT_ERR_INVALID, /* an argument or a setting that cannot be used */
    SHUNT_ERR_DEAD,    /* a peer is proven to have ended */
};

/* The status in words, lower case, static storage. */
const char *shunt_status_text(enum shunt_status status);

#endif
