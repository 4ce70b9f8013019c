# SPDX-License-Identifier: BSD-3-Clause
# The bottom layer: status, log, settings, statistics, the arena and its boards.

base_sources += \
	%reldir%/board.h \
	%reldir%/conf.c \
	%reldir%/conf.def \
	%reldir%/conf.h \
	%reldir%/log.c \
	%reldir%/log.h \
	%reldir%/plan.h \
	%reldir%/reasons.c \
	%reldir%/reasons.def \
	%reldir%/reasons.h \
	%reldir%/stats.h \
	%reldir%/status.c \
	%reldir%/status.h
