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
	PYTHON='$(PYTHON)'; export PYTHON; \
	$(leaks_of_others)

# Host MPIs keep memory to the end, which the address sanitizer would call leaks of the test
if SANITIZE
leaks_of_others = case '$@' in *_openmpi.log | *_mpich.log) ASAN_OPTIONS=detect_leaks=0; export ASAN_OPTIONS ;; esac;
endif

script_tests = \
	%reldir%/files.sh \
	%reldir%/info.sh \
	%reldir%/layers.sh \
	%reldir%/layers_fail.sh \
	%reldir%/model.sh \
	%reldir%/settings_doc.sh
EXTRA_DIST += $(script_tests) %reldir%/layers.awk doc/model/board.pml doc/model/consent.pml doc/model/doze.pml doc/model/linger.pml \
	doc/model/parcel.pml doc/model/recall.pml doc/model/stay.pml doc/model/tickets.pml doc/model/tree.pml
TESTS += $(script_tests)

# Machines as text, for tests and for shunt-topo --from
EXTRA_DIST += $(addprefix %reldir%/machines/,$(addsuffix .topo,dgx-1v dgx-a100 dgx-h100 h200x2 hgx4 mig2 nodes-1-2 nodes-7-8 \
	nodes-8-8 nodes-8x4 one pairs4 pcie8 rtx4090x8 rtx4090x8-p2p smi-a40))

# Headers of the unit tests, whatever of these is built
EXTRA_DIST += \
	%reldir%/unit/books.h \
	%reldir%/unit/collectives.h \
	%reldir%/unit/elements.h \
	%reldir%/unit/fake_gpu.h \
	%reldir%/unit/fake_hier.h \
	%reldir%/unit/fake_run.h \
	%reldir%/unit/lines.h \
	%reldir%/unit/machines.h \
	%reldir%/unit/no_flights.h \
	%reldir%/unit/operation.h \
	%reldir%/unit/pack_driver.h \
	%reldir%/unit/ranks.h \
	%reldir%/unit/plan_run.h \
	%reldir%/unit/processes.h \
	%reldir%/unit/rounds.h \
	%reldir%/unit/settings.h \
	%reldir%/unit/sim_run.h

if HAVE_CMOCKA
unit_libs = libcore.la libbase.la $(CMOCKA_LIBS)
TESTS += $(check_PROGRAMS)

# How GPUs are joined: described machines
check_PROGRAMS += %reldir%/unit/topo %reldir%/unit/rings %reldir%/unit/pci %reldir%/unit/cluster
%canon_reldir%_unit_topo_SOURCES = %reldir%/unit/topo.c
%canon_reldir%_unit_topo_LDADD = libtopo.la libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_rings_SOURCES = %reldir%/unit/rings.c
%canon_reldir%_unit_rings_LDADD = libtopo.la libbase.la $(CMOCKA_LIBS) -lm
%canon_reldir%_unit_cluster_SOURCES = %reldir%/unit/cluster.c
%canon_reldir%_unit_cluster_LDADD = libtopo.la libbase.la $(CMOCKA_LIBS) -lm
%canon_reldir%_unit_pci_SOURCES = %reldir%/unit/pci.c
%canon_reldir%_unit_pci_LDADD = libtopo.la libbase.la $(CMOCKA_LIBS)

check_PROGRAMS += %reldir%/unit/conf %reldir%/unit/log %reldir%/unit/stats
%canon_reldir%_unit_conf_SOURCES = %reldir%/unit/conf.c
%canon_reldir%_unit_conf_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_log_SOURCES = %reldir%/unit/log.c
%canon_reldir%_unit_log_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_stats_SOURCES = %reldir%/unit/stats.c
%canon_reldir%_unit_stats_LDADD = libbase.la $(CMOCKA_LIBS)

# The arena and its boards
check_PROGRAMS += %reldir%/unit/identity %reldir%/unit/arena %reldir%/unit/board %reldir%/unit/tree %reldir%/unit/pool \
	%reldir%/unit/death %reldir%/unit/nodes %reldir%/unit/parcel
