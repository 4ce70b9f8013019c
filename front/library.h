/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI library of this program: which one, of which family, and its functions. */
#ifndef SHUNT_FRONT_LIBRARY_H
#define SHUNT_FRONT_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

struct shunt_library {
    void *handle;       /* for dlsym; RTLD_NEXT if the library follows libshunt.so in the search order */
    const char *path;   /* of the file, as the dynamic linker opened it */
    const char *family; /* "openmpi", "mpich", "abi": the engine's name; NULL if it is none that shunt knows */
    bool mixed;         /* a library of the standard ABI and one of another ABI are in this process */
    int err_other;      /* MPI_ERR_OTHER of this family */
    uintptr_t null_type; /* MPI_DATATYPE_NULL of this family; 0 if it is not known */
};

/* Find it, for a call that came from the code at `caller`. False: there is no MPI library in this process. */
bool shunt_library_find(const void *caller, struct shunt_library *library);

/* The address of a function, NULL if the library has none of that name. */
void *shunt_library_symbol(const struct shunt_library *library, const char *name);

/* Is the MPI library before libshunt.so in the search order, so that no call ever comes here? */
bool shunt_library_first(void);

#endif
