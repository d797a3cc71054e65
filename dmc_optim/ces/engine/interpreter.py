"""The Python that programs run under: found once, described in every result, mounted into the sandbox.

What a program can import is the standard library and PACKAGES; their shared libraries are found by importing
every extension module in a probe and reading which files the process has mapped.
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dmc_optim.errors import EngineError

PACKAGES = ("numpy", "sortedcontainers")
LOADER = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}

_PROBE = """
import ctypes, importlib, json, os, platform, site, sys, sysconfig
for path in sys.argv[1:]:
    sys.path.append(path)
dynload = sysconfig.get_path("platstdlib") + "/lib-dynload"
names = {name.split(".")[0] for name in os.listdir(dynload)} if os.path.isdir(dynload) else set()
for name in sorted(names | {"numpy", "numpy.random", "numpy.linalg", "numpy.fft"}):
    if not name.startswith(("_test", "_xx", "xx", "_ctypes_test")):
        try:
            importlib.import_module(name)
        except BaseException:
            pass
for name in ("libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "libutil.so.1", "librt.so.1"):
    try:
        ctypes.CDLL(name)
    except OSError:
        pass
maps = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if line.count("/") > 1}
print(json.dumps({
    "version": platform.python_version(), "build": sys.version.replace(chr(10), " "),
    "implementation": platform.python_implementation().lower(),
    "stdlib": sorted({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}),
    "prefixes": sorted({sys.base_prefix, sys.base_exec_prefix}),
    "site": site.getsitepackages() or [sysconfig.get_path("purelib")],
    "libraries": sorted(path for path in maps if ".so" in path),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """Paths (absolute, on the host) and identity of the pinned interpreter.

    libraries: shared objects outside the standard library and the packages.
    site: where the packages appear inside the sandbox. packages: name → (directory or file, version).
    """

    executable: str
    version: str
    build: str
    identity: str
    stdlib: tuple[str, ...]
    site: str
    libraries: tuple[str, ...]
    packages: tuple[tuple[str, str], ...]

    @property
    def loader(self) -> str:
        """Path of the dynamic loader that the executable asks for."""
        return LOADER[platform.machine()]


@lru_cache(maxsize=4)
def find(executable: str = "") -> Interpreter:
    """Probe an interpreter (default: the one under this process, outside its virtual environment).

    Raises EngineError when it does not start.
    """
    path = str(Path(executable or getattr(sys, "_base_executable", "") or sys.executable).resolve())
    packages = _packages()
    command = [path, "-I", "-B", "-c", _PROBE, *sorted({str(Path(source).parent) for source, _ in packages})]
    environment = {"PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
        facts = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        tail = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
        raise EngineError(f"interpreter {path} does not start ({' '.join(tail)[:200]}): name another one") from error
    versions = [f"{name} {_version(name)}" for name in PACKAGES if _version(name)]
    own = (*facts["stdlib"], *(source for source, _ in packages))
    libraries = {os.path.realpath(library) for library in facts["libraries"]}
    return Interpreter(
        executable=path,
        version=facts["version"],
        build=facts["build"],
        identity=f"{facts['implementation']} {facts['build']}" + "".join(f"; {version}" for version in versions),
        stdlib=tuple(facts["stdlib"]),
        site=facts["site"][0],
        libraries=tuple(sorted(path for path in libraries if not path.startswith(own) and os.path.isfile(path))),
        packages=packages,
    )


def _packages() -> tuple[tuple[str, str], ...]:
    """(path on the host, name in the sandbox's site directory) of every importable package and its libraries."""
    found = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        source = Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
        found.append((str(source), source.name))
        bundled = source.parent / f"{name}.libs"
        if bundled.is_dir():
            found.append((str(bundled), bundled.name))
    return tuple(found)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
