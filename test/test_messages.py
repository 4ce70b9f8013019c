# SPDX-License-Identifier: BSD-3-Clause
"""Messages between GPUs that are fetched out of the sender's buffer: random ones, and that each way is gone."""
import re

import pytest

from harness import MEAN, Block, lines_apart, mpirun

PARCELS = {"SHUNT_MESSAGE_SIZE": "1"}


def parcels(result):
    """Messages that were fetched from the sender's buffer, and that were moved to host memory."""
    found = re.search(r"messages: (\d+) fetched from the sender's buffer, (\d+) moved to host memory", result.err)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def storm(family, ranks, rounds, *words, settings=(), limit=100, faults=()):
    result = mpirun(family, ranks, "check_storm", rounds, MEAN["SHUNT_SIM_SEED"], *words,
                    settings={**PARCELS, **dict(settings)}, limit=limit, faults=faults)
    result.checked()
    return parcels(result)


@pytest.mark.parametrize("words", [(), ("fresh",)], ids=["kept", "fresh"])
def test_storm(family, words):
    pulled, moved = storm(family, 2, 300, *words)
    assert pulled > 20 and moved > 5


def test_probes(family):
    pulled, moved = storm(family, 2, 300, "probe")
    assert pulled > 20 and moved > 5


def test_probes_and_messages_like_descriptors(family):
    storm(family, 2, 300, "probe", "odd")


def test_kernels_that_are_called_back_and_run_after_all(family):
    """Those that pack messages with gaps find room before it is known whether they have begun."""
    storm(family, 2, 100, settings={"SHUNT_ROOM_MS": "1", "SHUNT_MESSAGE_SIZE": "inf"})


def test_every_call(family):
    """Hosts of MPICH's family differ in what they leave of a message that is too long."""
    result = mpirun(family, 2, "check_messages", "cut", "D:D", "H:D", "DH:HD", settings=PARCELS)
    result.checked()
    assert sum(parcels(result)) > 20


def test_four_ranks():
    pulled, moved = storm("openmpi", 4, 100, "probe")
    assert pulled > 0 and moved > 0


def unlaunched(result):
    found = re.search(r"messages: (\d+) fetched without a launch", result.err)
    return int(found[1]) if found else 0


# Thirty microseconds of the kernels' time are most of a second here: processes take turns on few cores
def bursts(family, linger, rounds=10):
    result = mpirun(family, 2, "check_bursts", rounds, MEAN["SHUNT_SIM_SEED"],
                    settings={**PARCELS, "SHUNT_LINGER": linger, "SHUNT_SIM_SLOW": "30000",
                              "SHUNT_MESSAGE_PATIENCE": "60000000"}, limit=100)
    result.checked()
    assert parcels(result)[0] > 20
    return unlaunched(result)


def test_kernels_that_stay(family):
    """They fetch what comes next, small and large, one and several, and leave when the program waits for the GPU."""
    assert bursts(family, "on") > 3


def test_no_kernel_stays(family):
    assert bursts(family, "off") == 0


# What only patience ends shall not end: then nothing but the rule lets the sender go on
ENDLESS = {"SHUNT_MESSAGE_PATIENCE": "60000000"}

# Every size is packed, not only where that is the faster way
LAYOUTS = {"pieces": {"SHUNT_STAGE_CHUNK": "4k"}, "little room": {"SHUNT_MESSAGE_ROOM": "150k"}}


def layouts(family, kind, settings):
    """How many of two ranks' messages were packed, and unpacked, on the GPUs."""
    result = mpirun(family, 2, "check_layouts", 24, MEAN["SHUNT_SIM_SEED"], kind,
                    settings={**PARCELS, **ENDLESS, "SHUNT_MESSAGE_GAPS": "1", **settings})
    result.checked()
    found = re.search(r"messages: (\d+) packed for their receivers, (\d+) unpacked by them", result.err)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def test_layouts(family):
    packed, unpacked = layouts(family, "D", {})
    assert packed > 0 and unpacked > 0


