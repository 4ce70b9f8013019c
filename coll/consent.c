/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement across nodes; consent.h.
 *
 * 1. A first rank reports at most one operation at a time: READY, and then waits for the decision, or REFUSED, and goes on.
 *    So the coordinator keeps its latest report alone; one of a later operation says that the earlier ones were refused.
 * 2. The coordinator decides an operation while its own rank is in it and all of its node have arrived: COMMIT when all reports
 *    are READY, ABORT when one is not. Whoever is READY for an operation that the coordinator's rank has passed gets ABORT.
 * 3. So there is COMMIT only if all are READY and wait. Whatever is in doubt (an unknown communicator, a lost report) ends in
 *    ABORT, and that in staging.
 * 4. A node on which all are on the host says nothing by itself. So the coordinator ASKs those whose report is missing, and the
 *    first rank's process answers REFUSED when that rank has passed the operation without being in it.
 * 5. After READY nobody may refuse; the wait is for decisions only, which no application can hold up but by not calling at all.
 * 6. A rank that is lost, or says FAIL, ends everything on the communicator with errors. Once a rank knows of it, it answers
 *    everybody FAIL, never ABORT: the host MPI might wait for the lost rank for ever.
 *
 * All state is under the network's lock. Steps of the own rank are read from its counter, which it advances without the lock; it
 * says that it is in an operation (`pending`) before it advances, so that nobody takes it for a host rank.
 */
#include "coll/consent.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "coll/mismatch.h"
#include "coll/select.h"

#define ASK_SECONDS    1e-3 /* reports are waited for before the coordinator asks */
#define MEET_SECONDS   5.0  /* for the thread of a peer to answer */
#define ENDING_SECONDS 2.0  /* for a process to be gone that has closed its connections, or for others of its machine to answer */
#define STRANGERS      16   /* that are asked at most whether there is a way to where they are */
#define REPEAT_SECONDS 0.1  /* between two questions, since a process drops what comes before it knows the others */
#define CHECK_SECONDS  20e-3

enum kind { NOTE_READY = 1, NOTE_REFUSED, NOTE_ASK, NOTE_COMMIT, NOTE_ABORT, NOTE_FAIL, NOTE_HELLO, NOTE_ECHO };

struct note {
    uint32_t kind;
    int32_t node; /* the sender's, in the communicator */
    uint32_t reason;
    int32_t asked; /* of ASK: the receiver's, who may not know the communicator */
    struct shunt_key key;
    uint64_t sequence;
    struct shunt_brief brief;
};
_Static_assert(sizeof(struct note) <= SHUNT_NET_NOTE, "a note is too large for the network");

struct report {
    uint64_t after; /* sequence + 1; 0: none yet */
    bool ready, answered;
    struct shunt_brief brief;
};

struct shunt_consent {
    const struct shunt_team *team;
    struct shunt_board *board;
    struct shunt_key key;
    int node;            /* of this rank */
    bool pending;        /* this rank is in operation `sequence` */
    uint64_t sequence;
    enum kind decision;  /* COMMIT or ABORT; 0: none yet */
    struct shunt_brief brief;
    enum shunt_reason reason;
    struct report *reports; /* of each node; at the coordinator */
    uint64_t asked;      /* sequence + 1 of a question that is not answered yet; 0: none */
    bool failed, told;
    double checked;
    struct shunt_consent *next;
};

static struct {
    struct shunt_consent *list;
    bool *met; /* by world rank: who has answered */
    int n;
} all;

enum shunt_status shunt_consent_start(int n)
{
    all.met = calloc((size_t)n, sizeof *all.met);
    all.n = n;
    return all.met != NULL ? SHUNT_OK : SHUNT_ERR_MEMORY;
}

void shunt_consent_stop(void)
{
    free(all.met);
    all.met = NULL;
    all.n = 0;
}

static bool is_coordinator(const struct shunt_consent *c)
{
    return c->team->me == 0;
}

static bool is_first(const struct shunt_consent *c)
{
    return c->team->first[c->node] == c->team->me;
}

static void send_note(const struct shunt_consent *c, int rank, enum kind kind, uint64_t sequence,
                      enum shunt_reason reason, const struct shunt_brief *brief)
{
    struct note note = { .kind = kind, .node = c->node, .reason = reason, .key = c->key, .sequence = sequence };

    if (brief != NULL)
        note.brief = *brief;
    shunt_net_note(c->team->world[rank], SHUNT_NET_CONSENT, &note, sizeof note);
}

