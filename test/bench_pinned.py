#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What GPUs could do by way of host memory, and what Allreduce does of it: the rate of pinned copies both ways at once.

    test/bench_pinned.py [--gpus 2]                                    the rate alone
    test/bench_pinned.py --program examples/allreduce --shunt libshunt.so    and Allreduce beside it

Every GPU copies to pinned host memory and from it at the same time, by its copy engines, all GPUs side by side. The rate is
that of one direction of one GPU. In an Allreduce of two GPUs without peer access each sends and gets the vector once, so the
bytes of the vector over its time are comparable; the rounds of the two alternate. Needs the driver, and no compiler.
"""
import argparse
import ctypes
import os
import re
import statistics
import subprocess
import sys
import time


class Driver:
    """libcuda, with errors as exceptions."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        error = getattr(self.cuda, name)(*arguments)
        if error:
            raise RuntimeError(f"{name}: CUDA error {error}")

    def pointer(self, name, *arguments):
        """What a function writes to its first argument."""
        out = ctypes.c_void_p()
        self.call(name, ctypes.byref(out), *arguments)
        return out


class Gpu:
    """One GPU with two streams, two pieces of its memory and two of pinned host memory."""

    def __init__(self, driver, number, size):
        self.driver, self.size = driver, size
        device = ctypes.c_int()
        driver.call("cuDeviceGet", ctypes.byref(device), number)
        self.context = driver.pointer("cuDevicePrimaryCtxRetain", device)
        self.enter()
        self.streams = [driver.pointer("cuStreamCreate", 1) for _ in range(2)]
        self.device = [driver.pointer("cuMemAlloc_v2", ctypes.c_size_t(size)) for _ in range(2)]
        self.host = [driver.pointer("cuMemHostAlloc", ctypes.c_size_t(size), 1) for _ in range(2)]

    def enter(self):
        self.driver.call("cuCtxSetCurrent", self.context)

    def copy(self, out, back):
        """Begin one copy each way, as far as they are wanted."""
        self.enter()
        size = ctypes.c_size_t(self.size)
        if out:
            self.driver.call("cuMemcpyDtoHAsync_v2", self.host[0], self.device[0], size, self.streams[0])
        if back:
            self.driver.call("cuMemcpyHtoDAsync_v2", self.device[1], self.host[1], size, self.streams[1])

    def wait(self):
        self.enter()
        for stream in self.streams:
            self.driver.call("cuStreamSynchronize", stream)


def rate(gpus, times, out, back):
    """GB/s of one direction of one GPU."""
    for warm in (2, times):
        start = time.perf_counter()
        for _ in range(warm):
            for gpu in gpus:
                gpu.copy(out, back)
        for gpu in gpus:
            gpu.wait()
    return gpus[0].size * times / (time.perf_counter() - start) / 1e9


def allreduce(args):
    """{bytes: microseconds} as the program prints them, with peer access off."""
    environment = {**os.environ, "SHUNT_P2P_DISABLE": "1", "SHUNT_STATS": "1"}
    words = [*args.mpirun.split(), "-n", str(args.gpus), "env", "LD_PRELOAD=" + args.shunt, *args.program.split()]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                          check=False)
    if done.returncode or "by host memory between GPUs" not in done.stdout:
        sys.exit(f"failed, or not by host memory: {' '.join(words)}\n{done.stdout}")
    rows = re.findall(r"^ *(\d+) +(\d+\.\d+)", done.stdout, re.M)
    return {int(size): float(us) for size, us in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--size", type=int, default=64 << 20, help="bytes of each copy")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", help="examples/allreduce or osu_allreduce, with its arguments")
    parser.add_argument("--shunt")
    parser.add_argument("--mpirun", default="mpirun")
    args = parser.parse_args()

    driver = Driver()
    gpus = [Gpu(driver, number, args.size) for number in range(args.gpus)]
    rates, times = [], []
    for _ in range(args.rounds):
        rates.append([rate(gpus, args.times, *ways) for ways in ((True, False), (False, True), (True, True))])
        if args.program:
            times.append(allreduce(args))
    out, back, both = (statistics.median(column) for column in zip(*rates))
    print(f"{args.gpus} GPUs at once: to host memory {out:.1f}, from it {back:.1f}, both ways {both:.1f} GB/s each")
    for size in sorted(times[0]) if times else []:
        us = statistics.median(row[size] for row in times)
        print(f"{size:12} bytes {us:10.1f} us {size / us / 1e3:7.2f} GB/s {100 * size / us / 1e3 / both:5.0f} % of both ways")


if __name__ == "__main__":
    main()
