/* SPDX-License-Identifier: BSD-3-Clause */
/* One MPI_Allreduce with everything around it checked: see case.h. */
#include "test/case.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/comms.h"
#include "test/gpu.h"

#define GUARD         256  /* bytes before and after each buffer that nobody may write */
#define GUARD_BYTE    0xa5
#define POISON_BYTE   0xc3 /* what the receive buffer holds before */
#define MOST_MESSAGES 8    /* per rank; further failures are only counted */
#define ERRNO_MARK    7777

struct test_options test_options;
struct test_tally test_tally;

enum side { SEND, RECV };

/* A buffer of this rank, and what a case does with it. */
struct place {
    struct gpu_block *block;
    size_t offset; /* of the data in the block */
    size_t bytes;  /* of the data */
};

static struct gpu_block blocks[2][sizeof GPU_KINDS];

static int world_rank(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static char kind_of(const char *kinds)
{
    return kinds[(size_t)world_rank() % strlen(kinds)];
}

bool case_on_host(const struct test_case *test)
{
    return gpu_kind_on_host(kind_of(test->recv)) && (test->in_place || gpu_kind_on_host(kind_of(test->send)));
}

void case_fail(const struct test_case *test, const char *format, ...)
{
    char what[512], line[1024];
    va_list arguments;
    const struct refer_source *source = &test->source;

    if (test_tally.failures++ >= MOST_MESSAGES)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line,
             "FAIL rank %d: --comm %s --type %s --op %s --count %ld --send %s --recv %s --soff %u --roff %u "
             "--skew %u --data %s --seed %llu%s: %s\n",
             world_rank(), test->comm_name, source->type->name, refer_ops[source->op].name, test->count, test->send,
             test->recv, test->send_offset, test->recv_offset, test->skew,
             source->data == REFER_ROUGH ? "rough" : "exact", (unsigned long long)source->seed,
             test->in_place ? " --in-place" : "", what);
    fputs(line, stdout);
    fflush(stdout);
}

/* ---- buffers ---- */

static struct place take_place(enum side side, const struct test_case *test, size_t bytes)
{
    char kind = kind_of(side == SEND ? test->send : test->recv);
    struct gpu_block *block = &blocks[side][strchr(GPU_KINDS, kind) - GPU_KINDS];
    size_t offset = (side == SEND ? test->send_offset : test->recv_offset) + (size_t)world_rank() * test->skew;
    size_t need, have = 1 << 16;

    if (kind != 'H')
        gpu_start(gpu_local_rank());
    offset = kind == 'B' ? 0 : GUARD + offset;
    need = offset + bytes + GUARD;
    if (test_options.fresh || block->bytes < need) {
        while (have < need)
            have *= 2;
        gpu_free(block);
        gpu_alloc(block, kind, test_options.fresh ? need : have);
    }
    return (struct place){block, offset, bytes};
}

static void *data_of(const struct place *place)
{
    return place->block->base + place->offset;
}

/* A host image of the whole used part of the block: guards around the data. */
static char *new_image(const struct place *place)
{
    char *image = malloc(place->offset + place->bytes + GUARD);

    memset(image, GUARD_BYTE, place->offset + place->bytes + GUARD);
    return image;
}

static void put_image(const struct place *place, const char *image)
{
    if (place->block->kind == 'H')
        memcpy(place->block->base, image, place->offset + place->bytes + GUARD);
    else
        gpu_copy(place->block->base, image, place->offset + place->bytes + GUARD);
}

static void get_image(const struct place *place, char *image)
{
    if (place->block->kind == 'H')
        memcpy(image, place->block->base, place->offset + place->bytes + GUARD);
    else
        gpu_copy(image, place->block->base, place->offset + place->bytes + GUARD);
}

static void check_guards(const struct test_case *test, const char *what, const struct place *place,
                         const char *image)
{
    size_t end = place->offset + place->bytes + GUARD;

    for (size_t i = 0; i < end; i++) {
        if (i == place->offset)
            i += place->bytes;
        if ((unsigned char)image[i] != GUARD_BYTE) {
            case_fail(test, "%s buffer: byte %ld of the guard is 0x%02x", what, (long)i - (long)place->offset,
                      (unsigned char)image[i]);
            return;
        }
    }
}

void case_finish(void)
{
    for (int side = 0; side < 2; side++)
        for (size_t k = 0; GPU_KINDS[k]; k++)
            gpu_free(&blocks[side][k]);
}

/* ---- the call ---- */

struct call {
    const struct test_case *test;
    const void *send;
    void *recv;
    int rc, errno_after;
    bool state_kept;
};

static int call_by_name(const struct call *call)
{
    const struct test_case *test = call->test;
    MPI_Datatype type = test->source.type->handle;
    MPI_Op op = refer_ops[test->source.op].handle;

    if (test_options.large) {
#if MPI_VERSION >= 4
        return MPI_Allreduce_c(call->send, call->recv, test->count, type, op, test->comm);
#else
        fprintf(stderr, "test: this MPI has no MPI_Allreduce_c\n");
        exit(3);
#endif
    }
    if (test_options.pmpi)
        return PMPI_Allreduce(call->send, call->recv, (int)test->count, type, op, test->comm);
    return MPI_Allreduce(call->send, call->recv, (int)test->count, type, op, test->comm);
}

