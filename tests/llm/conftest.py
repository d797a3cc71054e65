"""Prompts, and a fake server in its own process."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dmc_optim.llm.prompts import Prompt, build_prompt

ROOT = Path(__file__).resolve().parents[2]


def make_prompts(n: int, campaign: str = "correctness", size: int = 20) -> Iterator[Prompt]:
    for i in range(n):
        messages = build_prompt(campaign, f"Statement {i} " * size, "print(input())")
        yield Prompt(f"train/{i}", f"problem {i}", campaign, messages, "0123456789abcdef")


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """A fake server in a process of its own; yields its address."""
    command = [sys.executable, "-m", "tests.llm.fake_server", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@pytest.fixture
def fake_server() -> Callable[..., contextlib.AbstractContextManager[str]]:
    return serving
