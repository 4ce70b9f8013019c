/* SPDX-License-Identifier: BSD-3-Clause */
/* What shunt-topo shows of a machine: made once, then printed and drawn. */
#ifndef SHUNT_TOOLS_TOPO_VIEW_H
#define SHUNT_TOOLS_TOPO_VIEW_H

#include <stdio.h>

#include "topo/graph.h"

struct topo_view {
    struct shunt_topo machine;
    struct shunt_topo_limits limits;
    struct shunt_ring rings[SHUNT_TOPO_RINGS];
    int n_rings;
    struct shunt_tree trees[2];
    int group[SHUNT_TOPO_GPUS]; /* by number, of GPUs that all reach each other */
    int n_groups;
};

/* All but `machine` and `limits`, from these. */
void topo_view_make(struct topo_view *view);

/* "GPU3", with the node's name before it where there are several. */
void topo_gpu_word(const struct shunt_topo *machine, int gpu, char word[64]);

void topo_print(const struct topo_view *view);

/* Of many nodes like this machine. */
void topo_print_nodes(const struct topo_view *view, int nodes);
void topo_draw(const struct topo_view *view, FILE *to);

#endif
