/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures each algorithm on the ranks that it is started on, and writes the table that SHUNT_TUNE_FILE names: what
 * `mpirun shunt-topo --tune FILE` becomes, an ordinary MPI program that asks for algorithms by the hints of communicators.
 *
 *     tune-FAMILY FILE MOST    MOST: bytes of the largest message
 *
 * Measured are all ranks of the node of rank 0, and for each kind of link a pair of them.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/algo.h"
#include "coll/tune.h"
#include "topo/graph.h"

/* ---- what is measured ---- */

static const struct way {
    unsigned coll; /* enum shunt_coll */
    const char *algorithm, *proto;
} ways[] = {
#define ONESHOT(coll) { coll, "oneshot", "ll" }, { coll, "oneshot", "ll128" }, { coll, "oneshot", "simple" }
    ONESHOT(SHUNT_COLL_ALLREDUCE),
    { SHUNT_COLL_ALLREDUCE, "twoshot", "auto" },
    { SHUNT_COLL_ALLREDUCE, "ring", "auto" },
    { SHUNT_COLL_ALLREDUCE, "tree", "auto" },
    ONESHOT(SHUNT_COLL_BCAST),
    { SHUNT_COLL_BCAST, "ring", "auto" },
    { SHUNT_COLL_BCAST, "tree", "auto" },
    { SHUNT_COLL_REDUCE, "oneshot", "ll" }, /* simple is where the root may read */
    { SHUNT_COLL_REDUCE, "oneshot", "ll128" },
    { SHUNT_COLL_REDUCE, "ring", "auto" },
    { SHUNT_COLL_REDUCE, "tree", "auto" },
    ONESHOT(SHUNT_COLL_ALLGATHER),
    { SHUNT_COLL_ALLGATHER, "ring", "auto" },
    ONESHOT(SHUNT_COLL_REDUCE_SCATTER_BLOCK),
    { SHUNT_COLL_REDUCE_SCATTER_BLOCK, "ring", "auto" },
};
enum { WAYS = sizeof ways / sizeof *ways };

static const uint64_t sizes[] = { 64, 1 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20 };
static const char *const protos[] = { "auto", "ll", "ll128", "simple" };

#define WARM_UP  3    /* calls, in which buffers are registered */
#define BLOCKS   3    /* of which the fastest counts */
#define BLOCK_S  3e-3 /* long, but no fewer than 2 calls and no more than 200 */

static int rank; /* in the world */

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "shunt-topo: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- the GPU ---- */

static void *function(void *driver, const char *name)
{
    void *found = dlsym(driver, name);

    if (found == NULL)
        fail(name, "the CUDA driver does not have it");
    return found;
}

/* Memory of one of the GPUs that this process sees. */
static char *open_gpu(int local, size_t bytes)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *context = NULL;
    int count = 0, device = 0;
    unsigned long long memory = 0;

    if (driver == NULL)
        fail("libcuda.so.1", dlerror());
    int (*init)(unsigned) = (int (*)(unsigned))function(driver, "cuInit");
    int (*get_count)(int *) = (int (*)(int *))function(driver, "cuDeviceGetCount");
    int (*get)(int *, int) = (int (*)(int *, int))function(driver, "cuDeviceGet");
    int (*retain)(void **, int) = (int (*)(void **, int))function(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))function(driver, "cuCtxSetCurrent");
    int (*allocate)(unsigned long long *, size_t) = (int (*)(unsigned long long *, size_t))function(driver, "cuMemAlloc_v2");
    int (*clear)(unsigned long long, unsigned char, size_t) =
        (int (*)(unsigned long long, unsigned char, size_t))function(driver, "cuMemsetD8_v2");
    if (init(0) != 0 || get_count(&count) != 0 || count == 0)
        fail("the GPU", "there is none");
    if (get(&device, local % count) != 0 || retain(&context, device) != 0 || set(context) != 0 ||
        allocate(&memory, bytes) != 0 || clear(memory, 0, bytes) != 0)
        fail("the GPU", "no memory of it can be had");
    return (char *)memory;
}

/* ---- measuring ---- */

static struct {
    char *send, *recv;
    uint64_t most; /* bytes of each */
} buffers;

static void call(unsigned coll, int bytes, MPI_Comm comm)
{
    const int count = bytes / (int)sizeof(float);

    switch (coll) {
    case SHUNT_COLL_ALLREDUCE: MPI_Allreduce(buffers.send, buffers.recv, count, MPI_FLOAT, MPI_SUM, comm); return;
    case SHUNT_COLL_BCAST: MPI_Bcast(buffers.recv, count, MPI_FLOAT, 0, comm); return;
    case SHUNT_COLL_REDUCE: MPI_Reduce(buffers.send, buffers.recv, count, MPI_FLOAT, MPI_SUM, 0, comm); return;
    case SHUNT_COLL_ALLGATHER: MPI_Allgather(buffers.send, count, MPI_FLOAT, buffers.recv, count, MPI_FLOAT, comm); return;
    default: MPI_Reduce_scatter_block(buffers.send, buffers.recv, count, MPI_FLOAT, MPI_SUM, comm); return;
    }
}

