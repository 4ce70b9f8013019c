/* SPDX-License-Identifier: BSD-3-Clause */
/* Described machines: read, written and read again, refused; who reaches whom, at every level. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/conf.h"
#include "machines.h"

static struct shunt_topo topo, again;

static const struct shunt_topo_limits everything = { .p2p_level = LEVEL_SYS };

static void assert_link(const struct shunt_topo *t, int i, int j, const char *word)
{
    char is[16];

    shunt_link_print(t->links[i][j], is);
    assert_string_equal(is, word);
}

static void append(void *context, const char *piece)
{
    assert_true(strlen(context) + strlen(piece) < 32768);
    strcat(context, piece);
}

static void assert_same_machine(const struct shunt_topo *a, const struct shunt_topo *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->n_nics, b->n_nics);
    assert_int_equal(a->n_nodes, b->n_nodes);
    assert_string_equal(a->title, b->title);
    assert_memory_equal(a->gpus, b->gpus, sizeof a->gpus);
    assert_memory_equal(a->nics, b->nics, sizeof a->nics);
    assert_memory_equal(a->links, b->links, sizeof a->links);
    assert_memory_equal(a->nic_links, b->nic_links, sizeof a->nic_links);
    assert_memory_equal(a->refused, b->refused, sizeof a->refused);
    assert_int_equal(a->switched, b->switched);
}

static void test_all_machines(void **state)
{
    (void)state;
    static char text[32768], error[160];

    for (int m = 0; m < MACHINES; m++) {
        machine_load(machines[m].name, &topo);
        assert_int_equal(topo.n, machines[m].n);
        assert_int_equal(topo.n_nodes, machines[m].nodes);
        text[0] = '\0';
        shunt_topo_write(&topo, append, text);
        if (shunt_topo_parse(text, &again, error) != SHUNT_OK)
            fail_msg("%s: %s\n%s", machines[m].name, error, text);
        /* NICs get the names of columns */
        for (int k = 0; k < topo.n_nics; k++)
            memset(topo.nics[k].name, 0, sizeof topo.nics[k].name), memset(again.nics[k].name, 0, sizeof again.nics[k].name);
        assert_same_machine(&topo, &again);
    }
}

static void test_what_is_read(void **state)
{
    (void)state;
    machine_load("dgx-h100", &topo);
    assert_link(&topo, 0, 7, "NV18");
    assert_link(&topo, 3, 3, "X");
    assert_true(topo.switched);
    assert_int_equal(topo.gpus[5].numa, 1);
    assert_string_equal(topo.gpus[5].pci, "0000:c3:00.0");
    assert_string_equal(topo.gpus[5].name, "NVIDIA H100 80GB HBM3");
    assert_string_equal(topo.gpus[0].cpus, "0-55,112-167");
    assert_int_equal(topo.nic_links[2][2].kind, SHUNT_LINK_PIX);
    assert_int_equal(topo.nic_links[2][7].kind, SHUNT_LINK_SYS);
    assert_string_equal(topo.nics[7].name, "mlx5_7");

    machine_load("smi-a40", &topo);
    assert_link(&topo, 0, 1, "NV4");
    assert_link(&topo, 1, 2, "SYS");
    assert_int_equal(topo.n_nics, 2);
    assert_int_equal(topo.nic_links[3][1].kind, SHUNT_LINK_PHB);
    assert_int_equal(topo.gpus[2].numa, 1);
    assert_false(topo.switched);

    machine_load("nodes-7-8", &topo);
    assert_link(&topo, 6, 7, "NET");
    assert_link(&topo, 7, 14, "NV18");
    assert_int_equal(topo.nics[7].node, 1);
    assert_int_equal(topo.nic_links[0][7].kind, SHUNT_LINK_NET);
    assert_string_equal(topo.node_name[1], "right");
}

