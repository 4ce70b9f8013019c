/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of communicators: equal on all members, different for everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mpi/key.h"

static const int group[] = { 3, 1, 4, 7 }, other[] = { 0, 2 };

static bool equal(struct shunt_key a, struct shunt_key b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static struct shunt_key make(struct shunt_origin origin)
{
    return shunt_key_make(&origin, group, 4, NULL, 0);
}

static void test_everything_counts(void **state)
{
    (void)state;
    static const int swapped[] = { 1, 3, 4, 7 };
    struct shunt_origin origin = { .kind = SHUNT_KIND_SPLIT, .parent = { { 5, 6 } }, .count = 2, .tag = 0 };
    struct shunt_origin changed[] = { origin, origin, origin, origin, origin };
    struct shunt_key key = make(origin);

    assert_true(equal(key, make(origin)));
    assert_true(key.word[0] != 0 && key.word[1] != 0);
    changed[0].kind = SHUNT_KIND_DUP;
    changed[1].parent.word[1] = 7;
    changed[2].count = 3;
    changed[3].tag = 1;
    changed[4].string = "x";
    for (int i = 0; i < 5; i++)
        assert_false(equal(key, make(changed[i])));
    assert_false(equal(key, shunt_key_make(&origin, swapped, 4, NULL, 0)));
    assert_false(equal(key, shunt_key_make(&origin, group, 3, NULL, 0)));
    /* Two groups are not one. */
    assert_false(equal(key, shunt_key_make(&origin, group, 2, group + 2, 2)));
}

static void test_two_sides(void **state)
{
    (void)state;
    struct shunt_origin origin = { .kind = SHUNT_KIND_DUP, .count = 1 };

    assert_true(equal(shunt_key_make(&origin, group, 4, other, 2), shunt_key_make(&origin, other, 2, group, 4)));
}

/* Calls in which only the members take part are counted per members, tag, parent and string. */
static void test_counted_by_group(void **state)
{
    (void)state;
    struct shunt_origin origin = { .kind = SHUNT_KIND_CREATE_GROUP, .parent = { { 5, 6 } }, .tag = 9 };
    struct shunt_origin tagged = origin, named = { .kind = SHUNT_KIND_FROM_GROUP, .string = "a" };
    struct shunt_key mine[3], theirs[3];

    tagged.tag = 10;
    for (int i = 0; i < 3; i++)
        mine[i] = make(origin);
    assert_false(equal(mine[0], mine[1]));
    assert_false(equal(mine[1], mine[2]));
    assert_false(equal(mine[0], make(tagged)));
    assert_false(equal(make(named), make(named)));

    /* Another member has made other communicators in between: it comes to the same keys. */
    shunt_key_reset();
    for (int i = 0; i < 3; i++) {
        make(tagged);
        shunt_key_make(&origin, other, 2, NULL, 0);
        theirs[i] = make(origin);
        assert_true(equal(mine[i], theirs[i]));
    }
    shunt_key_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_counts),
        cmocka_unit_test(test_two_sides),
        cmocka_unit_test(test_counted_by_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
