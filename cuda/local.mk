# SPDX-License-Identifier: BSD-3-Clause
# The GPU: the driver, memory, copies, and the kernels, which are compiled to two images and embedded.

cuda_sources += \
	%reldir%/access.c \
	%reldir%/access.h \
	%reldir%/context.c \
	%reldir%/context.h \
	%reldir%/copies.c \
	%reldir%/copies.h \
	%reldir%/driver.c \
	%reldir%/driver.def \
	%reldir%/driver.h \
	%reldir%/exchange.c \
	%reldir%/exchange.h \
	%reldir%/fetch_args.h \
	%reldir%/fetcher.c \
	%reldir%/fetcher.h \
	%reldir%/flow.c \
	%reldir%/flow.h \
	%reldir%/gpu.h \
	%reldir%/image.S \
	%reldir%/kargs.h \
	%reldir%/kernels.def \
	%reldir%/lane.c \
	%reldir%/lane.h \
	%reldir%/layout.c \
	%reldir%/launch.c \
	%reldir%/launch.h \
	%reldir%/level.c \
	%reldir%/level.h \
	%reldir%/linger.c \
	%reldir%/linger.h \
	%reldir%/machine.c \
	%reldir%/machine.h \
	%reldir%/mailbox.c \
	%reldir%/mailbox.h \
	%reldir%/memory.c \
	%reldir%/nvlink.c \
	%reldir%/orders.c \
	%reldir%/orders.h \
	%reldir%/outline.c \
	%reldir%/pace.c \
	%reldir%/pace.h \
	%reldir%/pack.c \
	%reldir%/pack.h \
	%reldir%/pack_args.h \
	%reldir%/packer.c \
	%reldir%/packer.h \
	%reldir%/pageable.c \
	%reldir%/pageable.h \
	%reldir%/pattern.c \
	%reldir%/pattern.h \
	%reldir%/pcie.c \
	%reldir%/peer.c \
	%reldir%/peer.h \
	%reldir%/probe.c \
	%reldir%/probe.h \
	%reldir%/pull.c \
	%reldir%/pull.h \
	%reldir%/recall.c \
	%reldir%/recall.h \
	%reldir%/registry.c \
	%reldir%/room.c \
	%reldir%/registry.h \
	%reldir%/same.c \
	%reldir%/shm.c \
	%reldir%/shm.h \
	%reldir%/spare.c \
	%reldir%/spare.h \
	%reldir%/stage.c \
	%reldir%/stage.h \
	%reldir%/stay.c \
	%reldir%/stay.h \
	%reldir%/steps.h \
	%reldir%/told.h \
	%reldir%/tray.c \
	%reldir%/tray.h \
	%reldir%/transport.c \
	%reldir%/transport.h \
	%reldir%/types.c \
	%reldir%/types.h \
	%reldir%/vmm.c \
	%reldir%/vmm.h

# What kernels.cu is made of: the image is made again when one of them changes. No contraction of products and sums:
# every kernel must give the same bits.
kernel_sources = \
	%reldir%/gpu.cuh \
	%reldir%/kargs.h \
	%reldir%/kernels.cu \
	%reldir%/kernels.def \
	%reldir%/linger.cuh \
	%reldir%/ll.cuh \
	%reldir%/ll128.cuh \
	%reldir%/ops.cuh \
	%reldir%/plan.cuh \
	%reldir%/start.cuh \
	base/plan.h \
	base/spans.h

# An image of its own, since it is made in seconds
pack_sources = \
	%reldir%/fetch.cuh \
	%reldir%/fetch_args.h \
	%reldir%/gpu.cuh \
	%reldir%/pack.cu \
	%reldir%/pack_args.h \
	%reldir%/stay.cuh \
	%reldir%/told.h \
	%reldir%/words.cuh

EXTRA_DIST += $(kernel_sources) $(pack_sources)
CLEANFILES += %reldir%/kernels.fatbin %reldir%/pack.fatbin

AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =

if HAVE_KERNELS
# Minutes for each kind of GPU, so as many at once as there are cores
NVCCFLAGS = -O3 --threads 0 $(NVCC_SPLIT) $(NVCC_QUICK)
%reldir%/kernels.fatbin: $(kernel_sources)
	$(AM_V_NVCC)$(MKDIR_P) %reldir% && $(NVCC) -fatbin -std=c++17 $(NVCC_GENCODE) $(NVCCFLAGS) \
	    -fmad=false \
	    -I$(top_srcdir) -I$(top_srcdir)/%reldir% -o $@ $(top_srcdir)/%reldir%/kernels.cu
%reldir%/pack.fatbin: $(pack_sources)
	$(AM_V_NVCC)$(MKDIR_P) %reldir% && $(NVCC) -fatbin -std=c++17 $(NVCC_GENCODE) $(NVCCFLAGS) \
	    -I$(top_srcdir) -I$(top_srcdir)/%reldir% -o $@ $(top_srcdir)/%reldir%/pack.cu

# image.S includes the images as they are, which no compiler reports as a dependency. (Named through a variable: written
# out, Automake would take this for the rule that makes the object.)
image_object = %reldir%/libcore_la-image.lo
$(image_object): %reldir%/kernels.fatbin %reldir%/pack.fatbin
endif
