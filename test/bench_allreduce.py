#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Time OSU's osu_allreduce on device memory under shunt beside NCCL's all_reduce_perf, in one run, as ratios.

    test/bench_allreduce.py --osu osu_allreduce --nccl all_reduce_perf --shunt prefix/lib/libshunt.so

Both are other people's programs, not changed. The rounds of the two alternate, and each figure is the median of the
rounds, so that a machine that slows down slows both. Prints a table for doc/results/.
"""
import argparse
import os
import statistics
import subprocess
import sys

SIZES = [8, 64, 512, 4096, 32768, 65536, 262144, 1 << 20, 2 << 20, 8 << 20, 16 << 20, 128 << 20, 1 << 30]


def run(command, env, limit=120):
    done = subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=limit, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout}")
    return [line.split() for line in done.stdout.splitlines() if line.strip() and line.split()[0].isdigit()]


# bytes from, to, iterations, warm-up
RANGES = [(8, 65536, 200, 20), (131072, 1 << 30, 20, 3)]


def osu_times(args):
    times = {}
    for low, high, iterations, warm_up in RANGES:
        for row in run([*args.mpirun.split(), "-n", str(args.ranks), "-x", "LD_PRELOAD=" + args.shunt, args.osu, "-d",
                        "cuda", "-T", "mpi_float", "-i", str(iterations), "-x", str(warm_up), "-m", f"{low}:{high}",
                        "-M", str(high)], {}):
            times[int(row[0])] = float(row[1])
    return times


def nccl_times(args):
    times = {}
    for low, high, iterations, warm_up in RANGES:
        for row in run([*args.mpirun.split(), "-n", str(args.ranks), args.nccl, "-g", "1", "-c", "0", "-n",
                        str(iterations), "-w", str(warm_up), "-f", "2", "-b", str(low), "-e", str(high), "-z", "2"],
                       {"NCCL_NVLS_ENABLE": "0"}):
            times[int(row[0])] = float(row[5])
    return times


def words(size):
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >> power:
            return f"{size >> power} {unit}"
    return f"{size} B"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--osu", required=True)
    parser.add_argument("--nccl", required=True)
    parser.add_argument("--shunt", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mpirun", default="mpirun")
    args = parser.parse_args()

    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(osu_times(args))
        theirs.append(nccl_times(args))
    print("| size | shunt, us | NCCL, us | shunt / NCCL | shunt, GB/s |")
    print("|---:|---:|---:|---:|---:|")
    for size in SIZES:
        a, b = (statistics.median(t[size] for t in rounds) for rounds in (ours, theirs))
        print(f"| {words(size)} | {a:.1f} | {b:.1f} | {a / b:.2f} | {size / a / 1e3:.3g} |")


if __name__ == "__main__":
    main()
