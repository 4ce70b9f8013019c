# SPDX-License-Identifier: BSD-3-Clause
# Unit tests (cmocka), checks of the sources, and the multi-process tests (pytest). Every test has a time limit.
#
# A unit test is three lines:   check_PROGRAMS += %reldir%/unit/x
#                               %canon_reldir%_unit_x_SOURCES = %reldir%/unit/x.c
#                               %canon_reldir%_unit_x_LDADD = $(unit_libs)

TEST_EXTENSIONS = .sh
LOG_COMPILER = timeout -k 5 120
SH_LOG_COMPILER = timeout -k 5 120 $(SHELL)
AM_TESTS_ENVIRONMENT = \
	srcdir='$(abs_top_srcdir)'; export srcdir; \
	builddir='$(abs_top_builddir)'; export builddir; \
	PYTHON='$(PYTHON)'; export PYTHON;

EXTRA_DIST += %reldir%/layers.awk %reldir%/layers.sh %reldir%/layers_fail.sh
TESTS += %reldir%/layers.sh %reldir%/layers_fail.sh

if HAVE_CMOCKA
unit_libs = libcore.la libbase.la $(CMOCKA_LIBS)
TESTS += $(check_PROGRAMS)

EXTRA_DIST += %reldir%/unit/lines.h %reldir%/unit/settings.h
check_PROGRAMS += %reldir%/unit/conf %reldir%/unit/log %reldir%/unit/stats
%canon_reldir%_unit_conf_SOURCES = %reldir%/unit/conf.c
%canon_reldir%_unit_conf_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_log_SOURCES = %reldir%/unit/log.c
%canon_reldir%_unit_log_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_stats_SOURCES = %reldir%/unit/stats.c base/stats.c
%canon_reldir%_unit_stats_LDADD = libbase.la $(CMOCKA_LIBS)

if HAVE_SIM
check_PROGRAMS += %reldir%/unit/sim_kernels
%canon_reldir%_unit_sim_kernels_SOURCES = %reldir%/unit/sim_kernels.cpp
%canon_reldir%_unit_sim_kernels_LDADD = libsimkernel.la $(CMOCKA_LIBS)
endif
endif

# The multi-process tests run the installation in build/stage; build.json tells them what there is.
# PYTESTFLAGS=-k... chooses some, CLIENTS_BUILD names the folder of test programs of others (see clients.sh)
PYTEST = $(PYTHON) -m pytest
PYTESTFLAGS =
pytest_environment = builddir='$(abs_top_builddir)' CLIENTS_BUILD='$(CLIENTS_BUILD)' PYTHONDONTWRITEBYTECODE=1
EXTRA_DIST += %reldir%/clients.sh

if HAVE_PYTEST
check-local: stage
	@$(pytest_environment) $(PYTEST) -p no:cacheprovider -v -rs $(PYTESTFLAGS) $(abs_top_srcdir)/%reldir%
else
check-local:
	@echo "SKIP: the multi-process tests (pytest was not found for $(PYTHON))"
endif
EXTRA_DIST += %reldir%/test_install.py
