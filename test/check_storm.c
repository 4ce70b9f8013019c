/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random messages: check_storm ROUNDS SEED [multiple] [fresh] [probe] [odd] [host]. Each round is drawn alike on all ranks: messages
 * between any two of them, blocking and not, of all sizes, from and to host and device memory, with gaps and without,
 * received by tag or wildcard, with and without a status. Every message carries its number, from which its bytes follow;
 * each must come once, whole, in the order of its sender and tag, and leave alone what is around it.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu.h"

enum { MESSAGES = 12, ROOM = 300000, GUARD = 64, SLICE = 2 * ROOM + 4096, TAGS = 3, GAPS = 3 };

enum shape { ORDERED, WILD, WILD_BLOCKING, HELD, SHAPES };
enum send { SEND, SSEND, ISEND, ISSEND, SENDS };
enum receive { RECV, IRECV, PROBE, MPROBE, IPROBE, IMPROBE, PERSISTENT, TWO_WAY, RECEIVES };

struct message {
    int from, to, tag, bytes, room; /* bytes % 4 == 0 where there are gaps */
    enum send send;
    enum receive receive;
    bool device_from, device_to, gaps_from, gaps_to, wild, ignore;
    int at_from, at_to; /* offsets of the buffers */
};

struct round {
    enum shape shape;
    int n;
    struct message list[MESSAGES];
};

/* A message under way on this rank. */
struct work {
    const struct message *message;
    struct gpu_block *block;
    MPI_Request request;
    MPI_Status status;
    bool receives, persistent;
};

static int rank, ranks, failures, cases, device, host;
static bool on_host, odd;
static uint64_t state;
static struct gpu_block sends[2][MESSAGES], recvs[2][MESSAGES]; /* host, device */
static char *room;
static MPI_Datatype gaps;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static void fail(int round, const struct message *m, const char *what, long a, long b)
{
    failures++;
    printf("rank %d round %d: %d bytes %d -> %d tag %d send %d receive %d %s%s%s%s%s: %s: %ld, not %ld\n", rank, round, m->bytes,
           m->from, m->to, m->tag, m->send, m->receive, m->device_from ? "D" : "H", m->device_to ? "D" : "H",
           m->wild ? " wild" : "", m->gaps_from ? " gaps from" : "", m->gaps_to ? " gaps to" : "", what, a, b);
}

/* ---- what a round is ---- */

static int draw_bytes(void)
{
    static const int sizes[] = {0, 1, 4, 124, 124, 126, 1000, 4096, 40000, 65536, 100000, 200000};
    int size = sizes[draw(sizeof sizes / sizeof sizes[0])];

    /* As long as what is sent in place of large messages: then there are soon none of these any more. */
    if (odd && draw(20) == 0)
        return 125;
    size = draw(3) ? size : size + 4 * (int)draw(64);
    return size == 125 ? 129 : size;
}

static void draw_message(struct round *round, struct message *m, bool probes)
{
    *m = (struct message){.from = (int)draw((uint32_t)ranks), .to = (int)draw((uint32_t)ranks), .tag = (int)draw(TAGS)};
    m->bytes = draw_bytes();
    m->device_from = draw(4) && !on_host;
    m->device_to = draw(4) && !on_host;
    m->gaps_from = draw(6) == 0 && m->bytes % 4 == 0;
    m->gaps_to = draw(6) == 0 && m->bytes % 4 == 0;
    m->send = draw(SENDS);
    m->receive = draw(probes ? RECEIVES : PROBE);
    m->wild = round->shape == WILD || round->shape == WILD_BLOCKING;
    m->ignore = draw(4) == 0;
    if (m->wild) /* half an element is an error under MPICH */
        m->gaps_to = false;
    m->at_from = 4 * (int)draw(50);
    m->at_to = 4 * (int)draw(50);
    /* Of any messages only as many come in order as have been waited for in order: of the two ways each round has one. */
    if (m->wild || m->from == m->to)
        m->send = ISEND + m->send % 2;
    if (round->shape == WILD)
        m->receive = IRECV;
    if (round->shape == WILD_BLOCKING && (m->receive == IRECV || m->receive == PERSISTENT || m->receive == TWO_WAY))
        m->receive = RECV;
    if (round->shape == HELD)
        m->receive = IRECV;
    m->room = m->wild ? ROOM : m->bytes + 4 * (int)draw(3);
}