/* Seconds of each of so many calls, of the slowest rank. */
static double time_calls(unsigned coll, int bytes, MPI_Comm comm, int n)
{
    double mine, slowest;

    MPI_Barrier(comm);
    double begin = MPI_Wtime();
    for (int i = 0; i < n; i++)
        call(coll, bytes, comm);
    mine = (MPI_Wtime() - begin) / n;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm);
    return slowest;
}

static double measure(unsigned coll, int bytes, MPI_Comm comm)
{
    for (int i = 0; i < WARM_UP; i++)
        call(coll, bytes, comm);
    double least = time_calls(coll, bytes, comm, 1), wanted = BLOCK_S / least;
    int n = wanted < 2 ? 2 : wanted > 200 ? 200 : (int)wanted;
    for (int i = 0; i < BLOCKS; i++) {
        double time = time_calls(coll, bytes, comm, n);
        least = time < least ? time : least;
    }
    return least;
}

static MPI_Comm ask_for(const struct way *way, MPI_Comm comm)
{
    MPI_Comm asked;
    MPI_Info info;
    char key[64];

    snprintf(key, sizeof key, "shunt_%s", shunt_coll_name(way->coll));
    MPI_Info_create(&info);
    MPI_Info_set(info, key, way->algorithm);
    MPI_Info_set(info, "shunt_proto", way->proto);
    MPI_Comm_dup_with_info(comm, info, &asked);
    MPI_Info_free(&info);
    return asked;
}

static void fill_row(const struct way *way, MPI_Comm comm, struct shunt_tune_row *row)
{
    MPI_Comm asked = ask_for(way, comm);
    int n;

    MPI_Comm_size(comm, &n);
    *row = (struct shunt_tune_row){ .coll = (uint8_t)way->coll };
    while (strcmp(shunt_algos[row->algo].name, way->algorithm) != 0 || shunt_algos[row->algo].coll != way->coll)
        row->algo++;
    while (strcmp(protos[row->proto], way->proto) != 0)
        row->proto++;
    bool blocks = way->coll == SHUNT_COLL_ALLGATHER || way->coll == SHUNT_COLL_REDUCE_SCATTER_BLOCK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] * (blocks ? (uint64_t)n : 1) > buffers.most)
            break;
        row->bytes[row->n] = sizes[i];
        row->us[row->n++] = 1e6 * measure(way->coll, (int)sizes[i], asked);
    }
    MPI_Comm_free(&asked);
}

/* ---- groups ---- */

struct topology {
    unsigned long long machine, group;
    char farthest[16];
};

/* What the library says of these ranks, after a call in which they have met. */
static bool find_topology(MPI_Comm comm, struct topology *topology)
{
    char text[128] = "";
    int found = 0;
    MPI_Info info;

    call(SHUNT_COLL_ALLREDUCE, 64, comm);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get(info, "shunt_topology", sizeof text - 1, text, &found);
    MPI_Info_free(&info);
    return found && sscanf(text, "%llx %llx %15s", &topology->machine, &topology->group, topology->farthest) == 3;
}

/* To be called by the ranks of comm. */
static void add_group(MPI_Comm comm, const struct topology *topology, struct shunt_tune *tune)
{
    struct shunt_tune_group *group = &tune->groups[tune->n_groups++];

    group->hash = topology->group;
    MPI_Comm_size(comm, &group->ranks);
    for (int w = 0; w < WAYS; w++)
        fill_row(&ways[w], comm, &group->rows[group->n_rows++]);
}

static const struct shunt_tune_row *find_row(const struct shunt_tune_group *group, const char *algorithm, const char *proto)
{
    for (int r = 0; r < group->n_rows; r++)
        if (group->rows[r].coll == SHUNT_COLL_ALLREDUCE && strcmp(shunt_algos[group->rows[r].algo].name, algorithm) == 0 &&
            strcmp(protos[group->rows[r].proto], proto) == 0)
            return &group->rows[r];
    return NULL;
}