static void *make_call(void *argument)
{
    struct call *call = argument;
    struct gpu_state before, after;

    if (test_options.pending)
        gpu_provoke_error();
    gpu_look(&before, test_options.thread);
    errno = ERRNO_MARK;
    call->rc = call_by_name(call);
    call->errno_after = errno;
    gpu_look(&after, test_options.thread);
    call->state_kept = gpu_state_same(&before, &after);
    gpu_forget_error();
    return NULL;
}

static void run_call(struct call *call)
{
    pthread_t thread;

    if (!test_options.thread)
        make_call(call);
    else if (pthread_create(&thread, NULL, make_call, call) == 0)
        pthread_join(thread, NULL);
    else
        exit(3);
    if (!call->state_kept)
        case_fail(call->test, "the caller's device, context or last CUDA error has changed");
    if (test_options.errno_kept && call->errno_after != ERRNO_MARK)
        case_fail(call->test, "errno has changed to %d", call->errno_after);
}

int case_host_answer(const struct refer_type *type, enum refer_op_id op)
{
    static signed char known[128][REFER_NOPS]; /* 0: not asked yet, else the class + 1 */
    signed char *answer = &known[type - refer_types][op];
    char in[64] = {0}, out[64];
    int class;

    if (*answer == 0) {
        if (type->handle == MPI_DATATYPE_NULL || refer_host_crashes(type, op))
            return MPI_ERR_TYPE;
        PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        MPI_Error_class(PMPI_Allreduce(in, out, 1, type->handle, refer_ops[op].handle, MPI_COMM_SELF), &class);
        PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
        test_tally.host_calls++;
        *answer = (signed char)(class + 1);
    }
    return *answer - 1;
}

/* ---- the result ---- */

/* What the result must be: by the rule, where there is one, and what the host MPI makes of the same data. */
struct expected {
    char *rule, *host; /* NULL: not known, not asked */
};

static void ask_host(const struct test_case *test, size_t bytes, char *host)
{
    const struct refer_source *source = &test->source;
    char *mine = malloc(bytes + 1);

    refer_fill(source, comms_self(test->comm), (size_t)test->count, mine);
    memset(host, POISON_BYTE, bytes);
    PMPI_Allreduce(mine, host, (int)test->count, source->type->handle, refer_ops[source->op].handle, test->comm);
    test_tally.host_calls++;
    free(mine);
}

/* Where both are known they must agree, unless the host is known to be wrong: proves the rule and this program. */
static struct expected make_expected(const struct test_case *test, size_t bytes)
{
    const struct refer_source *source = &test->source;
    struct expected expected = {0};
    int first, n;
    long at;

    comms_contributors(test->comm, &first, &n);
    if (refer_known(source->type, source->op)) {
        char *work = malloc(bytes + 1);
        expected.rule = malloc(bytes + 1);
        refer_reduce(source, first, n, (size_t)test->count, work, expected.rule);
        free(work);
    }
    if (!expected.rule || !test_options.blind) {
        expected.host = malloc(bytes + 1);
        ask_host(test, bytes, expected.host);
    }
    if (!expected.rule || !expected.host || refer_host_flawed(source->type, source->op))
        return expected;
    at = refer_differs_roughly(source, first, n, (size_t)test->count, expected.host, expected.rule);
    if (at >= 0)
        case_fail(test, "the host MPI itself: element %ld is 0x%s, the rule gives 0x%s", at,
                  refer_show(source->type, expected.host, (size_t)at),
                  refer_show(source->type, expected.rule, (size_t)at));
    return expected;
}

/* All members of an intra-communicator must hold the same bits. */
static void check_same_bits(const struct test_case *test, const char *data)
{
    unsigned long long hash = refer_hash(test->source.type, (size_t)test->count, data), least, most;
    int inter;

    MPI_Comm_test_inter(test->comm, &inter);
    if (inter)
        return;
    PMPI_Allreduce(&hash, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, test->comm);
    PMPI_Allreduce(&hash, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, test->comm);
    test_tally.host_calls += 2;
    if (least != most)
        case_fail(test, "the ranks hold different bits");
}

/*
 * In rank order: the rule, bit by bit. Else the rule within rounding, or the very bits of the host MPI; and the same
 * on all ranks, where the rule alone does not say so already.
 */
