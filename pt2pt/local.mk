# SPDX-License-Identifier: BSD-3-Clause
# Point to point between the GPUs of a node.

pt2pt_sources += \
	%reldir%/descriptor.c \
	%reldir%/descriptor.h \
	%reldir%/passage.c \
	%reldir%/passage.h \
	%reldir%/receive.c \
	%reldir%/receive.h \
	%reldir%/send.c \
	%reldir%/send.h \
	%reldir%/spill.c \
	%reldir%/spill.h
