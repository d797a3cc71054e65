"""Prompts: complete, versioned, and proof against what statements and solutions contain."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.errors import ConfigError
from dmc_optim.llm import prompts
from dmc_optim.llm.prompts import (
    build_part,
    build_prompt,
    build_quality_prompt,
    choose_solution,
    fenced,
    template_digest,
)

FILES = ("correctness", "optimization", "quality", "contract", "durations", "survivor")


@pytest.mark.parametrize("name", FILES)
def test_every_prompt_file_has_a_version_and_a_digest(name):
    version, digest = template_digest(name)
    assert version >= 1 and re.fullmatch(r"[0-9a-f]{16}", digest)


def test_a_changed_prompt_file_must_raise_its_version():
    """The digests of released versions. A failure here means: raise `version:` in the file, then add its digest."""
    known = json.loads((prompts_folder() / "digests.json").read_text())
    assert {name: known[name].get(str(template_digest(name)[0])) for name in FILES} == {
        name: template_digest(name)[1] for name in FILES
    }


def prompts_folder():
    from pathlib import Path

    return Path(prompts.__file__).parent


@pytest.mark.parametrize("campaign", ["correctness", "optimization"])
def test_the_generator_prompt_holds_all_that_is_needed(campaign):
    got = build_prompt(campaign, "  Add $a and ${b}.  ", "print(1)")
    system, user = got.messages
    assert (system["role"], user["role"]) == ("system", "user")
    text = user["content"]
    for needed in (
        "Add $a and ${b}.",
        "```python\nprint(1)\n```",
        "class named `InputGenerator`",
        "random.seed",
        "2 MB",
    ):
        assert needed in text
    assert all(f"- `{method}`" in text for method in ("edge", "small", "large", "sample"))
    assert got.template == f"{campaign}@1+contract@1" and len(got.digest) == 16


def test_the_two_campaigns_differ_and_a_third_is_refused():
    assert build_prompt("correctness", "s", "p").digest != build_prompt("optimization", "s", "p").digest
    with pytest.raises(ConfigError, match="'original'; known: correctness, optimization"):
        build_prompt("original", "s", "p")


def test_parts_are_added_and_named():
    part = build_part("survivor", survivor=fenced("print(2)", "python"))
    got = build_prompt("correctness", "s", "p", [part])
    assert "print(2)" in got.messages[1]["content"] and got.template == "correctness@1+contract@1+survivor@1"


@given(st.text(alphabet="`a\n ~", max_size=60))
def test_code_cannot_close_its_fence(code):
    got = fenced(code, "python").split("\n")
    fence = got[-1]
    assert got[0] == f"{fence}python" and not any(fence in line for line in got[1:-1])


@given(st.text(alphabet="= \nab", max_size=200))
def test_a_statement_cannot_close_its_frame(statement):
    text = build_quality_prompt(statement).messages[1]["content"]
    rule = text.rstrip("\n").split("\n")[-1]
    assert set(rule) == {"="} and text.count(rule) == 2 and statement.strip() in text


def test_the_solution_shown_is_seeded_and_varies_with_the_attempt():
    pool = [str(i) for i in range(50)]
    drawn = [choose_solution(3, "t/0", "correctness", attempt, pool) for attempt in range(20)]
    assert drawn == [choose_solution(3, "t/0", "correctness", attempt, pool) for attempt in range(20)]
    assert len(set(drawn)) > 10 and len({choose_solution(s, "t/0", "correctness", 0, pool) for s in range(20)}) > 10
