/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Allreduce, exhaustively or at random: every combination of the lists given as options, each case checked by
 * case.c. A failing case is printed as the options that repeat it. Exit code 1 if anything failed on any rank.
 *
 * Lists are separated by commas: --type (names, "all", "gpu": those that a GPU has kernels for), --op, --count,
 * --comm, --send and --recv (strings of kinds of memory, one letter per world rank, repeated; see gpu.h), --soff,
 * --roff and --skew (bytes, or elements with the suffix e), --data exact,rough, --place out,in, --algorithm (hints of
 * shunt_allreduce, given to a duplicate of each communicator; "": none).
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/case.h"
#include "test/comms.h"
#include "test/gpu.h"

#define MOST 64 /* entries of a list */

struct list {
    const char *words[MOST];
    int n;
};

enum list_id { ALGORITHM, TYPE, OP, COUNT, COMM, SEND, RECV, SOFF, ROFF, SKEW, DATA, PLACE, NLISTS };

static struct list lists[NLISTS];
static MPI_Comm comms[MOST][MOST]; /* [algorithm][communicator] */
static unsigned long long seed = 1;
static long random_cases, most_count = 5000;
static int aligned; /* random places are multiples of the element */

/* The types of MPI that have a kernel each; the others are further names of the same, or stage. */
#define GPU_TYPES                                                                                   \
    "SIGNED_CHAR,UNSIGNED_CHAR,SHORT,UNSIGNED_SHORT,INT,UNSIGNED,LONG,UNSIGNED_LONG,FLOAT,DOUBLE," \
    "C_FLOAT_COMPLEX,C_DOUBLE_COMPLEX,SHORT_INT,2INT,LONG_INT,FLOAT_INT,DOUBLE_INT,2REAL,2DOUBLE_PRECISION," \
    "FLOAT16,BFLOAT16"

__attribute__((noreturn)) static void refuse(const char *why, const char *word)
{
    fprintf(stderr, "check_allreduce: %s: %s\n", word, why);
    exit(2);
}

static void set_list(struct list *list, const char *text)
{
    char *copy = strdup(text), *rest = copy, *word;

    list->n = 0;
    while ((word = strsep(&rest, ",")) && list->n < MOST)
        list->words[list->n++] = word;
    if (word)
        refuse("too many words", text);
}

static void set_all_types(struct list *list)
{
    for (list->n = 0; list->n < refer_ntypes; list->n++)
        list->words[list->n] = refer_types[list->n].name;
}

static void set_all_ops(struct list *list)
{
    for (list->n = 0; list->n < REFER_NOPS; list->n++)
        list->words[list->n] = refer_ops[list->n].name;
}

static void set_defaults(void)
{
    static const char *const normal[NLISTS] = {
        [ALGORITHM] = "", [TYPE] = "FLOAT", [OP] = "SUM", [COUNT] = "1000", [COMM] = "world", [SEND] = "D",    [RECV] = "D",
        [SOFF] = "0",     [ROFF] = "0", [SKEW] = "0",     [DATA] = "exact", [PLACE] = "out",
    };

    for (int i = 0; i < NLISTS; i++)
        set_list(&lists[i], normal[i]);
}

static void parse(int argc, char **argv)
{
    enum { SEED = NLISTS, RANDOM, MOST_COUNT, IN_PLACE };
    static int ordered, fresh, large, pmpi, thread, pending, errno_kept, null, blind;
    static const struct option options[] = {
        {"type", 1, NULL, TYPE},     {"op", 1, NULL, OP},         {"count", 1, NULL, COUNT},
        {"comm", 1, NULL, COMM},     {"send", 1, NULL, SEND},     {"recv", 1, NULL, RECV},
        {"soff", 1, NULL, SOFF},     {"roff", 1, NULL, ROFF},     {"skew", 1, NULL, SKEW},
        {"data", 1, NULL, DATA},     {"place", 1, NULL, PLACE},   {"in-place", 0, NULL, IN_PLACE},
        {"seed", 1, NULL, SEED},     {"random", 1, NULL, RANDOM}, {"most-count", 1, NULL, MOST_COUNT},
        {"ordered", 0, &ordered, 1}, {"fresh", 0, &fresh, 1},     {"large", 0, &large, 1},
        {"pmpi", 0, &pmpi, 1},       {"thread", 0, &thread, 1},   {"pending", 0, &pending, 1},
        {"errno", 0, &errno_kept, 1}, {"null", 0, &null, 1},      {"blind", 0, &blind, 1},
        {"aligned", 0, &aligned, 1}, {"algorithm", 1, NULL, ALGORITHM},
        {NULL, 0, NULL, 0},
    };
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (o == '?')
            exit(2);
        if (!optarg && o == 0) /* a flag, which getopt_long has stored itself */
            continue;
        if (o == TYPE && strcmp(optarg, "all") == 0)
            set_all_types(&lists[TYPE]);
        else if (o == TYPE && strcmp(optarg, "gpu") == 0)
            set_list(&lists[TYPE], GPU_TYPES);
        else if (o == OP && strcmp(optarg, "all") == 0)
            set_all_ops(&lists[OP]);
        else if (o == IN_PLACE)
            set_list(&lists[PLACE], "in");
        else if (o == SEED)
            seed = strtoull(optarg, NULL, 0);
        else if (o == RANDOM)
            random_cases = atol(optarg);
        else if (o == MOST_COUNT)
            most_count = atol(optarg);
        else if (optarg)
            set_list(&lists[o], optarg);
    }
    if (optind < argc)
        refuse("not an option", argv[optind]);
    test_options = (struct test_options){.ordered = ordered, .fresh = fresh, .large = large, .pmpi = pmpi,
                                         .thread = thread, .pending = pending, .errno_kept = errno_kept,
                                         .null = null, .blind = blind};
}

