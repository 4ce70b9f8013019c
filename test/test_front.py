# SPDX-License-Identifier: BSD-3-Clause
"""The front: what it shows, that it sees each call of a program exactly once, and that nothing else sees it.

The programs are in test/front. Calls seen are counted by the lines of SHUNT_DEBUG=trace.
"""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys

import pytest

from harness import BUILD, BUILDDIR, LIBRARY, PREFIX, SANITIZE, by_name, launcher, mpirun, need, preload_words, run

HERE = pathlib.Path(__file__).parent
ENGINE = {"SHUNT_SIM_PRESET": "h200x2"}  # enough for a front to load its engine; the programs here use no GPU
pytestmark = pytest.mark.skipif(SANITIZE, reason="the preloaded sanitizer changes what other programs print")

# What calls.c, calls.F90 and calls.py call, from Barrier to Barrier
SEQUENCE = """Barrier Comm_dup Allreduce Allreduce Iallreduce Wait Bcast Irecv Isend Waitall Win_create Win_fence Put
              Win_fence Win_free File_open File_set_view File_write_all File_close Comm_free Barrier""".split()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """compiled(family or None, source, flags): the program, compiled once by the MPI's wrapper or the plain compiler."""
    folder, made = tmp_path_factory.mktemp("front"), {}

    def build(family, source, *flags, output="program"):
        key = (family, source, flags, output)
        if key not in made:
            wrapper = BUILD["mpi"][family]["mpifort" if source.endswith("F90") else "mpicc"] if family else ""
            if family and not wrapper:
                pytest.skip(f"{family} has no compiler for {source}")
            place = folder / str(len(made))
            place.mkdir()
            words = [wrapper] if family else BUILD["cc"].split()
            words += ["-fallow-argument-mismatch"] if source.endswith("F90") else []
            subprocess.run([*words, "-w", "-g", "-O1", str(HERE / "front" / source), "-o", str(place / output), *flags],
                           check=True, timeout=60, cwd=place)
            made[key] = place / output
        return made[key]

    return build


def start(*command, settings=None, preload=True, limit=30):
    """Run one process with the front preloaded (or what else `preload` says) and these settings."""
    words = [f"{name}={value}" for name, value in (settings or {}).items()]
    if preload:
        words.append(f"LD_PRELOAD={preload_words() if preload is True else preload}")
    return run(["env", *words, *command], limit)


def one_rank(family, *command, **more):
    """The same, started by the MPI's mpirun."""
    need(family)
    words = [f"{name}={value}" for name, value in (more.pop("settings", None) or {}).items()]
    preload = more.pop("preload", True)
    if preload:
        words.append(f"LD_PRELOAD={preload_words() if preload is True else preload}")
    return run([*launcher(family), "-n", more.pop("ranks", 1), "env", *words, *command], more.pop("limit", 40))


def seen_by_rank(family, tmp_path, *command, **more):
    """The calls that each process of a run has seen, without P and _c."""
    trace = tmp_path / "trace"
    trace.mkdir()
    settings = {**ENGINE, "SHUNT_DEBUG": "trace", "SHUNT_DEBUG_SUBSYS": "mpi", "SHUNT_DEBUG_FILE": f"{trace}/%p",
                **more.pop("settings", {})}
    result = one_rank(family, *command, settings=settings, **more).good()
    assert not result.err, str(result)
    assert "wrong" not in result.out, str(result)
    seen = [re.findall(r" mpi: P?MPIX?_(\w+?)(?:_c)?$", file.read_text(), re.M) for file in trace.iterdir()]
    assert len(seen) == more.get("ranks", 1), str(result)
    return seen


# ---- what it shows ----

def slots():
    return re.findall(r"^SLOT\(\d+, (\w+),", (BUILDDIR / "front/slots.def").read_text(), re.M)


def test_shows_the_table_and_its_own():
    lines = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True,
                           timeout=30).stdout.splitlines()
    shown = {line.split()[-1] for line in lines}
    own = {"shunt_version", "shunt_mode", "shunt_flush", "shunt_type_float16", "shunt_type_bfloat16"}
    assert shown == set(slots()) | own
    assert len(slots()) == len(set(slots())) > 1000


