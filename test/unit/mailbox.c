/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors from process to process: what counts, what is thrown away, and that nothing is left. */
#include "cuda/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* A pipe with a byte in it; the end to read from. */
static int some_descriptor(char byte)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], &byte, 1), 1);
    close(ends[1]);
    return ends[0];
}

static void test_from_another_process(void **state)
{
    (void)state;
    int box, got, before = count_descriptors();
    struct shunt_mailbox_address address;
    struct shunt_letter letter;
    char byte = 0;

    assert_int_equal(shunt_mailbox_open(&box, &address), SHUNT_OK);
    assert_false(shunt_mailbox_next(box, &address, &letter, &got));
    pid_t child = fork();
    if (child == 0) {
        struct shunt_letter own = { .slot = 3, .number = 77 };
        close(box);
        _exit(shunt_mailbox_send(&address, &own, some_descriptor('x')) != SHUNT_OK);
    }
    int status = 1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_true(shunt_mailbox_next(box, &address, &letter, &got)); /* its sender has ended */
    assert_int_equal(letter.slot, 3);
    assert_int_equal(letter.number, 77);
    assert_int_equal(read(got, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(got);
    assert_false(shunt_mailbox_next(box, &address, &letter, &got));
    close(box);
    assert_int_equal(count_descriptors(), before);
}

static void test_without_the_key(void **state)
{
    (void)state;
    int box, got, before = count_descriptors(), mine = some_descriptor('y');
    struct shunt_mailbox_address address, guessed;
    struct shunt_letter letter = { .slot = 1 };

    assert_int_equal(shunt_mailbox_open(&box, &address), SHUNT_OK);
    guessed = address;
    guessed.key[1] ^= 1;
    assert_int_equal(shunt_mailbox_send(&guessed, &letter, mine), SHUNT_OK);
    letter.number = 5;
    assert_int_equal(shunt_mailbox_send(&address, &letter, mine), SHUNT_OK);
    assert_true(shunt_mailbox_next(box, &address, &letter, &got));
    assert_int_equal(letter.number, 5); /* the first one was thrown away, and its descriptor closed */
    close(got);
    close(mine);
    close(box);
    assert_int_equal(count_descriptors(), before);
}

static void test_nobody_there(void **state)
{
    (void)state;
    int box, mine = some_descriptor('z');
    struct shunt_mailbox_address address, other;
    struct shunt_letter letter = { .slot = 1 };

    assert_int_equal(shunt_mailbox_open(&box, &address), SHUNT_OK);
    other = address;
    other.name[0] ^= 1;
    assert_int_equal(shunt_mailbox_send(&other, &letter, mine), SHUNT_PASS);
    close(box);
    assert_int_equal(shunt_mailbox_send(&address, &letter, mine), SHUNT_PASS);
    close(mine);
}

/* Who never looks keeps nobody waiting. */
static void test_full(void **state)
{
    (void)state;
    int box, got, before = count_descriptors(), mine = some_descriptor('f'), sent = 0, came = 0;
    struct shunt_mailbox_address address;
    struct shunt_letter letter = { .slot = 1 };
    enum shunt_status status = SHUNT_OK;

    assert_int_equal(shunt_mailbox_open(&box, &address), SHUNT_OK);
    for (; status == SHUNT_OK && sent < 100000; sent += status == SHUNT_OK)
        status = shunt_mailbox_send(&address, &letter, mine);
    assert_int_equal(status, SHUNT_ERR_LIMIT);
    for (; shunt_mailbox_next(box, &address, &letter, &got); came++)
        close(got);
    assert_int_equal(came, sent);
    assert_int_equal(shunt_mailbox_send(&address, &letter, mine), SHUNT_OK);
    close(mine);
    close(box);
    assert_int_equal(count_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_another_process),
        cmocka_unit_test(test_without_the_key),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