#define MATRIX "        GPU0    GPU1    CPU Affinity\nGPU0     X      NV2     N/A\nGPU1    NV2      X      N/A\n"

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "", "no matrix with a GPU" },
        { "# nothing\nmachine x\n", "no matrix with a GPU" },
        { "hello\n", "line 1: not understood: \"hello\"" },
        { "GPU0 GPU1\nGPU0 X PIX\n", "no row has come for GPU number \"1\"" },
        { "GPU0 GPU1\nGPU0 X PIX\nGPU1 PXB X\n", "not symmetric" },
        { "GPU0 GPU1\nGPU0 X NV1\nGPU1 NV2 X\n", "not symmetric" },
        { "GPU0 GPU1\nGPU0 X\n", "line 2: too few links in the row of \"GPU0\"" },
        { "GPU0 GPU1\nGPU0 X FAR\nGPU1 FAR X\n", "line 2: not a link: \"FAR\"" },
        { "GPU0 GPU1\nGPU0 X X\nGPU1 X X\n", "X is for a GPU and itself" },
        { "GPU0 GPU1\nGPU0 PIX PIX\nGPU1 X X\n", "X is for a GPU and itself" },
        { "GPU0 GPU0\n", "a column that cannot be" },
        { MATRIX "GPU2: pci 0000:01:00.0\n", "line 4: there is no column of this name" },
        { MATRIX "GPU1: pci here\n", "line 4: not a PCI address: \"here\"" },
        { MATRIX "GPU1: colour red\n", "not \"colour\"" },
        { MATRIX "p2p perhaps\n", "p2p is yes, no or nvlink" },
        { MATRIX "refused GPU0 GPU7\n", "refused is said of two GPUs" },
        { MATRIX "GPU0 GPU1\n", "a second matrix of the same node" },
    };
    char error[160];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(shunt_topo_parse(cases[i].text, &topo, error), SHUNT_ERR_INVALID);
        if (strstr(error, cases[i].error) == NULL)
            fail_msg("\"%s\" instead of \"%s\"", error, cases[i].error);
    }
    assert_int_equal(shunt_topo_load("/nonexistent/file", &topo, error), SHUNT_ERR_SYSTEM);
    assert_string_equal(error, "No such file or directory");
}

static void test_too_many(void **state)
{
    (void)state;
    static char text[1024];
    char error[160];

    for (int i = 0; i <= SHUNT_TOPO_GPUS; i++)
        sprintf(text + strlen(text), "GPU%d ", i);
    assert_int_equal(shunt_topo_parse(text, &topo, error), SHUNT_ERR_INVALID);
    assert_non_null(strstr(error, "too many GPUs"));
}

/* Whatever is cut off or changed: an answer, and never beyond the arrays (run with sanitizers, too). */
static void test_broken_texts(void **state)
{
    (void)state;
    static char text[32768];
    char error[160];
    unsigned seed = 7;

    for (int m = 0; m < MACHINES; m++) {
        machine_load(machines[m].name, &again);
        text[0] = '\0';
        shunt_topo_write(&again, append, text);
        size_t length = strlen(text);
        for (int round = 0; round < 200; round++) {
            static char broken[32768];
            memcpy(broken, text, length + 1);
            for (int k = 0; k < 3; k++)
                broken[(size_t)rand_r(&seed) % length] = " X\nGPU0:NV_9#\033"[rand_r(&seed) % 14];
            broken[length - (size_t)rand_r(&seed) % 20] = '\0';
            (void)shunt_topo_parse(broken, &topo, error);
            assert_in_range(topo.n, 0, SHUNT_TOPO_GPUS);
        }
    }
}

/* ---- who reaches whom ---- */

static int direct_pairs(const char *name, int level)
{
    const struct shunt_topo_limits limits = { .p2p_level = level };
    const char *why;
    int pairs = 0;

    machine_load(name, &topo);
    for (int i = 0; i < topo.n; i++) {
        for (int j = 0; j < i; j++) {
            enum shunt_via via = shunt_topo_via(&topo, &limits, i, j, &why);
            assert_int_equal(via, shunt_topo_via(&topo, &limits, j, i, &why));
            assert_true(*why);
            pairs += via == SHUNT_VIA_PEER;
        }
    }
    return pairs;
}

static void test_levels(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int pairs[7]; /* LOC NVL PIX PXB PHB NODE SYS */
    } cases[] = {
        { "rtx4090x8-p2p", { 0, 0, 2, 12, 28, 28, 28 } },
        { "rtx4090x8", { 0, 0, 0, 0, 0, 0, 0 } },
        { "pcie8", { 0, 0, 4, 4, 12, 12, 28 } },
        { "dgx-h100", { 0, 28, 28, 28, 28, 28, 28 } },
        { "dgx-1v", { 0, 16, 16, 16, 16, 16, 16 } },
        { "pairs4", { 0, 2, 2, 2, 2, 2, 2 } },
        { "nodes-8-8", { 0, 56, 56, 56, 56, 56, 56 } },
        { "nodes-1-2", { 0, 0, 0, 0, 1, 1, 1 } },
        { "mig2", { 0, 0, 0, 0, 0, 0, 0 } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int level = 0; level < 7; level++)
            if (direct_pairs(cases[i].name, level) != cases[i].pairs[level])
                fail_msg("%s at level %d: %d pairs", cases[i].name, level, direct_pairs(cases[i].name, level));
}

/* The words of the setting are those of the links, in the same order. */
static void find_words(void *context, const struct shunt_conf_row *row, const char *value, const char *source)
{
    (void)source;
    if (strcmp(row->name, "SHUNT_P2P_LEVEL") != 0)
        return;
    assert_string_equal(value, "SYS");
    snprintf(context, 128, "%s", row->allowed);
}

