"""Extraction: which class comes out of an answer, and which reason when none does."""

import ast
import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc_optim.llm.extract import MAX_CODE_CHARS, extract_generator
from schemas.enums import AttemptReason

CLASS = """class InputGenerator:
    def edge(self):
        return "1\\n"

    def sample(self):
        return str(random.randint(1, 5)) + "\\n"
"""
CODE = f"import random\n\n\n{CLASS}"


def methods(source: str) -> list[str]:
    (cls,) = [n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == "InputGenerator"]
    return [n.name for n in cls.body if isinstance(n, ast.FunctionDef)]


GOOD = {
    "fence": f"```python\n{CODE}```\n",
    "bare_fence": f"```\n{CODE}```",
    "py3_attributes": f"```python3 {{.numberLines}}\n{CODE}```",
    "tildes": f"~~~py\n{CODE}~~~",
    "four_backticks": f"````python\n{CODE}````",
    "prose_around": f"Sure! Here is it.\n\n```python\n{CODE}```\n\nThe class InputGenerator covers corner cases.",
    "opened_in_prose": f"Here you go:```python\n{CODE}```",
    "closed_on_code_line": f"```python\n{CODE.rstrip()}```",
    "indented_fence": "1. The class:\n" + "".join(f"   {line}\n" for line in f"```python\n{CODE}```".split("\n")),
    "crlf": f"```python\n{CODE}```\n".replace("\n", "\r\n"),
    "no_fence": CODE,
    "no_fence_prose": f"The generator is below.\n\n{CODE}\nIt returns one input a call.\nEnjoy",
    "think": f"<think>I could write ```python\nclass InputGenerator: pass\n``` first</think>\n```python\n{CODE}```",
    "think_begun_in_template": f"so the class is\n</think>\n\n```python\n{CODE}```",
    "unclosed_fence_but_whole": f"```python\n{CODE}",
    "usage_fence_after": f"```python\n{CODE}```\nUse it:\n```python\nprint(InputGenerator().edge())\n```\n",
    "usage_fence_not_python": f"```python\n{CODE}```\nOutput:\n```\n3 4\n1 2 3\n```\n",
    "class_then_main": f"```python\n{CODE}\nif __name__ == '__main__':\n    print(InputGenerator().edge())\n```",
    "imports_in_their_own_fence": f"First:\n```python\nimport random\n```\nthen\n```python\n{CLASS}```\n",
    "only_in_think": f"<think>\n```python\n{CODE}```\n</think>\n",
    "broken_revision": f"```python\n{CODE}```\nOr:\n```python\nclass InputGenerator:\n    def edge(self) return 1\n```",
}


@pytest.mark.parametrize("name", GOOD)
def test_finds_the_class_in_every_usual_form(name):
    found = extract_generator(GOOD[name])
    assert found.reason is None, found
    assert methods(found.source) == ["edge", "sample"]
    assert "import random" in found.source
    assert "print(" not in found.source and "__main__" not in found.source


def test_last_complete_class_wins():
    second = CODE.replace("sample", "small")
    assert methods(extract_generator(f"```python\n{CODE}```\nOn reflection:\n```python\n{second}```").source) == [
        "edge",
        "small",
    ]
    assert methods(extract_generator(f"```python\n{CODE}\n{second}```").source) == ["edge", "small"]


def test_keeps_what_the_class_needs_and_nothing_else():
    code = (
        '"""Docstring."""\nimport random\ntry:\n    import numpy as np\nexcept ImportError:\n    np = None\n'
        "LIMIT = 10\nOTHER = 5\n\ndef tree(n):\n    return LIMIT * n\n\n"
        "class Graph:\n    pass\n\nclass Unused:\n    pass\n\n@staticmethod\ndef unused():\n    pass\n\n"
        "class InputGenerator(Graph):\n    def edge(self):\n        return str(tree(3))\n\n"
        "gen = InputGenerator()\nprint(gen.edge())\nfor _ in range(3):\n    gen.edge()\nwhile True: pass\n"
    )
    found = extract_generator(f"```python\n{code}```")
    bound = [getattr(n, "name", type(n).__name__) for n in ast.parse(found.source).body]
    assert bound == ["Import", "Try", "Assign", "tree", "Graph", "InputGenerator"]
    assert "LIMIT = 10" in found.source and "OTHER" not in found.source
    assert found.detail == "8 other top-level statements left out"