/* Refuse what is misspelt before anything runs: a case that does not exist cannot fail. */
static void check_words(void)
{
    for (int i = 0; i < lists[TYPE].n; i++)
        if (!refer_type_find(lists[TYPE].words[i]))
            refuse("no such type", lists[TYPE].words[i]);
    for (int i = 0; i < lists[OP].n; i++)
        if (refer_op_find(lists[OP].words[i]) < 0)
            refuse("no such operation", lists[OP].words[i]);
    for (int o = SEND; o <= RECV; o++)
        for (int i = 0; i < lists[o].n; i++)
            for (const char *kind = lists[o].words[i]; *kind || kind == lists[o].words[i]; kind++)
                if (!gpu_kind_known(*kind) || strlen(lists[o].words[i]) > CASE_RANKS)
                    refuse("kinds of memory are letters of " GPU_KINDS, lists[o].words[i]);
    for (int i = 0; i < lists[PLACE].n; i++)
        if (strcmp(lists[PLACE].words[i], "in") != 0 && strcmp(lists[PLACE].words[i], "out") != 0)
            refuse("a place is in or out", lists[PLACE].words[i]);
}

static void ask_for(const char *algorithm, MPI_Comm *comm)
{
    MPI_Comm plain = *comm;
    MPI_Info info;

    if (plain == MPI_COMM_NULL)
        return;
    MPI_Info_create(&info);
    MPI_Info_set(info, "shunt_allreduce", algorithm);
    MPI_Comm_dup_with_info(plain, info, comm);
    MPI_Info_free(&info);
    comms_free(&plain);
}

static void make_comms(void)
{
    for (int a = 0; a < lists[ALGORITHM].n; a++) {
        for (int i = 0; i < lists[COMM].n; i++) {
            if (!comms_make(lists[COMM].words[i], &comms[a][i]))
                refuse("communicators are " COMMS_NAMES, lists[COMM].words[i]);
            if (lists[ALGORITHM].words[a][0] != 0)
                ask_for(lists[ALGORITHM].words[a], &comms[a][i]);
        }
    }
}

static unsigned bytes_of(const char *word, const struct refer_type *type)
{
    char *end;
    unsigned long n = strtoul(word, &end, 0);

    return (unsigned)(*end == 'e' ? n * type->size : n);
}

static void run_if_member(const struct test_case *test)
{
    int inter;

    if (test->comm == MPI_COMM_NULL)
        return;
    MPI_Comm_test_inter(test->comm, &inter);
    if (inter && test->in_place) /* not allowed by MPI */
        return;
    case_run(test);
}

