# SPDX-License-Identifier: BSD-3-Clause
"""The installation in build/stage has its parts, and a program can be linked to it by what its pkg-config file says."""
import json
import os
import pathlib
import subprocess

import pytest

BUILD = json.loads((pathlib.Path(os.environ.get("builddir", "build")) / "test/build.json").read_text())
PREFIX = pathlib.Path(BUILD["prefix"])
MPIS = [name for name, mpi in BUILD["mpi"].items() if mpi["mpicc"]]


@pytest.mark.parametrize("mpi", MPIS)
def test_engine_is_installed(mpi):
    assert (PREFIX / f"lib/shunt/engine-{mpi}.so").is_file()


@pytest.mark.parametrize("mpi", MPIS)
def test_program_links_in_front_of_the_mpi(mpi, tmp_path):
    """The front must come before the MPI in a program's list of libraries: otherwise it would see no call."""
    # the stage is an installation moved elsewhere: the file names the prefix that was configured
    flags = subprocess.run(["pkg-config", f"--define-variable=prefix={PREFIX}", "--libs", "shunt"],
                           check=True, capture_output=True, text=True, timeout=30,
                           env={**os.environ, "PKG_CONFIG_PATH": str(PREFIX / "lib/pkgconfig")}).stdout.split()
    source = tmp_path / "hello.c"
    source.write_text("#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n")
    subprocess.run([BUILD["mpi"][mpi]["mpicc"], source, "-o", tmp_path / "hello", "-Wl,--no-as-needed", *flags],
                   check=True, timeout=60)
    dynamic = subprocess.run(["readelf", "-d", tmp_path / "hello"], check=True, capture_output=True, text=True,
                             timeout=30).stdout
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line]
    assert needed[0] == "libshunt.so"
    assert any(name.startswith(("libmpi.", "libmpich.")) for name in needed[1:])
