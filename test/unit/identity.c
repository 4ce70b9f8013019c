/* SPDX-License-Identifier: BSD-3-Clause */
/* What launchers tell, as they tell it: the job, its size on this node, the ranks. */
#include "base/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/socket.h>

#include "base/conf.h"
#include "test/unit/ranks.h"

static int before(void **state)
{
    (void)state;
    ranks_forget();
    return 0;
}

static void test_none(void **state)
{
    (void)state;
    struct shunt_identity identity;
    assert_int_equal(shunt_identity_find(&identity), SHUNT_PASS);
    setenv("PMI_FD", "1234", 1); /* left over from somebody */
    setenv("SLURM_JOB_ID", "17", 1); /* an allocation, but no step */
    assert_int_equal(shunt_identity_find(&identity), SHUNT_PASS);
}

static void test_openmpi(void **state)
{
    (void)state;
    struct shunt_identity first, second;
    setenv("PMIX_NAMESPACE", "4711", 1);
    setenv("PMIX_SERVER_URI2", "4711.0;tcp4://127.0.0.1:1", 1);
    setenv("OMPI_COMM_WORLD_RANK", "5", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
    assert_int_equal(shunt_identity_find(&first), SHUNT_OK);
    assert_int_equal(first.local_size, 4);
    assert_int_equal(first.local_rank, 1);
    assert_int_equal(first.world_rank, 5);
    assert_int_equal(strlen(first.name), strlen(SHUNT_IDENTITY_PREFIX) + 32);
    setenv("OMPI_COMM_WORLD_RANK", "6", 1);
    assert_int_equal(shunt_identity_find(&second), SHUNT_OK);
    assert_string_equal(first.name, second.name);
    setenv("PMIX_SERVER_URI2", "4711.0;tcp4://127.0.0.1:2", 1);
    assert_int_equal(shunt_identity_find(&second), SHUNT_OK);
    assert_string_not_equal(first.name, second.name);
    setenv("PMIX_SERVER_URI2", "4711.0;tcp4://127.0.0.1:1", 1);
    setenv("PMIX_NAMESPACE", "4712", 1);
    assert_int_equal(shunt_identity_find(&second), SHUNT_OK);
    assert_string_not_equal(first.name, second.name);
}

/* Texts tell the nodes of a machine apart; the machine stays one. */
static void test_node(void **state)
{
    (void)state;
    struct shunt_identity plain, first, second;
    struct shunt_conf conf = *shunt_conf;
    const struct shunt_conf *kept = shunt_conf;
    ranks_be("node", 0, 2);
    assert_int_equal(shunt_identity_find(&plain), SHUNT_OK);
    shunt_conf_use(&conf);
    conf.node = "a";
    assert_int_equal(shunt_identity_find(&first), SHUNT_OK);
    conf.node = "b";
    assert_int_equal(shunt_identity_find(&second), SHUNT_OK);
    shunt_conf_use(kept);
    assert_int_equal(plain.node, 0);
    assert_string_equal(plain.name, plain.machine);
    assert_string_equal(first.machine, plain.machine);
    assert_string_equal(second.machine, plain.machine);
    assert_string_not_equal(first.name, plain.name);
    assert_string_not_equal(first.name, second.name);
    assert_true(first.node && second.node && first.node != second.node);
}

/* The proxy of two ranks is this process, that of a third is another process. */
static void test_hydra(void **state)
{
    (void)state;
    int ends[2], other[2];
    struct shunt_identity first, second;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    /* an outer Open MPI's variables are inherited: they do not tell this job's size and ranks */
    setenv("OMPI_COMM_WORLD_RANK", "9", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1);
    setenv("MPI_LOCALNRANKS", "3", 1);
    setenv("MPI_LOCALRANKID", "2", 1);
    ranks_set("PMI_RANK", 2);
    ranks_set("PMI_FD", ends[0]);
    assert_int_equal(shunt_identity_find(&first), SHUNT_OK);
    assert_int_equal(first.local_size, 3);
    assert_int_equal(first.local_rank, 2);
    assert_int_equal(first.world_rank, 2);
    ranks_set("PMI_FD", ends[1]);
    assert_int_equal(shunt_identity_find(&second), SHUNT_OK);
    assert_string_equal(first.name, second.name);
    /* made by a child, and passed here: its peer is the child */
    int carrier[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, carrier), 0);
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte = 0;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    pid_t pid = fork();
    if (pid == 0) {
        RANK_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, other) == 0);
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &other[0], sizeof(int));
        RANK_CHECK(sendmsg(carrier[1], &message, 0) == 1);
        pause();
    }
    assert_int_equal(recvmsg(carrier[0], &message, 0), 1);
    memcpy(&other[0], CMSG_DATA(&control.header), sizeof(int));
    ranks_set("PMI_FD", other[0]);
    assert_int_equal(shunt_identity_find(&second), SHUNT_OK);
    assert_string_not_equal(first.name, second.name);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(carrier[i]);
    }
    close(other[0]);
}

static void test_slurm(void **state)
{
    (void)state;
    static const struct {
        const char *tasks, *node;
        int size;
    } cases[] = {{"4(x2),3", "0", 4}, {"4(x2),3", "1", 4}, {"4(x2),3", "2", 3}, {"4(x2),3", "3", 0},
                 {"2,16,1", "1", 16}, {"8", "0", 8},      {"", "0", 0},        {"4(x", "1", 0},
                 {"x", "0", 0},       {"4(x0),2", "0", 0}};
    struct shunt_identity identity;
    setenv("SLURM_JOB_ID", "17", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_PROCID", "12", 1);
    setenv("SLURM_LOCALID", "1", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("SLURM_STEP_TASKS_PER_NODE", cases[i].tasks, 1);
        setenv("SLURM_NODEID", cases[i].node, 1);
        assert_int_equal(shunt_identity_find(&identity), SHUNT_OK);
        assert_int_equal(identity.local_size, cases[i].size);
        assert_int_equal(identity.world_rank, 12);
        assert_int_equal(identity.local_rank, 1);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, before)
    const struct CMUnitTest tests[] = {TEST(test_none), TEST(test_openmpi), TEST(test_node), TEST(test_hydra),
                                       TEST(test_slurm)};
    return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
