# SPDX-License-Identifier: BSD-3-Clause
# Point to point between GPUs.

pt2pt_sources += \
	%reldir%/descriptor.c \
	%reldir%/descriptor.h \
	%reldir%/distant.c \
	%reldir%/distant.h \
	%reldir%/distant_inner.h \
	%reldir%/distant_receive.c \
	%reldir%/distant_send.c \
	%reldir%/passage.c \
	%reldir%/passage.h \
	%reldir%/receive.c \
	%reldir%/receive.h \
	%reldir%/send.c \
	%reldir%/send.h \
	%reldir%/spill.c \
	%reldir%/spill.h
