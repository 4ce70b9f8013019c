# SPDX-License-Identifier: BSD-3-Clause
# libshunt.so: what one preloads or links. It needs libc alone and shows the MPI names and shunt_*, nothing else.

front_sources += \
	%reldir%/absent.c \
	%reldir%/absent.h \
	%reldir%/front.c \
	%reldir%/front.h \
	%reldir%/library.c \
	%reldir%/library.h \
	%reldir%/names.c \
	%reldir%/slots.S \
	%reldir%/slots.h

lib_LTLIBRARIES += libshunt.la
libshunt_la_SOURCES = $(front_sources)
nodist_libshunt_la_SOURCES = $(front_generated)
libshunt_la_LIBADD = libbase.la
libshunt_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -Wl,-z,defs -Wl,--hash-style=both -Wl,--version-script=$(srcdir)/%reldir%/shunt.map
EXTRA_libshunt_la_DEPENDENCIES = $(srcdir)/%reldir%/shunt.map
EXTRA_DIST += %reldir%/shunt.map
include_HEADERS += include/shunt.h

# Written by mpi/gen.py from mpi/calls.txt. Of slots.S no compiler reports that it includes slots.def.
front_generated = %reldir%/slots.def
BUILT_SOURCES += $(front_generated)
CLEANFILES += $(front_generated)
%reldir%/slots.def: $(calls_table)
	$(AM_V_GEN)$(MKDIR_P) %reldir% && $(calls_write) slots $(calls_txt) >$@.tmp && mv $@.tmp $@
slots_object = %reldir%/slots.lo
$(slots_object): %reldir%/slots.def
