# SPDX-License-Identifier: BSD-3-Clause
# The bottom layer: status, log, settings, statistics, the arena and its boards.

base_sources += \
	%reldir%/algos.h \
	%reldir%/arena.c \
	%reldir%/arena_file.c \
	%reldir%/arena_layout.h \
	%reldir%/board.c \
	%reldir%/board.h \
	%reldir%/board_inner.h \
	%reldir%/clock.h \
	%reldir%/conf.c \
	%reldir%/conf.def \
	%reldir%/conf.h \
	%reldir%/doze.c \
	%reldir%/identity.c \
	%reldir%/identity.h \
	%reldir%/log.c \
	%reldir%/log.h \
	%reldir%/parcel.c \
	%reldir%/parcel.h \
	%reldir%/plan.h \
	%reldir%/spans.h \
	%reldir%/pool.c \
	%reldir%/reasons.c \
	%reldir%/reasons.def \
	%reldir%/reasons.h \
	%reldir%/short_float.h \
	%reldir%/stats.c \
	%reldir%/stats.h \
	%reldir%/status.c \
	%reldir%/status.h \
	%reldir%/tree.c