/* One combination: at[o] is the position in list o. */
static void run_combination(const int *at)
{
#define WORD(o) lists[o].words[at[o]]
    const struct refer_type *type = refer_type_find(WORD(TYPE));
    struct test_case test = {
        .comm_name = WORD(COMM),
        .comm = comms[at[ALGORITHM]][at[COMM]],
        .source = {type, (enum refer_op_id)refer_op_find(WORD(OP)),
                   strcmp(WORD(DATA), "rough") == 0 ? REFER_ROUGH : REFER_EXACT, seed++},
        .count = atol(WORD(COUNT)),
        .in_place = strcmp(WORD(PLACE), "in") == 0,
        .send_offset = bytes_of(WORD(SOFF), type),
        .recv_offset = bytes_of(WORD(ROFF), type),
        .skew = bytes_of(WORD(SKEW), type),
    };
    bool answered = case_host_answer(type, test.source.op) == MPI_SUCCESS;

    strcpy(test.send, WORD(SEND));
    strcpy(test.recv, WORD(RECV));
    if (type->handle == MPI_DATATYPE_NULL || refer_host_crashes(type, test.source.op) || (!answered && test.count == 0))
        return;
    run_if_member(&test);
#undef WORD
}

static void run_all(void)
{
    int at[NLISTS] = {0}, o;

    do {
        run_combination(at);
        for (o = NLISTS - 1; o >= 0 && ++at[o] == lists[o].n; o--)
            at[o] = 0;
    } while (o >= 0);
}

/* ---- at random ---- */

static unsigned long long random_state;

static unsigned long draw(unsigned long below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned long)((random_state >> 33) % below);
}

static const char *draw_word(const struct list *list)
{
    return list->words[draw((unsigned long)list->n)];
}

/* A letter per rank out of one of the strings of the list, where the whole string is used as a set of letters. */
static void draw_kinds(const struct list *list, int size, bool all_device, char *out)
{
    const char *set = draw_word(list);
    int r;

    for (r = 0; r < size && r < CASE_RANKS; r++)
        out[r] = all_device ? 'D' : set[draw(strlen(set))];
    out[r] = 0;
}

static long draw_count(void)
{
    switch (draw(4)) {
    case 0: return (long)draw(20);
    case 1: return (long)draw(300);
    case 2: return 1L << draw(12);
    default: return (long)draw((unsigned long)most_count);
    }
}

static unsigned draw_offset(size_t element)
{
    unsigned elements = (unsigned)draw(16), odd = draw(8) == 0 && !aligned;

    return elements * (unsigned)element + odd;
}

static void run_random(long number, int size)
{
    struct test_case test = {.source = {.seed = seed + (unsigned long long)number}};
    struct refer_source *source = &test.source;
    bool all_device;
    int c;

    random_state = source->seed * 0x9e3779b97f4a7c15u;
    draw(2);
    do {
        source->type = refer_type_find(draw_word(&lists[TYPE]));
        source->op = (enum refer_op_id)refer_op_find(draw_word(&lists[OP]));
    } while (case_host_answer(source->type, source->op) != MPI_SUCCESS);
    source->data = draw(3) == 0 ? REFER_ROUGH : REFER_EXACT;
    c = (int)draw((unsigned long)lists[COMM].n);
    test.comm = comms[draw((unsigned long)lists[ALGORITHM].n)][c];
    test.comm_name = lists[COMM].words[c];
    test.count = draw_count();
    test.in_place = draw(3) == 0;
    all_device = draw(3) == 0 && strchr(lists[SEND].words[0], 'D') && strchr(lists[RECV].words[0], 'D');
    draw_kinds(&lists[SEND], size, all_device, test.send);
    draw_kinds(&lists[RECV], size, all_device, test.recv);
    test.send_offset = draw_offset(source->type->size);
    test.recv_offset = draw_offset(source->type->size);
    test.skew = (unsigned)(draw(2) * draw(4) * source->type->size);
    run_if_member(&test);
}

/* A rank that was never given device memory must not have met CUDA. */
static void check_untouched(void)
{
    static const struct test_case nothing = {.comm_name = "world", .source = {&refer_types[0], REFER_SUM, 0, 0},
                                             .send = "H", .recv = "H"};

    if (!gpu_started() && gpu_mapped("libcuda"))
        case_fail(&nothing, "this rank never used CUDA, but a CUDA library is mapped into it");
}

int main(int argc, char **argv)
{
    int provided, size;
    bool good;

    set_defaults();
    parse(argc, argv);
    check_words();
    MPI_Init_thread(&argc, &argv, test_options.thread ? MPI_THREAD_SERIALIZED : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    refer_start();
    make_comms();
    if (random_cases == 0)
        run_all();
    for (long i = 0; i < random_cases; i++)
        run_random(i, size);
    check_untouched();
    good = case_summary("check_allreduce");
    case_finish();
    for (int i = 0; i < lists[ALGORITHM].n * lists[COMM].n; i++)
        comms_free(&comms[i / lists[COMM].n][i % lists[COMM].n]);
    MPI_Finalize();
    return good ? 0 : 1;
}