static void draw_round(struct round *round, bool probes)
{
    round->shape = draw(SHAPES);
    round->n = 1 + (int)draw(MESSAGES);
    for (int i = 0; i < round->n; i++) {
        struct message *m = &round->list[i];
        draw_message(round, m, probes);
    }
}

/* ---- buffers ---- */

static unsigned char byte_of(int round, int i, int k)
{
    return (unsigned char)(round * 31 + i * 17 + k * 7 + (k >> 8) * 13 + 1);
}

/* Elements of the type with gaps are 4 bytes of 8; places of bytes in a buffer. */
static int place_of(bool with_gaps, int k)
{
    return with_gaps ? k / 4 * 8 + k % 4 : k;
}

static char *buffer_of(const struct gpu_block *block, int at)
{
    return block->base + GUARD + at;
}

static void fill(int r, int i, const struct message *m, struct gpu_block *block)
{
    memset(room, 0x55, 2 * (size_t)m->bytes);
    for (int k = 0; k < m->bytes; k++)
        room[place_of(m->gaps_from, k)] = (char)byte_of(r, i, k);
    if (m->bytes)
        gpu_copy(buffer_of(block, m->at_from), room, (m->gaps_from ? 2 : 1) * (size_t)m->bytes);
}

static void clear(const struct message *m, struct gpu_block *block)
{
    size_t bytes = (m->gaps_to ? 2 : 1) * (size_t)m->room + 2 * GUARD;

    memset(room, 0xaa, bytes);
    gpu_copy(buffer_of(block, m->at_to) - GUARD, room, bytes);
}

static void check_bytes(int r, int i, const struct message *sent, const struct message *m, const struct gpu_block *block)
{
    size_t span = (m->gaps_to ? 2 : 1) * (size_t)m->room + 2 * GUARD;
    static char *want;
    char *got = room;

    if (!want)
        want = malloc(SLICE);
    memset(want, 0xaa, span);
    for (int k = 0; k < sent->bytes; k++)
        want[GUARD + place_of(m->gaps_to, k)] = (char)byte_of(r, i, k);
    gpu_copy(got, buffer_of(block, m->at_to) - GUARD, span);
    for (size_t k = 0; k < span; k++)
        if (got[k] != want[k]) {
            fail(r, sent, "a byte differs", (long)k - GUARD, got[k]);
            return;
        }
}

/* ---- calls ---- */

static MPI_Datatype type_of(bool with_gaps)
{
    return with_gaps ? gaps : MPI_BYTE;
}

static int count_of(bool with_gaps, int bytes)
{
    return with_gaps ? bytes / 4 : bytes;
}

static void begin_send(const struct message *m, struct work *work)
{
    char *buffer = buffer_of(work->block, m->at_from);
    int count = count_of(m->gaps_from, m->bytes);
    MPI_Datatype type = type_of(m->gaps_from);

    switch (m->send) {
    case SEND: MPI_Send(buffer, count, type, m->to, m->tag, MPI_COMM_WORLD); break;
    case SSEND: MPI_Ssend(buffer, count, type, m->to, m->tag, MPI_COMM_WORLD); break;
    case ISEND: MPI_Isend(buffer, count, type, m->to, m->tag, MPI_COMM_WORLD, &work->request); break;
    default: MPI_Issend(buffer, count, type, m->to, m->tag, MPI_COMM_WORLD, &work->request);
    }
}

/* A probe tells what the receive gets. */
static void check_probed(int r, const struct message *m, const MPI_Status *status)
{
    int bytes = -1;

    MPI_Get_count(status, MPI_BYTE, &bytes);
    if (!m->wild && (bytes != m->bytes || status->MPI_SOURCE != m->from || status->MPI_TAG != m->tag))
        fail(r, m, "probed", bytes, m->bytes);
}