def test_decorators_semicolons_and_wide_characters_survive_as_written():
    code = "import random; import math; s = 'é'; t = 'ü' * 2\n@property\n@staticmethod\n"
    code += "class InputGenerator:\n    x = s + t  # ж\n"
    source = extract_generator(f"```\n{code}```").source
    head = "import random\nimport math\ns = 'é'\nt = 'ü' * 2\n@property\n@staticmethod\n"
    assert source == head + "class InputGenerator:\n    x = s + t\n"


def test_reasoning_is_looked_at_last():
    other = CODE.replace("sample", "large")
    assert methods(extract_generator(f"```python\n{CODE}```", reasoning=f"```python\n{other}```").source) == [
        "edge",
        "sample",
    ]
    found = extract_generator("I am done.", reasoning=f"```python\n{other}```")
    assert methods(found.source) == ["edge", "large"] and found.detail == "found in the reasoning"


BAD = {
    "empty": ("", AttemptReason.NO_CODE),
    "blank": (" \n\t\n", AttemptReason.NO_CODE),
    "prose": ("I am sorry, I cannot help with this.", AttemptReason.NO_CODE),
    "one_word": ("Yes", AttemptReason.NO_CODE),
    "example_input": ("```\n3\n```", AttemptReason.NO_CODE),
    "no_class": ("```python\nimport random\nprint(random.random())\n```", AttemptReason.NO_CLASS),
    "other_class": ("```python\nclass TestGenerator:\n    pass\n```", AttemptReason.NO_CLASS),
    "nested_class": ("```python\nclass Outer:\n    class InputGenerator:\n        pass\n```", AttemptReason.NO_CLASS),
    "syntax": (
        "```python\nclass InputGenerator:\n    def edge(self) return 1\n    def small(self): pass\n```",
        AttemptReason.NOT_PARSEABLE,
    ),
    "python2": (
        "```python\nclass InputGenerator:\n    def edge(self):\n        print 'x'\n\n    x = 1\n```",
        AttemptReason.NOT_PARSEABLE,
    ),
    "null_byte": (f"```python\n{CODE}\n\0x = 1\ny = 2\n```", AttemptReason.NOT_PARSEABLE),
    "lone_surrogate": (f"```python\n{CODE}\nx = '\ud800'\n```", AttemptReason.NOT_PARSEABLE),
    "cut_in_call": (
        "```python\nimport random\nclass InputGenerator:\n    def edge(self):\n        return str(",
        AttemptReason.TRUNCATED,
    ),
    "cut_in_string": (
        '```python\nclass InputGenerator:\n    def edge(self):\n        return """1 2',
        AttemptReason.TRUNCATED,
    ),
    "cut_after_colon": ("```python\nclass InputGenerator:\n    def edge(self):", AttemptReason.TRUNCATED),
    "cut_without_fence": ("class InputGenerator:\n    def edge(self):\n        return str(", AttemptReason.TRUNCATED),
    "cut_in_thought": ("<think>The constraints say that n is at most", AttemptReason.TRUNCATED),
}


@pytest.mark.parametrize("name", BAD)
def test_gives_the_reason(name):
    text, reason = BAD[name]
    found = extract_generator(text)
    assert found.source is None and found.reason is reason, found
    assert found.detail and "\n" not in found.detail and len(found.detail) <= 200


def test_names_what_it_found_instead():
    assert extract_generator("```python\nclass A:\n    pass\n```").detail == "classes found: A"
    assert extract_generator(BAD["syntax"][0]).detail.startswith("line 2: ")


