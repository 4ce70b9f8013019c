/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded: what a program allocates by itself is managed memory of its GPU, so that programs which know nothing of CUDA hand
 * such memory to MPI. What libraries allocate stays the C library's.
 *
 * With HEAP_OF_MPI=1 MPI_Alloc_mem gives such memory, too. The program's calls are told from those of libraries by where they
 * return to. One piece of managed memory is cut into blocks
 * of powers of two, each with a head; what does not fit is the C library's, too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROOM   ((size_t)256 << 20)
#define HEAD   64
#define ORDERS 40

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);

struct head {
    size_t order, bytes;
    struct head *next;  /* of those that are free */
    struct head *first; /* where the block begins: this one, but for memory of a wider alignment */
};

static uintptr_t text_start, text_end;
static char *room;
static size_t used;
static struct head *unused[ORDERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The first object is the program. */
static int find_text(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            text_start = info->dlpi_addr + part->p_vaddr;
            text_end = text_start + part->p_memsz;
        }
    }
    return 1;
}

static int find_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_RANK"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return -1;
}

/* Launchers and shells, which this is preloaded into as well, have no rank. */
__attribute__((constructor)) static void start(void)
{
    int rank = find_rank(), devices = 0;
    void *runtime = rank < 0 ? NULL : dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL), *memory = NULL;

    if (!runtime)
        return;
    int (*count)(int *) = (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount");
    int (*set)(int) = (int (*)(int))dlsym(runtime, "cudaSetDevice");
    int (*allocate)(void **, size_t, unsigned) = (int (*)(void **, size_t, unsigned))dlsym(runtime, "cudaMallocManaged");
    if (count(&devices) != 0 || devices == 0 || set(rank % devices) != 0 || allocate(&memory, ROOM, 1) != 0)
        return;
    dl_iterate_phdr(find_text, NULL);
    room = memory;
}

static bool is_program(const void *caller)
{
    return room && (uintptr_t)caller >= text_start && (uintptr_t)caller < text_end;
}

static bool is_ours(const void *p)
{
    return room && (const char *)p >= room && (const char *)p < room + ROOM;
}

static struct head *head_of(void *p)
{
    return (struct head *)((char *)p - HEAD);
}

static void *take(size_t bytes)
{
    size_t order = 7;
    struct head *head = NULL;

    while (order < ORDERS && ((size_t)1 << order) < bytes + HEAD)
        order++;
    pthread_mutex_lock(&lock);
    if (order < ORDERS && unused[order]) {
        head = unused[order];
        unused[order] = head->next;
    } else if (order < ORDERS && ROOM - used >= (size_t)1 << order) {
        head = (struct head *)(room + used);
        used += (size_t)1 << order;
    }
    pthread_mutex_unlock(&lock);
    if (!head)
        return NULL;
    *head = (struct head){.order = order, .bytes = bytes, .first = head};
    return (char *)head + HEAD;
}

/* A second head lies in front of the memory. */
static void *take_aligned(size_t alignment, size_t bytes)
{
    char *p = take(bytes + alignment + HEAD);

    if (!p)
        return NULL;
    char *place = (char *)(((uintptr_t)p + HEAD + alignment - 1) / alignment * alignment);
    *head_of(place) = (struct head){.bytes = bytes, .first = head_of(p)};
    return place;
}

void *malloc(size_t bytes)
{
    void *p = is_program(__builtin_return_address(0)) ? take(bytes) : NULL;

    return p ? p : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    void *p = is_program(__builtin_return_address(0)) && (bytes == 0 || n <= ROOM / bytes) ? take(n * bytes) : NULL;

    return p ? memset(p, 0, n * bytes) : __libc_calloc(n, bytes);
}

void free(void *p)
{
    if (!is_ours(p)) {
        __libc_free(p);
        return;
    }
    struct head *head = head_of(p)->first;
    pthread_mutex_lock(&lock);
    head->next = unused[head->order];
    unused[head->order] = head;
    pthread_mutex_unlock(&lock);
}

void *realloc(void *p, size_t bytes)
{
    bool program = is_program(__builtin_return_address(0));

    if (!is_ours(p) && (p || !program))
        return __libc_realloc(p, bytes);
    void *grown = program ? take(bytes) : NULL;
    if (!grown)
        grown = __libc_malloc(bytes);
    if (grown && p)
        memcpy(grown, p, bytes < head_of(p)->bytes ? bytes : head_of(p)->bytes);
    if (grown)
        free(p);
    return grown;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    void *p = is_program(__builtin_return_address(0)) ? take_aligned(alignment, bytes) : NULL;

    return p ? p : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    void *p = is_program(__builtin_return_address(0)) ? take_aligned(alignment, bytes) : NULL;

    if (!p)
        p = __libc_memalign(alignment, bytes);
    *memory = p ? p : *memory;
    return p ? 0 : ENOMEM;
}

int MPI_Alloc_mem(intptr_t bytes, void *info, void *base)
{
    void *p = getenv("HEAP_OF_MPI") && room ? take((size_t)bytes) : NULL;
    int (*next)(intptr_t, void *, void *) = (int (*)(intptr_t, void *, void *))dlsym(RTLD_NEXT, "MPI_Alloc_mem");

    if (!p)
        return next(bytes, info, base);
    memcpy(base, &p, sizeof p);
    return 0;
}

int MPI_Free_mem(void *p)
{
    int (*next)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "MPI_Free_mem");

    if (!is_ours(p))
        return next(p);
    free(p);
    return 0;
}
