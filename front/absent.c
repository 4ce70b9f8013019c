/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that the program's MPI library may lack, see absent.h.
 *
 * Programs that run on any MPI ask by a weak reference or by dlsym whether there is a function (mpi4py does so for all
 * that came after MPI-3.1) and do something else where there is none. Our symbols would make all of them seem present.
 * Which library it is going to be is not known when we are loaded, so the answer is given at each look-up: by turning
 * the symbols into indirect functions, whose look-up calls shunt_absent_ask.
 *
 * They cannot be indirect in the file: objects that are relocated before us would call us too early, and the dynamic
 * linker warns of it on stderr. So our symbol table is changed in memory, at start.
 *
 * Whoever needs a function without asking (a strong reference) gets ours, which answers MPI_ERR_OTHER.
 */
#include "front/absent.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "call_ids.h"
#include "front/slots.h"

#if UINTPTR_MAX != UINT64_MAX
#error "written for 64-bit objects"
#endif

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/* ---- an object's symbols ---- */

struct object {
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash, *hash; /* either may be NULL */
};

/* False if it has no symbols that can be looked up. */
static bool read_dynamic(const ElfW(Dyn) *entry, uintptr_t base, struct object *object)
{
    uintptr_t found[4] = {0};
    for (; entry->d_tag != DT_NULL; entry++) {
        int i = entry->d_tag == DT_SYMTAB ? 0 : entry->d_tag == DT_STRTAB ? 1
              : entry->d_tag == DT_GNU_HASH ? 2 : entry->d_tag == DT_HASH ? 3 : -1;
        if (i >= 0) /* the C library adds the base where it may write, that is not in the vDSO */
            found[i] = entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr;
    }
    object->symbols = (const void *)found[0];
    object->strings = (const void *)found[1];
    object->gnu_hash = (const void *)found[2];
    object->hash = (const void *)found[3];
    return found[0] && found[1] && (found[2] || found[3]);
}

static bool read_object(const struct dl_phdr_info *info, struct object *object)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return read_dynamic((const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), info->dlpi_addr, object);
    return false;
}

static bool is_ours(const struct object *object)
{
    struct object ours;
    return read_dynamic(_DYNAMIC, (uintptr_t)0, &ours) && ours.symbols == object->symbols;
}

/* Symbols 1 to this, without it, are those that are not defined, and with DT_HASH alone all others too. */
static uint32_t end_of_references(const struct object *object)
{
    return object->gnu_hash ? object->gnu_hash[1] : object->hash[1];
}

static bool defines(const struct object *object, const char *name)
{
    if (!object->gnu_hash) {
        for (uint32_t i = 1; i < object->hash[1]; i++)
            if (object->symbols[i].st_shndx != SHN_UNDEF && !strcmp(object->strings + object->symbols[i].st_name, name))
                return true;
        return false;
    }
    uint32_t hash = 5381;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        hash = hash * 33 + *p;
    const uint32_t nbuckets = object->gnu_hash[0], first = object->gnu_hash[1], nbloom = object->gnu_hash[2];
    const uint64_t *bloom = (const uint64_t *)(object->gnu_hash + 4);
    const uint32_t *buckets = (const uint32_t *)(bloom + nbloom), *chain = buckets + nbuckets;
    uint64_t word = bloom[hash / 64 % nbloom];
    if (!nbuckets || !(word >> hash % 64 & word >> (hash >> object->gnu_hash[3]) % 64 & 1))
        return false;
    uint32_t i = buckets[hash % nbuckets];
    if (i < first)
        return false;
    do {
        if ((chain[i - first] | 1) == (hash | 1) && !strcmp(object->strings + object->symbols[i].st_name, name))
            return true;
    } while (!(chain[i++ - first] & 1));
    return false;
}

/* ---- who needs a function ---- */

/* Objects with references to MPI functions; used under the lock of dl_iterate_phdr only. */
enum { MAX_USERS = 64 };
static const ElfW(Sym) *users[MAX_USERS];
static int n_users;
static unsigned long long adds, subs; /* of objects, when the list was made */

