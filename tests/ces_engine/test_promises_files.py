"""What docs/sandbox.md promises about files, interpreter and what survives a run; one test a promise."""

import os
import sys
from pathlib import Path

import pytest

from dmc_optim.ces import Limits, Request, TestCase
from dmc_optim.ces.engine.embedded import Embedded
from tests.ces_engine.conftest import Run

REPOSITORY = Path(__file__).parents[2]


def outputs(engine: Embedded, code: str, inputs: list[bytes], **limits: object) -> list[bytes]:
    """Outputs of one program on several inputs, one after another in one slot."""
    tests = tuple(TestCase(str(index), text) for index, text in enumerate(inputs))
    results = list(engine.execute(Request(code.encode(), tests, Limits(**limits), return_output=True)))  # type: ignore[arg-type]
    assert [result.status for result in results] == ["success"] * len(inputs), [r.stderr_tail for r in results]
    return [result.output or b"" for result in results]


@pytest.fixture(scope="module")
def one(engine: Embedded) -> Embedded:
    """An engine of one slot, so that consecutive runs meet the same sandbox."""
    with Embedded(1) as single:
        yield single  # type: ignore[misc]


def test_host_files_cannot_be_read(run: Run) -> None:
    paths = ["/etc/hostname", "/etc/shadow", "/root", "/home", "/var", "/usr/bin", "/sys", str(REPOSITORY), sys.prefix]
    paths += ["/proc/1/environ", "/proc/meminfo", "/proc/cmdline", "/proc/sys", "/dev/kmsg", "/dev/sda", "/dev/vda"]
    code = f"""
import os
seen = []
for path in {paths!r}:
    try:
        content = os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
        if path not in ("/root", "/home") or content not in ([], [".pyenv"]):
            seen.append(path)
    except OSError:
        pass
print(seen)
"""
    allowed = [path for path in (sys.prefix,) if sys.prefix == sys.base_prefix]
    assert run(code).output == f"{allowed}\n".encode()


def test_the_root_holds_the_interpreter_and_nothing_else(run: Run) -> None:
    listed = run("import os\nprint(sorted(os.listdir('/')))").output or b""
    interpreter_root = Path(sys.base_prefix).parts[1]
    assert set(eval(listed)) <= {
        "box", "dev", "etc", "init", "lib", "lib64", "proc", "tmp", "usr", "bin", interpreter_root,
    }  # fmt: skip
    assert run("import os\nprint(sorted(os.listdir('/etc')))").output == b"['group', 'passwd']\n"


def test_only_the_standard_library_and_two_packages_are_importable(run: Run) -> None:
    code = """
import importlib
for name in ("numpy", "sortedcontainers", "json", "dmc_optim", "schemas", "pytest", "pip", "apache_beam", "pyarrow", "processes", "zygote"):
    try:
        importlib.import_module(name); print(name)
    except ImportError:
        pass
"""
    assert run(code).output == b"numpy\nsortedcontainers\njson\n"


def test_nothing_but_scratch_is_writable(run: Run) -> None:
    code = """
import os
wrote = []
for root, directories, files in os.walk("/"):
    if root.startswith(("/proc", "/tmp", "/dev/shm")):
        directories.clear()
        continue
    try:
        open(root + "/x", "w"); wrote.append(root)
    except OSError:
        pass
    for name in files[:3]:
        path = root + "/" + name
        if not path.startswith("/dev/"):
            try:
                open(path, "r+"); wrote.append(path)
            except OSError:
                pass
print(wrote)
"""
    result = run(code)
    assert result.output == b"[]\n", result.output


def test_scratch_is_empty_at_the_start_of_every_run(one: Embedded) -> None:
    code = """
import os, sys
print(sorted(os.listdir("/tmp")), sorted(os.listdir("/dev/shm")), oct(os.stat("/tmp").st_mode))
os.makedirs("/tmp/a/b/c/d/" + "e/" * 300)
os.symlink("/etc", "/tmp/a/link")
open("/tmp/.hidden", "w").write("x")
open("/dev/shm/left", "w").write("x")
os.mkfifo("/tmp/pipe")
os.chmod("/tmp/a/b", 0)
os.chmod("/tmp/a", 0)
for index in range(500):
    open(f"/tmp/f{index}", "w")
"""
    assert outputs(one, code, [b"1", b"2", b"3"]) == [b"[] [] 0o41777\n"] * 3


