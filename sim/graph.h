/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A graph as a list of commands: filled by hand (graph.c) or by capturing streams (capture.c).
 */
#ifndef SHUNT_SIM_GRAPH_H
#define SHUNT_SIM_GRAPH_H

#include "sim/launch.h"

struct CUgraphNode_st {
    unsigned index;
    struct sim_cmd *cmd;        /* with its arguments behind it */
    struct CUfunc_st *function; /* of a kernel node */
    struct CUgraphNode_st *next;
};

struct CUgraph_st {
    struct CUgraphNode_st *nodes, **tail;
    unsigned n;
    /* while it is being captured */
    unsigned long long id;
    CUstreamCaptureMode mode;
    struct CUstream_st *origin;
    pthread_t thread;
    bool invalid;
    struct CUgraph_st *next_capture;
};

struct CUgraphExec_st {
    struct CUgraph_st graph;
};

CUresult sim_graph_add(CUgraph graph, const struct sim_cmd *cmd, const void *args,
                       CUgraphNode *node);

#endif
