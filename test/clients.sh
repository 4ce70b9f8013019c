#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds programs that were not written for shunt, unchanged, once for each MPI of a build of ours, for the tests that run them:
# of the OSU benchmarks all for Open MPI, and for MPICH osu_allreduce and persistent collectives, which Open MPI 4 lacks; of MPICH's
# test suite what each run of ours takes, or all; of the Intel MPI Benchmarks those that check what they get, and for Open MPI those
# that use device memory (and could not check it).
#
#     clients.sh ARCHIVES BUILD TARGET [all]
#
# ARCHIVES has osu-micro-benchmarks-7.4.tar.xz (the release), mpich-test.tar.xz (test/mpi and confdb of MPICH's repository, in one folder)
# and mpi-benchmarks.tar.xz (Intel's repository); BUILD is a build folder with its stage;
# the programs end up in TARGET/osu-FAMILY, mpich-FAMILY and imb-FAMILY, where the archives have them. They are linked to the
# simulated driver and runtime, which have the names of the real ones.
set -eu
tests=$(cd "$(dirname "$0")" && pwd)
programs=${4:-few}
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

build_osu()
{
    folder=$target/osu-$1
    marker=$folder/built-all
    [ "$1" = mpich ] && marker=$folder/built-persistent
    [ -f "$marker" ] && return
    rm -rf "$folder"
    mkdir -p "$folder"
    tar -C "$folder" --strip-components=1 -xf "$archives/osu-micro-benchmarks-7.4.tar.xz"
    cd "$folder"
    autoreconf -fi
    ./configure CC="$mpicc" CXX="${mpicc/mpicc/mpicxx}" --enable-cuda=basic --with-cuda-include="$cuda/include" \
        --with-cuda-libpath="$sim"
    if [ "$1" = openmpi ]; then
        make -j"$(nproc)"
    else
        make -C c/mpi/collective/blocking osu_allreduce
        make -C c/mpi/collective/persistent
    fi
    touch "$marker"
}

# Without what it does to find languages and processes that are not tested here
configure_suite()
{
    folder=$target/mpich-$1
    [ -f "$folder/configured" ] && return
    source=$target/mpich-source
    if [ ! -f "$source/test/mpi/configure" ]; then
        rm -rf "$source"
        mkdir -p "$source"
        tar -C "$source" --strip-components=1 -xf "$archives/mpich-test.tar.xz"
        (cd "$source/test/mpi" && MPICH_CONFDB=$source/confdb ./autogen.sh)
    fi
    rm -rf "$folder"
    cp -a "$source/test/mpi" "$folder" # with their times, or make would run autoconf again
    cd "$folder"
    ./configure --with-mpi="${mpicc%/bin/*}" --with-cuda-include="$cuda/include" --with-cuda-lib="$sim" --enable-strictmpi \
        --disable-spawn --disable-cxx --disable-fortran --disable-ft-tests CC="$mpicc" MPICC="$mpicc"
    make -C dtpools
    make -C util
    touch configured
}

# What the lists name. What an MPI is too old for does not compile, and is not run
build_suite()
{
    configure_suite "$1"
    cd "$target/mpich-$1"
    for folder in coll pt2pt datatype rma topo io errors/coll errors/pt2pt errors/datatype errors/rma errors/topo errors/io; do
        if [ "$programs" = all ]; then
            make -s -k -j"$(nproc)" -C $folder $(sed -n 's/^\([a-z][a-zA-Z0-9_]*\) .*/\1/p' $folder/testlist* | sort -u) || true
        else
            few=$(sed -n "s|^ *\"$folder/\([a-z0-9_]*\)\".*|\1|p" "$tests/test_mpich_suite.py")
            [ -z "$few" ] || make -s -C $folder $few
        fi
    done
}

# build_imb FOLDER PROGRAM FLAGS [GPU]. Open MPI's C++ header does not compile with their flags
build_imb()
{
    folder=$target/$1
    [ -f "$folder/$2" ] && return
    kind=${2#IMB-}
    kind=${kind%-GPU}
    mkdir -p "$folder"
    tar -C "$folder" --strip-components=1 -xf "$archives/mpi-benchmarks.tar.xz"
    make -s -C "$folder/src_cpp" -j"$(nproc)" TARGET="$kind" CC="$mpicc" CXX="${mpicc/mpicc/mpicxx}" \
        CPPFLAGS="-DOMPI_SKIP_MPICXX $3" CUDA_INCLUDE_DIR="$cuda/include" ${4:+GPU_ENABLE=1}
    mv "$folder/src_cpp/IMB-$kind" "$folder/$2"
}

for family in openmpi mpich; do
    mpicc=$(member $family mpicc)
    if [ -n "$mpicc" ]; then
        build_osu $family
        build_suite $family
        build_imb imb-$family IMB-MPI1 -DCHECK
        if [ $family = openmpi ]; then
            build_imb imb-device-$family IMB-MPI1-GPU "" gpu
            build_imb imb-rma-$family IMB-RMA-GPU "" gpu
        fi
    fi
done
