"""A synthetic corpus in the CodeContests schema whose programs say what the fake engine does with them."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.artifacts.source import SOURCE_SCHEMA

GENERATOR = """```python
import random
class InputGenerator:
    def edge(self): return "1\\n"
    def small(self): return "2\\n"
    def large(self): return "3\\n"
    def sample(self): return "4\\n"
```"""
WORDS = ("given array find number of pairs such that sum product maximal path tree graph query string answer").split()


def program(tag: str, **behaviour: float) -> str:
    directive = " ".join(f"{name}={value}" for name, value in behaviour.items())
    return f"# fake: {directive}\n# {tag}\nprint(input())\n"


def statement(seed: str) -> str:
    rng = random.Random(seed)
    return f"Problem {seed}. " + " ".join(rng.choice(WORDS) for _ in range(60)) + "."


@dataclass
class SourceProblem:
    """One row; `row()` gives it in the source schema."""

    name: str
    correct: list[str] = field(default_factory=list)
    incorrect: list[str] = field(default_factory=list)
    tests: list[tuple[str, str]] = field(default_factory=lambda: [("1\n", "1\n"), ("2\n", "2\n")])
    statement: str | None = None
    input_file: str = ""

    def row(self) -> dict[str, Any]:
        empty = {"input": [], "output": []}
        return {
            "name": self.name,
            "description": statement(self.name) if self.statement is None else self.statement,
            "public_tests": {"input": [t[0] for t in self.tests], "output": [t[1] for t in self.tests]},
            "private_tests": empty,
            "generated_tests": empty,
            "source": 2,
            "difficulty": 7,
            "solutions": {"language": [3] * len(self.correct), "solution": self.correct},
            "incorrect_solutions": {"language": [3] * len(self.incorrect), "solution": self.incorrect},
            "cf_contest_id": 1,
            "cf_index": "A",
            "cf_points": 0.0,
            "cf_rating": 0,
            "cf_tags": ["math"],
            "is_description_translated": False,
            "untranslated_description": "",
            "time_limit": {"seconds": 1, "nanos": 500_000_000},
            "memory_limit_bytes": 256_000_000,
            "input_file": self.input_file,
            "output_file": "",
        }


def text_schema() -> pa.Schema:
    """The source schema with text as text, as the Hub has it."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_binary(kind):
            return pa.string()
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([(f.name, plain(f.type)) for f in kind])
        return kind

    return pa.schema([(f.name, plain(f.type)) for f in SOURCE_SCHEMA])


def write_source(path: Path, problems: list[SourceProblem]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([p.row() for p in problems], schema=text_schema()), path)
    return path


def write_generators(path: Path, problems: list[SourceProblem], attempts: int = 3) -> Path:
    import json

    lines = []
    for problem in problems:
        for attempt in range(attempts):
            text = GENERATOR if attempt != 1 else "I cannot write one."
            row = {"name": problem.name, "campaign": None, "attempt": attempt, "completion": text}
            lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n")
    return path


def corpus(seed: int = 0, size: int = 12) -> list[SourceProblem]:
    """Problems of every fate under the fake engine: kept, noisy, weak, file I/O, one-sided."""
    rng = random.Random(seed)
    problems = []
    for number in range(size):
        noise = rng.choice([0.0, 0.0, 0.0, 0.02, 0.1])
        correct = [
            program(f"c{number}-{i}", duration=0.05 * (1 + i), wrong=noise if i == 0 else 0, timeout=noise / 2)
            for i in range(rng.randint(5, 8))
        ]
        incorrect = [
            program(f"w{number}-{i}", wrong=rng.choice([1.0, 0.5, 0.1, 0.02]), timeout=rng.choice([0.0, 0.05]))
            for i in range(rng.randint(2, 25))
        ]
        problems.append(SourceProblem(f"P{number:02d}", correct, incorrect))
    problems.append(SourceProblem("only correct", [program("oc")], []))
    problems.append(SourceProblem("only incorrect", [], [program("oi", wrong=1)]))
    problems.append(SourceProblem("files", [program("fc")], [program("fi", wrong=1)], input_file="in.txt"))
    problems.append(SourceProblem("short", [program("sc")], [program("si", wrong=1)], statement="too short"))
    problems.append(SourceProblem("mislabelled", [program("mc", wrong=1)], [program("mi", wrong=1)]))
    return problems
