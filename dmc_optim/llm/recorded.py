"""Recorded completions: the one form in which answers of a language model reach the acceptance loop.

A JSON-lines file, one attempt a line: `problem_id` or `name`, `campaign` (null serves both), `attempt`,
`completion`, and optionally `reasoning`, `model`, `seed`, `prompt_solution_id`, `prompt_digest`, `request_key`,
`finish_reason`, `usage`. Live backends append to such a file and are then read back through here.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec

from dmc_optim.artifacts.layout import absolute
from dmc_optim.artifacts.surrogates import encodable
from dmc_optim.errors import SourceError
from schemas.enums import Campaign

CAMPAIGNS = (Campaign.CORRECTNESS, Campaign.OPTIMIZATION)
_STRINGS = ("reasoning", "model", "prompt_solution_id", "prompt_digest", "request_key", "finish_reason")


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One answer. Empty strings and None mean that the file does not say."""

    attempt: int
    completion: str
    reasoning: str = ""
    model: str = ""
    seed: int | None = None
    prompt_solution_id: str = ""
    prompt_digest: str = ""
    finish_reason: str = ""
    usage: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RowKey:
    """Whose attempt a row is. Exactly one of problem_id and name is set; campaign None serves both campaigns."""

    problem_id: str
    name: str
    campaign: str | None
    attempt: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a row lies: byte offset and length, line number from 1, digest of what it says, key of its request."""

    offset: int
    length: int
    line: int
    digest: bytes
    request_key: str


@dataclass(frozen=True, slots=True)
class AttemptReference:
    """Where one answer lies: what a runner moves between workers in place of the text."""

    path: str
    key: RowKey
    place: _Place

    def read(self) -> RecordedAttempt:
        """The answer. Raises SourceError when the file says something else than when it was indexed."""
        with open_binary(self.path) as file:
            return self.read_from(file)

    def read_from(self, file: BinaryIO) -> RecordedAttempt:
        """The answer, from the open file."""
        place = self.place
        file.seek(place.offset)
        found, row = parse_row(file.read(place.length), self.path, place.line)
        if found != self.key or _digest(self.key, row) != place.digest:
            raise SourceError(f"{self.path}:{place.line}: the file changed while it was being read; run again")
        strings = {field: encodable(row.get(field) or "") for field in _STRINGS if field != "request_key"}
        completion = encodable(row["completion"])
        return RecordedAttempt(self.key.attempt, completion, seed=row.get("seed"), usage=row.get("usage"), **strings)


class RecordedCompletions:
    """A validated recorded file. Holds an index, not the texts; safe to share between threads.

    Pickled it is a path and a digest (an index takes 100 bytes a row): whoever unpickles it reads the file, once a
    process, and gets SourceError when it says something else.
    """

    def __init__(self, path: str, index: dict[RowKey, _Place]) -> None:
        self.path = path
        self._index = index
        self._by_problem: dict[tuple[str, str], list[RowKey]] = {}
        for key in index:
            self._by_problem.setdefault((key.problem_id, key.name), []).append(key)

    @classmethod
    def load(cls, path: str | Path) -> "RecordedCompletions":
        """Read and check every row.

        Raises SourceError (file, line, field and what to do) for an unreadable or empty file, a malformed row, and
        two different answers to one attempt. A repeated row counts once. Where rows carry a `request_key`, a later
        answer to a changed request replaces the earlier one, and a row with `retracted` takes it away: that is how
        a campaign's file grows.
        """
        index: dict[RowKey, _Place] = {}
        for offset, number, line in read_lines(str(path)):
            key, row = parse_row(line, str(path), number)
            if row.get("retracted"):
                index.pop(key, None)
                continue
            place = _Place(offset, len(line), number, _digest(key, row), row.get("request_key") or "")
            known = index.get(key)
            if known is not None and known.digest != place.digest:
                replaces = known.request_key and place.request_key and known.request_key != place.request_key
                if not replaces:
                    raise SourceError(
                        f"{path}:{number}: attempt {key.attempt} of {_who(key)} is already on line {known.line} with"
                        " another completion; number the attempts of a problem and campaign differently"
                    )
            index[key] = place
        if not index:
            raise SourceError(f"{path}: no completions in the file; write one with `dmc-optim generate record`")
        return cls(str(path), index)

    def __len__(self) -> int:
        return len(self._index)

    def __reduce__(self) -> tuple[Any, ...]:
        key = absolute(self.path), self.digest
        with _opening:
            _opened.clear()
            _opened[key] = self  # this process need not read the file again
        return _reopened, key

    @cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of what the file says, whatever the order of its rows; usage is left out."""
        return hashlib.sha256(b"".join(sorted(place.digest for place in self._index.values()))).hexdigest()

    def attempts(self, problem_id: str, name: str, campaign: str) -> list[RecordedAttempt]:
        """The answers for one problem and campaign, sorted by attempt; empty when there are none.

        A row that names the problem by id goes before one that names it by name, and a row of this campaign before
        one for both.
        """
        found = self.references(problem_id, name, campaign)
        if not found:
            return []
        with open_binary(self.path) as file:
            return [reference.read_from(file) for reference in found]

    def references(self, problem_id: str, name: str, campaign: str) -> list[AttemptReference]:
        """Where `attempts` are, in the same order; readable from any directory."""
        chosen: dict[int, RowKey] = {}
        for identity in (("", name), (problem_id, "")):
            keys = self._by_problem.get(identity, ()) if any(identity) else ()
            for wanted in (None, campaign):
                chosen.update({key.attempt: key for key in keys if key.campaign == wanted})
        path = absolute(self.path)
        return [AttemptReference(path, key, self._index[key]) for _, key in sorted(chosen.items())]

    def beyond(self, attempts: int) -> int:
        """How many answers have a number that a build of so many attempts does not use."""
        return sum(key.attempt >= attempts for key in self._index)

    def unknown(self, ids: Iterable[str], names: Iterable[str]) -> list[str]:
        """Problem ids and names in the file that are not among those given, sorted."""
        known_ids, known_names = set(ids), set(names)
        return sorted(
            problem_id or name
            for problem_id, name in self._by_problem
            if (problem_id not in known_ids if problem_id else name not in known_names)
        )


