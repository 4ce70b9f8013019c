/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs: a node is a command of a stream. They are done one after the other in the order in which
 * they were added, which every graph allows, since a node can only depend on nodes that exist.
 */
#include "sim/graph.h"

#include <stdlib.h>
#include <string.h>

static CUresult set_command(struct CUgraphNode_st *node, const struct sim_cmd *cmd,
                            const void *args)
{
    size_t more = cmd->bytes - sizeof *cmd;
    struct sim_cmd *copy = aligned_alloc(16, cmd->bytes);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, cmd, sizeof *cmd);
    if (more)
        memcpy((char *)copy + sizeof *cmd, args, more);
    free(node->cmd);
    node->cmd = copy;
    return CUDA_SUCCESS;
}

CUresult sim_graph_add(CUgraph graph, const struct sim_cmd *cmd, const void *args,
                       CUgraphNode *node)
{
    struct CUgraphNode_st *n = calloc(1, sizeof *n);
    CUresult result = n ? set_command(n, cmd, args) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(n);
        return result;
    }
    n->index = graph->n++;
    *graph->tail = n;
    graph->tail = &n->next;
    if (node)
        *node = n;
    return CUDA_SUCCESS;
}

static void free_nodes(struct CUgraphNode_st *n)
{
    while (n) {
        struct CUgraphNode_st *next = n->next;
        free(n->cmd);
        free(n);
        n = next;
    }
}

CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    g->tail = &g->nodes;
    *graph = g;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    free_nodes(graph->nodes);
    free(graph);
    return CUDA_SUCCESS;
}

static CUresult kernel_command(const CUDA_KERNEL_NODE_PARAMS *p, struct sim_launch *launch,
                               struct CUfunc_st **f)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_function_of(p->func ? p->func : (CUfunction)p->kern, f);
    return result ? result
                  : sim_launch_build(*f, (unsigned[]){p->gridDimX, p->gridDimY, p->gridDimZ},
                                     (unsigned[]){p->blockDimX, p->blockDimY, p->blockDimZ},
                                     p->sharedMemBytes, p->kernelParams, p->extra, launch);
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                              size_t n, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_launch launch;
    struct CUfunc_st *f;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!graph || !node || (n && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    result = kernel_command(params, &launch, &f);
    if (!result)
        result = sim_graph_add(graph, &launch.cmd, launch.args, node);
    if (!result)
        (*node)->function = f;
    return result;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                             size_t n)
{
    struct sim_cmd nothing = {.op = SIM_OP_NOTHING, .bytes = sizeof nothing};
    CUresult result = sim_ready();
    if (result)
        return result;
    return !graph || !node || (n && !dependencies) ? CUDA_ERROR_INVALID_VALUE
                                                   : sim_graph_add(graph, &nothing, NULL, node);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    size_t i = 0;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!graph || !n)
        return CUDA_ERROR_INVALID_VALUE;
    if (nodes)
        for (struct CUgraphNode_st *at = graph->nodes; at && i < *n; at = at->next)
            nodes[i++] = at;
    else
        i = graph->n;
    *n = i;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!node || !type)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((enum sim_op)node->cmd->op) {
    case SIM_OP_LAUNCH:
        *type = CU_GRAPH_NODE_TYPE_KERNEL;
        break;
    case SIM_OP_COPY:
        *type = CU_GRAPH_NODE_TYPE_MEMCPY;
        break;
    case SIM_OP_SET:
        *type = CU_GRAPH_NODE_TYPE_MEMSET;
        break;
    case SIM_OP_HOST:
        *type = CU_GRAPH_NODE_TYPE_HOST;
        break;
    case SIM_OP_WRITE_WORD:
    case SIM_OP_WAIT_WORD:
        *type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
        break;
    default:
        *type = CU_GRAPH_NODE_TYPE_EMPTY;
    }
    return CUDA_SUCCESS;
}

/* ---- executable graphs: a copy of the nodes ---- */

static CUresult copy_nodes(CUgraph graph, struct CUgraphExec_st *exec)
{
    CUresult result = CUDA_SUCCESS;
    for (struct CUgraphNode_st *n = graph->nodes; n && !result; n = n->next) {
        struct CUgraphNode_st *copy;
        result = sim_graph_add(&exec->graph, n->cmd, n->cmd + 1, &copy);
        if (!result)
            copy->function = n->function;
        if (!result && n->function && !n->function->loaded)
            result = sim_function_load(n->function);
    }
    return result;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    (void)flags;
    if (result)
        return result;
    if (!exec || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUgraphExec_st *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->graph.tail = &e->graph.nodes;
    result = copy_nodes(graph, e);
    if (result) {
        free_nodes(e->graph.nodes);
        free(e);
        return result;
    }
    *exec = e;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuGraphInstantiate(exec, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = result ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    free_nodes(exec->graph.nodes); /* launches under way have their own copies, in the queue */
    free(exec);
    return CUDA_SUCCESS;
}

/* `node` is one of the graph that `exec` was made of: the one at the same place is meant. */
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_launch launch;
    struct CUfunc_st *f;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!exec || !node)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUgraphNode_st *own = exec->graph.nodes;
    while (own && own->index != node->index)
        own = own->next;
    if (!own || own->cmd->op != SIM_OP_LAUNCH)
        return CUDA_ERROR_INVALID_VALUE;
    result = kernel_command(params, &launch, &f);
    if (!result && f->ctx != own->function->ctx)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !f->loaded)
        result = sim_function_load(f);
    if (!result)
        result = set_command(own, &launch.cmd, launch.args);
    if (!result)
        own->function = f;
    return result;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    return result || exec ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    struct CUstream_st *s;
    CUresult result = sim_stream_of(stream, &s);
    if (result)
        return result;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    sim_count(SIM_LAUNCHES);
    pthread_mutex_lock(&s->ctx->submit);
    for (struct CUgraphNode_st *n = exec->graph.nodes; n && !result; n = n->next)
        result = sim_submit_locked(s, n->cmd, n->cmd + 1, NULL);
    pthread_mutex_unlock(&s->ctx->submit);
    return !result && sim_config()->blocking && !s->capture ? sim_stream_wait(s) : result;
}
