"""The in-process backend around a stand-in for `vllm`; the real one is in tests/vllm."""

import sys
import types
from types import SimpleNamespace
from typing import ClassVar

import pytest

from dmc_optim.errors import ConfigError, GenerationError
from dmc_optim.llm.backends import Sampling
from dmc_optim.llm.backends.inprocess import InProcessBackend
from dmc_optim.llm.campaign import run_campaign
from dmc_optim.llm.recorded import RecordedCompletions
from tests.llm.conftest import make_prompts


class StandIn:
    """`vllm.LLM` as far as it is used: chat answers in order, refuses long prompts, may die."""

    made: ClassVar[list] = []

    def __init__(self, model, **options):
        if model == "/absent":
            raise OSError("no file\nconfig.json in /absent")
        self.options, self.batches = {"model": model, **options}, []
        StandIn.made.append(self)

    def chat(self, messages, params, use_tqdm, **extra):
        self.batches.append((len(messages), extra))
        texts = [conversation[-1]["content"] for conversation in messages]
        if any("Statement 7 " in text for text in texts):
            raise ValueError("The prompt is longer than the maximum model length")
        if any("Statement 99 " in text for text in texts):
            raise RuntimeError("EngineCore died")
        return [self._output(text, param) for text, param in zip(texts, params, strict=True)]

    def _output(self, text, param):
        answer = SimpleNamespace(
            text=f"{len(text)} {param.seed} {param.max_tokens}", finish_reason="stop", token_ids=[1, 2]
        )
        return SimpleNamespace(outputs=[answer], prompt_token_ids=[0] * 5)


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    StandIn.made = []
    module = types.ModuleType("vllm")
    module.LLM, module.SamplingParams = StandIn, lambda **values: SimpleNamespace(**values)
    monkeypatch.setitem(sys.modules, "vllm", module)


def test_requests_run_in_batches_with_their_own_seeds(tmp_path):
    backend = InProcessBackend("m", "abc", max_batch=8, options={"tensor_parallel_size": 4})
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    sampling = Sampling(max_tokens=77, extra=extra)
    report = run_campaign(
        make_prompts(5), backend, tmp_path / "c.jsonl", k=4, concurrency=10, sampling=sampling, seed=3
    )
    (engine,) = StandIn.made
    assert engine.options == {"model": "m", "revision": "abc", "tensor_parallel_size": 4}
    assert sum(n for n, _ in engine.batches) == 20 and max(n for n, _ in engine.batches) == 8
    assert all(given == extra for _, given in engine.batches)
    assert (report.answered, report.prompt_tokens, report.completion_tokens) == (20, 100, 40)
    attempts = RecordedCompletions.load(tmp_path / "c.jsonl").attempts("train/2", "", "correctness")
    assert [a.completion.split()[1:] for a in attempts] == [[str(3 + i), "77"] for i in range(4)]


def test_one_prompt_beyond_the_context_costs_only_itself(tmp_path):
    report = run_campaign(make_prompts(10), InProcessBackend("m"), tmp_path / "c.jsonl", k=2)
    assert (report.answered, dict(report.failures)) == (18, {"rejected": 2})
    assert "longer than the maximum model length" in report.examples[0].detail


def test_a_dead_engine_ends_the_campaign_with_one_line(tmp_path):
    with pytest.raises(GenerationError, match=r"vllm:m: the engine failed \(EngineCore died\)"):
        run_campaign(
            (p for p in make_prompts(100) if p.problem_id == "train/99"), InProcessBackend("m"), tmp_path / "c"
        )


def test_no_vllm_and_no_model_are_one_clear_line(tmp_path, monkeypatch):
    with pytest.raises(
        ConfigError, match=r"vllm:/absent: the model cannot be loaded \(no file config.json in /absent\)"
    ):
        run_campaign(make_prompts(1), InProcessBackend("/absent"), tmp_path / "c")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ConfigError, match=r"vllm:m: vLLM is not installed here; pip install 'dmc-optim\[vllm\]'"):
        run_campaign(make_prompts(1), InProcessBackend("m"), tmp_path / "c")
