"""Assemble the bundled corpus from its readable sources: `python examples/assemble.py`.

    expected.toml                 the rows in corpus order, and what a build makes of each
    problems/<slug>/statement.md  the statement, as the row has it
    problems/<slug>/problem.toml  name, difficulty, original tests; sometimes what was borrowed, or what is broken
    problems/<slug>/correct/*     solutions labelled correct; the suffix says the language
    problems/<slug>/incorrect/*   solutions labelled incorrect
    problems/<slug>/generators/*  <campaign>-<attempt>: .txt is a whole answer, .py is the code inside its fence;
                                  campaign is correctness, optimization or any
    benchmark/*.md                statements of the evaluation benchmark that the corpus is compared with

Written are corpus/{train,test}-00000-of-00001.parquet in the schema of deepmind/code_contests,
recorded_generators.jsonl and benchmark.jsonl. Nothing is executed, and the same sources give the same rows.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
SPLITS = ("train", "test")
MODEL = "handwritten"
LANGUAGE_OF_SUFFIX = {".py": 3, ".py2": 1, ".cpp": 2, ".java": 4}

_STRINGS = pa.list_(pa.field("element", pa.string()))
_INTEGERS = pa.list_(pa.field("element", pa.int64()))
_TESTS = pa.struct([("input", _STRINGS), ("output", _STRINGS)])
_SOLUTIONS = pa.struct([("language", _INTEGERS), ("solution", _STRINGS)])
SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("description", pa.string()),
        ("public_tests", _TESTS),
        ("private_tests", _TESTS),
        ("generated_tests", _TESTS),
        ("source", pa.int64()),
        ("difficulty", pa.int64()),
        ("solutions", _SOLUTIONS),
        ("incorrect_solutions", _SOLUTIONS),
        ("cf_contest_id", pa.int64()),
        ("cf_index", pa.string()),
        ("cf_points", pa.float32()),
        ("cf_rating", pa.int32()),
        ("cf_tags", _STRINGS),
        ("is_description_translated", pa.bool_()),
        ("untranslated_description", pa.string()),
        ("time_limit", pa.struct([("seconds", pa.int64()), ("nanos", pa.int64())])),
        ("memory_limit_bytes", pa.int64()),
        ("input_file", pa.string()),
        ("output_file", pa.string()),
    ]
)
"""Columns and types of deepmind/code_contests on the Hugging Face Hub."""


def expected() -> dict[str, Any]:
    """The parsed `expected.toml`."""
    return tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))


def slugs(split: str) -> list[str]:
    """The problems of a split, in row order."""
    return [row["slug"] for row in expected()["rows"] if row["id"].split("/")[0] == split]


def problem_settings(slug: str) -> dict[str, Any]:
    """The parsed `problem.toml` of a problem."""
    return tomllib.loads((HERE / "problems" / slug / "problem.toml").read_text(encoding="utf-8"))


def solution_files(slug: str, label: str) -> list[Path]:
    """Files of a problem's solutions under a label: its own in name order, then the borrowed ones."""
    own = sorted((HERE / "problems" / slug / label).glob("*"))
    borrowed = problem_settings(slug).get("borrow", {}).get(label, [])
    return [*own, *(HERE / "problems" / path for path in borrowed)]


def problem_row(slug: str) -> dict[str, Any]:
    """One row of the corpus, texts as bytes, with the faults that its `problem.toml` asks for."""
    settings = problem_settings(slug)
    row: dict[str, Any] = {
        "name": settings["name"].encode(),
        "description": (HERE / "problems" / slug / "statement.md").read_bytes(),
        "source": 0,
        "difficulty": settings["difficulty"],
        "solutions": _solutions(slug, "correct"),
        "incorrect_solutions": _solutions(slug, "incorrect"),
        "cf_contest_id": settings.get("contest_id", 0),
        "cf_index": settings.get("index", "").encode(),
        "cf_points": 0.0,
        "cf_rating": 0,
        "cf_tags": [tag.encode() for tag in settings.get("tags", [])],
        "is_description_translated": False,
        "untranslated_description": b"",
        "time_limit": _time_limit(settings.get("time_limit_s")),
        "memory_limit_bytes": 256 << 20,
        "input_file": settings.get("input_file", "").encode(),
        "output_file": settings.get("output_file", "").encode(),
    }
    for category in ("public", "private", "generated"):
        tests = [test for test in settings.get("tests", []) if test["category"] == category]
        row[f"{category}_tests"] = {key: [test[key].encode() for test in tests] for key in ("input", "output")}
    for fault in settings.get("faults", []):
        _break(row, fault["column"], fault["kind"])
    return row


