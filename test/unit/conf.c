/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: values of each type, what is refused and how it is said, unknown names. */
#include "base/conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "test/unit/lines.h"
#include "test/unit/settings.h"

static struct shunt_conf conf;
static struct shunt_log_state fresh;

static void load(void)
{
    fresh = (struct shunt_log_state){.fd = -1, .rank = -1, .subsystems = ~0u, .file = ""};
    settings_drop(&conf);
    shunt_conf_load(&conf);
}

/* Load with one more variable; takes it out again. */
static void load_with(const char *name, const char *value)
{
    setenv(name, value, 1);
    load();
    unsetenv(name);
}

static int before(void **state)
{
    (void)state;
    shunt_log_use(&fresh);
    lines_start();
    return 0;
}

static int after(void **state)
{
    (void)state;
    lines_stop();
    return 0;
}

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(shunt_conf->arena_size, 8 << 20); /* before anything was loaded */
    assert_string_equal(shunt_conf->allreduce, "auto");
    load();
    assert_string_equal(lines_next(), "");
    assert_false(conf.disable);
    assert_int_equal(conf.debug, 0);
    assert_string_equal(conf.debug_file, "");
    assert_int_equal(conf.scratch_size, 64 << 20);
    assert_int_equal(conf.stage_chunk, 1 << 20);
}

static void test_bool(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool value;
    } good[] = {{"1", true}, {"yes", true}, {"YES", true}, {"0", false}, {"no", false}, {"", false}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        load_with("SHUNT_STATS", good[i].text);
        assert_string_equal(lines_next(), "");
        assert_int_equal(conf.stats, good[i].value);
    }
    load_with("SHUNT_STATS", "maybe");
    assert_string_equal(lines_next(),
                        "shunt: SHUNT_STATS=maybe refused (allowed: 0 1 no yes); using the default 0\n");
    assert_false(conf.stats);
    load_with("SHUNT_STATS", "0 1"); /* part of the list of words, and no word */
    assert_int_equal(lines_count(), 1);
}

static void test_size(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t value;
    } good[] = {{"0", 0},         {"1", 1},           {"4096", 4096},          {"64k", 65536},
                {"64K", 65536},   {"3m", 3u << 20},   {"2g", (size_t)2 << 30}, {"5T", (size_t)5 << 40},
                {"inf", SIZE_MAX}, {"INF", SIZE_MAX}, {"18446744073709551614", SIZE_MAX - 1},
                {"16777215t", (size_t)16777215 << 40}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        load_with("SHUNT_ARENA_SIZE", good[i].text);
        assert_string_equal(lines_next(), "");
        assert_int_equal(conf.arena_size, good[i].value);
    }
    static const char *const bad[] = {"m",  "-1",  "8mb",  "8x",  "1.5m", " 8m", "8 m", "0x10",
                                      "8k m", "18446744073709551616", "16777216t", "infinite"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char expected[256];
        load_with("SHUNT_ARENA_SIZE", bad[i]);
        snprintf(expected, sizeof expected,
                 "shunt: SHUNT_ARENA_SIZE=%s refused (allowed: bytes like 4096, 64k, 8m, 1g, 1t, or inf); "
                 "using the default 8m\n",
                 bad[i]);
        assert_string_equal(lines_next(), expected);
        assert_int_equal(conf.arena_size, 8 << 20);
    }
}

static void test_count(void **state)
{
    (void)state;
    load_with("SHUNT_ROOM_MS", "2048");
    assert_int_equal(conf.room_ms, 2048);
    load_with("SHUNT_ROOM_MS", "inf");
    assert_true(conf.room_ms == SIZE_MAX);
    assert_string_equal(lines_next(), "");
    load_with("SHUNT_ROOM_MS", "2k");
    assert_string_equal(lines_next(),
                        "shunt: SHUNT_ROOM_MS=2k refused (allowed: a whole number, or inf); using the default 1000\n");
    assert_int_equal(conf.room_ms, 1000);
}

static void test_word(void **state)
{
    (void)state;
    load_with("SHUNT_DEBUG", "trace");
    assert_int_equal(conf.debug, SHUNT_LOG_TRACE);
    load_with("SHUNT_DEBUG", "Info");
    assert_int_equal(conf.debug, SHUNT_LOG_INFO);
    assert_string_equal(lines_next(), "");
    load_with("SHUNT_DEBUG", "inf");
    assert_string_equal(lines_next(), "shunt: SHUNT_DEBUG=inf refused (allowed: off warn info trace help); "
                                      "using the default off\n");
    assert_int_equal(conf.debug, SHUNT_LOG_OFF);
}

