# SPDX-License-Identifier: BSD-3-Clause
# Ordinary MPI programs: nothing here knows shunt. quickstart and users compile them with plain mpicc.

examplesdir = $(docdir)/examples
dist_examples_DATA = %reldir%/allreduce.c
