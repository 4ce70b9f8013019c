#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the OSU benchmarks, unchanged, once for each MPI of a build of ours, for the tests that run them: all for Open MPI;
# for MPICH osu_allreduce, and persistent collectives, which Open MPI 4 lacks.
#
#     clients.sh ARCHIVES BUILD TARGET
#
# ARCHIVES has osu-micro-benchmarks-7.4.tar.xz; BUILD is a build folder with its stage; the programs end up in
# TARGET/osu-FAMILY, where the archive has them. They are linked to the simulated driver and runtime, which have the names of the real ones.
set -eu
archives=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
mkdir -p "$3"
target=$(cd "$3" && pwd)

# build.json, one value: member FAMILY KEY
member()
{
    python3 -c 'import json, sys; b = json.load(open(sys.argv[1])); print(b["mpi"][sys.argv[2]][sys.argv[3]])' \
        "$build/test/build.json" "$1" "$2"
}

cuda=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["cuda"])' "$build/test/build.json")
sim=$(cd "$build/stage/lib/shunt/sim" && pwd)

for family in openmpi mpich; do
    mpicc=$(member $family mpicc)
    [ -n "$mpicc" ] || continue
    folder=$target/osu-$family
    marker=$folder/built-all
    [ $family = mpich ] && marker=$folder/built-persistent
    [ -f "$marker" ] && continue
    rm -rf "$folder"
    mkdir -p "$folder"
    tar -C "$folder" --strip-components=1 -xf "$archives/osu-micro-benchmarks-7.4.tar.xz"
    cd "$folder"
    autoreconf -fi
    ./configure CC="$mpicc" CXX="${mpicc/mpicc/mpicxx}" --enable-cuda=basic --with-cuda-include="$cuda/include" \
        --with-cuda-libpath="$sim"
    if [ $family = openmpi ]; then
        make -j"$(nproc)"
    else
        make -C c/mpi/collective/blocking osu_allreduce
        make -C c/mpi/collective/persistent
    fi
    touch "$marker"
done