static void test_text_is_copied(void **state)
{
    (void)state;
    static char variable[] = "SHUNT_ALLREDUCE=twoshot";
    putenv(variable);
    load();
    memcpy(strchr(variable, '=') + 1, "garbage", 7);
    assert_string_equal(conf.allreduce, "twoshot");
    unsetenv("SHUNT_ALLREDUCE");
}

static void test_unknown_names(void **state)
{
    (void)state;
    load_with("SHUNT_DEBGU", "warn");
    assert_string_equal(lines_next(), "shunt: SHUNT_DEBGU is not a setting; the nearest is SHUNT_DEBUG "
                                      "(shunt-info --settings lists all)\n");
    load_with("SHUNT_ALREDUCE", "ring");
    assert_non_null(strstr(lines_next(), "the nearest is SHUNT_ALLREDUCE "));
    load_with("SHUNT_DEBUG_SUBSYSTEM", "mpi");
    assert_non_null(strstr(lines_next(), "the nearest is SHUNT_DEBUG_SUBSYS "));
    load_with("SHUNT_STAT", "1");
    assert_non_null(strstr(lines_next(), "SHUNT_STAT is not a setting; the nearest is SHUNT_STATS "));
    char name[400] = "SHUNT_";
    memset(name + 6, 'X', sizeof name - 7);
    load_with(name, "1");
    assert_int_equal(lines_count(), 1);
    load_with("SHUNT_SIM_PRESET", "h200x2");
    load_with("SHUNT_ENGINE_DIR", "/x");
    load_with("SHUNTED", "1");
    assert_string_equal(lines_next(), "");
    load_with("SHUNT_ENGINE_DIRS", "/x");
    load_with("SHUNT_SIMULATE", "1");
    assert_int_equal(lines_count(), 2);
}

static void test_errno_is_kept(void **state)
{
    (void)state;
    errno = EDOM;
    load_with("SHUNT_ARENA_SIZE", "x");
    assert_int_equal(errno, EDOM);
    lines_count();
}

/* ---- the rows ---- */

static int rows_seen;

static void check_row(void *context, const struct shunt_conf_row *row, const char *value, const char *source)
{
    (void)context;
    rows_seen++;
    assert_int_equal(strncmp(row->name, "SHUNT_", 6), 0);
    assert_true(*row->help && *row->allowed);
    assert_string_equal(value, row->normal);
    assert_string_equal(source, "default");
    setenv(row->name, row->normal, 1); /* a default must be a value that can be given */
}

static void check_source(void *context, const struct shunt_conf_row *row, const char *value, const char *source)
{
    (void)context;
    if (strcmp(row->name, "SHUNT_ARENA_SIZE") == 0) {
        assert_string_equal(value, "3g");
        assert_string_equal(source, "environment");
    } else if (strcmp(row->name, "SHUNT_STAGE_SIZE") == 0) {
        assert_string_equal(value, "8m");
        assert_string_equal(source, "default"); /* refused */
    } else if (strcmp(row->name, "SHUNT_DEBUG") == 0) {
        assert_string_equal(value, "warn");
    } else if (strcmp(row->name, "SHUNT_STAGE_CHUNK") == 0) {
        assert_string_equal(value, "1025k");
    }
}

static void unset_row(void *context, const struct shunt_conf_row *row, const char *value, const char *source)
{
    (void)context;
    (void)value;
    (void)source;
    unsetenv(row->name);
}

static void test_rows(void **state)
{
    (void)state;
    load();
    shunt_conf_each(&conf, check_row, NULL);
    assert_true(rows_seen >= 12);
    load();
    assert_string_equal(lines_next(), "");
    shunt_conf_each(&conf, unset_row, NULL);
    setenv("SHUNT_ARENA_SIZE", "3072m", 1);
    setenv("SHUNT_STAGE_SIZE", "three", 1);
    setenv("SHUNT_DEBUG", "WARN", 1);
    setenv("SHUNT_STAGE_CHUNK", "1049600", 1);
    load();
    shunt_conf_each(&conf, check_source, NULL);
    shunt_conf_each(&conf, unset_row, NULL);
    lines_count();
}

int main(void)
{
    load();
    shunt_conf_each(&conf, unset_row, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults, before, after),
        cmocka_unit_test_setup_teardown(test_bool, before, after),
        cmocka_unit_test_setup_teardown(test_size, before, after),
        cmocka_unit_test_setup_teardown(test_count, before, after),
        cmocka_unit_test_setup_teardown(test_word, before, after),
        cmocka_unit_test_setup_teardown(test_text_is_copied, before, after),
        cmocka_unit_test_setup_teardown(test_unknown_names, before, after),
        cmocka_unit_test_setup_teardown(test_errno_is_kept, before, after),
        cmocka_unit_test_setup_teardown(test_rows, before, after),
    };
    int failed = cmocka_run_group_tests_name("conf", tests, NULL, NULL);
    settings_drop(&conf);
    return failed;
}
