/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines for people: what is shown, how a line looks, where it goes. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#include "base/conf.h"
#include "test/unit/lines.h"
#include "test/unit/settings.h"

static struct shunt_conf conf;
static char host[64];
static char folder[] = "unit-log-XXXXXX";

static void start_log(const char *level, const char *subsystems, const char *file, const char *rank)
{
    static struct shunt_log_state fresh;
    fresh = (struct shunt_log_state){.fd = -1, .rank = -1, .subsystems = ~0u, .file = ""};
    shunt_log_use(&fresh);
    setenv("SHUNT_DEBUG", level, 1);
    setenv("SHUNT_DEBUG_SUBSYS", subsystems, 1);
    setenv("SHUNT_DEBUG_FILE", file, 1);
    setenv("PMIX_RANK", rank, 1);
    settings_drop(&conf);
    shunt_conf_load(&conf);
    shunt_conf_use(&conf);
    shunt_log_start();
}

static int before(void **state)
{
    (void)state;
    lines_start();
    return 0;
}

static int after(void **state)
{
    (void)state;
    lines_stop();
    return 0;
}

static int evaluated;

static int count_evaluation(void)
{
    return ++evaluated;
}

static void test_levels(void **state)
{
    (void)state;
    start_log("off", "all", "", "");
    shunt_warn("cuda", "%d", count_evaluation());
    shunt_warn_once(SHUNT_REASON_NO_IPC, "x");
    assert_int_equal(evaluated, 0);
    assert_string_equal(lines_next(), "");
    start_log("info", "all", "", "");
    shunt_warn("cuda", "a");
    shunt_info("cuda", "b");
    shunt_trace("cuda", "c");
    assert_non_null(strstr(lines_next(), "cuda: a\n"));
    assert_non_null(strstr(lines_next(), "cuda: b\n"));
    assert_string_equal(lines_next(), "");
    start_log("trace", "all", "", "");
    shunt_trace("cuda", "c");
    assert_int_equal(lines_count(), 1);
}

static void test_prefix(void **state)
{
    (void)state;
    char expected[256];
    start_log("info", "all", "", "");
    shunt_info("coll", "%s %d", "text", 7);
    snprintf(expected, sizeof expected, "shunt [%s:%d] coll: text 7\n", host, (int)getpid());
    assert_string_equal(lines_next(), expected);
    shunt_log_set_rank(3);
    shunt_info("coll", "text");
    snprintf(expected, sizeof expected, "shunt [%s:%d rank 3] coll: text\n", host, (int)getpid());
    assert_string_equal(lines_next(), expected);
    shunt_log_report(true, "sum");
    snprintf(expected, sizeof expected, "shunt [%s] sum\n", host);
    assert_string_equal(lines_next(), expected);
    start_log("info", "all", "", "12");
    shunt_info("coll", "text");
    assert_non_null(strstr(lines_next(), " rank 12] "));
}

static void test_long_line(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    start_log("info", "all", "", "");
    shunt_info("coll", "%s", text);
    const char *line = lines_next();
    size_t length = strlen(line);
    assert_int_equal(length, 1024);
    assert_string_equal(line + length - 5, "x...\n");
    assert_string_equal(lines_next(), "");
}

static void test_errno(void **state)
{
    (void)state;
    start_log("info", "all", "/nowhere/at/all", "");
    errno = EDOM;
    shunt_info("coll", "x");
    shunt_log_always("y");
    shunt_log_report(true, "z");
    shunt_warn_once(SHUNT_REASON_TYPE, "w");
    assert_int_equal(errno, EDOM);
    lines_count();
}

static void test_subsystems(void **state)
{
    (void)state;
    start_log("info", "coll,cuda", "", "");
    shunt_info("mpi", "a");
    shunt_info("cuda", "b");
    shunt_info("coll", "c");
    assert_non_null(strstr(lines_next(), "cuda: b\n"));
    assert_non_null(strstr(lines_next(), "coll: c\n"));
    assert_string_equal(lines_next(), "");
    start_log("info", "coll,nonsense", "", "");
    assert_non_null(strstr(lines_next(), "shunt: SHUNT_DEBUG_SUBSYS=coll,nonsense refused (allowed: all front "));
    shunt_info("mpi", "a");
    assert_int_equal(lines_count(), 1);
    start_log("info", "mpi,all", "", "");
    shunt_info("cuda", "a");
    assert_int_equal(lines_count(), 1);
}

static void test_once(void **state)
{
    (void)state;
    start_log("warn", "all", "", "");
    shunt_warn_once(SHUNT_REASON_NO_IPC, "device %d", 0);
    shunt_warn_once(SHUNT_REASON_NO_IPC, "device %d", 1);
    assert_non_null(strstr(lines_next(), "] the driver refused CUDA IPC: device 0\n"));
    shunt_warn_once(SHUNT_REASON_NO_P2P, "x");
    assert_non_null(strstr(lines_next(), shunt_reason_text(SHUNT_REASON_NO_P2P)));
    assert_string_equal(lines_next(), "");
}

static void test_always(void **state)
{
    (void)state;
    start_log("off", "all", "", "");
    shunt_log_always("count %d", 1);
    shunt_log_always("count %d", 1);
    shunt_log_always("count %d", 2);
    assert_string_equal(lines_next(), "shunt: count 1\n");
    assert_string_equal(lines_next(), "shunt: count 2\n");
    assert_string_equal(lines_next(), "");
    for (int i = 0; i < 1000; i++)
        shunt_log_always("flood %d", i);
    assert_int_equal(lines_count(), SHUNT_LOG_LINES - 2);
}

