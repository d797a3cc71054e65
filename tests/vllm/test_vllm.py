"""Generation with a real vLLM: the whole path on a tiny random model, and one honest run on real weights.

`make test-vllm` installs what this needs. The random model's answers are noise; what is tested is the path.
"""

import json
import subprocess
import sys

import pytest

from dmc_optim.llm.extract import extract_generator
from dmc_optim.llm.prompt_source import write_prompts
from dmc_optim.llm.recorded import RecordedCompletions
from tests.llm.conftest import make_prompts
from tests.vllm.conftest import ENVIRONMENT, PYTHON, ROOT, vllm_serve

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

HONEST = {"problems": 3, "attempts": 10, "max_tokens": 400, "temperature": 0.6}


def dmc_optim(*arguments, python=sys.executable, env=None):
    command = [str(python), "-m", "dmc_optim.cli.main", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=800)


def answers(path):
    recorded = RecordedCompletions.load(path)
    return {
        (problem, a.attempt): a.completion
        for problem, _ in recorded._by_problem
        for a in recorded.attempts(problem, "", "correctness")
    }


@pytest.fixture(scope="module")
def tiny(models, tmp_path_factory):
    with vllm_serve(models / "tiny", "tiny", tmp_path_factory.mktemp("log") / "tiny.log", 8192) as url:
        yield url


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "p.jsonl"
    write_prompts(make_prompts(4, size=1), path)
    return path


def test_answers_of_a_server_are_recorded_and_seeded(tiny, prompts, tmp_path):
    command = ["generate", "record", prompts, "--generator", f"openai:{tiny}#tiny", "--max-tokens", 24, "--json"]
    first = dmc_optim(*command, "--out", tmp_path / "a.jsonl")
    assert first.returncode == 0, first.stderr
    figures = json.loads(first.stdout)
    assert figures["answered"] == 4 and figures["prompt_tokens"] > 4000 and 0 < figures["completion_tokens"] <= 96
    again = dmc_optim(*command, "--out", tmp_path / "a.jsonl")
    assert json.loads(again.stdout)["already"] == 4
    alone = dmc_optim(*command, "--out", tmp_path / "b.jsonl", "--concurrency", 1)
    assert alone.returncode == 0 and answers(tmp_path / "a.jsonl") == answers(tmp_path / "b.jsonl")
    other = dmc_optim(*command, "--out", tmp_path / "c.jsonl", "--seed", 77)
    assert other.returncode == 0 and answers(tmp_path / "c.jsonl") != answers(tmp_path / "a.jsonl")


def test_a_wrong_name_and_a_prompt_beyond_the_context_are_one_clear_line(tiny, prompts, tmp_path):
    wrong = dmc_optim("generate", "record", prompts, "--generator", f"openai:{tiny}#big", "--out", tmp_path / "a")
    assert wrong.returncode == 2 and "has no model 'big'; it offers tiny" in wrong.stderr
    write_prompts(make_prompts(1, size=2000), tmp_path / "long.jsonl")
    command = ["generate", "record", tmp_path / "long.jsonl", "--generator", f"openai:{tiny}#tiny"]
    long = dmc_optim(*command, "--out", tmp_path / "b", "--max-tokens", 8)
    assert long.returncode == 1 and "refuses the request, status 400" in long.stdout, long.stdout + long.stderr


def test_the_same_path_in_process(models, prompts, tmp_path):
    length = {"max_model_len": 8192, "max_num_batched_tokens": 8192}
    arguments = json.dumps({"enforce_eager": True, "enable_chunked_prefill": False, **length})
    command = ["generate", "record", prompts, "--generator", f"vllm:{models / 'tiny'}", "--max-tokens", 24]
    command += ["--engine-args", arguments, "--out", tmp_path / "a.jsonl"]
    done = dmc_optim(*command, python=PYTHON, env=ENVIRONMENT)
    assert done.returncode == 0 and "4 answered" in done.stdout, done.stderr[-2000:]
    assert len(answers(tmp_path / "a.jsonl")) == 4


def test_one_honest_run_on_real_weights(models, tmp_path, capsys):
    """SmolLM2-135M writes generators for three bundled problems; what is accepted is reported, whatever it is."""
    out = tmp_path / "out"
    built = dmc_optim("build", "--out", out, "--through", "validate", "--quiet")
    assert built.returncode == 0, built.stderr
    with vllm_serve(models / "smol", "smollm2", tmp_path / "smol.log", 4096) as url:
        command = ["generate", "record", out, "--campaign", "correctness", "--generator", f"openai:{url}#smollm2"]
        command += ["--attempts", HONEST["attempts"], "--limit-problems", HONEST["problems"], "--json"]
        command += ["--max-tokens", HONEST["max_tokens"], "--temperature", HONEST["temperature"], "--concurrency", 30]
        recorded = dmc_optim(*command, "--out", tmp_path / "smol.jsonl")
    assert recorded.returncode == 0, recorded.stderr
    figures = json.loads(recorded.stdout)
    assert figures["answered"] == HONEST["attempts"] * HONEST["problems"]
    config = tmp_path / "config.toml"
    bundled = (ROOT / "examples" / "build.toml").read_text()
    config.write_text(bundled.replace("attempts = 4", f"attempts = {HONEST['attempts']}"))
    command = ["build", "--out", out, "--generator", f"recorded:{tmp_path / 'smol.jsonl'}"]
    built = dmc_optim(*command, "--config", config, "--through", "synthesize_correctness", "--quiet")
    assert built.returncode == 0, built.stderr
    report = dmc_optim("generate", "report", out, "--json")
    assert report.returncode == 0, report.stderr
    outcomes = {row["outcome"]: row["attempts"] for row in json.loads(report.stdout)["outcomes"]}
    assert sum(outcomes.values()) == HONEST["attempts"] * HONEST["problems"]
    extracted = sum(extract_generator(text).source is not None for text in answers(tmp_path / "smol.jsonl").values())
    with capsys.disabled():
        print(f"\nSmolLM2-135M, {figures['answered']} answers: {extracted} with a class; outcomes {outcomes}")
        print(f"{figures['completion_tokens']} tokens written in {figures['wall_s']:.0f} s")
