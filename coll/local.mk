# SPDX-License-Identifier: BSD-3-Clause
# Collectives: tasks, plans, selection, the run of an operation.

coll_sources += \
	%reldir%/algo.c \
	%reldir%/algo.h \
	%reldir%/algos.def \
	%reldir%/allreduce_twoshot.c \
	%reldir%/colls.c \
	%reldir%/colls.def \
	%reldir%/colls.h \
	%reldir%/combine.c \
	%reldir%/combine.h \
	%reldir%/consent.c \
	%reldir%/consent.h \
	%reldir%/copy.c \
	%reldir%/drive.c \
	%reldir%/drive.h \
	%reldir%/helper.c \
	%reldir%/helper.h \
	%reldir%/hier.c \
	%reldir%/hier.h \
	%reldir%/hier_blocks.c \
	%reldir%/hier_inner.h \
	%reldir%/hier_node.c \
	%reldir%/hier_plans.c \
	%reldir%/hier_steps.c \
	%reldir%/hier_vectors.c \
	%reldir%/mismatch.c \
	%reldir%/mismatch.h \
	%reldir%/nodes.c \
	%reldir%/nodes.h \
	%reldir%/oneshot.c \
	%reldir%/plan.c \
	%reldir%/plan.h \
	%reldir%/prepare.c \
	%reldir%/prepare.h \
	%reldir%/reading.c \
	%reldir%/ring.c \
	%reldir%/rings.c \
	%reldir%/rows.c \
	%reldir%/rows.h \
	%reldir%/routes.c \
	%reldir%/routes.h \
	%reldir%/run.c \
	%reldir%/run.h \
	%reldir%/select.c \
	%reldir%/select.h \
	%reldir%/shape.c \
	%reldir%/start.c \
	%reldir%/start.h \
	%reldir%/table.c \
	%reldir%/task.h \
	%reldir%/tree.c \
	%reldir%/tune.c \
	%reldir%/tune.h \
	%reldir%/wanted.c \
	%reldir%/wishes.h
