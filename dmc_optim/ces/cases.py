"""Files of executions, one JSON object a line, for `dmc-optim ces run`.

In:  {id, solution, input, expected_output, comparator?}; expected_output null: nothing is compared.
Out: {id, status, duration_s, cpu_s, wall_s, peak_memory_bytes, detail}, in the order of the input.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from dmc_optim.ces.comparators import DEFAULT, comparator
from dmc_optim.ces.types import Executor, Limits, Request, Result, TestCase
from dmc_optim.errors import ConfigError, SourceError

FIELDS = ("status", "duration_s", "cpu_s", "wall_s", "peak_memory_bytes", "detail")
_TEXT = ("solution", "input")


@dataclass(frozen=True)
class Case:
    """One line of a cases file. id is echoed as it came (text or number)."""

    id: str | int
    request: Request


def read_cases(lines: Iterable[bytes], name: str, limits: Limits | None = None) -> Iterator[Case]:
    """Cases of a file, lazily; blank lines are skipped.

    name: of the file, for messages. Raises SourceError naming the line and the field, or the file without a case.
    """
    empty = True
    for number, line in enumerate(lines, 1):
        if line.strip():
            empty = False
            yield _case(line, f"{name}, line {number}", limits or Limits())
    if empty:
        raise SourceError(f"{name}: no cases in it: write one object a line")


def _case(line: bytes, where: str, limits: Limits) -> Case:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where}: not JSON ({error}): write one object a line") from error
    if not isinstance(row, dict):
        raise SourceError(f"{where}: {type(row).__name__} instead of an object with id, solution, input")
    identifier = row.get("id")
    if not isinstance(identifier, str | int) or isinstance(identifier, bool):
        raise SourceError(f"{where}: field id must be text or a whole number")
    if isinstance(identifier, str):
        _encoded(row, "id", where)
    for field in _TEXT:
        if not isinstance(row.get(field), str):
            raise SourceError(f"{where}: field {field} must be text")
    if "expected_output" not in row or not isinstance(row["expected_output"], str | None):
        raise SourceError(f"{where}: field expected_output must be text, or null to compare nothing")
    kind = row.get("comparator") or DEFAULT
    try:
        comparator(str(kind))
    except ConfigError as error:
        raise SourceError(f"{where}: {error}") from error
    test = TestCase(
        str(identifier),
        _encoded(row, "input", where),
        None if row["expected_output"] is None else _encoded(row, "expected_output", where),
    )
    return Case(identifier, Request(_encoded(row, "solution", where), (test,), limits, str(kind)))


def _encoded(row: dict[str, Any], field: str, where: str) -> bytes:
    text: str = row[field]
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"{where}: field {field} has a lone surrogate at character {error.start}") from error


def result_row(identifier: str | int, result: Result, every_field: bool = False) -> dict[str, Any]:
    """What is written for one case; every_field: the whole result, output and stderr as text."""
    facts = asdict(result)
    row = {"id": identifier} | {field: facts[field] for field in FIELDS}
    if every_field:
        rest = {key: value for key, value in facts.items() if key not in row and key != "test_id"}
        row |= {
            key: value.decode("utf-8", "replace") if isinstance(value, bytes) else value for key, value in rest.items()
        }
    return row


def run_cases(executor: Executor, cases: Iterable[Case], every_field: bool = False) -> Iterator[dict[str, Any]]:
    """Rows in the order of the cases, several cases in flight.

    An error in the middle of the file comes after the rows of the cases before it.
    """
    identifiers: list[str | int] = []
    trouble: list[SourceError] = []

    def requests() -> Iterator[Request]:
        try:
            for case in cases:
                identifiers.append(case.id)
                yield case.request
        except SourceError as error:
            trouble.append(error)

    waiting: dict[int, dict[str, Any]] = {}
    following = 0
    for index, results in executor.execute_many(requests()):
        waiting[index] = result_row(identifiers[index], results[0], every_field)
        while following in waiting:
            yield waiting.pop(following)
            following += 1
    if trouble:
        raise trouble[0]
