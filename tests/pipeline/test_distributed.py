"""What is claimed of distributed runners, offline: jobs as Dataflow would get them, shuffles, workers elsewhere."""

import json
import os
import pickle
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as api
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from apache_beam.runners.portability.fn_api_runner import execution

from dmc_optim.artifacts.layout import Layout
from dmc_optim.artifacts.source import SourceRange
from dmc_optim.config import BuildConfig
from dmc_optim.errors import SourceError, StageError
from dmc_optim.llm import recorded
from dmc_optim.llm.recorded import RecordedCompletions
from pipeline.runner import run
from pipeline.wiring import WIRING, StageInputs
from schemas import TABLES
from schemas.enums import Stage
from tests.pipeline.bucket import PRIVATE, storage
from tests.pipeline.conftest import Inputs
from tests.pipeline.corpus import corpus, write_generators, write_source
from tests.pipeline.distributed import (
    DATAFLOW,
    PACKAGES,
    ROOT,
    Service,
    checkout,
    fused_before,
    package_files,
    service,
    site_packages,
    steps,
    worker_home,
)
from tests.pipeline.test_build_command import build, refused
from tests.pipeline.test_build_fake import request
from tests.pipeline.test_build_fake import run as run_build
from transforms.context import EngineSpec, StageContext

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MARK = "BODYBODYBODY"


def context(stage: Stage, shards: int = 1024) -> StageContext:
    """A stage in a bucket that does not exist."""
    engine = EngineSpec("http://ces.example:8000")
    return StageContext(Layout("gs://made-up-bucket/out"), stage, "0" * 16, BuildConfig(), shards, engine)


def completions(path: Path, rows: int) -> RecordedCompletions:
    with path.open("w") as file:
        for row in range(rows):
            answer = {"problem_id": f"train/{row // 10}", "attempt": row % 10, "completion": f"{MARK} {row}"}
            file.write(json.dumps(answer) + "\n")
    return RecordedCompletions.load(path)


def submit(stage: Stage, inputs: StageInputs, *flags: str) -> api.Pipeline:
    """The job that our runner would have submitted to Dataflow."""
    jobs = []
    submitted = DataflowRunner.run_pipeline

    def dry_run(*arguments: Any, **named: Any) -> Any:
        result = submitted(*arguments, **named)
        jobs.append(result.job)
        return result

    own = context(stage)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_GCE_CHECK", "true")
        patch.setattr(DataflowRunner, "run_pipeline", dry_run)
        run(WIRING[stage](own, inputs), stage, "DataflowRunner", 2, (*DATAFLOW, *flags))
    assert vars(own.layout).keys() == {"out"}, "making the job looked into the bucket"
    (job,) = jobs
    return job.proto_pipeline


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[Stage, api.Pipeline]:
    """Every stage as Dataflow would get it: 1024 shards, 13,312 source rows, 2,000 recorded answers."""
    answers = completions(tmp_path_factory.mktemp("answers") / "answers.jsonl", 2000)
    file = "gs://made-up-bucket/train.parquet"
    ranges = [SourceRange(file, "train", 0, start, start + 256) for start in range(0, 52 * 256, 256)]
    inputs = StageInputs(ranges, ("gs://made-up-bucket/benchmark.parquet",), answers, judged=True)
    quick = "--experiments=disable_logging_submission_environment"  # spares a `pip freeze`
    return {stage: submit(stage, inputs, quick) for stage in Stage}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `--setup_file ./setup.py` stages for the workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(source)
        job = submit(Stage.CONTROLS, StageInputs(), "--setup_file=./setup.py")
    (environment,) = job.components.environments.values()
    staged = {
        api.ArtifactStagingToRolePayload.FromString(artifact.role_payload).staged_name: artifact
        for artifact in environment.dependencies
    }
    return Path(api.ArtifactFilePayload.FromString(staged["workflow.tar.gz"].type_payload).path)