%canon_reldir%_unit_identity_SOURCES = %reldir%/unit/identity.c
%canon_reldir%_unit_identity_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_arena_SOURCES = %reldir%/unit/arena.c
%canon_reldir%_unit_arena_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_board_SOURCES = %reldir%/unit/board.c
%canon_reldir%_unit_board_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_tree_SOURCES = %reldir%/unit/tree.c
%canon_reldir%_unit_tree_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_pool_SOURCES = %reldir%/unit/pool.c
%canon_reldir%_unit_pool_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_death_SOURCES = %reldir%/unit/death.c
%canon_reldir%_unit_death_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_nodes_SOURCES = %reldir%/unit/nodes.c
%canon_reldir%_unit_nodes_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_parcel_SOURCES = %reldir%/unit/parcel.c
%canon_reldir%_unit_parcel_LDADD = libbase.la $(CMOCKA_LIBS)
# 10 seconds; `stress_board SECONDS` for more
check_PROGRAMS += %reldir%/unit/stress_board
%canon_reldir%_unit_stress_board_SOURCES = %reldir%/unit/stress_board.c
%canon_reldir%_unit_stress_board_LDADD = libbase.la
# 5 seconds; `steps all` for each instruction
check_PROGRAMS += %reldir%/unit/steps
%canon_reldir%_unit_steps_SOURCES = %reldir%/unit/steps.c
%canon_reldir%_unit_steps_LDADD = libbase.la

if HAVE_UCX
# Processes that talk by UCX; and that send each other parcels, without a GPU or an arena
check_PROGRAMS += %reldir%/unit/net %reldir%/unit/distant
%canon_reldir%_unit_net_SOURCES = %reldir%/unit/net.c
%canon_reldir%_unit_net_LDADD = libucx.la libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_distant_SOURCES = %reldir%/unit/distant.c pt2pt/descriptor.c pt2pt/distant.c pt2pt/distant_receive.c \
	pt2pt/distant_send.c
%canon_reldir%_unit_distant_LDADD = libucx.la libbase.la $(CMOCKA_LIBS)
endif

if HAVE_CUDA
# What peers have of each other; the driver and the arena are the test's
check_PROGRAMS += %reldir%/unit/mailbox %reldir%/unit/registry
%canon_reldir%_unit_mailbox_SOURCES = %reldir%/unit/mailbox.c cuda/mailbox.c
%canon_reldir%_unit_mailbox_LDADD = libbase.la $(CMOCKA_LIBS)
%canon_reldir%_unit_registry_SOURCES = %reldir%/unit/registry.c cuda/mailbox.c cuda/registry.c cuda/vmm.c
%canon_reldir%_unit_registry_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_registry_LDADD = libbase.la $(CMOCKA_LIBS)
# Which memory is surely the host's
check_PROGRAMS += %reldir%/unit/memory
%canon_reldir%_unit_memory_SOURCES = %reldir%/unit/memory.c cuda/memory.c
%canon_reldir%_unit_memory_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_memory_LDADD = $(CMOCKA_LIBS)
# Orders to a kernel that stays, and to one that lingers, and what such a kernel has not done; the kernels are the tests'
check_PROGRAMS += %reldir%/unit/stay
%canon_reldir%_unit_stay_SOURCES = %reldir%/unit/stay.c %reldir%/unit/fake_query.h %reldir%/unit/fake_stream.h cuda/orders.c cuda/pace.c cuda/stay.c
%canon_reldir%_unit_stay_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_stay_LDADD = $(CMOCKA_LIBS)
check_PROGRAMS += %reldir%/unit/fetcher
%canon_reldir%_unit_fetcher_SOURCES = %reldir%/unit/fetcher.c %reldir%/unit/fake_query.h cuda/fetcher.c cuda/orders.c cuda/pace.c cuda/stay.c
%canon_reldir%_unit_fetcher_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_fetcher_LDADD = libbase.la $(CMOCKA_LIBS)
check_PROGRAMS += %reldir%/unit/linger
%canon_reldir%_unit_linger_SOURCES = %reldir%/unit/linger.c %reldir%/unit/fake_query.h %reldir%/unit/fake_stream.h cuda/linger.c cuda/orders.c cuda/pace.c
%canon_reldir%_unit_linger_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_linger_LDADD = $(CMOCKA_LIBS)
# Members that meet at different times
check_PROGRAMS += %reldir%/unit/meet
%canon_reldir%_unit_meet_SOURCES = %reldir%/unit/meet.c coll/meet.c
%canon_reldir%_unit_meet_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_meet_LDADD = libbase.la $(CMOCKA_LIBS)
# What the rank that decides looks up; what becomes of operations whose members fail
check_PROGRAMS += %reldir%/unit/decide %reldir%/unit/drive
%canon_reldir%_unit_decide_SOURCES = %reldir%/unit/decide.c
%canon_reldir%_unit_decide_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_decide_LDADD = libcore.la libtopo.la libbase.la $(CMOCKA_LIBS) -lm
%canon_reldir%_unit_drive_SOURCES = %reldir%/unit/drive.c
%canon_reldir%_unit_drive_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_drive_LDADD = libcore.la libtopo.la libbase.la $(CMOCKA_LIBS) -lm
# Tables of what has been measured
check_PROGRAMS += %reldir%/unit/tune
%canon_reldir%_unit_tune_SOURCES = %reldir%/unit/tune.c
%canon_reldir%_unit_tune_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_tune_LDADD = libcore.la libtopo.la libbase.la $(CMOCKA_LIBS) -lm
# What goes over each link
check_PROGRAMS += %reldir%/unit/traffic
%canon_reldir%_unit_traffic_SOURCES = %reldir%/unit/traffic.c
%canon_reldir%_unit_traffic_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_traffic_LDADD = libcore.la libtopo.la libbase.la $(CMOCKA_LIBS) -lm
check_PROGRAMS += %reldir%/unit/plan
%canon_reldir%_unit_plan_SOURCES = %reldir%/unit/plan.c
%canon_reldir%_unit_plan_LDADD = $(unit_libs)
check_PROGRAMS += %reldir%/unit/select
%canon_reldir%_unit_select_SOURCES = %reldir%/unit/select.c
%canon_reldir%_unit_select_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_select_LDADD = $(unit_libs)
endif

