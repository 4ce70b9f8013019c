# SPDX-License-Identifier: BSD-3-Clause
# How GPUs are joined, and what follows from it for rings and trees.

topo_sources += \
	%reldir%/estimate.c \
	%reldir%/find.c \
	%reldir%/find.h \
	%reldir%/graph.h \
	%reldir%/model.c \
	%reldir%/nodes.c \
	%reldir%/nodes.h \
	%reldir%/nvml.c \
	%reldir%/nvml.def \
	%reldir%/pci.c \
	%reldir%/ring.c \
	%reldir%/text.c \
	%reldir%/topo.c \
	%reldir%/topo.h \
	%reldir%/tree.c