static void ask_node(const struct shunt_consent *c, int node, uint64_t sequence)
{
    struct note note = { .kind = NOTE_ASK, .node = c->node, .asked = node, .key = c->key, .sequence = sequence };

    shunt_net_note(c->team->world[c->team->first[node]], SHUNT_NET_CONSENT, &note, sizeof note);
}

/* ---- what the network's thread does; under the lock ---- */

/* Has this rank passed the operation, and is not in it? */
static bool has_passed(const struct shunt_consent *c, uint64_t sequence)
{
    return shunt_board_steps(c->board) > sequence && !(c->pending && c->sequence == sequence);
}

/* Rules 2 and 4: answer those who wait for what this rank has passed. True: somebody waits for what it has not. */
static bool settle(struct shunt_consent *c)
{
    bool waits = false;

    if (c->asked != 0) {
        if (has_passed(c, c->asked - 1)) {
            send_note(c, 0, c->failed ? NOTE_FAIL : NOTE_REFUSED, c->asked - 1, SHUNT_REASON_PEER_ON_HOST, NULL);
            c->asked = 0;
        } else {
            waits = true;
        }
    }
    for (int i = 0; c->reports != NULL && i < c->team->nodes; i++) {
        struct report *report = &c->reports[i];
        if (i == c->node || report->after == 0 || !report->ready || report->answered)
            continue;
        if (has_passed(c, report->after - 1)) {
            report->answered = true;
            send_note(c, c->team->first[i], c->failed ? NOTE_FAIL : NOTE_ABORT, report->after - 1, SHUNT_REASON_PEER_ON_HOST,
                      NULL);
        } else {
            waits = true;
        }
    }
    return waits;
}

static bool look(void)
{
    bool waits = false;

    for (struct shunt_consent *c = all.list; c != NULL; c = c->next)
        waits |= settle(c);
    return waits;
}

static struct shunt_consent *find(const struct shunt_key *key)
{
    struct shunt_consent *c = all.list;

    while (c != NULL && memcmp(&c->key, key, sizeof *key) != 0)
        c = c->next;
    return c;
}

static void take_report(struct shunt_consent *c, const struct note *note)
{
    if (c->reports == NULL || note->node < 0 || note->node >= c->team->nodes)
        return;
    struct report *report = &c->reports[note->node];
    if (note->sequence + 1 < report->after)
        return;
    *report = (struct report){ note->sequence + 1, note->kind == NOTE_READY, false, note->brief };
}

static void take_decision(struct shunt_consent *c, const struct note *note)
{
    if (!c->pending || c->sequence != note->sequence || c->decision != 0)
        return;
    c->decision = note->kind;
    c->brief = note->brief;
    c->reason = note->reason != SHUNT_REASON_NONE ? (enum shunt_reason)note->reason : SHUNT_REASON_PEER_ON_HOST;
}

static void answer_stranger(int from, const struct note *note)
{
    struct note answer = *note;

    answer.reason = SHUNT_REASON_PEER_VETO;
    answer.kind = note->kind == NOTE_HELLO ? NOTE_ECHO : note->kind == NOTE_READY ? NOTE_ABORT : NOTE_REFUSED;
    answer.node = note->kind == NOTE_ASK ? note->asked : note->node;
    shunt_net_note(from, SHUNT_NET_CONSENT, &answer, sizeof answer);
}

static void take_note(int from, const void *bytes, size_t length)
{
    struct note note;

    if (length != sizeof note)
        return;
    memcpy(&note, bytes, sizeof note);
    if (note.kind == NOTE_ECHO && from < all.n)
        all.met[from] = true;
    if (note.kind == NOTE_HELLO)
        answer_stranger(from, &note);
    if (note.kind == NOTE_HELLO || note.kind == NOTE_ECHO)
        return;
    struct shunt_consent *c = find(&note.key);
    if (c == NULL) {
        if (note.kind == NOTE_READY || note.kind == NOTE_ASK)
            answer_stranger(from, &note);
        return;
    }
    switch (note.kind) {
    case NOTE_READY:
    case NOTE_REFUSED: take_report(c, &note); break;
    case NOTE_ASK: c->asked = note.sequence + 1; break;
    case NOTE_COMMIT:
    case NOTE_ABORT: take_decision(c, &note); break;
    case NOTE_FAIL: c->failed = true; break;
    default: break;
    }
    settle(c);
}