# What includes mpi.h is tested once for each MPI, one rank without mpirun
check_PROGRAMS += %reldir%/unit/key %reldir%/unit/map
%canon_reldir%_unit_key_SOURCES = %reldir%/unit/key.c mpi/key.c
%canon_reldir%_unit_key_LDADD = $(CMOCKA_LIBS)
%canon_reldir%_unit_map_SOURCES = %reldir%/unit/map.c mpi/map.c
%canon_reldir%_unit_map_LDADD = $(CMOCKA_LIBS)
flatten_sources = mpi/flatten.c mpi/patterns.c cuda/pattern.c cuda/outline.c
staging_sources = mpi/classify.c mpi/forms.c mpi/image.c mpi/map.c mpi/operand.c mpi/tally.c mpi/types.c mpi/float16.c cuda/types.c \
	mpi/aside.c mpi/covered.c mpi/device.c mpi/edges.c mpi/packed.c mpi/parts.c mpi/rows.c mpi/spans.c coll/colls.c $(flatten_sources)
allreduce_test_sources = %reldir%/unit/allreduce.c mpi/collective.c $(staging_sources)
icoll_test_sources = %reldir%/unit/icoll.c mpi/operation.c mpi/copying.c mpi/face.c mpi/flight.c mpi/kept.c $(staging_sources)
types_test_sources = %reldir%/unit/types.c mpi/float16.c mpi/types.c cuda/types.c
flatten_test_sources = %reldir%/unit/flatten.c mpi/map.c $(flatten_sources)
comm_test_sources = %reldir%/unit/comm.c mpi/comm.c mpi/completion.c mpi/forms.c mpi/idup.c mpi/key.c mpi/map.c mpi/request.c

if HAVE_ENGINE_OPENMPI
check_PROGRAMS += %reldir%/unit/allreduce_openmpi %reldir%/unit/comm_openmpi %reldir%/unit/flatten_openmpi \
	%reldir%/unit/icoll_openmpi %reldir%/unit/types_openmpi