static void check_result(const struct test_case *test, const struct place *recv, const struct expected *expected)
{
    const struct refer_source *source = &test->source;
    size_t count = (size_t)test->count;
    char *image = new_image(recv), *data = image + recv->offset;
    const char *wanted = expected->rule ? expected->rule : expected->host;
    int first, n;
    long at;

    comms_contributors(test->comm, &first, &n);
    get_image(recv, image);
    at = test_options.ordered ? refer_differs(source->type, count, data, wanted)
                              : refer_differs_roughly(source, first, n, count, data, wanted);
    if (at >= 0 && !test_options.ordered && expected->host &&
        refer_differs(source->type, count, data, expected->host) < 0)
        at = -1;
    if (at >= 0)
        case_fail(test, "element %ld is 0x%s, expected 0x%s", at, refer_show(source->type, data, (size_t)at),
                  refer_show(source->type, wanted, (size_t)at));
    check_guards(test, "receive", recv, image);
    if (!test_options.ordered && expected->rule)
        check_same_bits(test, data);
    free(image);
}

static void check_unchanged(const struct test_case *test, const char *what, const struct place *place,
                            const char *before)
{
    char *image = new_image(place);

    get_image(place, image);
    for (size_t i = 0; i < place->bytes; i++) {
        if (image[place->offset + i] != before[place->offset + i]) {
            case_fail(test, "byte %zu of the %s buffer has changed", i, what);
            break;
        }
    }
    check_guards(test, what, place, image);
    free(image);
}

static void count_call(const struct test_case *test)
{
    test_tally.cases++;
    test_tally.calls++;
    if (test->count == 0)
        test_tally.neutral_calls++;
    else if (case_on_host(test))
        test_tally.host_calls++;
    else
        test_tally.device_calls++;
}

/* The host MPI refuses this pair: the same class, and nothing written. */
static void check_refused(const struct test_case *test, struct call *call, const struct place *recv,
                          const char *before, int expected)
{
    int class;

    PMPI_Comm_set_errhandler(test->comm, MPI_ERRORS_RETURN);
    run_call(call);
    PMPI_Comm_set_errhandler(test->comm, MPI_ERRORS_ARE_FATAL);
    MPI_Error_class(call->rc, &class);
    if (class != expected)
        case_fail(test, "error class %d, the host MPI answers %d", class, expected);
    check_unchanged(test, "receive", recv, before);
}

static void check_answered(const struct test_case *test, struct call *call, const struct place *recv)
{
    struct expected expected = make_expected(test, recv->bytes);

    run_call(call);
    if (call->rc != MPI_SUCCESS)
        case_fail(test, "answered %d", call->rc);
    check_result(test, recv, &expected);
    free(expected.rule);
    free(expected.host);
}

void case_run(const struct test_case *test)
{
    const struct refer_source *source = &test->source;
    size_t bytes = (size_t)test->count * source->type->size;
    int answer = case_host_answer(source->type, source->op);
    struct place send, recv = take_place(RECV, test, bytes);
    char *send_image = NULL, *recv_image = new_image(&recv);
    struct call call = {.test = test, .send = MPI_IN_PLACE, .recv = data_of(&recv)};

    memset(recv_image + recv.offset, POISON_BYTE, bytes);
    if (test->in_place) {
        refer_fill(source, comms_self(test->comm), (size_t)test->count, recv_image + recv.offset);
    } else {
        send = take_place(SEND, test, bytes);
        send_image = new_image(&send);
        refer_fill(source, comms_self(test->comm), (size_t)test->count, send_image + send.offset);
        put_image(&send, send_image);
        call.send = data_of(&send);
    }
    put_image(&recv, recv_image);
    gpu_synchronize();
    if (test_options.null && test->count == 0 && (source->seed + (unsigned)world_rank()) % 2 == 0) {
        call.recv = NULL;
        call.send = test->in_place ? call.send : NULL;
    }
    count_call(test);
    if (answer == MPI_SUCCESS)
        check_answered(test, &call, &recv);
    else
        check_refused(test, &call, &recv, recv_image, answer);
    if (send_image)
        check_unchanged(test, "send", &send, send_image);
    free(send_image);
    free(recv_image);
}

void case_sum(MPI_Comm comm, const char *comm_name, const char *kinds, long count, uint64_t seed)
{
    struct test_case test = {
        .comm_name = comm_name,
        .comm = comm,
        .source = {refer_type_find("FLOAT"), REFER_SUM, REFER_EXACT, seed},
        .count = count,
    };

    snprintf(test.send, sizeof test.send, "%s", kinds);
    snprintf(test.recv, sizeof test.recv, "%s", kinds);
    case_run(&test);
}

bool case_summary(const char *program)
{
    long mine[] = {test_tally.cases, test_tally.failures, test_tally.calls, test_tally.device_calls,
                   test_tally.host_calls, test_tally.neutral_calls};
    long all[6];
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Reduce(mine, all, 6, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Bcast(all, 6, MPI_LONG, 0, MPI_COMM_WORLD);
    if (world_rank() == 0)
        printf("%s: ranks %d cases %ld failures %ld calls %ld device %ld host %ld neutral %ld\n", program, size,
               mine[0], all[1], all[2], all[3], all[4], all[5]);
    fflush(stdout);
    return all[1] == 0;
}
