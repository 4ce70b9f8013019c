# SPDX-License-Identifier: BSD-3-Clause
# Tests of the simulated GPU. conformance/driver and conformance/runtime also run on hardware: what they print there is
# in conformance/*.h200, and they must print the same on the simulation.

sim_conformance_sources = \
	%reldir%/conformance/conformance.h \
	%reldir%/conformance/devices.c \
	%reldir%/conformance/driver.c \
	%reldir%/conformance/memory.c \
	%reldir%/conformance/processes.c \
	%reldir%/conformance/streams.c
sim_tests = \
	%reldir%/sim_conformance.sh
EXTRA_DIST += $(sim_tests) %reldir%/conformance/driver.h200 %reldir%/conformance/runtime.h200
EXTRA_PROGRAMS =

if HAVE_SIM
TESTS += $(sim_tests)
check_DATA += %reldir%/conformance/driver %reldir%/conformance/runtime
EXTRA_PROGRAMS += %reldir%/conformance/driver %reldir%/conformance/runtime
CLEANFILES += $(EXTRA_PROGRAMS)

%canon_reldir%_conformance_driver_SOURCES = $(sim_conformance_sources)
%canon_reldir%_conformance_driver_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_conformance_runtime_SOURCES = %reldir%/conformance/runtime.c
%canon_reldir%_conformance_runtime_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_conformance_runtime_LDADD = sim/.libs/libcudart.so.13 sim/.libs/libcuda.so.1
endif