static bool refers(const struct object *object, const char *name, size_t length)
{
    for (uint32_t i = 1, end = end_of_references(object); i < end; i++) {
        const ElfW(Sym) *symbol = &object->symbols[i];
        if (symbol->st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL &&
            !strncmp(object->strings + symbol->st_name, name, length))
            return true;
    }
    return false;
}

static int add_user(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    struct object object;
    if (n_users < MAX_USERS && read_object(info, &object) &&
        (refers(&object, "MPI", 3) || refers(&object, "PMPI", 4)))
        users[n_users++] = object.symbols;
    return 0;
}

static bool is_user(const struct object *object)
{
    for (int i = 0; i < n_users; i++)
        if (users[i] == object->symbols)
            return true;
    return false;
}

struct question {
    const char *name;
    bool defined, needed;
};

static int look(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct question *question = context;
    struct object object;
    if (adds != info->dlpi_adds || subs != info->dlpi_subs) {
        adds = info->dlpi_adds;
        subs = info->dlpi_subs;
        n_users = 0;
        dl_iterate_phdr(add_user, NULL);
    }
    if (!read_object(info, &object) || is_ours(&object))
        return 0;
    question->defined = defines(&object, question->name);
    question->needed |= is_user(&object) && refers(&object, question->name, strlen(question->name) + 1);
    return question->defined;
}

/*
 * Called by the dynamic linker for a look-up, from slots.S: the address that it is to find. Takes no lock but that of
 * dl_iterate_phdr, calls nothing else of the dynamic linker.
 */
void *shunt_absent_ask(unsigned slot)
{
    struct question question = {.name = shunt_slot_name(slot)};
    dl_iterate_phdr(look, &question);
    return question.defined || question.needed ? (void *)(shunt_functions + slot * SHUNT_SLOT_BYTES) : NULL;
}

/* ---- our own symbols ---- */

struct place {
    uintptr_t address; /* in */
    uintptr_t base;    /* out: of the object that it lies in, and how its pages are protected */
    int protection;
};

static int find_place(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct place *place = context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || place->address - info->dlpi_addr - part->p_vaddr >= part->p_memsz)
            continue;
        place->base = info->dlpi_addr;
        place->protection = (part->p_flags & PF_R ? PROT_READ : 0) | (part->p_flags & PF_W ? PROT_WRITE : 0) |
                            (part->p_flags & PF_X ? PROT_EXEC : 0);
        return 1;
    }
    return 0;
}

/* Make the symbol indirect if it is a function that may be absent. */
static void change_symbol(ElfW(Sym) *symbol, uintptr_t base)
{
    uintptr_t offset = base + symbol->st_value - (uintptr_t)shunt_functions;
    if (offset >= SHUNT_NSLOTS * SHUNT_SLOT_BYTES)
        return;
    enum shunt_lack lack = shunt_slot_lack(offset / SHUNT_SLOT_BYTES);
    if (lack != SHUNT_MAY_LACK && lack != SHUNT_MEANS_NO)
        return;
    symbol->st_value = (uintptr_t)shunt_asks + offset - base;
    symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
}

void shunt_absent_watch(void)
{
    struct object ours;
    if (!read_dynamic(_DYNAMIC, 0, &ours) || !ours.hash) /* DT_HASH has the count: linked with --hash-style=both */
        return;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), count = ours.hash[1];
    struct place place = {.address = (uintptr_t)ours.symbols};
    void *start = (void *)(place.address & -page);
    size_t bytes = (uintptr_t)(ours.symbols + count) - (uintptr_t)start;
    if (!dl_iterate_phdr(find_place, &place) || mprotect(start, bytes, place.protection | PROT_WRITE) != 0)
        return; /* then absent functions seem present, and answer MPI_ERR_OTHER */
    for (uintptr_t i = 1; i < count; i++)
        change_symbol((ElfW(Sym) *)ours.symbols + i, place.base);
    mprotect(start, bytes, place.protection);
}