def test_needs_libc_alone():
    dynamic = subprocess.run(["readelf", "-d", LIBRARY], check=True, capture_output=True, text=True, timeout=30).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert all(name.startswith(("libc.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux")) for name in needed)
    assert "TEXTREL" not in dynamic


def prototypes(family):
    """The functions that this MPI's header declares, with their parameters."""
    text = (BUILDDIR / f"mpi/{family}/mpi.i").read_text()
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    return dict(re.findall(r"\b(P?MPIX?_\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;", text))


def test_table_is_complete(family):
    """No function with a buffer, a request, a communicator ... of this MPI is left out, but for those of these kinds."""
    handled = re.compile(r"\bMPI_(Comm|Request|Datatype|Message|Win|File|Session)\b|\bvoid ?\*")
    excused = re.compile(r"P?MPI(X?_T_\w+|_\w+_(c2f|f2c|f082c|c2f08|f2f08|f082f|toint|fromint)|_Keyval_create"
                         r"|_(Comm|Type|Win)_create_keyval|_\w+_(FN|fn)"
                         r"|X_\w+_enqueue(_c)?|X_Stream_i?(send|recv)(_c)?|X_(Threadcomm|Async)_\w+|X_\w+_create(_errhandler)?_x|X_Info_set_hex"
                         r"|_Abi_[gs]et_fortran_booleans)")
    missing = [name for name, parameters in prototypes(family).items()
               if handled.search(parameters) and name not in slots() and not excused.fullmatch(name)]
    assert missing == []
    assert len(prototypes(family)) > 700


def test_every_row_is_compared_with_the_header(family):
    checked = set(re.findall(r"__typeof__\((\w+)\)", (BUILDDIR / f"mpi/{family}/shims.c").read_text()))
    declared = prototypes(family)
    assert {"PMPI_Allreduce", "PMPI_Comm_rank", "PMPI_Group_size"} <= checked
    missing = [name for name in slots() if name in declared and name not in checked and "P" + name not in checked]
    assert missing == []


def test_wrong_row_does_not_compile(family, tmp_path):
    top, generated = pathlib.Path(BUILD["srcdir"]), BUILDDIR / f"mpi/{family}"
    table = (top / "mpi/calls.txt").read_text()
    for name, old, new in [("right", "", ""), ("Bcast", "buf buffer, count count", "cbuf buffer, count count"),
                           ("Comm_size", "comm comm, intp size", "comm comm, intp size, int more"),
                           ("Put", "aint target_disp", "int target_disp")]:
        row = next(line for line in table.splitlines() if line.startswith(name + " ") or name == "right")
        (tmp_path / "calls.txt").write_text(table.replace(row, row.replace(old, new)) if old else table)
        shims = subprocess.run([sys.executable, top / "mpi/gen.py", "shims", tmp_path / "calls.txt",
                                generated / "mpi.i", top / "mpi/shim.c.in"], capture_output=True, text=True, check=True,
                               timeout=30).stdout
        checks = "".join(line + "\n" for line in shims.splitlines() if "_Static_assert" in line)
        (tmp_path / "checks.c").write_text('#include "mpi/host_mpi.h"\n' + checks)
        done = subprocess.run([BUILD["mpi"][family]["mpicc"], "-w", "-fsyntax-only", f"-I{top}", tmp_path / "checks.c"],
                              capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) == (name == "right"), name + done.stderr
        assert name == "right" or f"calls.txt: {name}" in done.stderr


@pytest.mark.parametrize("compiler, flags", [("cc", ["-std=c99", "-pedantic"]), ("c++", ["-x", "c++", "-pedantic"])])
def test_public_header(compiler, flags, tmp_path):
    source = tmp_path / "user.c"
    source.write_text("#include <shunt.h>\nint main(void) { return !shunt_version() || !shunt_mode(); }\n")
    subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Werror", f"-I{PREFIX}/include", source, "-o",
                    tmp_path / "user", f"-L{PREFIX}/lib", "-lshunt", f"-Wl,-rpath,{PREFIX}/lib"], check=True, timeout=60)
    subprocess.run([tmp_path / "user"], check=True, timeout=30)