static void begin_receive(int r, const struct message *m, struct work *work)
{
    char *buffer = buffer_of(work->block, m->at_to);
    int count = count_of(m->gaps_to, m->room), flag = 0;
    int from = m->wild ? MPI_ANY_SOURCE : m->from, tag = m->wild ? MPI_ANY_TAG : m->tag;
    MPI_Datatype type = type_of(m->gaps_to);
    MPI_Status probed, *status = m->ignore && !m->wild ? MPI_STATUS_IGNORE : &work->status;
    MPI_Message message;

    switch (m->receive) {
    case PROBE:
    case IPROBE:
        if (m->receive == PROBE)
            MPI_Probe(from, tag, MPI_COMM_WORLD, &probed);
        while (m->receive == IPROBE && !flag)
            MPI_Iprobe(from, tag, MPI_COMM_WORLD, &flag, &probed);
        check_probed(r, m, &probed);
        MPI_Recv(buffer, count, type, probed.MPI_SOURCE, probed.MPI_TAG, MPI_COMM_WORLD, status);
        break;
    case MPROBE:
        MPI_Mprobe(from, tag, MPI_COMM_WORLD, &message, &probed);
        check_probed(r, m, &probed);
        MPI_Mrecv(buffer, count, type, &message, status);
        break;
    case IMPROBE:
        while (!flag)
            MPI_Improbe(from, tag, MPI_COMM_WORLD, &flag, &message, &probed);
        check_probed(r, m, &probed);
        MPI_Imrecv(buffer, count, type, &message, &work->request);
        break;
    case PERSISTENT:
        MPI_Recv_init(buffer, count, type, from, tag, MPI_COMM_WORLD, &work->request);
        work->persistent = true;
        MPI_Start(&work->request);
        break;
#if MPI_VERSION >= 4
    case TWO_WAY:
        MPI_Isendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, buffer, count, type, from, tag, MPI_COMM_WORLD, &work->request);
        break;
#endif
    case RECV: MPI_Recv(buffer, count, type, from, tag, MPI_COMM_WORLD, status); break;
    default: MPI_Irecv(buffer, count, type, from, tag, MPI_COMM_WORLD, &work->request);
    }
}

/* ---- ends ---- */

/* All requests of the round, in one of the ways in which programs wait. */
static void end_all(struct work *works, int n, int way)
{
    MPI_Request *requests = malloc((size_t)(n + 1) * sizeof *requests);
    MPI_Status *statuses = malloc((size_t)(n + 1) * sizeof *statuses);
    int *indices = malloc((size_t)(n + 1) * sizeof *indices), done = 0, flag, count;

    for (int i = 0; i < n; i++)
        requests[i] = works[i].request;
    switch (way) {
    case 0: MPI_Waitall(n, requests, statuses); break;
    case 1:
        for (int i = n - 1; i >= 0; i--)
            MPI_Wait(&requests[i], &statuses[i]);
        break;
    case 2:
        for (int i; MPI_Waitany(n, requests, &i, &statuses[n]), i != MPI_UNDEFINED;)
            statuses[i] = statuses[n];
        break;
    case 3:
        do
            MPI_Testall(n, requests, &flag, statuses);
        while (!flag);
        break;
    case 4:
        for (int i = 0; i < n; i++)
            for (flag = 0; !flag;) {
                MPI_Request_get_status(requests[i], &flag, &statuses[i]);
                if (flag)
                    MPI_Test(&requests[i], &flag, &statuses[i]);
            }
        break;
    default: {
        MPI_Status *some = malloc((size_t)(n + 1) * sizeof *some);
        for (done = 0; done != MPI_UNDEFINED;) {
            MPI_Testsome(n, requests, &count, indices, some);
            for (int k = 0; count != MPI_UNDEFINED && k < count; k++)
                statuses[indices[k]] = some[k];
            done = count;
        }
        free(some);
    }
    }
    for (int i = 0; i < n; i++) {
        if (works[i].request != MPI_REQUEST_NULL)
            works[i].status = statuses[i];
        works[i].request = requests[i];
        if (works[i].persistent)
            MPI_Request_free(&works[i].request);
    }
    free(requests);
    free(statuses);
    free(indices);
}