def test_the_sdist_holds_the_packages_whole(source: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    files = package_files(source)
    assert {"dmc_optim/llm/prompts/correctness.md", "dmc_optim/report/templates/report.html.jinja"} <= files
    assert files | {"setup.py", "README.md", "LICENSE", "pyproject.toml"} <= names


def test_jobs_are_small_whatever_the_size_of_the_build(jobs: dict[Stage, api.Pipeline]) -> None:
    for stage, job in jobs.items():
        assert job.ByteSize() < 200_000, stage  # Dataflow takes 10 MB
        for own in steps(job).values():
            assert max(len(own.payload), len(own.pickled)) < 20_000, own.name


def test_jobs_name_our_modules_and_hold_no_main_session_and_no_text(jobs: dict[Stage, api.Pipeline]) -> None:
    for job in jobs.values():
        pickled = [own.pickled for own in steps(job).values() if own.pickled]
        assert any(own.ours for own in steps(job).values())
        assert not any(b"__main__" in text or MARK.encode() in text for text in pickled)


def test_every_slow_step_begins_with_a_shuffle(jobs: dict[Stage, api.Pipeline]) -> None:
    slow = set()
    for job in jobs.values():
        known = steps(job)
        for own in known.values():
            if own.pickled and type(own.function).__module__.startswith("transforms."):
                slow.add(type(own.function).__name__)
                before = [step.name for step in fused_before(own.name, known) if step.ours]
                assert not before, f"{own.name} runs in one go with {before}"
    assert {"ParseRange", "MergeShard", "DecideShard", "ExecuteFn", "RunAttempt", "MaterialiseShard"} <= slow


def test_a_context_is_small_and_recorded_answers_travel_as_a_path(tmp_path: Path) -> None:
    assert len(pickle.dumps(context(Stage.VALIDATE))) < 3000
    few, many = (completions(tmp_path / f"{rows:04d}.jsonl", rows) for rows in (10, 2000))
    assert len(pickle.dumps(few)) == len(pickle.dumps(many)) < 300 + len(str(tmp_path))
    (reference, *_) = many.references("train/7", "", "correctness")
    assert len(pickle.dumps(reference)) < 500 + len(str(tmp_path))
    assert reference.read() == many.attempts("train/7", "", "correctness")[0]


def test_recorded_answers_that_changed_are_refused_by_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(completions(tmp_path / "answers.jsonl", 10))
    monkeypatch.setattr(recorded, "_opened", {})  # as another process
    assert len(pickle.loads(pickled)) == 10
    monkeypatch.setattr(recorded, "_opened", {})
    completions(tmp_path / "answers.jsonl", 11)
    with pytest.raises(SourceError, match="changed since"):
        pickle.loads(pickled)


def test_a_local_path_means_the_same_in_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    completions(Path("answers.jsonl"), 10)
    pickled = pickle.dumps((Layout("out"), RecordedCompletions.load("answers.jsonl")))
    monkeypatch.setattr(recorded, "_opened", {})
    monkeypatch.chdir("/")
    layout, answers = pickle.loads(pickled)
    assert layout.path("x") == f"{tmp_path}/out/x"
    assert len(answers.attempts("train/0", "", "correctness")) == 10


def test_threads_that_begin_together_share_one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def slow_start(*arguments: Any, **named: Any) -> object:
        time.sleep(0.2)
        made.append(object())
        return made[-1]

    monkeypatch.setattr("dmc_optim.ces.connect", slow_start)
    threads = [threading.Thread(target=EngineSpec("fake:77").connect) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_no_body_crosses_a_shuffle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that FnApiRunner moves between steps of a whole build: programs, tests, answers stay in files."""
    moved: list[bytes] = []
    for buffer in (execution.GroupingBuffer, execution.ListBuffer):
        original = buffer.append

        def append(self: Any, data: bytes, original: Any = original) -> None:
            moved.append(bytes(data))
            original(self, data)

        monkeypatch.setattr(buffer, "append", append)
    padding = MARK * 1000
    problems = [
        replace(
            problem,
            correct=[f"{code}# {padding}\n" for code in problem.correct],
            incorrect=[f"{code}# {padding}\n" for code in problem.incorrect],
            tests=[(f"{padding}{text}", f"{padding}{answer}") for text, answer in problem.tests],
            statement=f"{problem.row()['description']} {padding}" if problem.statement is None else problem.statement,
        )
        for problem in corpus(size=4)
    ]
    generators = write_generators(tmp_path / "generators.jsonl", problems)
    generators.write_text(generators.read_text().replace("```python", f"{padding}\\n```python"))
    padded = Inputs(write_source(tmp_path / "train.parquet", problems), generators)
    done = run_build(request(padded, tmp_path / "out", config=BuildConfig(shards=3)))
    assert len(done.ran) == len(Stage)
    accepted = [row for row in Layout(str(tmp_path / "out")).rows("generator_attempts") if row["accepted"]]
    assert accepted and all(MARK in row["completion"] for row in accepted)
    shuffled = b"".join(moved)
    for element in (b"SourceRange", b"ExecuteUnit", b"AttemptReference"):
        assert element in shuffled
    assert MARK.encode() not in shuffled
    assert max(map(len, moved)) < len(padding)  # a buffer holds many elements


@pytest.fixture(scope="module")
def home(source: Path, sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with our packages from the sdist alone; checked to be so."""
    home = worker_home(tmp_path_factory.mktemp("worker") / "home", sdist)
    where = "; ".join(f"import {name}; print({name}.__file__)" for name in PACKAGES)
    command = [str(home / "bin" / "python"), "-E", "-c", where]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=True)
    assert all(line.startswith(str(site_packages(home))) for line in done.stdout.splitlines()), done.stdout
    assert package_files(site_packages(home)) == package_files(source)
    return home


@pytest.fixture(scope="module")
def bucket_environment() -> Iterator[dict[str, str]]:
    """gs:// is a server of this process, here and for the workers."""
    with storage() as (_, environment), pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setitem(fsspec.config.conf, "gs", {"token": "anon"})
        yield environment


@pytest.fixture(scope="module")
def remote(
    home: Path, bucket_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with service(home, tmp_path_factory.mktemp("beam"), bucket_environment) as running:
        yield running


def rows(out: str) -> dict[str, list[str]]:
    """Rows of every table as sorted JSON."""
    layout = Layout(out)
    return {
        table: sorted(json.dumps(row, sort_keys=True, default=str) for row in layout.rows(table)) for table in TABLES
    }


def test_workers_with_the_sdist_alone_build_the_same_rows_in_a_bucket(remote: Service, tmp_path: Path) -> None:
    few = write_source(tmp_path / "train.parquet", corpus(size=2))  # of every fate, with few requests to the bucket
    done = build(few, "gs://made-up-bucket/out", "--through", "validate", *remote.options)
    assert done.returncode == 0, done.stderr
    assert run_build(request(Inputs(few, few), tmp_path / "out", through=Stage.VALIDATE, generator=None)).ran
    expected = rows(str(tmp_path / "out"))
    assert expected["executions"]
    assert rows("gs://made-up-bucket/out") == expected


def test_an_error_in_a_worker_elsewhere_is_one_line(
    inputs: Inputs, remote: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_build(request(inputs, Path("out"), through=Stage.INGEST))
    (problems,) = (tmp_path / "out" / "tables" / "problems").glob("*.parquet")
    problems.write_bytes(problems.read_bytes()[:-10])
    done = build(inputs.source, Path("out"), "--through", "dedup", *remote.options)
    refused(done, str(problems), "not a readable Parquet file")


@pytest.mark.usefixtures("bucket_environment")
def test_a_bucket_that_may_not_be_read_is_one_line(inputs: Inputs) -> None:
    refused(build(inputs.source, f"gs://{PRIVATE}/out"), f"--out gs://{PRIVATE}/out", "Forbidden")
    refused(build(inputs.source, "nope://out"), "nope://out: no such file system here", "Protocol not known")


def test_a_runner_that_writes_nothing_is_an_error(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.runner.run", lambda *arguments: None)  # workers that write to a disk of their own
    with pytest.raises(StageError, match="ended without writing"):
        run_build(request(inputs, tmp_path / "out"))
    assert not list((tmp_path / "out" / "stages").glob("*"))


def test_runner_options_are_looked_at_first(inputs: Inputs, tmp_path: Path) -> None:
    def asked(runner: str, *options: str) -> Any:
        return build(inputs.source, tmp_path / "out", "--runner", runner, "--", *options)

    refused(asked("PortableRunner"), "which job service?", "--job_endpoint=HOST:PORT")
    refused(asked("PortableRunner", "--job_endpoint=h:1", "--environment_type=EXTERNAL"), "external_service_address")
    refused(asked("FnApiRunner", "--direct_num_workers=many"), "direct_num_workers", "invalid int value")
    refused(asked("DataflowRunner", *DATAFLOW), "--out", "no file of this machine", "gs://")
    refused(asked("no.such.Runner"), "no.such.Runner", "FnApiRunner runs here")
    nobody = ("--job_endpoint=localhost:9", "--job_server_timeout=1")
    refused(asked("PortableRunner", *nobody), "localhost:9", "nobody answered in 1 s", status=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_whole_build_on_workers_that_pip_installed_the_sdist(inputs: Inputs, sdist: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    lock = ROOT / "requirements.lock"
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "-c", str(lock), str(sdist)]
    subprocess.run(pip, check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": ""})
    generator = f"recorded:{inputs.generators}"
    with service(home, tmp_path / "beam", {}) as running:
        done = build(inputs.source, tmp_path / "portable", "--generator", generator, *running.options)
    assert done.returncode == 0, done.stderr
    run_build(request(inputs, tmp_path / "local"))
    expected = rows(str(tmp_path / "local"))
    assert expected["reference_durations"]
    assert rows(str(tmp_path / "portable")) == expected