@pytest.mark.parametrize("settings", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_on_other_ways(settings):
    packed, unpacked = layouts("openmpi", "D", settings)
    assert packed > 0 and unpacked > 0


def test_layouts_that_are_moved():
    """The sender has no patience: what it has packed it moves to host memory, from where it is unpacked."""
    assert layouts("openmpi", "D", {"SHUNT_MESSAGE_PATIENCE": "0"})[0] > 0


def test_layouts_that_are_staged():
    assert layouts("openmpi", "D", {"SHUNT_MESSAGE_GAPS": "inf"}) == (0, 0)


def test_memory_that_no_peer_can_open():
    packed, unpacked = layouts("openmpi", "A", {})
    assert packed > 0 and unpacked > 0


@pytest.mark.parametrize("program", ["check_requests", "check_starts", "check_unusual"])
def test_requests(family, program):
    """What test_requests.py asks of messages that are staged."""
    result = mpirun(family, 2, program, "D:D", settings={**PARCELS, "SHUNT_MESSAGE_GAPS": "1"})
    result.checked()
    assert sum(parcels(result)) > 20


def test_messages_between_two_groups(family):
    """They are plain, while those in the world, ten each way, are not once they have been warmed up."""
    result = mpirun(family, 2, "check_partners", 30, settings={**PARCELS, **ENDLESS})
    result.checked()
    assert 0 < sum(parcels(result)) <= 20


def test_receivers_on_another_node():
    """Of three ranks in a ring only the first and the second are on one node."""
    blocks = [Block(1, ["check_requests", "D:D"], settings={"SHUNT_NODE": node}) for node in "aab"]
    result = lines_apart(lambda apart: mpirun("openmpi", blocks=blocks, settings=apart), PARCELS)
    result.checked()
    assert sum(parcels(result)) > 20


def test_off(family):
    assert storm(family, 2, 50, settings={"SHUNT_MESSAGE_SIZE": "inf"}) == (0, 0)


def rule(family, name, limit=60, **settings):
    result = mpirun(family, 2, "check_parcels", name, settings={**PARCELS, **settings}, limit=limit)
    result.checked()
    return parcels(result)


def test_a_receive_shorter_than_a_descriptor_frees_its_sender(family):
    pulled, moved = rule(family, "short", **ENDLESS)
    assert pulled > 150 and moved == 0


def test_probes_tell_each_its_own_size(family):
    pulled, moved = rule(family, "probe", **ENDLESS)
    assert pulled > 4 and moved == 0


def test_what_has_come_is_fetched_while_others_are_waited_for(family):
    assert rule(family, "wait", **ENDLESS)[0] >= 6


def test_messages_while_a_collective_is_under_way(family):
    assert sum(rule(family, "flying")) > 6


def test_types_that_are_freed_while_a_receive_is_under_way(family):
    assert sum(rule(family, "types")) > 4


def test_receives_from_before_cuda_are_known(family):
    assert rule(family, "early", **ENDLESS)[0] > 0


def test_a_receiver_without_cuda(family):
    assert rule(family, "never") == (0, 0)


def test_a_barrier_between_receive_and_wait(family):
    assert rule(family, "barrier")[1] > 0


def test_the_sender_resets_its_device(family):
    assert rule(family, "reset")[1] >= 1


@pytest.mark.parametrize("name", ["disconnected", "finalized"])
def test_a_freed_send_ends_before_its_communicator(family, name):
    moved = rule(family, name)[1]
    assert moved >= 1 or name == "finalized"  # where the statistics have been printed by then


def test_a_synchronous_send_ends_when_it_is_matched(family):
    assert rule(family, "matched")[1] >= 2


def test_many_outstanding(family):
    assert sum(rule(family, "many")) > 100


def test_eight_threads(family):
    rule(family, "threads")


def test_messages_to_itself(family):
    rule(family, "self")


@pytest.mark.parametrize("fault, goes", [("kept", True), ("lost", False)])
def test_storm_on_other_drivers(fault, goes):
    assert (sum(storm("openmpi", 2, 60, "fresh", "probe", faults=[fault])) > 0) == goes


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["", "kept", "far", "noipc"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_long_storm(family, ranks, fault):
    storm(family, ranks, 4000, "fresh", "probe", limit=900, faults=[fault] if fault else [])


@pytest.mark.slow
@pytest.mark.parametrize("patience", ["0", "20", "2000"])
def test_long_storm_of_senders_that_wait(family, patience):
    storm(family, 2, 4000, "probe", settings={"SHUNT_MESSAGE_PATIENCE": patience, "SHUNT_LINGER": "on",
                                              "SHUNT_SIM_SLOW": "3000"}, limit=900)
