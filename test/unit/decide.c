/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rank that decides looks up for a group, and when it looks it up again. */
#include "coll/select.h"

#include "cuda/registry.h"
#include "test/unit/rounds.h"

enum { RANKS = 4 };

/* Of two pairs with NVLink bridges; the UUID's last digits are the GPU's number. */
static const char machine[] = "machine workstation\n"
                              "     GPU0 GPU1 GPU2 GPU3\n"
                              "GPU0 X NV4 NODE NODE\n"
                              "GPU1 NV4 X NODE NODE\n"
                              "GPU2 NODE NODE X NV4\n"
                              "GPU3 NODE NODE NV4 X\n"
                              "GPU0: uuid GPU-00000000-0000-0000-0000-000000000000\n"
                              "GPU1: uuid GPU-00000000-0000-0000-0000-000000000001\n"
                              "GPU2: uuid GPU-00000000-0000-0000-0000-000000000002\n"
                              "GPU3: uuid GPU-00000000-0000-0000-0000-000000000003\n";
static char path[] = "/tmp/decide.XXXXXX";

static int describe(void **state)
{
    int file = mkstemp(path);

    if (file < 0 || write(file, machine, sizeof machine - 1) != sizeof machine - 1 || close(file) != 0)
        return -1;
    before(state);
    conf.topo_file = path;
    return 0;
}

static int forget(void **state)
{
    unlink(path);
    return after(state);
}

/* A rank's process takes a GPU, as at its first use of device memory or after a reset. */
static void take_gpu(int rank, int gpu)
{
    struct shunt_card *card = shunt_card(arena[rank], shunt_arena_self(arena[rank]));

    card->channel = (uint32_t)rank;
    memset(card->uuid, 0, sizeof card->uuid);
    card->uuid[15] = (unsigned char)gpu;
}

/* What is decided of posts that are all alike. */
static struct shunt_verdict decided(struct shunt_post post, int n, const struct shunt_wishes *wishes)
{
    const struct shunt_layout layout = { .ring_bytes = 4 << 20, .ll_bytes = 1 << 20, .line_bytes = 1 << 20 };
    const struct shunt_post *posts[RANKS];
    struct shunt_verdict verdict = { .ticket = 1 };
    int slots[RANKS];

    post.max_blocks = SHUNT_GRID;
    for (int i = 0; i < n; i++) {
        posts[i] = &post;
        slots[i] = shunt_arena_slot(arena[0], i);
    }
    struct shunt_select select = { .arena = arena[0], .slots = slots, .layout = &layout, .wishes = wishes };
    assert_true(shunt_select_decide(posts, n, &select, &verdict));
    return verdict;
}

/* Do these two come one after the other in a ring that is chosen now? */
static bool are_neighbours(int a, int b)
{
    const struct shunt_hint hint = { "shunt_allreduce", "ring" };
    const struct shunt_post post = { .coll = SHUNT_COLL_ALLREDUCE, .count = 1 << 20, .type = SHUNT_TYPE_F32, .op = SHUNT_OP_SUM };
    const struct shunt_verdict verdict = decided(post, RANKS, shunt_wishes_make(&hint, 1));
    bool found = false;

    assert_int_equal(verdict.algo, SHUNT_ALGO_ALLREDUCE_ring);
    assert_true(verdict.ways > 0);
    for (uint32_t k = 0; k < RANKS; k++) {
        int x = shunt_routes_rank(&verdict, RANKS, 0, k), y = shunt_routes_rank(&verdict, RANKS, 0, (k + 1) % RANKS);
        found |= (x == a && y == b) || (x == b && y == a);
    }
    return found;
}

/* What has been found out is kept for the GPUs that the ranks had then, not for the ranks. */
static void ranks_that_take_other_gpus(void **state)
{
    (void)state;
    join_all("decide", RANKS);
    for (int rank = 0; rank < RANKS; rank++)
        take_gpu(rank, rank);
    for (int times = 0; times < 2; times++)
        assert_true(are_neighbours(0, 1) && are_neighbours(2, 3));
    take_gpu(1, 2);
    take_gpu(2, 1);
    for (int times = 0; times < 2; times++)
        assert_true(are_neighbours(0, 2) && are_neighbours(1, 3));
}

/* Is it an exchange in which nobody does anything before all have begun? */
static bool meets(unsigned coll, int n, uint64_t count, uint32_t flags)
{
    const struct shunt_post post = { .coll = coll, .count = count, .type = SHUNT_TYPE_F32, .op = SHUNT_OP_SUM, .flags = flags };
    const struct shunt_verdict verdict = decided(post, n, NULL);

    assert_false((verdict.flags & SHUNT_PLAN_MEETS) && (verdict.flags & SHUNT_PLAN_LL)); /* in which each goes ahead */
    return verdict.flags & SHUNT_PLAN_MEETS;
}

/* Only what is overwritten while others may not have begun, and have to be heard, begins together: it takes its time. */
static void what_begins_together(void **state)
{
    (void)state;
    join_all("together", RANKS);
    for (uint64_t count = 1; count < 1 << 24; count *= 100) {
        assert_true(meets(SHUNT_COLL_SCAN, 3, count, SHUNT_POST_IN_PLACE));
        assert_true(meets(SHUNT_COLL_EXSCAN, RANKS, count, SHUNT_POST_IN_PLACE));
        assert_false(meets(SHUNT_COLL_SCAN, 2, count, SHUNT_POST_IN_PLACE));
        assert_false(meets(SHUNT_COLL_SCAN, RANKS, count, 0));
        assert_false(meets(SHUNT_COLL_ALLREDUCE, RANKS, count, SHUNT_POST_IN_PLACE));
        assert_false(meets(SHUNT_COLL_REDUCE, RANKS, count, SHUNT_POST_IN_PLACE));
    }
    conf.reproducible = true;
    assert_false(meets(SHUNT_COLL_SCAN, RANKS, 1, SHUNT_POST_IN_PLACE)); /* it waits for room in any case */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranks_that_take_other_gpus, describe, forget),
        cmocka_unit_test_setup_teardown(what_begins_together, before, after),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
