/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that not every MPI library has: libshunt.so shows them only where the program's library does. */
#ifndef SHUNT_FRONT_ABSENT_H
#define SHUNT_FRONT_ABSENT_H

/*
 * From now on, who looks up such a function by a weak reference or by dlsym finds what it would find without us. To be
 * called once, at start: look-ups before that always succeed.
 */
void shunt_absent_watch(void);

#endif