# ---- each call once ----

LANGUAGES = {"C": ("calls.c",), "PMPI": ("calls.c", "-DPROFILING"), "mpif.h": ("calls.F90",),
             "use mpi": ("calls.F90", "-DUSE_MPI"), "use mpi_f08": ("calls.F90", "-DF08")}


def inside(calls):
    """From the first Barrier to the last."""
    assert calls.count("Barrier") == 2, calls
    return calls[calls.index("Barrier"):len(calls) - calls[::-1].index("Barrier")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_sees_each_call_once(family, language, compiled, tmp_path):
    program = compiled(family, *LANGUAGES[language])
    for calls in seen_by_rank(family, tmp_path, program, tmp_path / "file", ranks=2):
        assert inside(calls) == SEQUENCE
        assert calls[0] == "Init" and calls[-1] == "Finalize" and len(calls) == len(SEQUENCE) + 2


@pytest.mark.parametrize("flags", [["-DF08"], ["-DUSE_MPI"], []], ids=["use mpi_f08", "use mpi", "mpif.h"])
def test_requests_in_fortran(family, flags, compiled):
    """On device memory they end as on host memory without us, mixed with others: what comes, statuses, indices."""
    runtime = PREFIX / "lib/shunt/sim"
    program = compiled(family, "waits.F90", *flags, f"-L{runtime}", "-l:libcudart.so.13", f"-Wl,-rpath,{runtime}")
    alone = mpirun(family, 2, program, "host", preload=False).good()
    result = mpirun(family, 2, program).good()
    noted = [re.findall(r"^ ?(rank \d noted -?\d+)$", run.out, re.M) for run in (alone, result)]
    assert len(noted[0]) == 2 and sorted(noted[0]) == sorted(noted[1]), f"{alone}\n{result}"
    staged, ran = by_name(result)
    assert {"send", "recv"} <= set(staged) and result.stats.gpu > 0, str(result)


@pytest.fixture(scope="session")
def mpi4py(tmp_path_factory):
    """A folder with mpi4py's wheel, which serves any MPI, and libmpi.so.12, as it calls what Debian calls otherwise."""
    folder = BUILDDIR / "mpi4py"
    if not (folder / "mpi4py").is_dir():
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--only-binary", ":all:", "--target", folder,
                               "mpi4py>=4.1"], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip("mpi4py cannot be installed: " + done.stderr.strip().splitlines()[-1])
    return folder


@pytest.mark.parametrize("gpus", [True, False], ids=["engine", "no-gpu"])
def test_mpi4py(family, gpus, mpi4py, compiled, tmp_path):
    """Opened RTLD_LOCAL by Python; it takes large-count functions where the host has them."""
    settings = {"PYTHONPATH": mpi4py, "MPI4PY_MPIABI": family}
    if family == "mpich":
        ldd = subprocess.run(["ldd", compiled(family, "host.c")], capture_output=True, text=True, check=True, timeout=30)
        library = pathlib.Path(re.search(r"libmpi(?:ch)?\.so\.12 => (\S+)", ldd.stdout)[1])
        settings["LD_LIBRARY_PATH"] = library.parent  # where it has others, too
        if library.name != "libmpi.so.12":
            (tmp_path / "libmpi.so.12").symlink_to(library)
            settings["LD_LIBRARY_PATH"] = tmp_path
    command = [sys.executable, HERE / "front/calls.py", tmp_path / "file"]
    if not gpus:
        if node_has_gpu():
            pytest.skip("this machine has a GPU")
        assert one_rank(family, *command, ranks=2, settings=settings).good().err == ""
        return
    for calls in seen_by_rank(family, tmp_path, *command, ranks=2, settings=settings):
        assert inside(calls) == SEQUENCE


def test_error_handler_that_jumps_out(family, compiled, tmp_path):
    [calls] = seen_by_rank(family, tmp_path, compiled(family, "jump.c"))
    assert calls == (["Init"] + ["Send"] + ["Allreduce"] + ["Send"] + ["Allreduce"] * 20 + ["Send"] +
                     ["Allreduce"] * 40 + ["Finalize"])


