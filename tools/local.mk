# SPDX-License-Identifier: BSD-3-Clause
# Programs for users.

bin_PROGRAMS += %reldir%/shunt-info
%canon_reldir%_shunt_info_SOURCES = \
	%reldir%/info_cpu.c \
	%reldir%/info_gpu.c \
	%reldir%/info_gpu.h \
	%reldir%/shunt-info.c
%canon_reldir%_shunt_info_CPPFLAGS = $(AM_CPPFLAGS) -DLIBDIR='"$(libdir)"' -DGPU_ARCH='"$(GPU_ARCH)"'
%canon_reldir%_shunt_info_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
%canon_reldir%_shunt_info_LDADD = libtopo.la libbase.la $(HWLOC_LIBS)

# The manual's table of settings is committed, so that it can be read without a build; a test keeps it fresh
dist_doc_DATA += doc/settings.md
.PHONY: settings-doc
settings-doc: %reldir%/shunt-info$(EXEEXT)
	./%reldir%/shunt-info --settings --markdown >$(srcdir)/doc/settings.md

# It asks the library what it would choose
if HAVE_CUDA
bin_PROGRAMS += %reldir%/shunt-topo
%canon_reldir%_shunt_topo_SOURCES = \
	%reldir%/shunt-topo.c \
	%reldir%/topo_choice.c \
	%reldir%/topo_draw.c \
	%reldir%/topo_json.c \
	%reldir%/topo_nodes.c \
	%reldir%/topo_print.c \
	%reldir%/topo_tune.c \
	%reldir%/topo_view.h
%canon_reldir%_shunt_topo_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_shunt_topo_LDADD = libcore.la libtopo.la libbase.la -lm

# What it becomes to measure, one for each MPI
tunedir = $(libdir)/shunt
tune_PROGRAMS =
tune_sources = %reldir%/tune.c
tune_libs = libcore.la libtopo.la libbase.la -lm
if HAVE_ENGINE_OPENMPI
tune_PROGRAMS += %reldir%/tune-openmpi
%canon_reldir%_tune_openmpi_SOURCES = $(tune_sources)
%canon_reldir%_tune_openmpi_CPPFLAGS = $(AM_CPPFLAGS) $(OPENMPI_CPPFLAGS)
%canon_reldir%_tune_openmpi_LDADD = $(tune_libs) $(OPENMPI_LIBS)
endif
if HAVE_ENGINE_MPICH
tune_PROGRAMS += %reldir%/tune-mpich
%canon_reldir%_tune_mpich_SOURCES = $(tune_sources)
%canon_reldir%_tune_mpich_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CPPFLAGS)
%canon_reldir%_tune_mpich_LDADD = $(tune_libs) $(MPICH_LIBS)
endif
endif