const struct shunt_net_hooks shunt_consent_hooks = { take_note, look };

/* ---- open, close, meet ---- */

enum shunt_status shunt_consent_open(const struct shunt_team *team, struct shunt_key key, struct shunt_board *board,
                                     struct shunt_consent **consent_p)
{
    struct shunt_consent *c = calloc(1, sizeof *c);

    if (c == NULL)
        return SHUNT_ERR_MEMORY;
    *c = (struct shunt_consent){ .team = team, .board = board, .key = key, .node = team->node[team->me] };
    if (team->me == 0) {
        c->reports = calloc((size_t)team->nodes, sizeof *c->reports);
        if (c->reports == NULL) {
            free(c);
            return SHUNT_ERR_MEMORY;
        }
    }
    shunt_net_lock();
    c->next = all.list;
    all.list = c;
    shunt_net_unlock();
    *consent_p = c;
    return SHUNT_OK;
}

void shunt_consent_close(struct shunt_consent *consent)
{
    shunt_net_lock();
    for (struct shunt_consent **at = &all.list; *at != NULL; at = &(*at)->next) {
        if (*at == consent) {
            *at = consent->next;
            break;
        }
    }
    shunt_net_unlock();
    free(consent->reports);
    free(consent);
}

/* Whom of them have we not met? -1: none. */
static int find_stranger(const struct shunt_consent *c, const int *ranks, int n)
{
    for (int i = 0; i < n; i++) {
        int world = c->team->world[ranks[i]];
        if (ranks[i] != c->team->me && (!__atomic_load_n(&all.met[world], __ATOMIC_ACQUIRE) || shunt_net_lost(world)))
            return world;
    }
    return -1;
}

static void greet(const struct shunt_consent *consent, const int *ranks, int n)
{
    struct note hello = { .kind = NOTE_HELLO };

    for (int i = 0; i < n; i++) {
        int world = consent->team->world[ranks[i]];
        if (ranks[i] != consent->team->me && !__atomic_load_n(&all.met[world], __ATOMIC_ACQUIRE))
            shunt_net_note(world, SHUNT_NET_CONSENT, &hello, sizeof hello);
    }
}

/* Has any process of another machine answered? Then there is a way. */
static bool is_network_good(void)
{
    for (int i = 0; i < all.n; i++)
        if (__atomic_load_n(&all.met[i], __ATOMIC_ACQUIRE) && !shunt_net_local(i))
            return true;
    return false;
}

/* Some of the communicator's ranks on other machines, whoever they are. */
static void greet_strangers(struct shunt_consent *c)
{
    int ranks[STRANGERS], n = 0;

    for (int i = 0; i < c->team->n && n < STRANGERS; i++)
        if (!shunt_net_local(c->team->world[i]) && !shunt_net_lost(c->team->world[i]))
            ranks[n++] = i;
    greet(c, ranks, n);
}

/*
 * Has it ended, or is it just out of reach, and the host MPI may know a way? A process of this machine that is about to end has lost
 * its connections before it is gone. One of another machine that refuses while others there answer has ended, too.
 */
static bool has_ended(struct shunt_consent *c, int world, struct shunt_waiter *w)
{
    const bool met = __atomic_load_n(&all.met[world], __ATOMIC_ACQUIRE), lost = shunt_net_lost(world);
    const double end = shunt_seconds() + ENDING_SECONDS;

    if (met || !lost)
        return met;
    if (!shunt_net_local(world)) {
        greet_strangers(c);
        while (!is_network_good() && !shunt_consent_told(c) && shunt_seconds() < end)
            if (!shunt_net_progress())
                shunt_wait_a_little(w);
        return is_network_good() || shunt_consent_told(c);
    }
    while (!shunt_net_ended(world) && shunt_seconds() < end)
        shunt_wait_a_little(w);
    return shunt_net_ended(world);
}

enum shunt_status shunt_consent_meet(struct shunt_consent *consent, const int *ranks, int n, struct shunt_waiter *w)
{
    double now = shunt_seconds(), end = now + MEET_SECONDS, greeted = now;
    int stranger;

