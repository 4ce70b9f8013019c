# SPDX-License-Identifier: BSD-3-Clause
"""Machines made of namespaces: each has a network, a host name, System V memory, mounts and a /dev/shm of its own, and is
joined to the others by a bridge. Open MPI reaches them through an agent in place of ssh. They end with the process that made
them, whatever becomes of it: each is held by a `cat` that waits for its end.

    with Machines(2, folder) as machines:
        machines.mpirun([3, 1], "slot", "check_nodes", "aaab", 10)

What goes wrong between machines: loss, rate, cut and mend, delay.
"""
import array
import fcntl
import heapq
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import time

import harness

NAMES = "abcdefgh"
ENTER = ["-n", "-u", "-i", "-m"]
ETHERNET = ("--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0")


def run(*words):
    subprocess.run(words, check=True, capture_output=True, timeout=30)


def permitted():
    """Namespaces, and in them a bridge and pairs of interfaces."""
    words = ["unshare", *ENTER, "sh", "-c", "mount -t tmpfs none /dev/shm && hostname x && ip link add br0 type bridge && "
             "ip link add v0 type veth peer name v1"]
    try:
        return os.geteuid() == 0 and subprocess.run(words, capture_output=True, timeout=20).returncode == 0
    except OSError:
        return False


class Machine:
    """One of them; `inside` is what a command begins with that runs there."""

    def __init__(self, name, folder, hosts):
        setup = ("mount --make-rprivate / && mount -t tmpfs -o mode=1777 none /dev/shm && "
                 f"mount --bind {hosts} /etc/hosts && hostname {name} && ip link set lo up && echo ready && exec cat")
        self.holder = subprocess.Popen(["unshare", *ENTER, "sh", "-c", setup], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "ready\n"
        self.name, self.inside = name, ["nsenter", "-t", str(self.holder.pid), *ENTER]
        (folder / name).write_text(f"{self.holder.pid}\n")

    def do(self, *words):
        run(*self.inside, *words)

    def files(self):
        done = subprocess.run([*self.inside, "ls", "-A", "/dev/shm"], check=True, capture_output=True, text=True)
        return sorted(harness.ours(done.stdout.split()))

    def end(self):
        self.holder.stdin.close()
        self.holder.wait(10)


class Machines:
    def __init__(self, n, folder):
        self.folder, self.all, self.relays = folder, [], []
        (folder / "hosts").write_text("127.0.0.1 localhost\n" +
                                      "".join(f"10.77.0.{i + 1} {name}\n" for i, name in enumerate(NAMES[:n])))
        agent = folder / "agent"  # mpirun calls it with a host and a command
        agent.write_text(f'#!/bin/sh\nhost=$1\nshift\nexec nsenter -t "$(cat {folder}/$host)" {" ".join(ENTER)} '
                         '/bin/sh -c "$*"\n')
        agent.chmod(0o755)
        self.hub = None
        self.n = n

    def __enter__(self):
        self.hub = Machine("hub", self.folder, self.folder / "hosts")
        self.hub.do("ip", "link", "add", "br0", "type", "bridge")
        self.hub.do("ip", "link", "set", "br0", "up")
        for i, name in enumerate(NAMES[:self.n]):
            machine = Machine(name, self.folder, self.folder / "hosts")
            self.all.append(machine)
            self.hub.do("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns",
                        str(machine.holder.pid))
            self.hub.do("ip", "link", "set", f"to-{name}", "master", "br0", "up")
            machine.do("ip", "address", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            machine.do("ip", "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_):
        for relay in self.relays:
            relay.kill()
            relay.wait()
        for machine in self.all + ([self.hub] if self.hub else []):
            machine.end()

    # ---- jobs ----

    def run(self, line, limit):
        """On the first machine."""
        at = line.index("--") + 1 if "--" in line else 0
        result = harness.run(line[:at] + self.all[0].inside + line[at:], limit)
        left = {machine.name: files for machine in self.all if (files := machine.files())}
        assert not left, f"left in /dev/shm: {left}\n{result}"
        return result

    def mpirun(self, sizes, order, *words, limit=60, net=ETHERNET, launcher_words=(), **more):
        """sizes: ranks of each machine; order: slot or node; net: how Open MPI chooses interfaces."""
        hosts = ",".join(f"{machine.name}:{n}" for machine, n in zip(self.all, sizes))
        return self.run(harness.command("openmpi", sum(sizes), *words, gpus=max(sizes), launcher_words=[
            "--host", hosts, "--map-by", order, "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", self.folder / "agent", "--mca",
            "pml", "ob1", "--mca", "btl", "tcp,vader,self", *net, *launcher_words], **more), limit)

    # ---- what goes wrong ----

    def loss(self, percent):
        """Of what each machine sends."""
        for machine in self.all:
            machine.do("nft", "add table inet t; add chain inet t c { type filter hook output priority 0; }; add rule inet t c "
                       f"oifname eth0 numgen random mod 100 < {percent} drop")

    def rate(self, mbit):
        for machine in self.all:
            machine.do("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{mbit}mbit", "burst", "64k", "latency", "50ms")

    def cut(self, name):
        self.hub.do("ip", "link", "set", f"to-{name}", "down")

    def mend(self, name):
        self.hub.do("ip", "link", "set", f"to-{name}", "up")

    def delay(self, name, milliseconds):
        """Of all that goes to and comes from this machine: by a process that holds frames back."""
        machine = next(machine for machine in self.all if machine.name == name)
        for one in self.all:
            one.do(sys.executable, __file__, "plain", "eth0")
        self.hub.do("ip", "link", "set", f"to-{name}", "nomaster")
        self.hub.do("ip", "link", "add", "far", "type", "veth", "peer", "name", "near")
        self.hub.do("ip", "link", "set", "near", "master", "br0", "up")
        self.hub.do("ip", "link", "set", "far", "up")
        relay = subprocess.Popen([*self.hub.inside, sys.executable, __file__, "relay", f"to-{name}", "far", str(milliseconds)],
                                 stdout=subprocess.PIPE, text=True)
        self.relays.append(relay)
        assert relay.stdout.readline() == "ready\n"
        machine.do("ping", "-c", "1", "-W", "5", "10.77.0.1") if shutil.which("ping") else None


def make_plain(interface):
    """Frames as they would be on a wire: with checksums, and none longer than it takes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in (0x17, 0x1f, 0x24):  # ETHTOOL_STXCSUM, _STSO, _SGSO
            value = array.array("B", struct.pack("II", command, 0))
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(any_socket, 0x8946, request)  # SIOCETHTOOL


def relay_frames(one, other, seconds):
    ends = []
    for name in (one, other):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        end.bind((name, 0))
        end.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        ends.append(end)
    print("ready", flush=True)
    waiting, number = [], 0
    while True:
        left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select(ends, [], [], left)[0]:
            frame, address = end.recvfrom(65536)
            if address[2] != socket.PACKET_OUTGOING:
                heapq.heappush(waiting, (time.monotonic() + seconds, number, frame, ends[1 - ends.index(end)]))
                number += 1
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, frame, end = heapq.heappop(waiting)
            end.send(frame)


if __name__ == "__main__":
    if sys.argv[1] == "plain":
        make_plain(sys.argv[2])
    else:
        relay_frames(sys.argv[2], sys.argv[3], float(sys.argv[4]) / 1000)
