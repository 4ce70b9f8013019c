/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the MPI library without knowing any: by the symbol PMPI_Init.
 *
 * Normally it follows libshunt.so in the global search order (RTLD_NEXT). Where the program opened it as part of a
 * plugin (Python's mpi4py), it is not there: then it is what the caller of the first MPI function was linked to, or
 * else any object of the process that has PMPI_Init.
 */
#include "front/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "front/slots.h"

/* ---- objects of the process ---- */

static const struct link_map *map_of(const void *address)
{
    Dl_info info;
    void *map = NULL;
    return dladdr1(address, &info, &map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* The name that the object gives itself, or the last part of its path. */
static const char *soname(const struct link_map *map)
{
    const char *strings = NULL, *slash = strrchr(map->l_name, '/');
    size_t offset = 0;
    for (const ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB) /* the C library has added the load address where it may write */
            strings = (const char *)(entry->d_un.d_ptr < map->l_addr ? entry->d_un.d_ptr + map->l_addr
                                                                     : entry->d_un.d_ptr);
        if (entry->d_tag == DT_SONAME)
            offset = entry->d_un.d_val;
    }
    if (strings && offset)
        return strings + offset;
    return slash ? slash + 1 : map->l_name;
}

static void *open_loaded(const char *name)
{
    return dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
}

/* PMPI_Init as seen by an object: its own or that of a library it needs. NULL if there is none but ours. */
static void *init_seen_by(const char *name)
{
    void *handle = *name ? open_loaded(name) : NULL;
    void *init = handle ? dlsym(handle, "PMPI_Init") : NULL;
    if (handle)
        dlclose(handle);
    return init == (void *)shunt_own_init ? NULL : init;
}

struct names {
    char *text; /* each with its NUL, one after the other */
    size_t used, room;
};

static int add_name(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct names *names = context;
    size_t length = strlen(info->dlpi_name) + 1;
    if (length > names->room - names->used) {
        size_t room = 2 * names->room + length;
        char *text = realloc(names->text, room);
        if (!text)
            return 1;
        names->text = text;
        names->room = room;
    }
    memcpy(names->text + names->used, info->dlpi_name, length);
    names->used += length;
    return 0;
}

/* Names first, then look: nothing may be opened while the list of objects is locked. */
static void *init_of_any(void)
{
    struct names names = {NULL, 0, 0};
    void *init = NULL;
    dl_iterate_phdr(add_name, &names);
    for (size_t at = 0; at < names.used && !init; at += strlen(names.text + at) + 1)
        init = init_seen_by(names.text + at);
    free(names.text);
    return init;
}

/* ---- families ---- */

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A variable of the library: where the program refers to it, the program's copy is the one that everybody uses. */
static uintptr_t find_variable(const struct shunt_library *library, const char *name)
{
    void *variable = dlsym(RTLD_DEFAULT, name);

    return (uintptr_t)(variable ? variable : shunt_library_symbol(library, name));
}

static void find_family(struct shunt_library *library, const char *name)
{
    library->family = NULL;
    library->err_other = 15;
    library->null_type = 0;
    if (shunt_library_symbol(library, "ompi_mpi_comm_world")) {
        library->family = "openmpi";
        library->err_other = 16;
        library->null_type = find_variable(library, "ompi_mpi_datatype_null");
    } else if (starts(name, "libmpi_abi.so")) {
        library->family = "abi";
        library->null_type = 0x200;
    } else if (shunt_library_symbol(library, "MPIR_Dup_fn") || strcmp(name, "libmpi.so.12") == 0 ||
               strcmp(name, "libmpich.so.12") == 0) {
        library->null_type = 0x0c000000;
        library->family = "mpich"; /* Intel MPI and MVAPICH have its ABI */
    }
}

struct worlds {
    bool standard, other;
};

static int add_world(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct worlds *worlds = context;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    worlds->standard |= starts(name, "libmpi_abi.so");
    worlds->other |= starts(name, "libmpi.so") || starts(name, "libmpich.so");
    return 0;
}

/* ---- the library ---- */

bool shunt_library_find(const void *caller, struct shunt_library *library)
{
    void *init = dlsym(RTLD_NEXT, "PMPI_Init");
    bool next = init != NULL;
    const struct link_map *map = next ? NULL : map_of(caller);
    if (!init && map)
        init = init_seen_by(map->l_name);
    if (!init)
        init = init_of_any();
    map = init ? map_of(init) : NULL;
    if (!map)
        return false;
    library->handle = next ? RTLD_NEXT : open_loaded(map->l_name); /* stays open */
    if (!library->handle)
        return false;
    library->path = map->l_name;
    find_family(library, soname(map));
    struct worlds worlds = {false, false};
    dl_iterate_phdr(add_world, &worlds);
    library->mixed = worlds.standard && worlds.other;
    return true;
}

void *shunt_library_symbol(const struct shunt_library *library, const char *name)
{
    /* RTLD_NEXT means behind the caller of dlsym: no tail call may make that somebody else, such as an engine. */
    void *volatile function = dlsym(library->handle, name);

    return function;
}

bool shunt_library_first(void)
{
    return dlsym(RTLD_DEFAULT, "PMPI_Init") != (void *)shunt_own_init && !dlsym(RTLD_NEXT, "PMPI_Init");
}