    greet(consent, ranks, n);
    while ((stranger = find_stranger(consent, ranks, n)) >= 0 && !shunt_net_lost(stranger) && (now = shunt_seconds()) < end) {
        if (now - greeted > REPEAT_SECONDS) {
            greet(consent, ranks, n);
            greeted = now;
        }
        if (!shunt_net_progress())
            shunt_wait_a_little(w);
    }
    if (stranger < 0)
        return SHUNT_OK;
    shunt_warn("net", "world rank %d does not answer over UCX", stranger);
    if (!has_ended(consent, stranger, w))
        return SHUNT_PASS;
    shunt_consent_fail(consent);
    return SHUNT_ERR_DEAD;
}

/* ---- failing ---- */

void shunt_consent_fail(struct shunt_consent *consent)
{
    shunt_net_lock();
    bool told = consent->told;
    consent->failed = consent->told = true;
    consent->pending = false;
    for (int i = 0; !told && i < consent->team->n; i++)
        if (i != consent->team->me)
            send_note(consent, i, NOTE_FAIL, consent->sequence, SHUNT_REASON_NONE, NULL);
    settle(consent);
    shunt_net_unlock();
}

bool shunt_consent_told(const struct shunt_consent *consent)
{
    return __atomic_load_n(&consent->failed, __ATOMIC_ACQUIRE);
}

bool shunt_consent_failed(struct shunt_consent *consent)
{
    double now = shunt_seconds();

    if (!__atomic_load_n(&consent->failed, __ATOMIC_ACQUIRE) && now - consent->checked > CHECK_SECONDS) {
        consent->checked = now;
        bool lost = shunt_board_bereft(consent->board);
        for (int i = 0; !lost && i < consent->team->n; i++)
            lost = i != consent->team->me && shunt_net_lost(consent->team->world[i]);
        if (lost)
            shunt_consent_fail(consent);
    }
    return __atomic_load_n(&consent->failed, __ATOMIC_ACQUIRE);
}

/* ---- reaching it ---- */

/* Of a node's posts: READY is told by the reason, since nothing is to be launched yet. */
static bool decide_node(const struct shunt_post *const *posts, int n, void *context, struct shunt_verdict *verdict)
{
    unsigned long long a, b;

    (void)context;
    verdict->reason = SHUNT_REASON_SEVERAL_NODES;
    for (int i = 1; i < n; i++)
        if (shunt_posts_differ(posts[0], posts[i], &a, &b) != NULL)
            verdict->reason = SHUNT_REASON_MISMATCH;
    return false;
}

/* Arrive on the node's board and wait until all of the node have, or one has not. SEVERAL_NODES: the node is ready. */
static enum shunt_reason meet_node(struct shunt_consent *c, struct shunt_waiter *w, const struct shunt_post *post)
{
    struct shunt_round round;
    enum shunt_reason reason;

    if (shunt_board_arrive(c->board, post, decide_node, NULL, &round, &reason) != SHUNT_OK)
        return reason;
    while (shunt_round_poll(&round) == SHUNT_ROUND_UNDECIDED) {
        if (shunt_consent_failed(c))
            shunt_round_veto(&round, SHUNT_REASON_RANK_LOST);
        else if (!shunt_net_progress())
            shunt_wait_a_little(w);
    }
    reason = shunt_round_verdict(&round)->reason;
    if (reason == SHUNT_REASON_MISMATCH)
        shunt_mismatch_say(w->arena, &round);
    shunt_round_leave(&round);
    return reason;
}

static bool equal_briefs(const struct shunt_brief *a, const struct shunt_brief *b)
{
    return a->coll == b->coll && a->type == b->type && a->op == b->op && a->root == b->root && a->count == b->count;
}

/* Rule 2, under the lock. 0: not yet. */
static enum kind judge(struct shunt_consent *c, const struct shunt_brief *brief, bool ask, enum shunt_reason *reason)
{
    bool complete = true;

    for (int i = 0; i < c->team->nodes; i++) {
        const struct report *report = &c->reports[i];
        if (i == c->node)
            continue;
        if (report->after <= c->sequence) {
            complete = false;
            if (ask)
                ask_node(c, i, c->sequence);
            continue;
        }
        *reason = report->after > c->sequence + 1 || !report->ready ? SHUNT_REASON_PEER_ON_HOST :
                  !equal_briefs(&report->brief, brief)              ? SHUNT_REASON_MISMATCH :
                                                                      SHUNT_REASON_NONE;
        if (*reason == SHUNT_REASON_MISMATCH)
            shunt_log_always("collectives of several nodes do not match: %llu elements on rank 0, %llu on rank %d",
                             (unsigned long long)brief->count, (unsigned long long)report->brief.count,
                             c->team->first[i]);
        if (*reason != SHUNT_REASON_NONE)
            return NOTE_ABORT;
    }
    return complete ? NOTE_COMMIT : 0;
}