MIB = 1 << 20
REFUSALS = (AttemptReason.NO_CODE, AttemptReason.NOT_PARSEABLE, AttemptReason.TRUNCATED)
HOSTILE = {
    "parentheses": "```python\nclass InputGenerator:\n    x = " + "(" * 100_000 + "\n```",
    "balanced": "```python\nclass InputGenerator:\n    x = " + "(" * 100_000 + ")" * 100_000 + "\n```",
    "minus_signs": "```python\nclass InputGenerator:\n    x = " + "-" * 100_000 + "1\n```",
    "plus_chain": "```python\nclass InputGenerator:\n    x = 1" + "+1" * 60_000 + "\n```",
    "attributes": "```python\nclass InputGenerator:\n    x = a" + ".a" * 60_000 + "\n```",
    "elif_chain": "```python\nclass InputGenerator:\n    pass\nif a:\n    pass\n"
    + "elif a:\n    pass\n" * 9_000
    + "```",
    "digits": "```python\nclass InputGenerator:\n    x = " + "9" * 200_000 + "\n```",
    "ten_megabytes_of_one_line": "class InputGenerator:" + "x" * 10 * MIB,
    "ten_megabytes_of_spaces": "```\nclass InputGenerator:\n" + " " * 10 * MIB + "x\n```",
    "ten_megabytes_of_backticks": "`" * 10 * MIB,
    "many_fences": "```python\nclass InputGenerator: (\n```\n" * 100_000,
    "many_open_thoughts": "<think>" * 200_000,
    "many_closed_thoughts": "<think></think>" * 200_000,
    "many_classes": "class InputGenerator:\n    pass\n" * 200_000,
    "carriage_returns": "\r" * 10 * MIB,
    "control_characters": "```\nclass InputGenerator:\n" + "\x0c\x0b\x1c\u2028" * MIB + "\n```",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_in_linear_time(name):
    """No crash and no hang; each needs less than a second on one core."""
    text = HOSTILE[name]
    done: list = []
    worker = threading.Thread(target=lambda: done.append(extract_generator(text)), daemon=True)
    worker.start()
    worker.join(timeout=120)
    assert done, "extraction hangs"
    assert done[0].source is None and done[0].reason in REFUSALS


def test_a_class_behind_a_lot_of_text_is_found():
    text = "thinking aloud (((\n" * (10 * MIB // 19) + f"```python\n{CODE}```"
    assert methods(extract_generator(text).source) == ["edge", "sample"]


def test_code_beyond_the_limit_is_refused_by_size():
    found = extract_generator("```python\n" + CODE + "#" * MAX_CODE_CHARS + "\n```")
    assert found.reason is AttemptReason.NOT_PARSEABLE and "characters" in found.detail


def test_nothing_of_an_answer_runs(tmp_path):
    witness = tmp_path / "ran"
    code = f"import pathlib\npathlib.Path({str(witness)!r}).touch()\n@pathlib.Path({str(witness)!r}).touch()\n{CLASS}"
    assert extract_generator(f"```python\n{code}```").reason is None
    assert not witness.exists()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "```",
                "```python\n",
                "\n",
                CODE,
                CLASS,
                "<think>",
                "</think>",
                "(",
                '"""',
                "import x\n",
                "é",
                "text ",
                "~~~",
                "    ",
            ]
        ),
        max_size=12,
    )
)
def test_any_mixture_gives_valid_source_or_a_reason(pieces):
    found = extract_generator("".join(pieces))
    assert (found.source is None) == (found.reason is not None)
    if found.source is not None:
        assert methods(found.source)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(CODE)), st.sampled_from(["```python\n", ""]))
def test_every_prefix_of_an_answer_is_truncated_or_whole(cut, fence):
    found = extract_generator(fence + CODE[:cut])
    if found.source is None:
        assert found.reason in (AttemptReason.TRUNCATED, AttemptReason.NO_CODE, AttemptReason.NO_CLASS)


def test_random_bytes_never_raise():
    rng = random.Random(5)
    started = time.monotonic()
    for _ in range(300):
        extract_generator(
            "".join(chr(rng.choice([10, 32, 39, 34, 40, 96, 126, 92, rng.randrange(0x110000)])) for _ in range(400))
        )
        if time.monotonic() - started > 5:
            break
