/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine in words: links, who reaches whom, rings, trees, estimates, and what follows for collectives. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/topo_view.h"

/* Ranks of one node that a collective on the GPUs can have, see doc/design.md */
#define MOST_RANKS 16

/* ---- the view ---- */

const char *topo_algo_word(enum shunt_algo_name name)
{
    static const char *const words[] = {
#define X(name) #name,
        SHUNT_ALGO_NAMES(X)
#undef X
        "staged",
    };
    return words[name];
}

void topo_gpu_word(const struct shunt_topo *machine, int gpu, char word[64])
{
    int node = machine->gpus[gpu].node, first = 0;

    while (machine->gpus[first].node != node)
        first++;
    if (machine->n_nodes == 1)
        snprintf(word, 64, "GPU%d", gpu);
    else if (*machine->node_name[node])
        snprintf(word, 64, "%s:GPU%d", machine->node_name[node], gpu - first);
    else
        snprintf(word, 64, "%d:GPU%d", node, gpu - first);
}

static bool reaches(const struct topo_view *view, int i, int j)
{
    const char *why;

    return shunt_topo_via(&view->machine, &view->limits, i, j, &why) <= SHUNT_VIA_SHM;
}

/* Each GPU joins the first group of which it reaches all. */
static void find_groups(struct topo_view *view)
{
    view->n_groups = 0;
    for (int i = 0; i < view->machine.n; i++) {
        int group = 0;
        for (bool fits = false; group < view->n_groups && !fits; group += !fits) {
            fits = true;
            for (int j = 0; j < i; j++)
                fits &= view->group[j] != group || reaches(view, i, j);
        }
        view->group[i] = group;
        view->n_groups += group == view->n_groups;
    }
}

void topo_view_make(struct topo_view *view)
{
    view->n_rings = shunt_topo_rings(&view->machine, &view->limits, view->rings);
    shunt_trees_make(view->rings[0].order, view->machine.n, view->trees);
    find_groups(view);
    topo_choose(view);
}

/* ---- parts of the text ---- */

/* Moved in by two, without the title, which has been said. */
static void put(void *context, const char *piece)
{
    (void)context;
    if (strncmp(piece, "machine ", strlen("machine ")) == 0)
        return;
    for (; *piece; piece++) {
        static bool inside;
        if (!inside)
            printf("  ");
        inside = *piece != '\n';
        putchar(*piece);
    }
}