/* The coordinator's part: wait for the reports, decide, tell. */
static bool coordinate(struct shunt_consent *c, struct shunt_waiter *w, const struct shunt_brief *brief)
{
    double since = shunt_seconds(), asked = 0;
    enum kind decision = 0;
    enum shunt_reason reason = SHUNT_REASON_NONE;

    while (decision == 0) {
        double now = shunt_seconds();
        bool ask = now - (asked == 0 ? since : asked) > (asked == 0 ? ASK_SECONDS : REPEAT_SECONDS);
        shunt_net_lock();
        decision = c->failed ? 0 : judge(c, brief, ask, &reason);
        if (decision != 0) {
            c->decision = decision;
            c->brief = *brief;
            c->reason = reason;
        }
        for (int i = 0; decision != 0 && i < c->team->nodes; i++) {
            struct report *report = &c->reports[i];
            if (i == c->node || report->after != c->sequence + 1 || !report->ready)
                continue;
            report->answered = true;
            send_note(c, c->team->first[i], decision, c->sequence, reason, brief);
        }
        shunt_net_unlock();
        asked = ask ? now : asked;
        if (decision == 0 && shunt_consent_failed(c))
            return false;
        if (decision == 0 && !shunt_net_progress())
            shunt_wait_a_little(w);
    }
    return true;
}

static enum kind decision_of(struct shunt_consent *c)
{
    shunt_net_lock();
    enum kind decision = c->decision;
    shunt_net_unlock();
    return decision;
}

/* The others' part: wait for the decision, and pass it on to the node. */
static bool follow(struct shunt_consent *c, struct shunt_waiter *w, const struct shunt_brief *brief)
{
    enum kind decision;

    if (is_first(c))
        send_note(c, 0, NOTE_READY, c->sequence, SHUNT_REASON_NONE, brief);
    while ((decision = decision_of(c)) == 0) {
        if (shunt_consent_failed(c))
            return false;
        if (!shunt_net_progress())
            shunt_wait_a_little(w);
    }
    return true;
}

static void tell_node(struct shunt_consent *c)
{
    for (int place = 1; is_first(c) && place < c->team->size[c->node]; place++)
        send_note(c, shunt_team_rank(c->team, c->node, place), c->decision, c->sequence, c->reason, &c->brief);
}

static void end_pending(struct shunt_consent *c)
{
    shunt_net_lock();
    c->pending = false;
    if (c->asked == c->sequence + 1 && c->decision != 0) /* its report has answered that */
        c->asked = 0;
    settle(c);
    shunt_net_unlock();
}

enum shunt_status shunt_consent_reach(struct shunt_consent *consent, struct shunt_waiter *w, const struct shunt_post *post,
                                      struct shunt_brief *brief, uint64_t *sequence, enum shunt_reason *reason)
{
    shunt_net_lock();
    consent->sequence = *sequence = shunt_board_steps(consent->board);
    consent->pending = true; /* before the step: see above */
    consent->decision = 0;
    shunt_net_unlock();
    *reason = meet_node(consent, w, post);
    /* Who is not there may have ended; then the other nodes must not be sent to the host MPI, which might wait for ever. */
    if (*reason == SHUNT_REASON_RANK_LOST || shunt_consent_failed(consent) ||
        (*reason != SHUNT_REASON_SEVERAL_NODES && shunt_board_bereft(consent->board))) {
        shunt_consent_fail(consent);
        return SHUNT_ERR_DEAD;
    }
    if (*reason != SHUNT_REASON_SEVERAL_NODES) {
        if (is_first(consent) && !is_coordinator(consent))
            send_note(consent, 0, NOTE_REFUSED, *sequence, *reason, NULL);
        end_pending(consent);
        return SHUNT_PASS;
    }
    bool reached = is_coordinator(consent) ? coordinate(consent, w, brief) : follow(consent, w, brief);
    if (!reached || __atomic_load_n(&consent->failed, __ATOMIC_ACQUIRE)) {
        shunt_consent_fail(consent);
        return SHUNT_ERR_DEAD;
    }
    tell_node(consent);
    enum kind decision = decision_of(consent);
    end_pending(consent);
    *reason = consent->reason;
    *brief = consent->brief;
    return decision == NOTE_COMMIT ? SHUNT_OK : SHUNT_PASS;
}
