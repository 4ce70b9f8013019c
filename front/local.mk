# SPDX-License-Identifier: BSD-3-Clause
# libshunt.so: what one preloads or links. It needs libc alone and shows the MPI names and shunt_*, nothing else.

front_sources +=

lib_LTLIBRARIES += libshunt.la
libshunt_la_SOURCES = $(front_sources)
nodist_libshunt_la_SOURCES = $(front_generated)
libshunt_la_LIBADD = libbase.la
libshunt_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -Wl,--version-script=$(srcdir)/%reldir%/shunt.map
EXTRA_libshunt_la_DEPENDENCIES = $(srcdir)/%reldir%/shunt.map
EXTRA_DIST += %reldir%/shunt.map

# Written by mpi/gen.py from mpi/calls.txt
front_generated =