def _solutions(slug: str, label: str) -> dict[str, list[Any]]:
    files = solution_files(slug, label)
    return {
        "language": [LANGUAGE_OF_SUFFIX[path.suffix] for path in files],
        "solution": [path.read_bytes() for path in files],
    }


def _time_limit(seconds: int | None) -> dict[str, int] | None:
    return None if seconds is None else {"seconds": seconds, "nanos": 0}


def _break(row: dict[str, Any], column: str, kind: str) -> None:
    """Damage a row on purpose: what a build has to set aside without stopping."""
    outer, _, inner = column.partition(".")
    holder, key = (row[outer], inner) if inner else (row, outer)
    if kind == "null":
        holder[key] = None
    elif kind == "latin-1":
        holder[key] = holder[key].decode().encode("latin-1")
    elif kind == "drop_last":
        holder[key] = holder[key][:-1]
    elif kind == "null_last":
        holder[key] = [*holder[key][:-1], None]
    else:
        raise ValueError(f"unknown fault {kind!r} of column {column}")


def corpus(split: str) -> pa.Table:
    """All rows of a split. Strings are built as bytes and declared text afterwards: one row is not valid UTF-8."""
    rows = [problem_row(slug) for slug in slugs(split)]
    columns = []
    for field in SCHEMA:
        as_bytes = pa.array([row[field.name] for row in rows], _with_bytes(field.type))
        columns.append(_declare(as_bytes, field.type))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _with_bytes(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _with_bytes(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _with_bytes(field.type)) for field in kind])
    return kind


def _declare(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same buffers under another type: bytes become text without being looked at."""
    if pa.types.is_string(kind):
        return pa.Array.from_buffers(kind, len(array), array.buffers(), array.null_count, array.offset)
    if pa.types.is_list(kind):
        children = [_declare(array.values, kind.value_type)]
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, children)
    if pa.types.is_struct(kind):
        children = [_declare(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], array.null_count, array.offset, children)
    return array


def recorded_generators() -> list[dict[str, Any]]:
    """Rows of `recorded_generators.jsonl`: the train split's problems by name, the test split's by id."""
    rows = []
    for split in SPLITS:
        for index, slug in enumerate(slugs(split)):
            who = {"name": problem_settings(slug)["name"]} if split == "train" else {"problem_id": f"{split}/{index}"}
            for path in sorted((HERE / "problems" / slug / "generators").glob("*")):
                campaign, _, attempt = path.stem.rpartition("-")
                rows.append(
                    {
                        **who,
                        "campaign": None if campaign == "any" else campaign,
                        "attempt": int(attempt),
                        "model": MODEL,
                        "completion": completion(path),
                    }
                )
    return rows


def completion(path: Path) -> str:
    """The answer a model would have given: a .txt file as it is, a .py file inside one fence."""
    text = path.read_text(encoding="utf-8")
    return f"```python\n{text}```\n" if path.suffix == ".py" else text


def benchmark() -> list[dict[str, str]]:
    """Rows of `benchmark.jsonl`."""
    files = sorted((HERE / "benchmark").glob("*.md"))
    return [{"question_id": path.stem, "statement": path.read_text(encoding="utf-8")} for path in files]


def write(folder: Path) -> list[Path]:
    """Write all artifacts below a folder; returns their paths."""
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    written = []
    for split in SPLITS:
        path = folder / "corpus" / f"{split}-00000-of-00001.parquet"
        pq.write_table(corpus(split), path, compression="zstd", write_statistics=False)
        written.append(path)
    for name, rows in (("recorded_generators.jsonl", recorded_generators()), ("benchmark.jsonl", benchmark())):
        path = folder / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        written.append(path)
    return written


def main() -> None:
    """Write the artifacts beside the sources and say how large they are."""
    for path in write(HERE):
        sys.stdout.write(f"{path.relative_to(HERE)}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