/* What a pair tells of the link between it: what the model makes the pair's times of (topo/estimate.c). */
static void add_link(const struct shunt_tune_group *pair, const char *word, struct shunt_tune *tune)
{
    struct shunt_tune_link *link = &tune->links[tune->n_links];
    struct shunt_link parsed = { SHUNT_LINK_UNKNOWN, 0 };
    const struct shunt_tune_row *one = find_row(pair, "oneshot", "ll"), *two = find_row(pair, "twoshot", "auto");
    double start, width;

    link->kind = strcmp(word, "SHM") == 0 ? (int)SHUNT_LINK_BY_HOST : SHUNT_NLINKS + 1;
    if (link->kind > SHUNT_NLINKS && shunt_link_parse(word, &parsed))
        link->kind = parsed.kind;
    for (int i = 0; i < tune->n_links; i++)
        if (tune->links[i].kind == link->kind)
            return;
    shunt_tune_fit(two->bytes, two->us, two->n, &start, &width);
    link->flag = one->us[0] > SHUNT_START_US + 0.1 ? one->us[0] - SHUNT_START_US : 0.1;
    link->fenced = start > SHUNT_START_US + 0.4 ? (start - SHUNT_START_US) / 2 : 0.2;
    link->width = width / (parsed.lanes > 0 ? parsed.lanes : 1);
    if (link->kind <= SHUNT_NLINKS && link->width >= 1 && link->width < 1e9) /* else it has not been measured */
        tune->n_links++;
}

/* Pairs of rank 0 that are joined as no pair before. */
static void add_pairs(MPI_Comm node, struct shunt_tune *tune)
{
    int me, n;

    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &n);
    for (int q = 1; q < n; q++) {
        struct topology topology;
        int fresh = 0;
        MPI_Comm pair;
        MPI_Comm_split(node, me == 0 || me == q ? 0 : MPI_UNDEFINED, me, &pair);
        if (pair != MPI_COMM_NULL && find_topology(pair, &topology))
            fresh = tune->n_groups < SHUNT_TUNE_GROUPS && shunt_tune_group(tune, topology.group) == NULL;
        MPI_Bcast(&fresh, 1, MPI_INT, 0, node);
        if (pair != MPI_COMM_NULL && fresh) {
            add_group(pair, &topology, tune);
            add_link(&tune->groups[tune->n_groups - 1], topology.farthest, tune);
        }
        if (pair != MPI_COMM_NULL)
            MPI_Comm_free(&pair);
        MPI_Barrier(node);
    }
}

/* ---- output ---- */

static void write_table(const char *path, struct shunt_tune *tune)
{
    static char temporary[4096];
    char *text;

    shunt_tune_finish(tune);
    text = shunt_tune_print(tune);
    snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE *file = fopen(temporary, "w");
    if (text == NULL || file == NULL || fputs(text, file) < 0 || fclose(file) != 0 || rename(temporary, path) != 0)
        fail(path, "cannot be written");
    free(text);
}

static void say(const char *path, const struct shunt_tune *tune)
{
    const struct shunt_tune_group *all = &tune->groups[0];

    printf("%s: %d ranks, and %d more pairs. Allreduce of so many bytes, the fastest, us:\n", path, all->ranks, tune->n_groups - 1);
    for (int i = 0; i < all->rows[0].n; i++) {
        const struct shunt_tune_row *best = shunt_tune_best(all, SHUNT_COLL_ALLREDUCE, all->rows[0].bytes[i], false);
        if (best != NULL)
            printf("%12llu  %-8s %-7s %10.2f\n", (unsigned long long)all->rows[0].bytes[i], shunt_algos[best->algo].name,
                   protos[best->proto], shunt_tune_time(best, all->rows[0].bytes[i]));
    }
}

int main(int argc, char **argv)
{
    static struct shunt_tune tune;
    struct topology topology;
    MPI_Comm machine, node;
    int local, lead, n, met;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3)
        fail("tune", "is started by shunt-topo --tune");
    buffers.most = strtoull(argv[2], NULL, 10);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &local);
    MPI_Comm_size(machine, &n);
    lead = rank;
    MPI_Bcast(&lead, 1, MPI_INT, 0, machine);
    buffers.send = open_gpu(local, buffers.most);
    buffers.recv = open_gpu(local, buffers.most);
    MPI_Comm_split(MPI_COMM_WORLD, lead == 0 ? 0 : MPI_UNDEFINED, rank, &node);
    if (node != MPI_COMM_NULL) {
        met = n > 1 && find_topology(node, &topology);
        if (!met)
            fail("--tune", "the ranks do not meet on the GPUs; SHUNT_STATS=1 says why");
        tune.machine = topology.machine;
        add_group(node, &topology, &tune);
        if (n == 2)
            add_link(&tune.groups[0], topology.farthest, &tune);
        else
            add_pairs(node, &tune);
        if (rank == 0) {
            write_table(argv[1], &tune);
            say(argv[1], &tune);
        }
        MPI_Comm_free(&node);
    }
    MPI_Comm_free(&machine);
    MPI_Finalize();
    return 0;
}
