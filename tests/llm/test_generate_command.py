"""`dmc-optim generate record` and `prompts`: from a build's tables or a file, killed and started again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dmc_optim.artifacts.layout import Layout
from dmc_optim.cli.main import main
from dmc_optim.llm.prompt_source import prompts_of_build, read_prompts, write_prompts
from dmc_optim.llm.recorded import RecordedCompletions
from schemas.enums import Campaign
from tests.audit.small_build import SmallBuild
from tests.llm.conftest import ROOT, make_prompts, serving
from tests.llm.fake_server import MODEL


def dmc_optim(*arguments, **options):
    command = [sys.executable, "-m", "dmc_optim.cli.main", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, **options)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = SmallBuild().write(tmp_path_factory.mktemp("build"))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"shards": 1}))
    return folder


@pytest.fixture(scope="module")
def server():
    with serving("--slots", "32") as url:
        yield url


def test_prompts_of_a_build_are_those_of_the_campaigns_pool(out):
    correctness = list(prompts_of_build(Layout(str(out)), Campaign.CORRECTNESS, attempts=2))
    assert [(p.problem_id, p.first_attempt) for p in correctness] == [
        (f"train/{i}", attempt) for i in (0, 1, 2, 7, 8) for attempt in (0, 1)
    ]
    optimization = list(prompts_of_build(Layout(str(out)), Campaign.OPTIMIZATION))
    assert {p.problem_id for p in optimization} == {f"train/{i}" for i in (0, 1, 7, 8)} and len(optimization) == 40
    build = SmallBuild()
    for prompt in correctness + optimization:
        (solution,) = build.rows("solutions", problem_id=prompt.problem_id, solution_id=prompt.prompt_solution_id)
        (problem,) = build.rows("problems", problem_id=prompt.problem_id)
        text = prompt.messages.messages[1]["content"]
        assert solution["label"] == "correct" and solution["code"] in text and problem["statement"].strip() in text
    lost = build.id("0/c5")
    assert lost not in {p.prompt_solution_id for p in optimization}
    assert lost in {p.prompt_solution_id for p in prompts_of_build(Layout(str(out)), Campaign.CORRECTNESS, attempts=40)}


def test_prompts_are_those_that_the_build_asks(out):
    pytest.importorskip("apache_beam")
    from dataclasses import asdict

    from dmc_optim.config import BuildConfig
    from pipeline.completions import prompts
    from schemas.enums import Stage
    from transforms.context import StageContext

    stages = {Campaign.CORRECTNESS: Stage.SYNTHESIZE_CORRECTNESS, Campaign.OPTIMIZATION: Stage.SYNTHESIZE_OPTIMIZATION}
    layout = Layout(str(out))
    assert layout.manifest()["config"]["seed"] == asdict(BuildConfig())["seed"]
    for campaign, stage in stages.items():
        context = StageContext(layout, stage, "key", BuildConfig(), 1)
        assert list(prompts(context, campaign)) == list(prompts_of_build(layout, campaign))


def test_a_file_of_prompts_says_the_same(tmp_path, out):
    prompts = list(prompts_of_build(Layout(str(out)), Campaign.OPTIMIZATION, attempts=2))
    assert write_prompts(iter(prompts), tmp_path / "p.jsonl") == 8
    assert list(read_prompts(tmp_path / "p.jsonl")) == prompts
    result = dmc_optim(
        "generate", "prompts", out, "--campaign", "optimization", "--attempts", 2, "--out", tmp_path / "q"
    )
    assert result.stdout == f"8 prompts in {tmp_path / 'q'}\n", result.stderr
    assert (tmp_path / "q").read_text() == (tmp_path / "p.jsonl").read_text()


def test_record_writes_a_recorded_file_and_goes_on(tmp_path, out, server):
    path = tmp_path / "c.jsonl"
    command = ["generate", "record", out, "--campaign", "correctness", "--generator", f"openai:{server}#{MODEL}"]
    command += ["--out", path, "--price-prompt", 1, "--price-completion", 2, "--json"]
    first = dmc_optim(*command, "--attempts", 2, "--limit-problems", 3)
    figures = json.loads(first.stdout)
    assert (first.returncode, figures["answered"], figures["prompt_tokens"]) == (0, 6, 600), first.stderr
    assert figures["cost_usd"] == pytest.approx(6 * (100 + 2 * 50) / 1e6)
    second = dmc_optim(*command, "--attempts", 3)
    assert (json.loads(second.stdout)["already"], json.loads(second.stdout)["answered"]) == (6, 9)
    recorded = RecordedCompletions.load(path)
    assert len(recorded) == 15 and recorded.unknown([f"train/{i}" for i in (0, 1, 2, 7, 8)], []) == []
    assert [a.seed for a in recorded.attempts("train/7", "", "correctness")] == [0, 1, 2]


def test_record_reads_a_file_of_prompts_where_beam_and_duckdb_are_absent(tmp_path, out, server):
    prompts = tmp_path / "p.jsonl"
    statement = {"name": "sum", "campaign": "optimization", "statement": "Add.", "solution": "print(1)", "attempt": 4}
    prompts.write_text(json.dumps(statement) + "\n")
    blocked = "import sys\nfor name in ('apache_beam', 'duckdb', 'torch', 'vllm', 'datasketch', 'scipy'):\n"
    blocked += "    sys.modules[name] = None\nfrom dmc_optim.cli.main import main\nmain(sys.argv[1:])\n"
    for source, more in ((prompts, []), (out, ["--campaign", "optimization", "--attempts", "1"])):
        file = tmp_path / f"{source.name}.out"
        command = [sys.executable, "-c", blocked, "generate", "record", str(source), *more, "--out", str(file)]
        command += ["--generator", f"openai:{server}#{MODEL}"]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert result.returncode == 0 and "answered, 0 without an answer" in result.stdout, result.stderr
    (attempt,) = RecordedCompletions.load(tmp_path / "p.jsonl.out").attempts("", "sum", "optimization")
    assert (attempt.attempt, attempt.seed) == (4, 4)


ERRORS = {
    "spec": (["{file}", "--generator", "openai:h", "--out", "{o}"], 2, "no model name; write openai:h#MODEL"),
    "kind": (["{file}", "--generator", "gpt", "--out", "{o}"], 2, "not one of recorded:FILE.jsonl, openai:URL#MODEL"),
    "server": (["{file}", "--generator", "openai:http://127.0.0.1:9#m", "--out", "{o}"], 1, "no server answers"),
    "model": (["{file}", "--generator", "openai:{url}#m", "--out", "{o}"], 2, "has no model 'm'; it offers fake-model"),
    "vllm": (["{file}", "--generator", "vllm:m", "--out", "{o}"], 2, "vLLM is not installed here"),
    "out": (["{file}", "--generator", "openai:{url}#m"], 2, "--out: say which file"),
    "campaign": (["{dir}", "--generator", "openai:{url}#m"], 2, "--campaign: say correctness or optimization"),
    "file_campaign": (["{file}", "--campaign", "correctness", "--generator", "vllm:m"], 2, "the rows of"),
    "no_build": (["{empty}", "--campaign", "correctness", "--generator", "vllm:m"], 2, "no manifest.json there"),
    "remote": (["memory://b", "--campaign", "correctness", "--generator", "vllm:m"], 2, "--out: answers are appended"),
    "extra": (["{file}", "--generator", "openai:{url}#m", "--out", "{o}", "--extra", "{{"], 2, "--extra: not JSON"),
    "engine": (["{file}", "--generator", "openai:{url}#m", "--out", "{o}", "--engine-args", "{{}}"], 2, "has no model"),
    "bad_row": (["{bad}", "--generator", "openai:{url}#fake-model", "--out", "{o}"], 2, "bad.jsonl:1: `campaign` is"),
    "recorded": (["{file}", "--generator", "recorded:/none", "--out", "{o}"], 2, "/none: cannot be read"),
}


def failing(capsys, *arguments):
    """Exit status and stderr of a command that must fail."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return left.value.code, capsys.readouterr().err


