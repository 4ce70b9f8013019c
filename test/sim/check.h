/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a test expects: the program ends with a line that says where it was not so.
 */
#ifndef SHUNT_TEST_SIM_CHECK_H
#define SHUNT_TEST_SIM_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)
#define OK(call) check_ok(call, #call, __LINE__)

static inline void check_ok(int result, const char *call, int line)
{
    if (!result)
        return;
    fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, line, call, result);
    exit(1);
}

#endif