%canon_reldir%_unit_allreduce_openmpi_SOURCES = $(allreduce_test_sources)
%canon_reldir%_unit_allreduce_openmpi_CPPFLAGS = $(engine_openmpi_la_CPPFLAGS)
%canon_reldir%_unit_allreduce_openmpi_LDADD = libbase.la $(OPENMPI_LIBS) $(CMOCKA_LIBS)
%canon_reldir%_unit_comm_openmpi_SOURCES = $(comm_test_sources)
%canon_reldir%_unit_comm_openmpi_CPPFLAGS = $(engine_openmpi_la_CPPFLAGS)
%canon_reldir%_unit_comm_openmpi_LDADD = libbase.la $(OPENMPI_LIBS) $(CMOCKA_LIBS)
%canon_reldir%_unit_flatten_openmpi_SOURCES = $(flatten_test_sources)
%canon_reldir%_unit_flatten_openmpi_CPPFLAGS = $(engine_openmpi_la_CPPFLAGS)
%canon_reldir%_unit_flatten_openmpi_LDADD = libbase.la $(OPENMPI_LIBS) $(CMOCKA_LIBS)
%canon_reldir%_unit_icoll_openmpi_SOURCES = $(icoll_test_sources)
%canon_reldir%_unit_icoll_openmpi_CPPFLAGS = $(engine_openmpi_la_CPPFLAGS)
%canon_reldir%_unit_icoll_openmpi_LDADD = libbase.la $(OPENMPI_LIBS) $(CMOCKA_LIBS)
%canon_reldir%_unit_types_openmpi_SOURCES = $(types_test_sources)
%canon_reldir%_unit_types_openmpi_CPPFLAGS = $(engine_openmpi_la_CPPFLAGS)
%canon_reldir%_unit_types_openmpi_LDADD = $(OPENMPI_LIBS) $(CMOCKA_LIBS) -lm
endif

if HAVE_ENGINE_MPICH
check_PROGRAMS += %reldir%/unit/allreduce_mpich %reldir%/unit/comm_mpich %reldir%/unit/flatten_mpich \
	%reldir%/unit/icoll_mpich %reldir%/unit/types_mpich
%canon_reldir%_unit_allreduce_mpich_SOURCES = $(allreduce_test_sources)
%canon_reldir%_unit_allreduce_mpich_CPPFLAGS = $(engine_mpich_la_CPPFLAGS)
%canon_reldir%_unit_allreduce_mpich_LDADD = libbase.la $(MPICH_LIBS) $(CMOCKA_LIBS)
%canon_reldir%_unit_comm_mpich_SOURCES = $(comm_test_sources)
%canon_reldir%_unit_comm_mpich_CPPFLAGS = $(engine_mpich_la_CPPFLAGS)
%canon_reldir%_unit_comm_mpich_LDADD = libbase.la $(MPICH_LIBS) $(CMOCKA_LIBS)
%canon_reldir%_unit_flatten_mpich_SOURCES = $(flatten_test_sources)
%canon_reldir%_unit_flatten_mpich_CPPFLAGS = $(engine_mpich_la_CPPFLAGS)
%canon_reldir%_unit_flatten_mpich_LDADD = libbase.la $(MPICH_LIBS) $(CMOCKA_LIBS)
%canon_reldir%_unit_icoll_mpich_SOURCES = $(icoll_test_sources)
%canon_reldir%_unit_icoll_mpich_CPPFLAGS = $(engine_mpich_la_CPPFLAGS)
%canon_reldir%_unit_icoll_mpich_LDADD = libbase.la $(MPICH_LIBS) $(CMOCKA_LIBS)
%canon_reldir%_unit_types_mpich_SOURCES = $(types_test_sources)
%canon_reldir%_unit_types_mpich_CPPFLAGS = $(engine_mpich_la_CPPFLAGS)
%canon_reldir%_unit_types_mpich_LDADD = $(MPICH_LIBS) $(CMOCKA_LIBS) -lm
endif


if HAVE_SIM
check_PROGRAMS += %reldir%/unit/sim_kernels %reldir%/unit/sim_mistakes
%canon_reldir%_unit_sim_kernels_SOURCES = %reldir%/unit/sim_kernels.cpp
%canon_reldir%_unit_sim_kernels_LDADD = libsimkernel.la $(CMOCKA_LIBS)
%canon_reldir%_unit_sim_mistakes_SOURCES = %reldir%/unit/sim_mistakes.cpp
%canon_reldir%_unit_sim_mistakes_LDADD = libsimkernel.la $(CMOCKA_LIBS)

