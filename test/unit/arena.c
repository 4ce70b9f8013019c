/* SPDX-License-Identifier: BSD-3-Clause */
/* The arena: who joins whom, who is in, who lives, what is left behind. Processes and views stand for ranks. */
#include "base/clock.h"
#include "base/board.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/conf.h"
#include "base/log.h"
#include "test/unit/ranks.h"

static struct shunt_conf conf;

/* Shared by the processes of a test. */
static struct scene {
    _Atomic int step, ready;
    pid_t pid[16];
} *scene;

static int before(void **state)
{
    (void)state;
    ranks_forget();
    conf = *shunt_conf;
    conf.arena_size = 8 << 20;
    shunt_conf_use(&conf);
    scene = mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return scene == MAP_FAILED;
}

static int after(void **state)
{
    (void)state;
    munmap(scene, sizeof *scene);
    ranks_forget();
    return 0;
}

static void nap(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void meet(_Atomic int *count, int n)
{
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < n)
        nap(1);
}

static int open_files(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n;
}

/* ---- joining and sealing ---- */

static void test_no_launcher(void **state)
{
    (void)state;
    struct shunt_arena *arena = (void *)1;
    assert_int_equal(shunt_arena_join(&arena), SHUNT_PASS);
    assert_null(arena);
}

static void join_and_look(int rank, void *context)
{
    const int n = *(int *)context;
    struct shunt_arena *arena;
    RANK_CHECK(shunt_arena_join(&arena) == SHUNT_OK);
    *(int *)shunt_arena_card(arena, shunt_arena_self(arena)) = 100 + rank;
    meet(&scene->step, n);
    shunt_arena_set_world(arena, rank, n);
    shunt_arena_seal(arena);
    shunt_arena_seal(arena);
    RANK_CHECK(shunt_arena_local_size(arena) == n);
    for (int i = 0; i < n; i++) {
        int slot = shunt_arena_slot(arena, i);
        RANK_CHECK(slot >= 0 && slot < n);
        RANK_CHECK(*(int *)shunt_arena_card(arena, slot) == 100 + i);
        RANK_CHECK(((uintptr_t)shunt_arena_card(arena, slot) & 127) == 0);
        RANK_CHECK(shunt_arena_stats(arena, slot) != NULL);
        RANK_CHECK(shunt_arena_alive(arena, slot));
    }
    RANK_CHECK(shunt_arena_slot(arena, rank) == shunt_arena_self(arena));
    RANK_CHECK(shunt_arena_slot(arena, n) == -1 && shunt_arena_slot(arena, -1) == -1);
    RANK_CHECK(shunt_arena_stats(arena, n) == NULL);
    RANK_CHECK(access(arena->path, F_OK) != 0); /* sealed: the file is gone */
    meet(&scene->ready, n);
    shunt_arena_leave(arena);
}

/* All come at the same moment, many times: there is only ever one arena. */
static void test_join_together(void **state)
{
    (void)state;
    int n = 8;
    for (int turn = 0; turn < 20; turn++) {
        char job[32];
        snprintf(job, sizeof job, "together%d", turn);
        scene->step = scene->ready = 0;
        assert_true(ranks_run(job, n, join_and_look, &n));
        assert_int_equal(ranks_files(job), 0);
    }
}

/* Nobody waits for a rank that never comes longer than a second, and all know that it is not there. */
static void test_seal_missing(void **state)
{
    (void)state;
    struct shunt_arena *a = ranks_view("missing", 0, 3), *b = ranks_view("missing", 1, 3);
    shunt_arena_set_world(a, 0, 3);
    shunt_arena_set_world(b, 1, 3);
    double start = shunt_seconds();
    shunt_arena_seal(a);
    shunt_arena_seal(b);
    double took = shunt_seconds() - start;
    assert_true(took > 0.9 && took < 2.0);
    assert_int_equal(shunt_arena_slot(a, 2), -1);
    assert_int_equal(shunt_arena_slot(b, 2), -1);
    assert_int_equal(shunt_arena_slot(a, 1), shunt_arena_self(b));
    /* it comes after all: it is alone, and for all others still not there */
    struct shunt_arena *late = ranks_view("missing", 2, 3);
    shunt_arena_set_world(late, 2, 3);
    shunt_arena_seal(late);
    assert_int_equal(shunt_arena_slot(late, 0), -1);
    assert_int_equal(shunt_arena_slot(late, 2), shunt_arena_self(late));
    assert_int_equal(shunt_arena_slot(a, 2), -1);
    shunt_arena_leave(a);
    shunt_arena_leave(b);
    shunt_arena_leave(late);
    assert_int_equal(ranks_files("missing"), 0);
}

