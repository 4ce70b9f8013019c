# SPDX-License-Identifier: BSD-3-Clause
# Ordinary MPI programs: nothing here knows shunt. Compiled by quickstart and by hand, with plain mpicc.
