# SPDX-License-Identifier: BSD-3-Clause
# Collectives: tasks, plans, selection, the run of an operation.

coll_sources += \
	%reldir%/run.h \
	%reldir%/task.h