@pytest.mark.parametrize("order", ["before", "after", "linked"])
def test_beside_another_tool(family, order, compiled, tmp_path):
    tool = compiled(family, "tool.c", "-shared", "-fPIC", output="libtool.so")
    flags = (f"-L{tool.parent}", "-ltool", f"-Wl,-rpath,{tool.parent}") if order == "linked" else ()
    program = compiled(family, "calls.c", *flags)
    preload = {"before": f"{tool} {preload_words()}", "after": f"{preload_words()} {tool}", "linked": True}[order]
    trace = tmp_path / "seen"
    trace.mkdir()
    for calls in seen_by_rank(family, trace, program, tmp_path / "file", preload=preload, ranks=2):
        assert inside(calls) == SEQUENCE
    result = one_rank(family, program, tmp_path / "file", preload=preload, settings=ENGINE, ranks=2).good()
    assert result.out.count("tool 2\n") == 2


def test_two_copies_preloaded(family, compiled, tmp_path):
    """Only the first takes part."""
    for name in ("one", "two"):
        shutil.copytree(PREFIX / "lib", tmp_path / name, symlinks=True)
    preload = f"{tmp_path}/one/libshunt.so {tmp_path}/two/libshunt.so"
    for calls in seen_by_rank(family, tmp_path, compiled(family, "calls.c"), tmp_path / "file", preload=preload, ranks=2):
        assert inside(calls) == SEQUENCE


def test_plugin_opened_locally(family, compiled, tmp_path):
    plugin = compiled(family, "plugin.c", "-DPLUGIN", "-shared", "-fPIC", output="plugin.so")
    [calls] = seen_by_rank(family, tmp_path, compiled(None, "plugin.c", "-ldl"), plugin)
    assert calls == ["Init", "Allreduce", "Finalize"]


def test_linked(family, compiled, tmp_path):
    flags = (f"-L{PREFIX}/lib", "-Wl,--no-as-needed", "-lshunt", f"-Wl,-rpath,{PREFIX}/lib")
    program = compiled(family, "calls.c", *flags)
    for calls in seen_by_rank(family, tmp_path, program, tmp_path / "file", preload=None, ranks=2):
        assert inside(calls) == SEQUENCE


def test_relative_path_and_another_folder(family, compiled, tmp_path):
    """The engine is found although the program has changed its folder before the first call."""
    program = compiled(family, "init.c")
    shell = f"cd {PREFIX}/lib && LD_PRELOAD=./libshunt.so exec {program} {tmp_path}"
    result = one_rank(family, "sh", "-c", shell, preload=None, settings=ENGINE).good()
    assert "mode engine" in result.out


def test_first_calls_of_many_threads(compiled):
    library = fake(compiled, "libother.so.1")
    program = compiled(None, "race.c", "-pthread", str(library), f"-Wl,-rpath,{library.parent}")
    for settings in (ENGINE, {}):
        assert start(program, settings=settings).good().out == "right 16\n"


# ---- nobody else notices ----

def node_has_gpu():
    return os.path.exists("/dev/nvidiactl")


COMMANDS = {
    "true": ["/bin/true"],
    "bash": ["bash", "-c", "echo $(ls /proc/self/task | wc -w); grep -c engine- /proc/self/maps; exit 3"],
    "python3": ["python3", "-c", "import os; print(len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd')))"],
    "gcc": ["sh", "-c", "echo 'int main(void){return 0;}' | gcc -x c - -o /dev/null && gcc -dumpversion"],
    "failing": ["ls", "/does/not/exist"],
}


@pytest.mark.parametrize("bind", [{}, {"LD_BIND_NOW": "1"}], ids=["lazy", "bind-now"])
@pytest.mark.parametrize("name", COMMANDS)
def test_programs_without_mpi(name, bind):
    for settings in (bind, {**bind, **ENGINE}, {**bind, "SHUNT_DEBUG": "trace"}):
        without = start(*COMMANDS[name], settings=settings, preload=None)
        result = start(*COMMANDS[name], settings=settings)
        assert (result.rc, result.out, result.err) == (without.rc, without.out, without.err)


