# SPDX-License-Identifier: BSD-3-Clause
# The kernels on the CPU: the scheduler of their threads, and libshunt-simkernels.so, which the simulated GPU opens.

sim_scheduler_sources = \
	%reldir%/block.c \
	%reldir%/block.h \
	%reldir%/fiber.c \
	%reldir%/fiber.h \
	%reldir%/gpu.cuh \
	%reldir%/hog.c \
	%reldir%/kernel.c \
	%reldir%/kernel.h \
	%reldir%/register.h \
	%reldir%/schedule.c \
	%reldir%/schedule.h \
	%reldir%/stores.c \
	%reldir%/word16.h

# The other files of the kernels are listed in cuda/
sim_kernel_sources = %reldir%/kernels.cpp %reldir%/pack.cpp

# As the kernels are compiled for GPUs: no contraction of products and sums
sim_kernel_cxxflags = $(AM_CXXFLAGS) -ffp-contract=off -Wno-unknown-pragmas

if HAVE_SIM
noinst_LTLIBRARIES += libsimkernel.la
libsimkernel_la_SOURCES = $(sim_scheduler_sources)

sim_LTLIBRARIES += libshunt-simkernels.la
libshunt_simkernels_la_SOURCES = $(sim_kernel_sources)
libshunt_simkernels_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/%reldir% -I$(top_srcdir)/cuda
libshunt_simkernels_la_CXXFLAGS = $(sim_kernel_cxxflags)
libshunt_simkernels_la_LIBADD = libsimkernel.la
# Behind the user's flags: -O2 takes half as long again to compile, with sanitizers twice, and gains nothing. (The object
# is named through a variable: written out, Automake would take this for the rule that makes it.)
sim_kernel_object = %reldir%/libshunt_simkernels_la-kernels.lo
$(sim_kernel_object): CXXFLAGS += -O1
libshunt_simkernels_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared
endif
