# SPDX-License-Identifier: BSD-3-Clause
# How GPUs are joined, which the engines ask for, and what follows from it for rings and trees.

topo_sources += \
	%reldir%/find.c \
	%reldir%/find.h \
	%reldir%/nvml.c \
	%reldir%/nvml.def \
	%reldir%/pci.c \
	%reldir%/text.c \
	%reldir%/topo.c \
	%reldir%/topo.h

topo_graph_sources += \
	%reldir%/estimate.c \
	%reldir%/graph.h \
	%reldir%/nodes.c \
	%reldir%/nodes.h \
	%reldir%/ring.c \
	%reldir%/tree.c