def test_nothing_is_opened_without_mpi():
    """System calls of /bin/true with and without: the library itself is all that comes in addition."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    def calls(preload):
        done = start("strace", "-f", "-E", f"LD_PRELOAD={preload}", "/bin/true", preload=None).good()
        return [line.split("(")[0] for line in done.err.splitlines() if "(" in line]
    more = calls(LIBRARY)
    for name in calls(""):
        if name in more:
            more.remove(name)
    assert set(more) <= {"openat", "open", "read", "fstat", "newfstatat", "mmap", "close", "mprotect", "pread64"}, more
    assert more.count("openat") <= 1, more


def test_mpirun_itself(family, compiled):
    program = compiled(family, "host.c")
    def launch(preload):
        return start(*launcher(family), "-n", "2", program, preload=preload, limit=40).good()
    assert launch(True).out == launch(None).out
    assert launch(True).err == launch(None).err == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a setuid program of another user")
def test_setuid_program(compiled, tmp_path):
    """The dynamic linker leaves us out when preloaded; linked, we take no engine from the environment."""
    os.chmod(tmp_path.parent, 0o755)
    os.chmod(tmp_path.parent.parent, 0o755)
    os.chmod(tmp_path, 0o755)
    shutil.copy("/usr/bin/id", tmp_path / "id")
    fake = compiled(None, "fake.c", "-shared", "-fPIC", "-Wl,-soname,libmpich.so.12", output="libmpich.so.12")
    for file in (fake, LIBRARY):
        shutil.copy(file, tmp_path / file.name)
    program = compiled(None, "init.c", "-Wl,--no-as-needed", str(LIBRARY), str(fake), f"-Wl,-rpath,{tmp_path}")
    shutil.copy(program, tmp_path / "init")
    trap = tmp_path / "engine-mpich.so"
    subprocess.run([*BUILD["cc"].split(), "-x", "c", "-", "-shared", "-fPIC", "-o", tmp_path / "trap.so"], timeout=60,
                   input="#include <unistd.h>\n__attribute__((constructor)) static void f(void) { write(1, \"trap\", 4); }",
                   text=True, check=True)
    (tmp_path / "evil").mkdir()
    shutil.move(tmp_path / "trap.so", tmp_path / "evil/engine-mpich.so")
    for name in ("id", "init"):
        os.chmod(tmp_path / name, 0o4755)
    user = ["setpriv", "--reuid", "65534", "--clear-groups"]
    settings = {**ENGINE, "SHUNT_ENGINE_DIR": tmp_path / "evil"}
    result = start(*user, "env", f"LD_PRELOAD={LIBRARY}", tmp_path / "id", "-u", preload=None).good()
    assert result.out == "0\n" and result.err == ""
    assert not trap.exists()
    assert "trap" not in start(*user, tmp_path / "init", preload=None, settings=settings).good().out
    os.chmod(tmp_path / "init", 0o755)
    assert "trap" in start(*user, tmp_path / "init", preload=None, settings=settings).good().out


@pytest.mark.parametrize("settings", [{}, {**ENGINE, "SHUNT_DISABLE": "1"}], ids=["no-gpu", "disabled"])
def test_cpu_program_without_us(family, settings, compiled):
    """Same output, no thread, nothing opened."""
    if not settings and node_has_gpu():
        pytest.skip("this machine has a GPU")
    program = compiled(family, "host.c")
    without = one_rank(family, program, settings=settings, preload=None).good()
    result = one_rank(family, program, settings=settings).good()
    assert (result.out, result.err) == (without.out, without.err)
    files = re.findall("mapped (.*)", one_rank(family, program, "files", settings=settings).good().out)
    assert files == ["libshunt.so"]


def test_cpu_program_on_a_node_with_gpus(family, compiled):
    """Same output, no thread; only the engine is opened."""
    program = compiled(family, "host.c")
    without = one_rank(family, program, preload=None).good()
    result = one_rank(family, program, settings=ENGINE).good()
    assert (result.out, result.err) == (without.out, without.err)
    files = re.findall("mapped (.*)", one_rank(family, program, "files", settings=ENGINE).good().out)
    assert sorted(set(files)) == [f"engine-{family}.so", "libshunt.so"]


# ---- what a host lacks ----

def has_session_init(family):
    return "MPI_Session_init" in prototypes(family)


@pytest.mark.parametrize("settings", [ENGINE, {}], ids=["engine", "no-gpu"])
def test_asking_for_a_function(family, settings, compiled):
    """dlsym and weak references find what they would find without us."""
    plugin = compiled(family, "absent.c", "-DPLUGIN", "-shared", "-fPIC", output="plugin.so")
    program = compiled(family, "absent.c", "-ldl")
    there = int(has_session_init(family))
    expected = f"dlsym {there} Allreduce 1\nweak {there}\n"
    assert one_rank(family, program, plugin, settings=settings, preload=None).good().out == expected
    assert one_rank(family, program, plugin, settings=settings).good().out == expected


@pytest.mark.parametrize("settings", [ENGINE, {}], ids=["engine", "no-gpu"])
@pytest.mark.parametrize("how", ["linked", "plugin", "lazy plugin"])
def test_calling_a_function_that_is_absent(settings, how, compiled):
    """MPI_ERR_OTHER (16 in Open MPI), 0 where it is a question, and one line each for those who ask for lines."""
    need("openmpi")
    if has_session_init("openmpi"):
        pytest.skip("this Open MPI has sessions")
    plugin = compiled("openmpi", "absent.c", "-DPLUGIN", "-DNEED", "-shared", "-fPIC", output="plugin.so")
    linked = ("-Wl,--no-as-needed", str(plugin), "-Wl,--allow-shlib-undefined") if how == "linked" else ()
    program = compiled("openmpi", "absent.c", "-ldl", *linked)
    for debug, lines in (("off", 0), ("warn", 2)):
        result = one_rank("openmpi", program, plugin, *how.split()[1:], settings={**settings, "SHUNT_DEBUG": debug}).good()
        assert "answer 16 hip 0\n" in result.out, str(result)
        assert len(re.findall("MPI_Session_init was called|MPIX_Query_hip_support was called", result.err)) == lines
    result = one_rank("openmpi", program, plugin, settings={**settings, "LD_BIND_NOW": "1"}).good()
    assert "answer 16 hip 0\n" in result.out


# ---- may device memory be handed to this MPI? ----

def kinds(text):
    """What the program was told of kinds of memory, by the object that it asked: a set each."""
    return {of: set(found.split(",")) - {"-"} for of, found in re.findall(r"^(\w+) kinds: (\S+)$", text, re.M)}


def test_asking_for_device_memory(family, compiled, tmp_path):
    """Yes with an engine on a node with a GPU, however a program asks; else what the host says, or no."""
    program = compiled(family, "query.c", "-ldl")

    def ask(**more):
        result = one_rank(family, program, tmp_path / "file", **more).good()
        return re.search(r"after: (.*)", result.out)[1], result.out

    alone, told_alone = ask(preload=None)
    lines, told = ask(settings=ENGINE)
    assert lines == "call 1 weak 1 dlsym 1 gpu 1 other 0"
    assert family != "openmpi" or f"before: {lines}" in told
    more = {"cuda", "cuda:host", "cuda:device", "cuda:managed"}
    assert {"world", "copy", "file"} <= set(kinds(told)) == set(kinds(told_alone))
    for of, found in kinds(told).items():
        assert found == kinds(told_alone)[of] | {"mpi", "system"} | more, told
    off = [{**ENGINE, "SHUNT_DISABLE": "1"}] + ([] if node_has_gpu() else [{}])
    for settings in off:
        without, told = ask(settings=settings)
        assert without == alone.replace("-1", "0") and kinds(told) == kinds(told_alone)


# ---- what it cannot serve ----

def fake(compiled, name):
    return compiled(None, "fake.c", "-shared", "-fPIC", f"-Wl,-soname,{name}", output=name)


def with_libraries(compiled, *libraries):
    return compiled(None, "init.c", "-Wl,--no-as-needed", *map(str, libraries),
                    *(f"-Wl,-rpath,{library.parent}" for library in libraries))


@pytest.mark.parametrize("names, answer, mode, line", [
    (["libother.so.1"], 77, "unknown-mpi", "is an MPI that shunt does not know"),
    (["libmpi_abi.so.1"], 77, "no-engine", r"no engine for \S*libmpi_abi.so.1 \(abi\)"),
    (["libmpi_abi.so.1", "libmpi.so.12"], 77, "mixed-mpi", "standard MPI ABI and of another ABI are in one process"),
    ([], 15, "no-mpi", "no MPI library is in this process"),
])
def test_strange_libraries(names, answer, mode, line, compiled):
    libraries = [fake(compiled, name) for name in names] or [LIBRARY]
    result = start(with_libraries(compiled, *libraries), settings=ENGINE).good()
    assert result.out == f"before unused\nanswer {answer} mode {mode}\n"
    assert len(re.findall(line, result.err)) == 1 and result.err.count("\n") == 1, str(result)


@pytest.mark.parametrize("content, line", [
    (None, "no engine for"), ("garbage", "cannot be loaded"), ("library", "is not an engine"),
])
def test_engine_that_is_not_there(family, content, line, compiled, tmp_path):
    engine = tmp_path / f"engine-{family}.so"
    if content == "garbage":
        engine.write_text("garbage")
    elif content:
        shutil.copy(compiled(None, "fake.c", "-shared", "-fPIC", output="x.so"), engine)
    result = one_rank(family, compiled(family, "init.c"), settings={**ENGINE, "SHUNT_ENGINE_DIR": tmp_path}).good()
    assert "answer 0 mode no-engine" in result.out
    assert len(re.findall(line, result.err)) == 1 and result.err.count("\n") == 1, str(result)


def test_wrong_order(family, compiled):
    """Linked after the MPI library: the program runs as it would, and one line says why nothing is accelerated."""
    wrapper = subprocess.run([BUILD["mpi"][family]["mpicc"], "-show"], capture_output=True, text=True, timeout=30)
    libraries = [word for word in wrapper.stdout.split() if word.startswith(("-L", "-l"))]
    program = compiled(family, "host.c", "-Wl,--no-as-needed", *libraries, str(LIBRARY), f"-Wl,-rpath,{PREFIX}/lib")
    without = one_rank(family, compiled(family, "host.c"), preload=None).good()
    result = one_rank(family, program, preload=None, settings=ENGINE).good()
    assert result.out == without.out
    assert len(re.findall("comes after the MPI library", result.err)) == 1 and result.err.count("\n") == 1
    quiet = one_rank(family, program, preload=None, settings={**ENGINE, "SHUNT_DISABLE": "1"}).good()
    assert quiet.err == ""


# ---- the other architecture ----

def test_slots_for_arm(compiled, tmp_path):
    """Assembled, linked, and run where an emulator is installed."""
    if not shutil.which("aarch64-linux-gnu-gcc"):
        pytest.skip("no compiler for 64-bit ARM")
    top = pathlib.Path(BUILD["srcdir"])
    include = [f"-I{top}", f"-I{BUILDDIR}", f"-I{BUILDDIR}/mpi", "-D_GNU_SOURCE"]
    sources = [*top.glob("base/*.c"), *top.glob("front/*.[cS]")]
    cross = ["aarch64-linux-gnu-gcc", "-O2", "-w"]
    subprocess.run([*cross, *include, "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wl,--hash-style=both",
                    f"-Wl,--version-script={top}/front/shunt.map", "-Wl,-soname,libshunt.so", *sources, "-ldl",
                    "-o", tmp_path / "libshunt.so"], check=True, timeout=120)
    subprocess.run([*cross, "-shared", "-fPIC", "-Wl,-soname,libother.so.1", HERE / "front/fake.c", "-o",
                    tmp_path / "libother.so.1"], check=True, timeout=60)
    subprocess.run([*cross, HERE / "front/init.c", "-Wl,--no-as-needed", tmp_path / "libshunt.so",
                    tmp_path / "libother.so.1", f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "init"], check=True, timeout=60)
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if not emulator:
        pytest.skip("assembled, but no emulator to run it")
    result = start(emulator, "-L", "/usr/aarch64-linux-gnu", tmp_path / "init", settings=ENGINE, preload=None).good()
    assert result.out == "before unused\nanswer 77 mode unknown-mpi\n"
