"""docs/formulas.md names functions and tests that exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?P<equation>.+?) \| .+ \| `(?P<function>[\w.]+)` \| `(?P<file>[\w/.]+)::(?P<test>\w+)` \|$")
LINES = (ROOT / "docs/formulas.md").read_text(encoding="utf-8").splitlines()
ROWS = [match for line in LINES if (match := ROW.match(line))]


def test_every_line_of_the_tables_is_understood():
    lines = [line for line in LINES if line.startswith("| ") and not line.startswith("| Equation ")]
    assert len(lines) == len(ROWS) > 40


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["function"])
def test_function_and_test_exist(row):
    path, found = "", None
    for part in row["function"].split("."):
        path = f"{path}.{part}".lstrip(".")
        found = getattr(found, part, None) or importlib.import_module(path)
    assert callable(found) or isinstance(found, property)
    source = (ROOT / row["file"]).read_text(encoding="utf-8")
    assert re.search(rf"^def {row['test']}\(", source, flags=re.MULTILINE)