@pytest.mark.parametrize("name", ERRORS)
def test_a_mistake_is_one_clear_line(tmp_path, capsys, out, server, name):
    arguments, status, words = ERRORS[name]
    write_prompts(make_prompts(1), tmp_path / "p.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"name": "a", "campaign": "x"}\n')
    (tmp_path / "empty").mkdir()
    places = {"file": tmp_path / "p.jsonl", "bad": tmp_path / "bad.jsonl", "empty": tmp_path / "empty"}
    places |= {"o": tmp_path / "o.jsonl", "url": server, "dir": out}
    code, said = failing(capsys, "generate", "record", *(a.format(**places) for a in arguments))
    assert code == status and words in said
    assert said.startswith("error: ") and said.count("\n") == 1


def test_a_stage_that_is_not_complete_is_named(tmp_path, capsys):
    folder = SmallBuild().write(tmp_path)
    (folder / "stages" / "validate.json").unlink()
    code, said = failing(capsys, "generate", "record", folder, "--campaign", "correctness", "--generator", "vllm:m")
    assert code == 2 and "stage validate is not complete" in said


def attempts_of(path: Path) -> set:
    recorded = RecordedCompletions.load(path)
    return {
        (problem, a.attempt, a.seed, a.completion)
        for problem, _ in recorded._by_problem
        for a in recorded.attempts(problem, "", "correctness")
    }


def test_killed_at_random_instants_the_attempts_are_those_of_an_undisturbed_run(tmp_path):
    """kill -9 at the start, while it asks and while it writes; the server misbehaves all the while."""
    write_prompts(make_prompts(800), tmp_path / "p.jsonl")
    names = ("busy", "drop", "drop_midway", "garbage", "empty_choices")
    faults = [flag for name in names for flag in ("--fault", f"{name}=0.03")]
    path, calm = tmp_path / "c.jsonl", tmp_path / "calm.jsonl"

    def start(url, file):
        spec = ["--generator", f"openai:{url}#{MODEL}", "--concurrency", "32", "--tries", "8", "--out", str(file)]
        command = [sys.executable, "-m", "dmc_optim.cli.main", "generate", "record", str(tmp_path / "p.jsonl"), *spec]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)

    with serving("--slots", "32") as url:
        assert start(url, calm).wait(timeout=60) == 0
    rng, kills = random.Random(11), 0
    with serving("--slots", "16", "--latency-s", "0.01", "--max-faults", "4", *faults) as url:
        for more in [0, *(rng.randrange(calm.stat().st_size // 8) for _ in range(5))]:
            process = start(url, path)
            size = path.stat().st_size if path.exists() else 0
            while process.poll() is None and (not path.exists() or path.stat().st_size <= size + more):
                time.sleep(rng.uniform(0, 0.004))
            os.kill(process.pid, signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        assert kills == 6 and len(path.read_bytes().splitlines()) < 800
        assert start(url, path).wait(timeout=60) == 0
    assert attempts_of(path) == attempts_of(calm) and len(attempts_of(path)) == 800