if HAVE_CUDA
# Packs and unpacks with the kernels of libshunt-simkernels.so; the driver is the test's
check_PROGRAMS += %reldir%/unit/pack
%canon_reldir%_unit_pack_SOURCES = %reldir%/unit/pack.c cuda/pack.c cuda/packer.c cuda/pattern.c cuda/outline.c cuda/pageable.c cuda/recall.c cuda/stage.c
%canon_reldir%_unit_pack_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%canon_reldir%_unit_pack_LDADD = libbase.la $(CMOCKA_LIBS)
EXTRA_%canon_reldir%_unit_pack_DEPENDENCIES = libshunt-simkernels.la
endif

# Opens libshunt-simkernels.so, as the simulated GPU does
check_PROGRAMS += %reldir%/unit/kernels
%canon_reldir%_unit_kernels_SOURCES = %reldir%/unit/kernels.cpp
%canon_reldir%_unit_kernels_CXXFLAGS = $(AM_CXXFLAGS) -ffp-contract=off
%canon_reldir%_unit_kernels_LDADD = $(unit_libs)
EXTRA_%canon_reldir%_unit_kernels_DEPENDENCIES = libshunt-simkernels.la
endif
endif

# Programs of the multi-process tests, ordinary MPI programs that use nothing of shunt: a name here is NAME.c, built
# once for each MPI as test/FAMILY/NAME with what they share
mpi_test_programs = bench_types check_init check_accesses check_across check_allreduce check_app check_bursts check_collectives check_comms \
	check_concurrent check_ends check_errors check_files check_flights check_float16 check_huge check_layouts check_leftovers \
	check_life check_memory check_messages check_mismatch check_nodes check_packing check_random check_repeats check_requests check_room check_rows \
	check_spawn check_starts check_threads check_types \
	check_parcels check_partners check_parts check_storm check_unusual check_user check_waits check_windows
mpi_test_shared = by_driver case comms gpu pair refer sum
process_tests = checker allreduce algorithms tune hier collectives random staged requests flights repeats types float16 memory faults containers levels shm topo life messages nodes machines linger \
	ll128 app room clients mpich_suite mpi4py
mpi_test_headers = $(mpi_test_shared:%=$(srcdir)/%reldir%/%.h) \
	$(addprefix $(srcdir)/%reldir%/,calls.h counted.h driver_calls.h form.h parts.h places.h ring.h short_float.h)
# Products and sums are rounded apart, as the reference wants it
MPI_TEST_CC = $(AM_V_CC)$(MKDIR_P) $(@D) && $(1) -std=gnu11 -g -O2 $(WARNING_FLAGS) $(SANITIZE_FLAGS) -ffp-contract=off \
	-pthread -I$(top_srcdir)