/* A launcher that does not tell world ranks: only those whose rank is known in time are in. */
static void test_seal_rank_later(void **state)
{
    (void)state;
    struct shunt_arena *a = ranks_view("later", -1, 3), *b = ranks_view("later", -1, 3), *c = ranks_view("later", -1, 3);
    shunt_arena_set_world(a, 0, 3);
    shunt_arena_set_world(b, 1, 3);
    shunt_arena_seal(a);
    shunt_arena_set_world(c, 2, 3); /* too late */
    shunt_arena_seal(c);
    assert_int_equal(shunt_arena_slot(a, 1), shunt_arena_self(b));
    assert_int_equal(shunt_arena_slot(a, 2), -1);
    assert_int_equal(shunt_arena_slot(c, 2), -1);
    assert_int_equal(shunt_arena_slot(c, 0), shunt_arena_self(a));
    shunt_arena_leave(a);
    shunt_arena_leave(b);
    shunt_arena_leave(c);
}

/* Inherited variables of another launcher: then nobody is anybody, on all ranks. */
static void test_wrong_rank(void **state)
{
    (void)state;
    struct shunt_arena *a = ranks_view("wrong", 0, 2), *b = ranks_view("wrong", 1, 2);
    shunt_arena_set_world(a, 0, 2);
    shunt_arena_seal(a);
    assert_int_equal(shunt_arena_slot(a, 1), shunt_arena_self(b));
    shunt_arena_set_world(b, 0, 2);
    shunt_arena_seal(b);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(shunt_arena_slot(a, rank), -1);
        assert_int_equal(shunt_arena_slot(b, rank), -1);
    }
    shunt_arena_leave(a);
    shunt_arena_leave(b);
    a = ranks_view("twice", 1, 2);
    b = ranks_view("twice", 1, 2);
    shunt_arena_set_world(a, 1, 2);
    shunt_arena_seal(a);
    assert_int_equal(shunt_arena_slot(a, 1), -1);
    shunt_arena_leave(a);
    shunt_arena_leave(b);
}

static void test_channels(void **state)
{
    (void)state;
    struct shunt_arena *a = ranks_view("channels", 0, 3), *b = ranks_view("channels", 1, 3);
    assert_false(shunt_arena_device_used(a));
    assert_int_equal(shunt_arena_set_device_used(b), 0);
    assert_true(shunt_arena_device_used(a));
    assert_int_equal(shunt_arena_set_device_used(a), 1);
    assert_int_equal(shunt_arena_set_device_used(b), 0);
    shunt_arena_leave(a);
    shunt_arena_leave(b);
}

/* More than announced: no slot, no harm. */
static void test_too_many(void **state)
{
    (void)state;
    struct shunt_arena *a = ranks_view("many", 0, 1), *b;
    ranks_be("many", 1, 1);
    assert_int_equal(shunt_arena_join(&b), SHUNT_ERR_LIMIT);
    assert_null(b);
    shunt_arena_leave(a);
    assert_int_equal(ranks_files("many"), 0);
}

/* ---- what is left behind ---- */

