"""A distributed build in parts, offline: a checkout and its sdist, a worker's home, a job service, a job's steps."""

import base64
import bz2
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apache_beam.portability.api import beam_runner_api_pb2 as api

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "dmc_optim", "transforms", "pipeline")
DATAFLOW = (
    "--dry_run=True",
    "--no_auth",
    "--sdk_location=container",
    "--project=made-up-project",
    "--region=europe-west1",
    "--temp_location=gs://made-up-bucket/tmp",
    "--staging_location=gs://made-up-bucket/staging",
)


def checkout(folder: Path) -> Path:
    """What `--setup_file ./setup.py` is given: the packages and the files beside them, without anything built."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def package_files(folder: Path) -> set[str]:
    """Every file of the four packages below a folder, as paths from there."""
    found = (path for name in PACKAGES for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in found if "__pycache__" not in path.parts}


def worker_home(folder: Path, sdist: Path) -> Path:
    """A virtual environment whose only copy of our packages is the sdist's; third-party packages are the tests' own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = site_packages(folder)
    # A path from a .pth file is searched, but its own .pth files, an editable install's, are not.
    (site / "third_party.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    build = [str(folder / "bin" / "python"), "setup.py", "-q", "build", "--build-lib", str(site)]
    subprocess.run(build, cwd=unpack(sdist, folder / "src"), check=True, capture_output=True)
    return folder


def unpack(sdist: Path, folder: Path) -> Path:
    """The sdist's one folder, unpacked."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (only,) = folder.iterdir()
    return only


def site_packages(home: Path) -> Path:
    return next((home / "lib").glob("python*/site-packages"))


@dataclass(frozen=True)
class Service:
    """Addresses of a job service and of a pool that starts its workers."""

    job: str
    workers: str

    @property
    def options(self) -> tuple[str, ...]:
        """The Beam options of a build that uses them."""
        workers = ("--environment_type=EXTERNAL", f"--environment_config={self.workers}")
        return ("--runner", "PortableRunner", "--", f"--job_endpoint={self.job}", *workers)


@contextmanager
def service(home: Path, folder: Path, environment: dict[str, str]) -> Iterator[Service]:
    """Beam's local job service, and a pool whose workers are processes of `home` in an empty directory."""
    elsewhere, port_file = folder / "elsewhere", folder / "port"
    elsewhere.mkdir(parents=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | environment
    theirs = own | {"PATH": f"{home / 'bin'}{os.pathsep}{own['PATH']}", "VIRTUAL_ENV": str(home)}
    port = _free_port()
    jobs = ["apache_beam.runners.portability.local_job_service_main", f"--port_file={port_file}"]
    pool = ["apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    with (
        _process([sys.executable, "-m", *jobs], elsewhere, own, folder / "jobs.log") as job_service,
        _process([str(home / "bin" / "python"), "-m", *pool], elsewhere, theirs, folder / "workers.log") as workers,
    ):
        _wait(lambda: port_file.exists() and _listens(port), job_service, workers)
        yield Service(f"localhost:{port_file.read_text()}", f"localhost:{port}")


@contextmanager
def _process(command: list[str], cwd: Path, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen]:
    with log.open("w") as said:
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=said, stderr=said, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its workers with it
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait(ready: Any, *processes: subprocess.Popen) -> None:
    until = time.monotonic() + 120
    while not ready():
        assert all(process.poll() is None for process in processes), "a Beam service did not start"
        assert time.monotonic() < until, "a Beam service did not listen in two minutes"
        time.sleep(0.05)


@dataclass(frozen=True)
class Step:
    """One primitive of a job. pickled: its function as it travels, uncompressed; empty for Beam's own primitives."""

    name: str
    urn: str
    payload: bytes
    pickled: bytes
    sources: tuple[str, ...]

    @property
    def ours(self) -> bool:
        """Whether the function, or one that it calls, is of our modules."""
        return re.search(rb"(?<!apache_beam\.)transforms\.", self.pickled) is not None

    @property
    def function(self) -> Any:
        """The DoFn."""
        from apache_beam.internal import pickler

        return pickler.loads(base64.b64encode(bz2.compress(self.pickled)))[0]


def steps(job: api.Pipeline) -> dict[str, Step]:
    """Primitives by name; `sources` are those that make a step's main input."""
    primitives = [t for t in job.components.transforms.values() if t.spec.urn and not t.subtransforms]
    makers = {pcollection: t.unique_name for t in primitives for pcollection in t.outputs.values()}
    found = {}
    for own in primitives:
        pickled, sides = b"", set()
        if own.spec.urn == "beam:transform:pardo:v1":
            pardo = api.ParDoPayload.FromString(own.spec.payload)
            pickled, sides = bz2.decompress(base64.b64decode(pardo.do_fn.payload)), set(pardo.side_inputs)
        sources = tuple(makers[p] for tag, p in own.inputs.items() if tag not in sides and p in makers)
        found[own.unique_name] = Step(own.unique_name, own.spec.urn, own.spec.payload, pickled, sources)
    return found


def fused_before(name: str, known: dict[str, Step]) -> list[Step]:
    """Steps between a step and the shuffles (or the start) before it: a runner does all of them in one go."""
    before, waiting = [], list(known[name].sources)
    while waiting:
        own = known[waiting.pop()]
        if own.urn != "beam:transform:group_by_key:v1":
            before.append(own)
            waiting += own.sources
    return before
