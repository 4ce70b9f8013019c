/* SPDX-License-Identifier: BSD-3-Clause */
/* What shunt-topo knows of a machine as JSON, for programs. */
#include <string.h>

#include "tools/topo_view.h"

/* As a string: control characters become blanks. */
static void put_string(FILE *to, const char *text)
{
    putc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', to);
        putc((unsigned char)*text < 32 ? ' ' : *text, to);
    }
    putc('"', to);
}

static void put_member(FILE *to, const char *name, const char *text)
{
    fprintf(to, "\"%s\": ", name);
    put_string(to, text);
}

static void put_gpus(const struct shunt_topo *machine, FILE *to)
{
    for (int i = 0; i < machine->n; i++) {
        const struct shunt_topo_gpu *gpu = &machine->gpus[i];
        char word[64];
        topo_gpu_word(machine, i, word);
        fprintf(to, "%s\n    {", i ? "," : "");
        put_member(to, "gpu", word);
        fprintf(to, ", ");
        put_member(to, "name", gpu->name);
        fprintf(to, ", ");
        put_member(to, "uuid", gpu->uuid);
        fprintf(to, ", ");
        put_member(to, "pci", gpu->pci);
        fprintf(to, ", \"node\": %d, \"numa\": %d, \"mig\": %s}", gpu->node, gpu->numa, gpu->mig ? "true" : "false");
    }
}

/* Each pair once. */
static void put_links(const struct topo_view *view, FILE *to)
{
    const struct shunt_topo *machine = &view->machine;
    const char *why, *comma = "";
    char word[16];

    for (int i = 0; i < machine->n; i++) {
        for (int j = i + 1; j < machine->n; j++) {
            enum shunt_via via = shunt_topo_via(machine, &view->limits, i, j, &why);
            shunt_link_print(machine->links[i][j], word);
            fprintf(to, "%s\n    {\"a\": %d, \"b\": %d, ", comma, i, j);
            put_member(to, "link", word);
            fprintf(to, ", ");
            put_member(to, "way", shunt_via_word(via));
            fprintf(to, ", ");
            put_member(to, "why", why);
            fprintf(to, ", \"mb_per_second\": %u}", shunt_topo_width(machine, &view->limits, i, j));
            comma = ",";
        }
    }
}

static void put_rings(const struct topo_view *view, FILE *to)
{
    for (int r = 0; r < view->n_rings; r++) {
        const struct shunt_ring *ring = &view->rings[r];
        fprintf(to, "%s\n    {\"order\": [", r ? "," : "");
        for (int k = 0; k < view->machine.n; k++)
            fprintf(to, "%s%d", k ? ", " : "", ring->order[k]);
        fprintf(to, "], \"mb_per_second\": %u, \"nvlinks\": %d, \"both_ways\": %s}", ring->width, ring->lanes,
                ring->both ? "true" : "false");
    }
}

/* The parent of each GPU; -1: none. */
static void put_trees(const struct topo_view *view, FILE *to)
{
    for (int t = 0; t < 2 && view->machine.n > 0; t++) {
        fprintf(to, "%s\n    {\"root\": %d, \"parents\": [", t ? "," : "", view->trees[t].root);
        for (int i = 0; i < view->machine.n; i++) {
            int parent = view->trees[t].parent[i];
            fprintf(to, "%s%d", i ? ", " : "", parent == SHUNT_TREE_NONE ? -1 : parent);
        }
        fprintf(to, "]}");
    }
}

static void put_choices(const struct topo_view *view, FILE *to)
{
    for (int k = 0; k < view->n_choices; k++) {
        const struct topo_choice *choice = &view->choices[k];
        fprintf(to, "%s\n    {\"bytes\": %llu, ", k ? "," : "", (unsigned long long)choice->bytes);
        put_member(to, "algorithm", topo_algo_word(choice->name));
        fprintf(to, ", ");
        put_member(to, "flags", choice->proto);
        fprintf(to, ", ");
        put_member(to, "by", choice->via);
        fprintf(to, ", \"microseconds\": %.1f, ", choice->us);
        put_member(to, "why", choice->why);
        fprintf(to, "}");
    }
}

void topo_write_json(const struct topo_view *view, FILE *to)
{
    fprintf(to, "{\n  ");
    put_member(to, "machine", view->machine.title);
    fprintf(to, ",\n  ");
    put_member(to, "source", view->machine.source);
    fprintf(to, ",\n  \"nodes\": %d,\n  \"hash\": \"%016llx\",\n  \"gpus\": [", view->machine.n_nodes,
            (unsigned long long)view->hash);
    put_gpus(&view->machine, to);
    fprintf(to, "\n  ],\n  \"links\": [");
    put_links(view, to);
    fprintf(to, "\n  ],\n  \"rings\": [");
    put_rings(view, to);
    fprintf(to, "\n  ],\n  \"trees\": [");
    put_trees(view, to);
    fprintf(to, "\n  ],\n  \"allreduce\": [");
    put_choices(view, to);
    fprintf(to, "\n  ]\n}\n");
}
