/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels: two shapes (LL, plan) times the pairs of kernels.def, named shunt_ll_F32_SUM, shunt_plan_F32_SUM ... and
 * those that move slices that differ, shunt_spans_U8_MOVE ...
 */
#include "kernels.def"
#include "ll128.cuh"
#include "plan.cuh"

#define X(id, type, bytes, class) using element_##id = type;
SHUNT_TYPES(X)
#undef X

#define KERNEL(id, op)                                                                             \
    extern "C" __global__ void __launch_bounds__(SHUNT_LL_MOST, 1)                                 \
    shunt_ll_##id##_##op(GPU_ARGS(shunt_ll_args) a)                                                \
    {                                                                                              \
        ll_run<element_##id, shunt_op_##op, false>(a);                                            \
    }                                                                                              \
    GPU_KERNEL(shunt_ll_##id##_##op, shunt_ll_args);                                               \
    extern "C" __global__ void __launch_bounds__(512, 1)                                           \
    shunt_plan_##id##_##op(GPU_ARGS(shunt_plan_args) a)                                            \
    {                                                                                              \
        plan_run<element_##id, shunt_op_##op>(a);                                                  \
    }                                                                                              \
    GPU_KERNEL(shunt_plan_##id##_##op, shunt_plan_args);

#define X(id, type, bytes, class) SHUNT_KERNELS_##class(KERNEL, id)
SHUNT_TYPES(X)
#undef X

#define SPANS_KERNEL(id)                                                                           \
    extern "C" __global__ void __launch_bounds__(SHUNT_LL_MOST, 1)                                 \
    shunt_spans_##id##_MOVE(GPU_ARGS(shunt_spans_args) a)                                          \
    {                                                                                              \
        ll_run<element_##id, shunt_op_MOVE, true>(a.ll);                                           \
    }                                                                                              \
    GPU_KERNEL(shunt_spans_##id##_MOVE, shunt_spans_args);
SHUNT_MOVED(SPANS_KERNEL)