EXTRA_DIST += $(mpi_test_programs:%=%reldir%/%.c) $(mpi_test_shared:%=%reldir%/%.c) $(mpi_test_shared:%=%reldir%/%.h)
EXTRA_DIST += %reldir%/calls.h %reldir%/counted.h %reldir%/driver_calls.h %reldir%/form.h %reldir%/parts.h %reldir%/places.h %reldir%/ring.h %reldir%/short_float.h %reldir%/liar.c %reldir%/harness.py %reldir%/machines.py %reldir%/conftest.py $(addprefix %reldir%/test_,$(process_tests:%=%.py))
check_DATA =
CLEANFILES += $(check_DATA) %reldir%/openmpi/*.o %reldir%/mpich/*.o
.PRECIOUS: %reldir%/openmpi/%.o %reldir%/mpich/%.o

if HAVE_ENGINE_OPENMPI
check_DATA += $(mpi_test_programs:%=%reldir%/openmpi/%) %reldir%/openmpi/liar.so
%reldir%/openmpi/%.o: $(srcdir)/%reldir%/%.c $(mpi_test_headers)
	$(call MPI_TEST_CC,$(OPENMPI_MPICC)) -c -o $@ $<
%reldir%/openmpi/%: %reldir%/openmpi/%.o $(mpi_test_shared:%=%reldir%/openmpi/%.o)
	$(call MPI_TEST_CC,$(OPENMPI_MPICC)) -o $@ $^ -ldl -lm
%reldir%/openmpi/%.so: $(srcdir)/%reldir%/%.c
	$(call MPI_TEST_CC,$(OPENMPI_MPICC)) -shared -fPIC -o $@ $< -ldl
endif

if HAVE_ENGINE_MPICH
check_DATA += $(mpi_test_programs:%=%reldir%/mpich/%) %reldir%/mpich/liar.so
%reldir%/mpich/%.o: $(srcdir)/%reldir%/%.c $(mpi_test_headers)
	$(call MPI_TEST_CC,$(MPICH_MPICC)) -c -o $@ $<
%reldir%/mpich/%: %reldir%/mpich/%.o $(mpi_test_shared:%=%reldir%/mpich/%.o)
	$(call MPI_TEST_CC,$(MPICH_MPICC)) -o $@ $^ -ldl -lm
%reldir%/mpich/%.so: $(srcdir)/%reldir%/%.c
	$(call MPI_TEST_CC,$(MPICH_MPICC)) -shared -fPIC -o $@ $< -ldl
endif

# Preloaded, whatever the MPI
check_DATA += %reldir%/heap.so
%reldir%/heap.so: $(srcdir)/%reldir%/heap.c
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) -std=gnu11 -g -O2 $(WARNING_FLAGS) -shared -fPIC -o $@ $< -ldl

# Without MPI: launched is for test_launchers.py, bench_board says what a board costs
noinst_PROGRAMS += %reldir%/launched %reldir%/bench_board
%canon_reldir%_launched_SOURCES = %reldir%/launched.c
%canon_reldir%_launched_LDADD = libbase.la
%canon_reldir%_bench_board_SOURCES = %reldir%/bench_board.c
%canon_reldir%_bench_board_LDADD = libbase.la
EXTRA_DIST += %reldir%/test_launchers.py

# The multi-process tests run the installation in build/stage; build.json tells them what there is.
# PYTESTFLAGS=-k... chooses some, CLIENTS_BUILD names the folder of test programs of others (see clients.sh)
PYTEST = $(PYTHON) -m pytest
PYTESTFLAGS =
pytest_environment = builddir='$(abs_top_builddir)' CLIENTS_BUILD='$(CLIENTS_BUILD)' PYTHONDONTWRITEBYTECODE=1
EXTRA_DIST += %reldir%/bench_allreduce.py %reldir%/bench_pinned.py %reldir%/clients.sh %reldir%/device_arrays.py %reldir%/fake_cupy/cupy.py %reldir%/hosts.py %reldir%/hw.sh %reldir%/heap.c %reldir%/suite.py %reldir%/osu.py %reldir%/mpi4py_suite.py

if HAVE_PYTEST
check-local: check-processes
check-processes: stage
	@$(pytest_environment) $(PYTEST) -p no:cacheprovider -v -rs $(PYTESTFLAGS) $(abs_top_srcdir)/%reldir%
else
check-local check-processes:
	@echo "SKIP: the multi-process tests (pytest was not found for $(PYTHON))"
endif
# The programs that they run, without the unit tests
check-data: $(check_DATA)
.PHONY: check-data check-processes
EXTRA_DIST += %reldir%/test_comm.py %reldir%/test_info.py %reldir%/test_install.py

front_test_programs = absent.c bindings.inc calls.F90 calls.c calls.py fake.c host.c init.c jump.c plugin.c query.c race.c tool.c waits.F90
EXTRA_DIST += %reldir%/test_front.py $(front_test_programs:%=%reldir%/front/%)

# Run by hand: what shunt costs on host memory
EXTRA_DIST += %reldir%/cost.c %reldir%/cost.sh

# Run by hand: threads under the thread sanitizer
EXTRA_DIST += %reldir%/tsan.sh
tsan: stage
	srcdir='$(abs_top_srcdir)' builddir='$(abs_top_builddir)' MPICC='$(OPENMPI_MPICC)' MPIRUN='$(OPENMPI_MPIRUN)' \
		$(SHELL) $(srcdir)/%reldir%/tsan.sh $(TSANFLAGS)
.PHONY: tsan
