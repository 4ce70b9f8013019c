/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory that comes, goes and is shared, with MPI_Allreduce on it: check_memory MODE [N]. Every rank works on its
 * own GPU; sums of doubles whose right value is known. The modes are the table at the end. What shunt says under
 * SHUNT_DEBUG=info tells test_memory.py which way it went.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "test/gpu.h"

#define BYTES (512u << 10) /* of a vector: large enough that peers write into it themselves */
#define COUNT (BYTES / sizeof(double))
#define OPENED 6 /* after so many calls on the same buffers each rank has opened what it can */

static int rank, size, number;
static long cases, failures, calls;
static _Thread_local MPI_Comm comm; /* on which this thread reduces */

static long count(long *counter)
{
    return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void fail(const char *what, double got, double wanted)
{
    if (count(&failures) < 8)
        printf("FAIL rank %d: %s: %g, not %g\n", rank, what, got, wanted);
    fflush(stdout);
}

/* Rank r brings r + seed + i % 7; the receive buffer holds other things before. */
static void fill(double *host, long seed)
{
    for (size_t i = 0; i < COUNT; i++)
        host[i] = rank + (double)seed + (double)(i % 7);
}

/* MPI_Allreduce from `send` (NULL: in place) to `recv`, checked to the last element. */
static void sum(const char *what, void *send, void *recv, long seed)
{
    double *host = malloc(BYTES);

    fill(host, seed);
    gpu_copy(send ? send : recv, host, BYTES);
    if (send) {
        memset(host, 0xc3, BYTES);
        gpu_copy(recv, host, BYTES);
    }
    gpu_synchronize();
    MPI_Allreduce(send ? send : MPI_IN_PLACE, recv, COUNT, MPI_DOUBLE, MPI_SUM, comm);
    count(&calls);
    count(&cases);
    gpu_copy(host, recv, BYTES);
    for (size_t i = 0; i < COUNT; i++) {
        double wanted = size * (size - 1) / 2.0 + size * ((double)seed + (double)(i % 7));
        if (host[i] != wanted) {
            fail(what, host[i], wanted);
            break;
        }
    }
    free(host);
}

static void sums(const char *what, void *send, void *recv, int n)
{
    static _Thread_local long seed;

    for (int i = 0; i < n; i++)
        sum(what, send, recv, ++seed);
}

/* Is not there without shunt. */
static int flush_shunt(void)
{
    int (*function)(void);

    *(void **)&function = dlsym(RTLD_DEFAULT, "shunt_flush");
    return function ? function() : -1;
}

/* ---- one block, several buffers ---- */

/* Send and receive buffer in one block, other offsets on each rank, the receive buffer at the very end of it. */
static void one_block(char kind)
{
    struct gpu_block block;
    size_t gap = 256 * (size_t)(1 + 3 * rank);

    gpu_alloc(&block, kind, 2 * (size_t)BYTES + gap);
    char *send = block.base, *recv = (char *)block.base + block.bytes - BYTES;
    sums("at the end of a block", send, recv, OPENED);
    sums("at its beginning", recv, send, OPENED);
    sums("in place", NULL, recv, 2);
    /* Both ranks have the block open already: another place in it needs nothing new. */
    sums("elsewhere in it", NULL, (char *)block.base + gap, 3);
    gpu_free(&block);
}

static void offsets(void)
{
    one_block('D');
    one_block('E');
}

/* A range of two pieces: a buffer in the first, one in the second, one that spans both. */
static void pieces(void)
{
    struct gpu_block block;

    gpu_alloc(&block, 'R', 6 * (size_t)BYTES);
    char *middle = block.root; /* of the first two pieces, of 2 MiB each */
    middle += 2 << 20;
    sums("in one piece", NULL, block.root, OPENED);
    sums("in the next", NULL, middle, OPENED);
    sums("across two", NULL, middle - BYTES / 2, OPENED);
    sums("from one to the next", block.root, middle, 4);
    gpu_free(&block);
}

/* ---- memory that goes and comes back ---- */

/* Other memory at the same address, used often enough that it is opened each time. */
static void same_address(char kind)
{
    struct gpu_block block;
    void *first = NULL;
    int same = 0;

    for (int i = 0; i < 3; i++) {
        gpu_alloc(&block, kind, BYTES);
        same += block.root == first;
        first = block.root;
        sums("at an address that came back", NULL, block.base, OPENED);
        gpu_free(&block);
    }
    printf("%c: %d came back\n", kind, same);
    fflush(stdout);
}

static void again(void)
{
    same_address('D');
    same_address('E');
}

/* Other physical memory behind the same reserved addresses: the old is kept alive, so that stale writes would be seen. */
static void remap(void)
{
    struct gpu_block block;
    double mark = -5, got;

    gpu_alloc(&block, 'E', BYTES);
    for (int i = 0; i < 3; i++) {
        unsigned long long old;
        sums("mapped anew", NULL, block.base, OPENED);
        gpu_copy(block.base, &mark, sizeof mark);
        gpu_synchronize(); /* small copies from the host come back before they are done */
        gpu_swap(&block, &old);
        sums("mapped anew", NULL, block.base, OPENED);
        gpu_swap_back(&block, old);
        gpu_copy(&got, block.base, sizeof got);
        if (got != mark)
            fail("what was unmapped was written", got, mark);
    }
    gpu_free(&block);
}

/* ---- memory of other processes ---- */

/* The blocks of all ranks, each opened by the application itself. */
struct shared {
    struct gpu_block block;
    void *peer; /* of the next rank */
};

static void exchange(const void *mine, void *theirs, size_t bytes)
{
    MPI_Sendrecv(mine, (int)bytes, MPI_BYTE, (rank + 1) % size, 1, theirs, (int)bytes, MPI_BYTE,
                 (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void share(struct shared *shared)
{
    struct gpu_handle mine, theirs;

    gpu_export(&shared->block, &mine);
    exchange(&mine, &theirs, sizeof mine);
    shared->peer = gpu_open(&theirs);
}

static void write_mark(void *to, double mark)
{
    gpu_copy(to, &mark, sizeof mark);
    gpu_synchronize();
    MPI_Barrier(MPI_COMM_WORLD);
}

static void look_for_mark(const char *what, const void *at, double wanted)
{
    double got;

    gpu_copy(&got, at, sizeof got);
    if (got != wanted)
        fail(what, got, wanted);
    count(&cases);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The application has a peer's block open while shunt opens it too, closes it, and opens it again. */
static void own_ipc(void)
{
    struct shared shared;
    int before = (rank + size - 1) % size;

    gpu_alloc(&shared.block, 'D', 2 * (size_t)BYTES);
    share(&shared);
    sums("exported by the application too", NULL, shared.block.base, OPENED);
    write_mark((char *)shared.block.base + BYTES, 100 + rank);
    look_for_mark("the peer's block by the application's own handle", (char *)shared.peer + BYTES, 100 + before);
    gpu_close(shared.peer);
    sums("closed by the application", NULL, shared.block.base, 3);
    share(&shared);
    look_for_mark("opened by the application again", (char *)shared.peer + BYTES, 100 + before);
    if (flush_shunt() > 0)
        fail("shunt_flush", 1, 0);
    look_for_mark("open after shunt has closed it", (char *)shared.peer + BYTES, 100 + before);
    sums("open here and there", NULL, shared.block.base, OPENED);
    gpu_close(shared.peer);
    MPI_Barrier(MPI_COMM_WORLD);
    gpu_free(&shared.block);
}

/* Memory that the application has opened of the next rank is its buffer. No two ranks work on the same. */
static void imported(void)
{
    struct shared shared;
    struct gpu_block own;

    gpu_alloc(&shared.block, 'D', 2 * (size_t)BYTES);
    gpu_alloc(&own, 'D', BYTES);
    share(&shared);
    sums("a receive buffer of another process", own.base, shared.peer, 1);
    sums("an own buffer after it", NULL, own.base, OPENED);
    sums("a receive buffer of another process", own.base, shared.peer, OPENED);
    sums("a send buffer of another process", (char *)shared.peer + BYTES, own.base, OPENED);
    gpu_close(shared.peer);
    MPI_Barrier(MPI_COMM_WORLD);
    gpu_free(&shared.block);
    gpu_free(&own);
}

static socklen_t mailbox_of(struct sockaddr_un *name, int owner, int pid)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)sprintf(name->sun_path + 1, "check_memory-%d-%d", owner, pid));
}

/* My descriptor to the next rank, that of the one before to me. */
static int pass_descriptor(int descriptor)
{
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec data = {&byte, 1};
    struct sockaddr_un name;
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int box = socket(AF_UNIX, SOCK_DGRAM, 0), pid = getpid(), next;

    MPI_Sendrecv(&pid, 1, MPI_INT, (rank + size - 1) % size, 2, &next, 1, MPI_INT, (rank + 1) % size, 2,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (bind(box, (struct sockaddr *)&name, mailbox_of(&name, rank, pid)) != 0)
        fail("bind", 0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    message.msg_name = &name;
    message.msg_namelen = mailbox_of(&name, (rank + 1) % size, next);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(box, &message, 0) != 1)
        fail("sendmsg", 0, 0);
    message.msg_namelen = 0;
    message.msg_controllen = sizeof room;
    if (recvmsg(box, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
        fail("recvmsg", 0, 0);
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    close(box);
    return descriptor;
}

/* The same by a descriptor. */
static void imported_mapping(void)
{
    struct gpu_block block, peer, own;

    gpu_alloc(&block, 'E', 2 * (size_t)BYTES);
    gpu_alloc(&own, 'D', BYTES);
    int mine = gpu_descriptor(&block), theirs = pass_descriptor(mine);
    gpu_import(&peer, theirs, block.root_bytes);
    close(mine);
    close(theirs);
    sums("a mapping of another process", own.base, peer.base, OPENED);
    sums("a send buffer in one", (char *)peer.base + BYTES, own.base, 3);
    MPI_Barrier(MPI_COMM_WORLD);
    gpu_free(&peer);
    MPI_Barrier(MPI_COMM_WORLD);
    gpu_free(&block);
    gpu_free(&own);
}

/* ---- how much is open ---- */

/* N buffers in turns: with a small SHUNT_PEER_SIZE they cannot all be open. */
static void turns(void)
{
    struct gpu_block *blocks = calloc((size_t)number, sizeof *blocks);

    for (int i = 0; i < number; i++)
        gpu_alloc(&blocks[i], i % 2 ? 'E' : 'D', BYTES);
    for (int i = 0; i < number; i++)
        sums("in turns", NULL, blocks[i].base, OPENED);
    for (int round = 0; round < OPENED; round++)
        for (int i = 0; i < number; i++)
            sums("one after the other", NULL, blocks[i].base, 1);
    for (int i = 0; i < number; i++)
        gpu_free(&blocks[i]);
    free(blocks);
}

/* What is freed is free once all ranks have flushed; what is used after that is opened again. */
static void flush(void)
{
    struct gpu_block block, other;
    size_t before;

    gpu_alloc(&other, 'D', BYTES);
    sums("that stays", NULL, other.base, OPENED);
    before = gpu_free_bytes();
    for (int i = 0; i < 2; i++) {
        gpu_alloc(&block, i ? 'E' : 'D', 64u << 20);
        sums("that goes", NULL, block.base, OPENED);
        gpu_free(&block);
        if (flush_shunt() != 0)
            fail("shunt_flush leaves something open", flush_shunt(), 0);
        MPI_Barrier(MPI_COMM_WORLD);
        if (gpu_free_bytes() + (16u << 20) < before)
            fail("freed memory is not free after a flush", (double)gpu_free_bytes(), (double)before);
        count(&cases);
        puts("flushed");
        fflush(stdout);
        sums("that stays", NULL, other.base, OPENED);
    }
    gpu_free(&other);
}

/* ---- with another thread ---- */

static bool stop;

static void *reduce_until_stopped(void *of_thread)
{
    struct gpu_block block;
    int going = 1;

    comm = *(MPI_Comm *)of_thread;
    gpu_start_thread();
    gpu_alloc(&block, 'E', BYTES); /* closing it does not wait for the GPU */
    while (going) {
        sums("in another thread", NULL, block.base, 1);
        /* Together: a rank that left alone would leave the others waiting. */
        going = !__atomic_load_n(&stop, __ATOMIC_RELAXED);
        MPI_Allreduce(MPI_IN_PLACE, &going, 1, MPI_INT, MPI_MIN, comm);
    }
    gpu_free(&block);
    return NULL;
}

/* One thread reduces all the time; this one allocates, frees and flushes. Nothing is closed that the other works on. */
static void threads(void)
{
    MPI_Comm of_thread;
    pthread_t thread;
    int flushed = 0;

    MPI_Comm_dup(MPI_COMM_WORLD, &of_thread);
    if (pthread_create(&thread, NULL, reduce_until_stopped, &of_thread) != 0)
        exit(3);
    for (int i = 0; i < number; i++) {
        struct gpu_block block;
        gpu_alloc(&block, i % 2 ? 'E' : 'D', BYTES);
        sums("beside another thread", NULL, block.base, OPENED);
        gpu_free(&block);
        for (int j = 0, before = flushed; j < 1000 && flushed == before; j++) {
            usleep((unsigned)(997 * j % 500));
            flushed += flush_shunt() == 0;
        }
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    MPI_Comm_free(&of_thread);
    printf("flushed %d times\n", flushed);
}

/* ---- for a long time ---- */

struct usage {
    size_t device;
    long resident, mappings, descriptors;
};

static long count_lines(const char *path)
{
    long n = 0;
    FILE *file = fopen(path, "r");

    for (int c; file && (c = getc(file)) != EOF;)
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

static void look(struct usage *usage)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    DIR *folder = opendir("/proc/self/fd");

    if (!file || fscanf(file, "%*d %ld", &pages) != 1 || !folder)
        fail("/proc cannot be read", 0, 0);
    if (file)
        fclose(file);
    *usage = (struct usage){gpu_free_bytes(), pages * sysconf(_SC_PAGESIZE), count_lines("/proc/self/maps"), 0};
    while (folder && readdir(folder))
        usage->descriptors++;
    if (folder)
        closedir(folder);
}

/* N rounds of memory that is allocated, used until peers have it open, and freed: nothing grows. */
static void rounds(void)
{
    static const char kinds[] = "DEDRAMD";
    struct usage early = {0}, late;
    int warm = number / 5 < 100 ? number / 5 : 100;

    for (int i = 0; i < number; i++) {
        struct gpu_block block;
        gpu_alloc(&block, kinds[i % 7], (size_t)BYTES * (size_t)(1 + i % 3));
        sums("in rounds", NULL, block.base, 1 + i % OPENED);
        gpu_free(&block);
        if (i == warm) {
            flush_shunt();
            MPI_Barrier(MPI_COMM_WORLD);
            look(&early);
        }
    }
    flush_shunt();
    MPI_Barrier(MPI_COMM_WORLD);
    look(&late);
    if (late.device + (8u << 20) < early.device)
        fail("device memory", (double)late.device, (double)early.device);
    if (late.resident > early.resident + (8 << 20))
        fail("resident memory", (double)late.resident, (double)early.resident);
    if (late.mappings > early.mappings + 8)
        fail("mappings", (double)late.mappings, (double)early.mappings);
    if (late.descriptors > early.descriptors + 2)
        fail("descriptors", (double)late.descriptors, (double)early.descriptors);
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"offsets", offsets},
    {"pieces", pieces},
    {"again", again},
    {"remap", remap},
    {"own-ipc", own_ipc},
    {"imported", imported},
    {"imported-mapping", imported_mapping},
    {"turns", turns},
    {"flush", flush},
    {"threads", threads},
    {"rounds", rounds},
};

static void summary(void)
{
    long mine[] = {cases, failures, calls}, all[3];

    MPI_Allreduce(mine, all, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    failures = all[1];
    if (rank == 0)
        printf("check_memory: ranks %d cases %ld failures %ld calls %ld device %ld host %d neutral 0\n", size, cases,
               all[1], all[2], all[2], size);
}

int main(int argc, char **argv)
{
    size_t mode = 0, n = sizeof modes / sizeof *modes;
    int provided;

    while (mode < n && (argc < 2 || strcmp(modes[mode].name, argv[1]) != 0))
        mode++;
    if (mode == n) {
        fprintf(stderr, "check_memory: no such mode\n");
        return 2;
    }
    number = argc > 2 ? atoi(argv[2]) : 1;
    if (flush_shunt() > 0)
        fail("shunt_flush before MPI_Init", 1, 0);
    MPI_Init_thread(NULL, NULL, modes[mode].run == threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu_start(gpu_local_rank());
    comm = MPI_COMM_WORLD;
    modes[mode].run();
    summary();
    MPI_Finalize();
    return failures != 0 || flush_shunt() > 0;
}