/* Which message has come? Each once, in the order of its sender and tag. */
static void check_all(int r, const struct round *round, struct work *works, int n)
{
    bool come[MESSAGES] = {false};

    for (int w = 0; w < n; w++) {
        const struct message *m = works[w].message;
        int bytes = -1, i = (int)(m - round->list);
        if (!works[w].receives)
            continue;
        bool known = m->receive != TWO_WAY; /* of which MPICH's status tells nothing */
        known &= m->wild || !m->ignore || (m->receive != RECV && m->receive != PROBE && m->receive != MPROBE && m->receive != IPROBE);
        const MPI_Status *status = &works[w].status;
        if (known) {
            for (i = 0; i < round->n; i++)
                if (!come[i] && round->list[i].to == rank && round->list[i].from == status->MPI_SOURCE &&
                    round->list[i].tag == status->MPI_TAG)
                    break;
            MPI_Get_count(status, MPI_BYTE, &bytes);
        }
        cases++;
        *(m->device_to ? &device : &host) += 1;
        if (i == round->n) {
            fail(r, m, "source and tag of nobody", status->MPI_SOURCE, status->MPI_TAG);
            continue;
        }
        come[i] = true;
        if (known && bytes != round->list[i].bytes)
            fail(r, &round->list[i], "count", bytes, round->list[i].bytes);
        check_bytes(r, i, &round->list[i], m, works[w].block);
    }
}

static void run_round(int r, const struct round *round)
{
    struct work works[2 * MESSAGES];
    int n = 0;

    for (int i = 0; i < round->n; i++) {
        const struct message *m = &round->list[i];
        if (m->from == rank)
            fill(r, i, m, &sends[m->device_from][i]);
        if (m->to == rank)
            clear(m, &recvs[m->device_to][i]);
    }
    for (int i = 0; i < round->n; i++) {
        const struct message *m = &round->list[i];
        if (m->from == rank) {
            works[n] = (struct work){m, &sends[m->device_from][i], MPI_REQUEST_NULL, .receives = false};
            begin_send(m, &works[n++]);
        }
        if (m->to == rank) {
            works[n] = (struct work){m, &recvs[m->device_to][i], MPI_REQUEST_NULL, .receives = true};
            begin_receive(r, m, &works[n++]);
        }
    }
    if (round->shape == HELD)
        MPI_Barrier(MPI_COMM_WORLD);
    end_all(works, n, (r + rank) % 6);
    check_all(r, round, works, n);
    if (round->shape == WILD || round->shape == WILD_BLOCKING)
        MPI_Barrier(MPI_COMM_WORLD); /* or the next round's messages come to this one's receives */
}

/* All messages of a kind and side lie in one allocation: peers open those that come again. */
static void make_blocks(bool anew)
{
    static struct gpu_block whole[2][2];

    for (int kind = anew; kind < 2; kind++)
        for (int side = 0; side < 2; side++) {
            if (anew)
                gpu_free(&whole[kind][side]);
            gpu_alloc(&whole[kind][side], "HD"[kind], MESSAGES * SLICE);
            for (int i = 0; i < MESSAGES; i++) {
                struct gpu_block *slice = side ? &recvs[kind][i] : &sends[kind][i];
                *slice = whole[kind][side];
                slice->base += i * SLICE;
            }
        }
}

int main(int argc, char **argv)
{
    bool multiple = false, fresh = false, probes = false;
    int provided, rounds = argc > 1 ? atoi(argv[1]) : 100, totals[4], mine[4];
    struct round round;

    for (int i = 3; i < argc; i++) {
        multiple |= strcmp(argv[i], "multiple") == 0;
        fresh |= strcmp(argv[i], "fresh") == 0;
        probes |= strcmp(argv[i], "probe") == 0;
        odd |= strcmp(argv[i], "odd") == 0;
        on_host |= strcmp(argv[i], "host") == 0;
    }
    gpu_start(gpu_local_rank());
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Type_create_resized(MPI_INT, 0, 8, &gaps);
    MPI_Type_commit(&gaps);
    room = malloc(SLICE);
    make_blocks(false);
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (int r = 0; r < rounds; r++) {
        draw_round(&round, probes);
        run_round(r, &round);
        if (fresh && r % 20 == 19)
            make_blocks(true);
    }
    memcpy(mine, (int[]){failures, cases, device, host}, sizeof mine);
    MPI_Reduce(mine, totals, 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("check_storm: ranks %d cases %d failures %d device %d host %d\n", ranks, totals[1], totals[0], totals[2], totals[3]);
    MPI_Type_free(&gaps);
    MPI_Finalize();
    return failures != 0;
}