static void test_leave_unsealed(void **state)
{
    (void)state;
    int files = open_files();
    errno = 77;
    struct shunt_arena *a = ranks_view("unsealed", 0, 3), *b = ranks_view("unsealed", 1, 3);
    assert_int_equal(errno, 77);
    assert_int_equal(ranks_files("unsealed"), 1);
    struct stat info;
    assert_int_equal(stat(a->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    shunt_arena_leave(a);
    assert_int_equal(ranks_files("unsealed"), 1);
    shunt_arena_leave(b);
    assert_int_equal(errno, 77);
    assert_int_equal(ranks_files("unsealed"), 0);
    assert_int_equal(open_files(), files);
    shunt_arena_leave(NULL);
}

static void join_and_hang(int rank, void *context)
{
    (void)context;
    struct shunt_arena *arena;
    RANK_CHECK(shunt_arena_join(&arena) == SHUNT_OK);
    atomic_fetch_add(&scene->ready, 1);
    if (rank >= 0)
        pause();
}

static pid_t start_hanging(const char *job, int rank, int local_size)
{
    int ready = scene->ready;
    pid_t pid = ranks_start(job, rank, local_size, join_and_hang, NULL);
    while (scene->ready == ready)
        nap(1);
    return pid;
}

static void kill_rank(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Killed before sealing: the file stays, and the next start replaces it, of this job or of any other. */
static void test_stale(void **state)
{
    (void)state;
    kill_rank(start_hanging("stale", 0, 2));
    assert_int_equal(ranks_files("stale"), 1);
    struct shunt_arena *a = ranks_view("stale", 0, 2), *b = ranks_view("stale", 1, 2);
    assert_int_equal(shunt_arena_self(a), 0);
    shunt_arena_set_world(a, 0, 2);
    shunt_arena_set_world(b, 1, 2);
    shunt_arena_seal(a);
    shunt_arena_seal(b);
    assert_int_equal(shunt_arena_slot(a, 1), shunt_arena_self(b));
    shunt_arena_leave(a);
    shunt_arena_leave(b);
    kill_rank(start_hanging("stale", 0, 2));
    assert_int_equal(ranks_files("stale"), 1);
    a = ranks_view("another", 0, 1);
    shunt_arena_set_world(a, 0, 1);
    shunt_arena_seal(a);
    shunt_arena_leave(a);
    assert_int_equal(ranks_files("another"), 0);
}

/* The one that made the file is dead, another of the job is not: the arena is theirs still. */
static void test_not_stale(void **state)
{
    (void)state;
    pid_t first = start_hanging("notstale", 0, 3), second = start_hanging("notstale", 1, 3);
    kill_rank(first);
    struct shunt_arena *a = ranks_view("notstale", 2, 3);
    assert_int_equal(shunt_arena_self(a), 2);
    assert_false(shunt_arena_alive(a, 0));
    assert_true(shunt_arena_alive(a, 1));
    assert_true(shunt_arena_alive(a, 2));
    kill_rank(second);
    assert_false(shunt_arena_alive(a, 1));
    shunt_arena_leave(a);
    assert_int_equal(ranks_files("notstale"), 0);
}

/* Not ours to touch: a folder, a link, a file that others may write, one of another version. */
static void test_foreign_file(void **state)
{
    (void)state;
    struct shunt_identity identity;
    struct shunt_arena *arena;
    char path[64];
    ranks_be("foreign", 0, 1);
    assert_int_equal(shunt_identity_find(&identity), SHUNT_OK);
    snprintf(path, sizeof path, "/dev/shm/%s", identity.name);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(shunt_arena_join(&arena), SHUNT_ERR_SYSTEM);
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    fchmod(fd, 0666);
    assert_int_equal(shunt_arena_join(&arena), SHUNT_ERR_SYSTEM);
    fchmod(fd, 0600);
    assert_int_equal(shunt_arena_join(&arena), SHUNT_ERR_SYSTEM);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(shunt_arena_join(&arena), SHUNT_ERR_SYSTEM);
    unlink(path);
    close(fd);
}

/* ---- life and death ---- */

static void leave_and_end(int rank, void *context)
{
    (void)rank;
    (void)context;
    struct shunt_arena *arena;
    RANK_CHECK(shunt_arena_join(&arena) == SHUNT_OK);
    scene->ready = 1;
    while (scene->step != 1)
        nap(1);
    shunt_arena_leave(arena);
    scene->ready = 2;
    while (scene->step != 2)
        nap(1);
}

/* Whoever left in order is no failure, also when it has ended. */
static void test_left_in_order(void **state)
{
    (void)state;
    struct shunt_arena *a = ranks_view("inorder", 0, 2);
    pid_t pid = ranks_start("inorder", 1, 2, leave_and_end, NULL);
    while (scene->ready != 1)
        nap(1);
    assert_true(shunt_arena_alive(a, 1));
    assert_false(shunt_arena_gone(a, 1));
    scene->step = 1;
    while (scene->ready != 2)
        nap(1);
    assert_true(shunt_arena_gone(a, 1));
    scene->step = 2;
    assert_true(ranks_end(pid));
    assert_true(shunt_arena_alive(a, 1));
    shunt_arena_leave(a);
}

/* A zombie has ended; a stopped process has not. */
static void test_zombie(void **state)
{
    (void)state;
    struct shunt_arena *a = ranks_view("zombie", 0, 2);
    pid_t pid = start_hanging("zombie", 1, 2);
    kill(pid, SIGSTOP);
    nap(20);
    assert_true(shunt_arena_alive(a, 1));
    kill(pid, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_false(shunt_arena_alive(a, 1));
    waitpid(pid, NULL, 0);
    assert_false(shunt_arena_alive(a, 1));
    shunt_arena_leave(a);
}

/* The program closes descriptors that it does not know, and gets the numbers for its own files. */
static void test_closed_descriptors(void **state)
{
    (void)state;
    struct shunt_arena *a = ranks_view("closed", 0, 2);
    pid_t pid = start_hanging("closed", 1, 2);
    assert_true(shunt_arena_alive(a, 1));
    int watched = a->watch[1].fd - 1;
    assert_true(watched > 2);
    close(watched);
    assert_true(shunt_arena_alive(a, 1)); /* opens another, of the same number or not */
    watched = a->watch[1].fd - 1;
    int own[2];
    assert_int_equal(pipe(own), 0);
    dup2(own[0], watched);
    assert_int_equal(write(own[1], "x", 1), 1); /* readable, as the descriptor of an ended process is */
    a->watch[1].ended = false;
    assert_true(shunt_arena_alive(a, 1));
    dup2(own[0], a->watch[1].fd - 1);
    int kept = a->watch[1].fd - 1;
    shunt_arena_leave(a);
    assert_int_equal(fcntl(kept, F_GETFD), 0); /* the program's, not ours to close */
    close(kept);
    close(own[0]);
    close(own[1]);
    kill_rank(pid);
}

/* A fork child that leaves (by its atexit, say) does not take its parent along. */
static void test_fork_child(void **state)
{
    (void)state;
    struct shunt_arena *a = ranks_view("fork", 0, 2), *b = ranks_view("fork", 1, 2);
    pid_t pid = fork();
    if (pid == 0) {
        shunt_arena_leave(a);
        _exit(0);
    }
    assert_true(ranks_end(pid));
    assert_false(shunt_arena_gone(b, shunt_arena_self(a)));
    assert_int_equal(ranks_files("fork"), 1);
    shunt_arena_leave(a);
    shunt_arena_leave(b);
}

/* ---- limits ---- */

static void test_too_small(void **state)
{
    (void)state;
    struct shunt_arena *arena;
    conf.arena_size = 64 << 10;
    ranks_be("small", 0, 8);
    assert_int_equal(shunt_arena_join(&arena), SHUNT_ERR_MEMORY);
    conf.arena_size = 0;
    assert_int_equal(shunt_arena_join(&arena), SHUNT_ERR_MEMORY);
    conf.arena_size = 352 << 10;
    assert_int_equal(shunt_arena_join(&arena), SHUNT_OK);
    shunt_arena_leave(arena);
    assert_int_equal(ranks_files("small"), 0);
}

/* 0: it went as it should */
static int join_limited(int what)
{
    struct shunt_arena *arena;
    ranks_be("limited", 0, 2);
    rlim_t most = 1 << 20;
    if (what == RLIMIT_AS) {
        FILE *file = fopen("/proc/self/statm", "r");
        unsigned long pages = 0;
        if (!file || fscanf(file, "%lu", &pages) != 1)
            return 1;
        fclose(file);
        most += pages * (rlim_t)sysconf(_SC_PAGESIZE);
    }
    if (setrlimit((__rlimit_resource_t)what, &(struct rlimit){most, most}))
        return 2;
    return shunt_arena_join(&arena) == SHUNT_ERR_MEMORY && !arena && ranks_files("limited") == 0 ? 0 : 3;
}

/* Limits of the process: no signal, no file left. */
static void test_limits(void **state)
{
    (void)state;
    static const int limits[] = {RLIMIT_FSIZE, RLIMIT_AS};
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(join_limited(limits[i]));
        assert_true(ranks_end(pid));
    }
}

/* 9: no permission to mount */
static int join_full(void)
{
    struct shunt_arena *arena;
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/dev/shm", "tmpfs", 0, "size=2m"))
        return 9;
    conf.arena_size = 8 << 20;
    ranks_be("full", 0, 2);
    if (shunt_arena_join(&arena) != SHUNT_ERR_MEMORY || arena)
        return 1;
    if (ranks_files("full"))
        return 2;
    /* what is there is enough, and is really there: nothing else fits any more */
    conf.arena_size = 2 << 20;
    if (shunt_arena_join(&arena) != SHUNT_OK)
        return 3;
    int fd = open("/dev/shm/other", O_RDWR | O_CREAT, 0600);
    if (fd < 0 || fallocate(fd, 0, 0, 64 << 10) == 0)
        return 4;
    memset(arena->shared + 1, 0, arena->bytes - sizeof *arena->shared);
    shunt_arena_leave(arena);
    return ranks_files("full") ? 5 : 0;
}

static void test_full(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(join_full());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 9)
        skip(); /* not root */
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)
    const struct CMUnitTest tests[] = {
        TEST(test_no_launcher), TEST(test_join_together), TEST(test_seal_missing), TEST(test_seal_rank_later), TEST(test_wrong_rank),
        TEST(test_channels), TEST(test_too_many), TEST(test_leave_unsealed), TEST(test_stale), TEST(test_not_stale),
        TEST(test_foreign_file), TEST(test_left_in_order), TEST(test_zombie), TEST(test_closed_descriptors),
        TEST(test_fork_child), TEST(test_too_small), TEST(test_limits), TEST(test_full),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