static void test_words_of_level(void **state)
{
    (void)state;
    char allowed[128] = "", words[128] = "";

    shunt_conf_each(shunt_conf, find_words, allowed);
    for (int kind = SHUNT_LINK_LOC; kind <= SHUNT_LINK_SYS; kind++)
        sprintf(words + strlen(words), "%s%s", kind > 0 ? " " : "", shunt_link_word((enum shunt_link_kind)kind));
    assert_string_equal(allowed, words);
    assert_int_equal(LEVEL_SYS, SHUNT_LINK_SYS);
}

static void test_reasons(void **state)
{
    (void)state;
    const struct shunt_topo_limits off = { .p2p_level = LEVEL_SYS, .p2p_disable = true };
    const struct shunt_topo_limits staged = { .p2p_level = LEVEL_SYS, .p2p_disable = true, .shm_disable = true };
    const struct shunt_topo_limits pix = { .p2p_level = LEVEL_PIX };
    const char *why;

    machine_load("rtx4090x8-p2p", &topo);
    assert_int_equal(shunt_topo_via(&topo, &everything, 0, 0, &why), SHUNT_VIA_SELF);
    assert_int_equal(shunt_topo_via(&topo, &off, 0, 1, &why), SHUNT_VIA_SHM);
    assert_string_equal(why, "SHUNT_P2P_DISABLE=1");
    assert_int_equal(shunt_topo_via(&topo, &staged, 0, 1, &why), SHUNT_VIA_HOST);
    assert_string_equal(why, "SHUNT_P2P_DISABLE=1");
    assert_int_equal(shunt_topo_via(&topo, &pix, 1, 2, &why), SHUNT_VIA_SHM);
    assert_string_equal(why, "SHUNT_P2P_LEVEL does not go so far");
    assert_int_equal(shunt_topo_via(&topo, &pix, 6, 7, &why), SHUNT_VIA_PEER);
    machine_load("rtx4090x8", &topo);
    assert_int_equal(shunt_topo_via(&topo, &everything, 0, 1, &why), SHUNT_VIA_SHM);
    assert_string_equal(why, "the driver refuses peer access");
    machine_load("mig2", &topo);
    assert_int_equal(shunt_topo_via(&topo, &everything, 0, 1, &why), SHUNT_VIA_SHM);
    assert_non_null(strstr(why, "MIG"));
    machine_load("nodes-1-2", &topo);
    assert_int_equal(shunt_topo_via(&topo, &everything, 0, 1, &why), SHUNT_VIA_NET);
    /* what nobody tells counts as far */
    assert_false(shunt_link_allowed(SHUNT_LINK_UNKNOWN, LEVEL_NODE));
    assert_true(shunt_link_allowed(SHUNT_LINK_UNKNOWN, LEVEL_SYS));
}

/* ---- telling GPUs apart ---- */

static void test_find_gpu(void **state)
{
    (void)state;
    machine_load("mig2", &topo);
    assert_int_equal(shunt_topo_gpu(&topo, "GPU-5A8D6A1E-9b3f-4b44-8d2e-0c3a1be20002", NULL), 1);
    assert_int_equal(shunt_topo_gpu(&topo, "GPU-5a8d6a1e-9b3f-4b44-8d2e-0c3a1be20003", ""), -1);
    assert_int_equal(shunt_topo_gpu(&topo, "", ""), -1);
    assert_int_equal(shunt_topo_gpu(&topo, NULL, NULL), -1);
    machine_load("nodes-8-8", &topo);
    assert_int_equal(shunt_topo_gpu(&topo, NULL, "00000000:C3:00.0"), 5);
    assert_int_equal(shunt_topo_gpu(&topo, "GPU-unknown", "0000:1B:00.0"), 0);
    assert_int_equal(shunt_topo_gpu(&topo, NULL, "0000:99:00.0"), -1);
}

static void test_pick(void **state)
{
    (void)state;
    const int some[] = { 7, 1, 0 };

    machine_load("rtx4090x8-p2p", &topo);
    shunt_topo_pick(&topo, some, 3, &again);
    assert_int_equal(again.n, 3);
    assert_string_equal(again.gpus[0].pci, topo.gpus[7].pci);
    assert_link(&again, 0, 1, "NODE");
    assert_link(&again, 1, 2, "PIX");
    assert_link(&again, 2, 2, "X");
    assert_int_equal(again.nic_links[0][0].kind, SHUNT_LINK_NODE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_machines), cmocka_unit_test(test_what_is_read), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_too_many),     cmocka_unit_test(test_broken_texts), cmocka_unit_test(test_levels),
        cmocka_unit_test(test_reasons),      cmocka_unit_test(test_find_gpu),     cmocka_unit_test(test_pick),
        cmocka_unit_test(test_words_of_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
