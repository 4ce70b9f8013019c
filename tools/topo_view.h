/* SPDX-License-Identifier: BSD-3-Clause */
/* What shunt-topo shows of a machine: made once, then printed and drawn. */
#ifndef SHUNT_TOOLS_TOPO_VIEW_H
#define SHUNT_TOOLS_TOPO_VIEW_H

#include <stdio.h>

#include "topo/graph.h"

#define TOPO_CHOICES 24

/* An Allreduce of all GPUs, of this size. */
struct topo_choice {
    uint64_t bytes;
    enum shunt_algo_name name;
    const char *proto, *via, *why;
    double us; /* by the model */
};

struct topo_view {
    struct shunt_topo machine;
    struct shunt_topo_limits limits;
    struct shunt_ring rings[SHUNT_TOPO_RINGS];
    int n_rings;
    struct shunt_tree trees[2];
    int group[SHUNT_TOPO_GPUS]; /* by number, of GPUs that all reach each other */
    int n_groups;
    uint64_t hash; /* equal where GPUs and what is between them are */
    struct topo_choice choices[TOPO_CHOICES];
    int n_choices;
};

/* All but `machine` and `limits`, from these; the choices, from all that. */
void topo_view_make(struct topo_view *view);
void topo_choose(struct topo_view *view);

/* Becomes the program that measures, for the MPI whose launcher has started this. Does not return. */
void topo_tune(const char *file, const char *most);

const char *topo_algo_word(enum shunt_algo_name name);

/* "GPU3", with the node's name before it where there are several. */
void topo_gpu_word(const struct shunt_topo *machine, int gpu, char word[64]);

void topo_print(const struct topo_view *view);

/* Of many nodes like this machine. */
void topo_print_nodes(const struct topo_view *view, int nodes);
void topo_draw(const struct topo_view *view, FILE *to);
void topo_write_json(const struct topo_view *view, FILE *to);

#endif
