"""The protocol's bytes: contents, requests and result lines, as both sides write and read them.

A *content* is `{"text": …}` when the bytes are UTF-8, `{"base64": …}` when not, `{"sha256": …}` when they were
uploaded before. A request is one JSON object. The answer is a stream of lines, one JSON object each:

    {"i": 0, "test_id": "…", "status": "success", …}   a result; i is the position of its test in the request
    {"beat": 1}                                         nothing yet, the node is alive
    {"end": {"results": 32, "stopped": false}}          the last line of a complete answer
    {"error": {"code": …, "message": …, "action": …}}   the last line of a broken one: send the request again
"""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

from dmc_optim.ces.types import Request, Result
from schemas.enums import Status

PROTOCOL = 1
CONTENT_TYPE = "application/x-ndjson"
BEAT_LINE = b'{"beat":1}\n'

_PLAIN_DEFAULTS: dict[str, Any] = {
    f.name: f.default
    for f in fields(Result)
    if f.name not in ("test_id", "status", "output", "stderr_tail", "marks") and f.default is not MISSING
}
_PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    name: (int, float) if default is None or isinstance(default, float) else (type(default),)
    for name, default in _PLAIN_DEFAULTS.items()
}


class WireError(ValueError):
    """Bytes that are not what the protocol says: truncated, garbled or of another service."""


def encode_content(data: bytes) -> dict[str, str]:
    """The JSON form of inline bytes: text when they are UTF-8, base64 when not."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def decode_content(content: Any) -> bytes:
    """The bytes of an inline content; WireError when it is none."""
    if not isinstance(content, dict) or len(content) != 1:
        raise WireError("a content must be an object with one of: text, base64")
    ((kind, value),) = content.items()
    if kind == "text" and isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise WireError("a text content holds half a surrogate pair; send such bytes as base64") from error
    if kind == "base64" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise WireError(f"a base64 content cannot be decoded ({error})") from error
    raise WireError("a content must be an object with one of: text, base64")


def encode_request(request: Request, reference: Callable[[bytes], dict[str, str]] = encode_content) -> bytes:
    """The body of an execution call. `reference` chooses how each content travels (inline, or by hash)."""
    limits = request.limits
    body = {
        "code": reference(request.code),
        "tests": [
            {"id": test.id, "input": reference(test.input)}
            if test.expected is None
            else {"id": test.id, "input": reference(test.input), "expected": reference(test.expected)}
            for test in request.tests
        ],
        "limits": {f.name: getattr(limits, f.name) for f in fields(limits)},
        "comparator": request.comparator,
        "stop": request.stop,
        "repetitions": request.repetitions,
        "return_output": request.return_output,
    }
    return _dump(body)


def encode_result(index: int, result: Result, **instead: Any) -> bytes:
    """The line of a result; fields at their defaults are left out. instead: values in place of the result's own."""
    record: dict[str, Any] = {"i": index, "test_id": result.test_id, "status": result.status}
    for name, default in _PLAIN_DEFAULTS.items():
        value = getattr(result, name)
        if value != default:
            record[name] = value
    record.update(instead)
    if result.marks:
        record["marks"] = result.marks
    if result.output is not None:
        record["output"] = encode_content(result.output)
    if result.stderr_tail:
        record["stderr_tail"] = encode_content(result.stderr_tail)
    return _dump(record) + b"\n"


def encode_end(results: int, stopped: bool) -> bytes:
    """The last line of a complete answer."""
    return _dump({"end": {"results": results, "stopped": stopped}}) + b"\n"


def encode_error(code: str, message: str, action: str) -> bytes:
    """The last line of an answer that the node could not complete."""
    return _dump({"error": {"code": code, "message": message, "action": action}}) + b"\n"


def decode_line(line: bytes) -> dict[str, Any]:
    """One line of an answer as a record; WireError when it is not a JSON object."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise WireError(f"a line of the answer is not JSON: {line[:60]!r}") from error
    if not isinstance(record, dict):
        raise WireError(f"a line of the answer is not an object: {line[:60]!r}")
    return record


def decode_result(record: dict[str, Any]) -> Result:
    """A result from its record; unknown fields are ignored, so a newer node can be asked. Raises WireError."""
    values: dict[str, Any] = {}
    for name, value in record.items():
        if name in _PLAIN_TYPES:
            if value is not None and not isinstance(value, _PLAIN_TYPES[name]):
                raise WireError(f"field {name} of a result is {value!r}")
            values[name] = value
    try:
        values["status"] = Status(record["status"])
        values["test_id"] = str(record["test_id"])
        values["marks"] = tuple(str(mark) for mark in record.get("marks", ()))
    except (KeyError, ValueError, TypeError) as error:
        raise WireError(f"a result without a usable test_id, status and marks: {record!r:.120}") from error
    if record.get("output") is not None:
        values["output"] = decode_content(record["output"])
    if record.get("stderr_tail") is not None:
        values["stderr_tail"] = decode_content(record["stderr_tail"])
    return Result(**values)


_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _dump(value: Any) -> bytes:
    text = _encode_json(value)
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its JSON escape