__attribute__((format(printf, 2, 3))) static void print_line(const char *name, const char *format, ...)
{
    va_list arguments;

    printf("  %-12s ", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

static void print_size(uint64_t bytes, char text[16])
{
    const char *unit = bytes >= 1u << 30 ? "GiB" : bytes >= 1u << 20 ? "MiB" : bytes >= 1u << 10 ? "KiB" : "B";
    uint64_t one = bytes >= 1u << 30 ? 1u << 30 : bytes >= 1u << 20 ? 1u << 20 : bytes >= 1u << 10 ? 1u << 10 : 1;

    snprintf(text, 16, "%llu %s", (unsigned long long)(bytes / one), unit);
}

static void print_machine(const struct shunt_topo *machine)
{
    printf("Machine\n");
    if (*machine->title)
        print_line("what", "%s", machine->title);
    print_line("from", "%s", machine->source);
    print_line("GPUs", "%d on %d node%s", machine->n, machine->n_nodes, machine->n_nodes == 1 ? "" : "s");
    if (machine->n == 0) {
        printf("\nNVML tells of no GPU here. --from FILE shows a described machine.\n");
        return;
    }
    printf("\nLinks\n");
    shunt_topo_write(machine, put, NULL);
    printf("\n");
    for (int kind = SHUNT_LINK_NVL; kind <= SHUNT_LINK_NET; kind++) {
        bool there = false;
        for (int i = 0; i < machine->n; i++)
            for (int j = 0; j < machine->n; j++)
                there |= machine->links[i][j].kind == kind;
        if (there)
            print_line(kind == SHUNT_LINK_NVL ? "NV#" : shunt_link_word((enum shunt_link_kind)kind), "%s%s",
                       shunt_link_text((enum shunt_link_kind)kind),
                       kind == SHUNT_LINK_NVL && machine->switched ? " (here by NVSwitches)" : "");
    }
}

/* ---- who reaches whom ---- */

static void print_ways(const struct topo_view *view)
{
    const struct shunt_topo *machine = &view->machine;
    char word[64], other[64];

    printf("\nWays between GPUs (SHUNT_P2P_LEVEL=%s%s)\n",
           shunt_link_word((enum shunt_link_kind)view->limits.p2p_level),
           view->limits.p2p_disable ? ", SHUNT_P2P_DISABLE=1" : "");
    for (int i = 0; i < machine->n; i++) {
        for (int j = i + 1; j < machine->n; j++) {
            const char *why, *before = NULL;
            enum shunt_via via = shunt_topo_via(machine, &view->limits, i, j, &why);
            if (j > i + 1 && shunt_topo_via(machine, &view->limits, i, j - 1, &before) == via && before == why &&
                !memcmp(&machine->links[i][j], &machine->links[i][j - 1], sizeof machine->links[i][j]))
                continue; /* said with the one before */
            int last = j;
            while (last + 1 < machine->n &&
                   shunt_topo_via(machine, &view->limits, i, last + 1, &before) == via && before == why &&
                   !memcmp(&machine->links[i][j], &machine->links[i][last + 1], sizeof machine->links[i][j]))
                last++;
            topo_gpu_word(machine, i, word);
            topo_gpu_word(machine, j, other);
            printf("  %s - %s", word, other);
            if (last > j) {
                topo_gpu_word(machine, last, other);
                printf("..%s", other);
            }
            shunt_link_print(machine->links[i][j], word);
            printf(": %s, about %.0f GB/s (%s: %s)\n", shunt_via_word(via),
                   shunt_topo_width(machine, &view->limits, i, j) / 1000.0, word, why);
        }
    }
}

/* ---- rings and trees ---- */

static void print_order(const struct topo_view *view, const uint8_t *order)
{
    char word[64];

    for (int i = 0; i < view->machine.n; i++) {
        topo_gpu_word(&view->machine, order[i], word);
        printf("%s%s", i ? " - " : "", word);
    }
}

static void print_rings(const struct topo_view *view)
{
    printf("\nRings\n");
    for (int r = 0; r < view->n_rings; r++) {
        const struct shunt_ring *ring = &view->rings[r];
        printf("  ");
        print_order(view, ring->order);
        printf(": %.0f GB/s%s", ring->width / 1000.0, ring->both ? " each way" : "");
        if (ring->lanes > 0)
            printf(", %d NVLink%s at each hop%s", ring->lanes, ring->lanes > 1 ? "s" : "",
                   view->n_rings > 1 ? ", no other ring's" : "");
        printf("\n");
    }
    if (view->machine.n > SHUNT_TOPO_EXACT)
        printf("  (of more than %d GPUs a good ring, perhaps not the best)\n", SHUNT_TOPO_EXACT);
}

static void print_below(const struct topo_view *view, const struct shunt_tree *tree, int at, int depth)
{
    char word[64];

    topo_gpu_word(&view->machine, at, word);
    printf("  %*s%s\n", 4 * depth, "", word);
    for (int c = 0; c < 2; c++)
        if (tree->child[at][c] != SHUNT_TREE_NONE)
            print_below(view, tree, tree->child[at][c], depth + 1);
}

static void print_trees(const struct topo_view *view)
{
    for (int t = 0; t < 2; t++) {
        printf("\nTree %d (each GPU has children in one of the two at most)\n", t + 1);
        print_below(view, &view->trees[t], view->trees[t].root, 0);
    }
}

static void print_leaders(const struct topo_view *view)
{
    const struct shunt_topo *machine = &view->machine;
    char word[64];

    if (machine->n_nics == 0 && machine->n_nodes == 1)
        return;
    printf("\nNICs\n");
    for (int i = 0; i < machine->n; i++) {
        int nic = shunt_topo_nic(machine, i);
        topo_gpu_word(machine, i, word);
        print_line(word, "%s%s%s%s", nic >= 0 ? machine->nics[nic].name : "none",
                   nic >= 0 ? ", " : "", nic >= 0 ? shunt_link_word(machine->nic_links[i][nic].kind) : "",
                   shunt_topo_leader(machine, machine->gpus[i].node) == i ? ", speaks for the node" : "");
    }
}

/* ---- estimates and the outcome ---- */

static void print_choices(const struct topo_view *view)
{
    char size[16];

    printf("\nAllreduce of all GPUs: what this version does, if nothing hinders it, and what a model with measured constants says\n"
           "  %-8s %-9s %-7s %-19s %10s %8s  %s\n", "", "algorithm", "flags", "by", "us", "GB/s", "why");
    for (int k = 0; k < view->n_choices; k++) {
        const struct topo_choice *choice = &view->choices[k];
        print_size(choice->bytes, size);
        printf("  %-8s %-9s %-7s %-19s %10.1f %8.2f  %s\n", size, topo_algo_word(choice->name), choice->proto, choice->via,
               choice->us, (double)choice->bytes / choice->us / 1e3, choice->why);
    }
}

static void print_estimates(const struct topo_view *view)
{
    static const enum shunt_algo_name names[] = { SHUNT_NAME_oneshot, SHUNT_NAME_twoshot, SHUNT_NAME_ring,
                                                  SHUNT_NAME_tree, SHUNT_NAME_staged };
    char size[16];

    print_choices(view);
    printf("\nThe same by each algorithm, microseconds by the model\n  %-10s", "");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        printf("%12s", topo_algo_word(names[i]));
    printf("\n");
    for (uint64_t bytes = 8; bytes <= 1u << 30; bytes *= 8) {
        print_size(bytes, size);
        printf("  %-10s", size);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            double us = shunt_topo_estimate(&view->machine, &view->limits, view->rings, view->n_rings, names[i], bytes);
            if (isinf(us))
                printf("%12s", "-");
            else
                printf("%12.1f", us);
        }
        printf("\n");
    }
}

/* The first pair with a worse way than this, with its reason. */
static bool find_worse(const struct topo_view *view, enum shunt_via via, int *i, int *j, const char **why)
{
    for (*i = 0; *i < view->machine.n; ++*i)
        for (*j = *i + 1; *j < view->machine.n; ++*j)
            if (shunt_topo_via(&view->machine, &view->limits, *i, *j, why) > via)
                return true;
    return false;
}

static void print_group(const struct topo_view *view, int group)
{
    char word[64];
    int members = 0;

    for (int i = 0; i < view->machine.n; i++) {
        if (view->group[i] != group)
            continue;
        topo_gpu_word(&view->machine, i, word);
        printf("%s%s", members++ ? " " : "  on the GPUs:  ", word);
    }
    printf("%s\n", members > MOST_RANKS ? " (16 ranks at a time)" : "");
}

static int size_of(const struct topo_view *view, int group)
{
    int n = 0;

    for (int i = 0; i < view->machine.n; i++)
        n += view->group[i] == group;
    return n;
}

static void print_on_gpus(const struct topo_view *view)
{
    char word[64], other[64];
    const char *why;
    int i, j;

    if (find_worse(view, SHUNT_VIA_PEER, &i, &j, &why)) {
        topo_gpu_word(&view->machine, i, word);
        topo_gpu_word(&view->machine, j, other);
        print_line("on the GPUs", "collectives of all %d; those that do not reach each other meet in host memory (SHM)",
                   view->machine.n);
        print_line("", "(so do %s and %s: %s)", word, other, why);
    } else {
        print_line("on the GPUs", "collectives of all %d, since each reaches each other by peer access", view->machine.n);
        print_line("", "(if each proves at its first use that its writes arrive)");
    }
}

static void print_outcome(const struct topo_view *view)
{
    char word[64], other[64];
    const char *why;
    int i, j;

    printf("\nWhat would be used\n");
    if (view->machine.n == 1) {
        print_line("one GPU", "nothing to do between GPUs");
        return;
    }
    bool obstacle = find_worse(view, SHUNT_VIA_SHM, &i, &j, &why);
    if (!obstacle && view->machine.n <= MOST_RANKS) {
        print_on_gpus(view);
        return;
    }
    if (obstacle) {
        topo_gpu_word(&view->machine, i, word);
        topo_gpu_word(&view->machine, j, other);
        print_line("host memory", "collectives of all %d, because between %s and %s: %s", view->machine.n, word, other, why);
    } else {
        print_line("host memory", "collectives of all %d, because kernels serve %d ranks at most", view->machine.n,
                   MOST_RANKS);
    }
    for (int group = 0; group < view->n_groups; group++)
        if (size_of(view, group) > 1)
            print_group(view, group);
}

void topo_print(const struct topo_view *view)
{
    print_machine(&view->machine);
    if (view->machine.n == 0)
        return;
    if (view->machine.n > 1) {
        print_ways(view);
        print_rings(view);
        print_trees(view);
    }
    print_leaders(view);
    if (view->machine.n > 1)
        print_estimates(view);
    print_outcome(view);
}