def test_scratch_is_capped_in_bytes_and_files(run: Run) -> None:
    code = """
import errno, os
blocks = files = 0
try:
    while True:
        with open(f"/tmp/b{blocks}", "wb") as file:
            file.write(bytes(1 << 20))
        blocks += 1
except OSError as error:
    print(errno.errorcode[error.errno], blocks <= 32)
for index in range(blocks + 1):
    os.unlink(f"/tmp/b{index}")
try:
    while True:
        os.close(os.open(f"/tmp/f{files}", os.O_CREAT))
        files += 1
except OSError as error:
    print(errno.errorcode[error.errno], files < 20000)
"""
    assert run(code, tmp_bytes=32 << 20).output == b"ENOSPC True\nENOSPC True\n"


def test_the_program_finds_its_own_source_and_cannot_change_it(run: Run) -> None:
    code = """
import os
text = open(__file__).read()
try:
    open(__file__, "w"); print("changed")
except OSError:
    print(text.count("own source"), os.listdir("/box"))
# own source
"""
    assert run(code).output == b"2 ['solution.py']\n"


def test_environment_and_arguments_are_fixed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os, sys, socket\nprint(sorted(os.environ), sys.argv, socket.gethostname(), os.getcwd())"
    names = sorted(["PATH", "HOME", "LANG", "TMPDIR", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE"])
    names = sorted([*names, "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"])
    assert run(code).output == f"{names} ['/box/solution.py'] sandbox /tmp\n".encode()


def test_no_descriptor_but_the_first_three_is_open(run: Run) -> None:
    code = """
import os
opened = []
for fd in range(4096):
    try:
        os.fstat(fd); opened.append(fd)
    except OSError:
        pass
print(opened)
"""
    assert run(code).output == b"[0, 1, 2]\n"


def test_expected_outputs_and_other_inputs_are_not_in_memory(one: Embedded) -> None:
    code = """
import re
needle = "-".join(["ANSWER", "OF", "TEST"]).encode()
other = "-".join(["INPUT", "OF", "TEST"]).encode()
found = 0
for line in open("/proc/self/maps"):
    fields = line.split()
    if "r" in fields[1] and "[v" not in line:
        low, high = (int(part, 16) for part in fields[0].split("-"))
        with open("/proc/self/mem", "rb", 0) as memory:
            memory.seek(low)
            try:
                data = memory.read(high - low)
            except OSError:
                continue
        found += len(re.findall(needle + rb"-\\d", data)) + len(re.findall(other + rb"-\\d", data))
print(found)
"""
    tests = tuple(TestCase(str(i), b"INPUT-OF-TEST-%d" % i, b"ANSWER-OF-TEST-%d" % i) for i in range(3))
    results = list(one.execute(Request(code.encode(), tests, return_output=True)))
    assert [result.output for result in results] == [b"0\n"] * 3, results[0].stderr_tail


def test_patched_modules_do_not_reach_the_next_run(one: Embedded) -> None:
    code = """
import builtins, json, sys
print(len(json.dumps([1])))
builtins.print = builtins.len = None
json.dumps = None
sys.modules["json"] = None
sys.setrecursionlimit(50)
"""
    assert outputs(one, code, [b"", b""]) == [b"3\n", b"3\n"]


def test_stdin_is_a_seekable_file_that_cannot_be_changed(one: Embedded) -> None:
    code = """
import mmap, os
print(os.fstat(0).st_size, os.lseek(0, 0, 1), len(os.read(0, 1 << 24)), os.lseek(0, 0, 0))
done = []
for name, action in (
    ("write", lambda: os.write(0, b"x")),
    ("truncate", lambda: os.ftruncate(0, 0)),
    ("reopen", lambda: os.write(os.open("/proc/self/fd/0", os.O_RDWR), b"x")),
    ("map", lambda: mmap.mmap(0, 1, mmap.MAP_SHARED, mmap.PROT_WRITE)),
):
    try:
        action(); done.append(name)
    except (OSError, PermissionError):
        pass
print(done)
"""
    big = b"1 " * 200_000
    for text in (b"small", big):
        size = len(text)
        assert outputs(one, code, [text, text]) == [b"%d 0 %d 0\n[]\n" % (size, size)] * 2


def test_flags_set_on_the_shared_stderr_do_not_stay(one: Embedded) -> None:
    code = """
import fcntl, os
print(fcntl.fcntl(2, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND))
fcntl.fcntl(2, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)
"""
    assert outputs(one, code, [b"", b"", b""]) == [b"0\n"] * 3


def test_links_made_by_a_program_are_never_followed(run: Run) -> None:
    victim = Path("/tmp") / f"ces-victim-{os.getpid()}"
    victim.write_text("kept")
    try:
        code = f"import os\nos.symlink({str(victim)!r}, '/tmp/out')\nos.symlink('/', '/tmp/root')\nprint('ok')"
        assert run(code).output == b"ok\n"
        assert run("print(1)").status == "success"
        assert victim.read_text() == "kept"
    finally:
        victim.unlink()
