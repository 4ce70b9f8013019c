# SPDX-License-Identifier: BSD-3-Clause
# Tests of the simulated GPU. conformance/driver and conformance/runtime also run on hardware: what they print there is
# in conformance/*.h200, and they must print the same on the simulation; peers.h200 is of `driver peers`, on two GPUs.

sim_conformance_sources = \
	%reldir%/conformance/conformance.h \
	%reldir%/conformance/devices.c \
	%reldir%/conformance/driver.c \
	%reldir%/conformance/memory.c \
	%reldir%/conformance/peers.c \
	%reldir%/conformance/processes.c \
	%reldir%/conformance/streams.c
sim_tests = \
	%reldir%/sim_conformance.sh \
	%reldir%/sim_device.sh
EXTRA_DIST += $(sim_tests) %reldir%/conformance/driver.h200 %reldir%/conformance/peers.h200 %reldir%/conformance/runtime.h200
EXTRA_PROGRAMS =

if HAVE_SIM
TESTS += $(sim_tests)
EXTRA_PROGRAMS += %reldir%/conformance/driver %reldir%/conformance/runtime %reldir%/sim/device
check_DATA += $(EXTRA_PROGRAMS)
CLEANFILES += $(EXTRA_PROGRAMS)
check_LTLIBRARIES += %reldir%/sim/kernels.la

sim_libraries = sim/.libs/libcudart.so.13 sim/.libs/libcuda.so.1
%canon_reldir%_conformance_driver_SOURCES = $(sim_conformance_sources)
%canon_reldir%_conformance_driver_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_conformance_runtime_SOURCES = %reldir%/conformance/runtime.c
%canon_reldir%_conformance_runtime_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_conformance_runtime_LDADD = $(sim_libraries)
%canon_reldir%_sim_device_SOURCES = %reldir%/sim/check.h %reldir%/sim/device.c
%canon_reldir%_sim_device_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_sim_device_LDADD = $(sim_libraries)
%canon_reldir%_sim_kernels_la_SOURCES = %reldir%/sim/kernels.c
# -rpath: libtool makes no shared library of what is never installed without it
%canon_reldir%_sim_kernels_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
endif
