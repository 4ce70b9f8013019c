# SPDX-License-Identifier: BSD-3-Clause
# The engines, one for each MPI: all that includes mpi.h, compiled once against each MPI's own.

mpi_sources += %reldir%/call.h

# Written by gen.py from calls.txt
mpi_generated =

engine_ldflags = $(AM_LDFLAGS) -module -avoid-version -shared

if HAVE_ENGINE_OPENMPI
engine_LTLIBRARIES += engine-openmpi.la
engine_openmpi_la_SOURCES = $(mpi_sources)
nodist_engine_openmpi_la_SOURCES = $(mpi_generated)
engine_openmpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(OPENMPI_CPPFLAGS)
# Open MPI's handles are addresses of its variables, so this engine is linked to it ...
engine_openmpi_la_LIBADD = libcore.la $(OPENMPI_LIBS)
engine_openmpi_la_LDFLAGS = $(engine_ldflags)
endif

if HAVE_ENGINE_MPICH
engine_LTLIBRARIES += engine-mpich.la
engine_mpich_la_SOURCES = $(mpi_sources)
nodist_engine_mpich_la_SOURCES = $(mpi_generated)
engine_mpich_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CPPFLAGS)
# ... and MPICH's are numbers, so this one is not, and serves every MPI with MPICH's ABI
engine_mpich_la_LIBADD = libcore.la
engine_mpich_la_LDFLAGS = $(engine_ldflags)
endif