static void test_help(void **state)
{
    (void)state;
    start_log("help", "all", "", "1");
    assert_string_equal(lines_next(), "");
    start_log("help", "all", "", "0");
    char all[8192] = "";
    for (const char *line; *(line = lines_next());)
        strncat(all, line, sizeof all - strlen(all) - 1);
#define X(word, about)                                                                             \
    assert_non_null(strstr(all, #word));                                                           \
    assert_non_null(strstr(all, about));
    SHUNT_SUBSYSTEMS(X)
#undef X
    assert_non_null(strstr(all, "trace"));
    shunt_warn("coll", "x");
    assert_string_equal(lines_next(), "");
}

/* ---- SHUNT_DEBUG_FILE ---- */

static size_t read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    return strlen(text);
}

static void test_file(void **state)
{
    (void)state;
    char pattern[256], path[256], text[1024];
    snprintf(pattern, sizeof pattern, "%s/%%h.%%p.%%r.%%%%.%%q", folder);
    start_log("info", "all", pattern, "5");
    snprintf(path, sizeof path, "%s/%s.%d.5.%%.%%q", folder, host, (int)getpid());
    assert_int_not_equal(access(path, F_OK), 0); /* opened by the first line only */
    shunt_info("coll", "one");
    shunt_log_always("two");
    assert_string_equal(lines_next(), "");
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "coll: one\nshunt: two\n"));
    assert_true(fcntl(shunt_log->fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(shunt_log->fd, F_GETFL) & O_APPEND);
    close(shunt_log->fd);
}

/* An application that closes all descriptors and opens its own file under our number. */
static void test_file_descriptor_taken(void **state)
{
    (void)state;
    char path[256], other[256], text[1024];
    snprintf(path, sizeof path, "%s/lines", folder);
    snprintf(other, sizeof other, "%s/data", folder);
    start_log("info", "all", path, "");
    shunt_info("coll", "one");
    int number = shunt_log->fd;
    close(number);
    int data = open(other, O_RDWR | O_CREAT, 0600);
    assert_int_equal(data, number);
    shunt_info("coll", "two");
    assert_int_equal(read_file(other, text, sizeof text), 0);
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "coll: one\n"));
    assert_non_null(strstr(text, "coll: two\n"));
    assert_int_not_equal(fcntl(data, F_GETFD), -1);
    close(data);
    close(shunt_log->fd);
}

static void test_file_refused(void **state)
{
    (void)state;
    start_log("info", "all", "/nowhere/at/all", "");
    shunt_info("coll", "one");
    shunt_info("coll", "two");
    assert_non_null(strstr(lines_next(), "shunt: cannot write to SHUNT_DEBUG_FILE /nowhere/at/all (No such file"));
    assert_non_null(strstr(lines_next(), "coll: one\n"));
    assert_non_null(strstr(lines_next(), "coll: two\n"));
    assert_string_equal(lines_next(), "");
}

/* ---- threads ---- */

enum { THREADS = 4, LINES = 500 };

static void *say_lines(void *argument)
{
    for (int i = 0; i < LINES; i++)
        shunt_info("coll", "thread %d line %d end", *(int *)argument, i);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/threads", folder);
    start_log("info", "all", path, "");
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, say_lines, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    FILE *file = fopen(path, "r");
    char line[256];
    int next[THREADS] = {0};
    while (fgets(line, sizeof line, file)) {
        int thread, number;
        assert_int_equal(sscanf(strstr(line, "] "), "] coll: thread %d line %d end", &thread, &number), 2);
        assert_int_equal(number, next[thread]++);
    }
    fclose(file);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(next[i], LINES);
    close(shunt_log->fd);
}

int main(void)
{
    gethostname(host, sizeof host);
    host[strcspn(host, ".")] = '\0';
    if (!mkdtemp(folder))
        return 1;
    static const char *const launcher[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_FD", "SLURM_PROCID"};
    setenv("PMIX_NAMESPACE", "a job", 1);
    for (size_t i = 0; i < sizeof launcher / sizeof launcher[0]; i++)
        unsetenv(launcher[i]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_levels, before, after),
        cmocka_unit_test_setup_teardown(test_prefix, before, after),
        cmocka_unit_test_setup_teardown(test_long_line, before, after),
        cmocka_unit_test_setup_teardown(test_errno, before, after),
        cmocka_unit_test_setup_teardown(test_subsystems, before, after),
        cmocka_unit_test_setup_teardown(test_once, before, after),
        cmocka_unit_test_setup_teardown(test_always, before, after),
        cmocka_unit_test_setup_teardown(test_help, before, after),
        cmocka_unit_test_setup_teardown(test_file, before, after),
        cmocka_unit_test_setup_teardown(test_file_descriptor_taken, before, after),
        cmocka_unit_test_setup_teardown(test_file_refused, before, after),
        cmocka_unit_test_setup_teardown(test_threads, before, after),
    };
    int failed = cmocka_run_group_tests_name("log", tests, NULL, NULL);
    settings_drop(&conf);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return failed || system(command) != 0;
}