_opened: dict[tuple[str, str], RecordedCompletions] = {}
_opening = threading.Lock()


def _reopened(path: str, digest: str) -> RecordedCompletions:
    """The file as one process knows it, the latest only."""
    with _opening:
        if (path, digest) not in _opened:
            found = RecordedCompletions.load(path)
            if found.digest != digest:
                raise SourceError(f"{path}: the file changed since the stage was planned; run again")
            _opened.clear()
            _opened[path, digest] = found
        return _opened[path, digest]


def open_binary(path: str) -> BinaryIO:
    """Open a local path or any fsspec URL for reading; SourceError when it cannot be."""
    try:
        if "://" in path:
            return cast(BinaryIO, fsspec.open(path, "rb").open())
        return Path(path).open("rb")
    except IsADirectoryError as error:
        raise SourceError(f"{path}: is a directory; give the JSON-lines file in it") from error
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error}); give a file of completions") from error


def read_lines(path: str) -> Iterable[tuple[int, int, bytes]]:
    """Yield (byte offset, line number from 1, line) of every line that is not blank."""
    offset = 0
    with open_binary(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield offset, number, line
            offset += len(line)


def parse_row(line: bytes, path: str, number: int) -> tuple[RowKey, dict[str, Any]]:
    """One validated row; SourceError names file, line, field and remedy."""

    def refuse(what: str) -> SourceError:
        return SourceError(f"{path}:{number}: {what}")

    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        cut = "" if line.endswith(b"\n") else "; the file ends inside this line: resume what wrote it, or delete it"
        raise refuse(f"not a JSON object ({_brief(error)}){cut}") from error
    if not isinstance(row, dict):
        raise refuse("not a JSON object; write one object a line")
    _check(row, "retracted", lambda v: isinstance(v, bool), "true or false", refuse)
    _check(row, "completion", lambda v: isinstance(v, str), "a string", refuse, required=not row.get("retracted"))
    _check(row, "attempt", _is_index, "an integer from 0", refuse, required=True)
    _check(row, "seed", _is_seed, "an integer of 64 bits", refuse)
    _check(row, "usage", lambda v: isinstance(v, dict), "an object", refuse)
    _check(row, "campaign", lambda v: v in CAMPAIGNS, "correctness, optimization or null", refuse)
    for field in ("problem_id", "name"):
        _check(row, field, lambda v: isinstance(v, str) and v, "a string that is not empty", refuse)
    for field in _STRINGS:
        _check(row, field, lambda v: isinstance(v, str), "a string", refuse)
    problem_id, name = row.get("problem_id") or "", row.get("name") or ""
    if not problem_id and not name:
        raise refuse("neither `problem_id` nor `name`; add one of them")
    return RowKey(problem_id, "" if problem_id else name, row.get("campaign"), row["attempt"]), row


def _check(
    row: dict[str, Any],
    field: str,
    valid: Callable[[Any], object],
    wanted: str,
    refuse: Callable[[str], SourceError],
    required: bool = False,
) -> None:
    value = row.get(field)
    if value is None:
        if required:
            raise refuse(f"`{field}` is missing; it must be {wanted}")
        return
    if not valid(value):
        raise refuse(f"`{field}` is {_brief(json.dumps(value))}; it must be {wanted}")


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_seed(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _brief(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:59] + "…"


def _who(key: RowKey) -> str:
    campaign = f" ({key.campaign})" if key.campaign else ""
    return f"{key.problem_id or key.name}{campaign}"


def _digest(key: RowKey, row: dict[str, Any]) -> bytes:
    """SHA-256 of what decides: whose attempt, the texts, model and seed; not usage, not the line's layout."""
    said = [key.problem_id, key.name, key.campaign, key.attempt, row["completion"], row.get("seed")]
    said += [row.get(field) or "" for field in ("reasoning", "model", "prompt_solution_id")]
    return hashlib.sha256(json.dumps(said).encode()).digest()
