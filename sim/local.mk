# SPDX-License-Identifier: BSD-3-Clause
# The simulated GPU: drop-in libcuda.so.1, libcudart.so.13, libnvidia-ml.so.1, and shunt-sim.

# Its own folder, which shunt-sim puts in front of the library path
simdir = $(libdir)/shunt/sim
sim_LTLIBRARIES =
sim_PROGRAMS =

# libcuda: the driver in the application
sim_driver_sources = \
	%reldir%/capture.c \
	%reldir%/context.c \
	%reldir%/copy.c \
	%reldir%/device.c \
	%reldir%/device.def \
	%reldir%/driver.h \
	%reldir%/entry.c \
	%reldir%/event.c \
	%reldir%/graph.c \
	%reldir%/graph.h \
	%reldir%/host.c \
	%reldir%/hostfn.c \
	%reldir%/ipc.c \
	%reldir%/launch.c \
	%reldir%/launch.h \
	%reldir%/memory.c \
	%reldir%/module.c \
	%reldir%/pointer.c \
	%reldir%/pool.c \
	%reldir%/spawn.c \
	%reldir%/shared.c \
	%reldir%/stream.c \
	%reldir%/submit.c \
	%reldir%/table.c \
	%reldir%/vmm.c

# What it shares with the executor
sim_queue_sources = \
	%reldir%/queue.c \
	%reldir%/queue.h \
	%reldir%/request.h

sim_executor_sources = \
	%reldir%/executor.c \
	%reldir%/executor.h \
	%reldir%/foreign.c \
	%reldir%/worker.c

sim_runtime_sources = \
	%reldir%/cudart.c \
	%reldir%/cudart.h \
	%reldir%/cudart_forward.c \
	%reldir%/cudart_launch.c

# Which machine is simulated: needed by all of them, and by shunt-sim
sim_config_sources = \
	%reldir%/config.c \
	%reldir%/config.h \
	%reldir%/errors.def \
	%reldir%/presets.def

EXTRA_DIST += %reldir%/cudart.map
sim_cppflags = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) -DSIM_FOLDER='"$(simdir)"'

if HAVE_SIM
noinst_LTLIBRARIES += libsimconfig.la
libsimconfig_la_SOURCES = $(sim_config_sources)

sim_LTLIBRARIES += %reldir%/libcuda.la %reldir%/libcudart.la
%canon_reldir%_libcuda_la_SOURCES = $(sim_driver_sources) $(sim_queue_sources)
%canon_reldir%_libcuda_la_CPPFLAGS = $(sim_cppflags)
%canon_reldir%_libcuda_la_LIBADD = libsimconfig.la
%canon_reldir%_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0

%canon_reldir%_libcudart_la_SOURCES = $(sim_runtime_sources)
%canon_reldir%_libcudart_la_CPPFLAGS = $(sim_cppflags)
# Not as a libtool library: libtool would want to link again while it installs, and does so for the configured prefix only
%canon_reldir%_libcudart_la_LDFLAGS = $(AM_LDFLAGS) -version-info 13:0:0 '-Wl,-rpath,$$ORIGIN' \
	-Wl,--no-as-needed,%reldir%/.libs/libcuda.so.1 -Wl,--version-script=$(top_srcdir)/%reldir%/cudart.map
%canon_reldir%_libcudart_la_DEPENDENCIES = %reldir%/libcuda.la %reldir%/cudart.map

sim_LTLIBRARIES += %reldir%/libnvidia-ml.la
%canon_reldir%_libnvidia_ml_la_SOURCES = %reldir%/nvml.c %reldir%/nvml_abi.h
%canon_reldir%_libnvidia_ml_la_LIBADD = libsimconfig.la
%canon_reldir%_libnvidia_ml_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0

sim_PROGRAMS += %reldir%/shunt-sim-executor
%canon_reldir%_shunt_sim_executor_SOURCES = $(sim_executor_sources) $(sim_queue_sources)
%canon_reldir%_shunt_sim_executor_CPPFLAGS = $(sim_cppflags)
%canon_reldir%_shunt_sim_executor_LDADD = libsimconfig.la

bin_PROGRAMS += %reldir%/shunt-sim
%canon_reldir%_shunt_sim_SOURCES = %reldir%/shunt-sim.c
%canon_reldir%_shunt_sim_CPPFLAGS = $(sim_cppflags)
%canon_reldir%_shunt_sim_LDADD = libsimconfig.la
endif
