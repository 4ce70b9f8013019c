# SPDX-License-Identifier: BSD-3-Clause
# The engines, one for each MPI: all that includes mpi.h, compiled once against each MPI's own.

mpi_sources += \
	%reldir%/access.c \
	%reldir%/access.h \
	%reldir%/aside.c \
	%reldir%/aside.h \
	%reldir%/call.h \
	%reldir%/classify.c \
	%reldir%/classify.h \
	%reldir%/collective.c \
	%reldir%/comm.c \
	%reldir%/comm.h \
	%reldir%/completion.c \
	%reldir%/copying.c \
	%reldir%/copying.h \
	%reldir%/covered.c \
	%reldir%/covered.h \
	%reldir%/delivery.c \
	%reldir%/delivery.h \
	%reldir%/device.c \
	%reldir%/device.h \
	%reldir%/edges.c \
	%reldir%/edges.h \
	%reldir%/engine.c \
	%reldir%/exchange.c \
	%reldir%/exchange.h \
	%reldir%/flatten.c \
	%reldir%/face.c \
	%reldir%/face.h \
	%reldir%/flight.c \
	%reldir%/flight.h \
	%reldir%/forms.c \
	%reldir%/forms.h \
	%reldir%/flatten.h \
	%reldir%/file.c \
	%reldir%/float16.c \
	%reldir%/float16.h \
	%reldir%/hints.c \
	%reldir%/host_mpi.h \
	%reldir%/idup.c \
	%reldir%/idup.h \
	%reldir%/image.c \
	%reldir%/image.h \
	%reldir%/kept.c \
	%reldir%/kept.h \
	%reldir%/key.c \
	%reldir%/key.h \
	%reldir%/life.c \
	%reldir%/life.h \
	%reldir%/map.c \
	%reldir%/map.h \
	%reldir%/message.c \
	%reldir%/message.h \
	%reldir%/packing.c \
	%reldir%/operand.c \
	%reldir%/operand.h \
	%reldir%/operation.c \
	%reldir%/operation.h \
	%reldir%/packed.c \
	%reldir%/packed.h \
	%reldir%/parcel.c \
	%reldir%/parcel.h \
	%reldir%/partition.c \
	%reldir%/parts.c \
	%reldir%/parts.h \
	%reldir%/poll.c \
	%reldir%/poll.h \
	%reldir%/receipt.c \
	%reldir%/receipt.h \
	%reldir%/patterns.c \
	%reldir%/probe.c \
	%reldir%/probe.h \
	%reldir%/query.c \
	%reldir%/query.h \
	%reldir%/repeat.c \
	%reldir%/repeat.h \
	%reldir%/request.c \
	%reldir%/rows.c \
	%reldir%/rows.h \
	%reldir%/spans.c \
	%reldir%/spans.h \
	%reldir%/request.h \
	%reldir%/shim.h \
	%reldir%/tally.c \
	%reldir%/tally.h \
	%reldir%/buffer.c \
	%reldir%/window.c \
	%reldir%/types.c \
	%reldir%/types.def \
	%reldir%/types.h

EXTRA_DIST += $(calls_table) %reldir%/shim.c.in

# Written by gen.py from calls.txt: the ids once, the rest for each MPI, as its mpi.h tells what it has
calls_txt = $(top_srcdir)/%reldir%/calls.txt
calls_table = %reldir%/calls.txt %reldir%/gen.py
calls_write = $(PYTHON) $(top_srcdir)/%reldir%/gen.py
host_header = $(CC) -E -P -I$(top_srcdir) $(top_srcdir)/%reldir%/host_mpi.h
BUILT_SOURCES += %reldir%/call_ids.h
CLEANFILES += %reldir%/call_ids.h
%reldir%/call_ids.h: $(calls_table)
	$(AM_V_GEN)$(MKDIR_P) %reldir% && $(calls_write) ids $(calls_txt) >$@.tmp && mv $@.tmp $@

engine_ldflags = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,defs

if HAVE_CUDA
engine_LTLIBRARIES += marker.la
marker_la_SOURCES = %reldir%/marker.c
marker_la_LDFLAGS = $(engine_ldflags)
endif

if HAVE_ENGINE_OPENMPI
engine_LTLIBRARIES += engine-openmpi.la
engine_openmpi_la_SOURCES = $(mpi_sources)
nodist_engine_openmpi_la_SOURCES = %reldir%/openmpi/shims.c %reldir%/openmpi/host_table.h
engine_openmpi_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_builddir)/%reldir%/openmpi $(OPENMPI_CPPFLAGS)
# Open MPI's handles are addresses of its variables, so this engine is linked to it ...
engine_openmpi_la_LIBADD = libcore.la $(OPENMPI_LIBS)
engine_openmpi_la_LDFLAGS = $(engine_ldflags)

BUILT_SOURCES += %reldir%/openmpi/host_table.h
CLEANFILES += %reldir%/openmpi/mpi.i %reldir%/openmpi/host_table.h %reldir%/openmpi/shims.c
%reldir%/openmpi/mpi.i: %reldir%/host_mpi.h
	$(AM_V_GEN)$(MKDIR_P) %reldir%/openmpi && $(host_header) $(OPENMPI_CPPFLAGS) -o $@
%reldir%/openmpi/host_table.h: $(calls_table) %reldir%/openmpi/mpi.i
	$(AM_V_GEN)$(calls_write) host $(calls_txt) %reldir%/openmpi/mpi.i >$@.tmp && mv $@.tmp $@
%reldir%/openmpi/shims.c: $(calls_table) %reldir%/openmpi/mpi.i %reldir%/shim.c.in
	$(AM_V_GEN)$(calls_write) shims $(calls_txt) %reldir%/openmpi/mpi.i $(top_srcdir)/%reldir%/shim.c.in >$@.tmp && \
	    mv $@.tmp $@
endif

if HAVE_ENGINE_MPICH
engine_LTLIBRARIES += engine-mpich.la
engine_mpich_la_SOURCES = $(mpi_sources)
nodist_engine_mpich_la_SOURCES = %reldir%/mpich/shims.c %reldir%/mpich/host_table.h
engine_mpich_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_builddir)/%reldir%/mpich $(MPICH_CPPFLAGS)
# ... and MPICH's are numbers, so this one is not, and serves every MPI with MPICH's ABI
engine_mpich_la_LIBADD = libcore.la
engine_mpich_la_LDFLAGS = $(engine_ldflags)

BUILT_SOURCES += %reldir%/mpich/host_table.h
CLEANFILES += %reldir%/mpich/mpi.i %reldir%/mpich/host_table.h %reldir%/mpich/shims.c
%reldir%/mpich/mpi.i: %reldir%/host_mpi.h
	$(AM_V_GEN)$(MKDIR_P) %reldir%/mpich && $(host_header) $(MPICH_CPPFLAGS) -o $@
%reldir%/mpich/host_table.h: $(calls_table) %reldir%/mpich/mpi.i
	$(AM_V_GEN)$(calls_write) host $(calls_txt) %reldir%/mpich/mpi.i >$@.tmp && mv $@.tmp $@
%reldir%/mpich/shims.c: $(calls_table) %reldir%/mpich/mpi.i %reldir%/shim.c.in
	$(AM_V_GEN)$(calls_write) shims $(calls_txt) %reldir%/mpich/mpi.i $(top_srcdir)/%reldir%/shim.c.in >$@.tmp && \
	    mv $@.tmp $@
endif
