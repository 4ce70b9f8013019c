# SPDX-License-Identifier: BSD-3-Clause
"""The installation in build/stage has its parts, and a program can be linked to it by what its pkg-config file says. What
./quickstart is asked for it does, or refuses in words."""
import json
import os
import pathlib
import subprocess

import pytest

from hosts import HOSTS

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


def quickstart(*words):
    return subprocess.run([pathlib.Path(BUILD["srcdir"]) / "quickstart", *words], capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("words, said", [
    (["test", "--mpi=lam"], "--mpi=lam: not known"),
    (["test", "--mpi="], "test: --mpi= is not known"),
    (["build", "--all"], "build: --all is not known"),
    (["test", "--mpi=openmpi,openmpi5"], "two of one family"),
    (["build", "--mpi=impi,mpich5"], "two of one family"),
    (["demo", "--mpi=openmpi"], "demo takes no argument"),
    (["tset"], "tset is not a command"),
])
def test_quickstart_refuses(words, said):
    """Before anything is installed or built."""
    done = quickstart(*words)
    assert done.returncode == 1 and said in done.stderr and "[" not in done.stdout, str(done)


@pytest.mark.parametrize("name", ["openmpi", "mpich", *HOSTS, "openmpi:/opt/x/bin/mpicc", "mpich:/opt/x/bin/mpicc"])
def test_quickstart_knows(name):
    """It gets as far as the next one."""
    assert name.partition(":")[0] in quickstart("help").stdout
    assert "--mpi=lam: not known" in quickstart("test", f"--mpi={name},lam").stderr
