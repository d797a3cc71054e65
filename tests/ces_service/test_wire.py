"""The protocol's bytes survive the way there and back, and what is not ours is told apart."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.ces.service.bodies import Uploaded, parse_work
from dmc_optim.ces.service.problems import Problem
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.service.wire import (
    WireError,
    decode_content,
    decode_line,
    decode_result,
    encode_content,
    encode_request,
    encode_result,
)
from dmc_optim.ces.types import Clock, Limits, Request, Result, StopRule, TestCase
from schemas.enums import Status

SETTINGS = ServiceSettings()
_seconds = st.none() | st.floats(min_value=0, max_value=1e6, allow_nan=False)
_text = st.text(st.characters(exclude_categories=[]), max_size=20)  # lone surrogates included

results = st.builds(
    Result,
    test_id=_text,
    status=st.sampled_from(Status),
    duration_s=_seconds,
    duration_std_s=_seconds,
    repetitions=st.integers(1, 9),
    cpu_s=_seconds,
    wall_s=_seconds,
    queue_s=_seconds,
    peak_memory_bytes=st.none() | st.integers(0, 2**40),
    detail=_text,
    output=st.none() | st.binary(max_size=50),
    output_truncated=st.booleans(),
    stderr_tail=st.binary(max_size=50),
    marks=st.lists(st.sampled_from(["rerun", "wall_clock"]), max_size=2).map(tuple),
    retries=st.integers(0, 3),
    node=_text,
    epoch=st.integers(0, 5),
    tier=_text,
    context_switches=st.none() | st.integers(0, 100),
    steal_s=_seconds,
)


@given(st.binary(max_size=200))
def test_contents_survive(data: bytes) -> None:
    assert decode_content(json.loads(json.dumps(encode_content(data)))) == data


@given(st.integers(0, 5000), results)
def test_results_survive(index: int, result: Result) -> None:
    line = encode_result(index, result)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    record = decode_line(line)
    assert record["i"] == index
    assert decode_result(record) == result


@given(
    st.binary(max_size=50),
    st.lists(
        st.builds(
            TestCase,
            id=st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
            input=st.binary(max_size=40),
            expected=st.none() | st.binary(max_size=40),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(StopRule),
    st.sampled_from(["exact", "trimmed", "tokens", "tokens_float:1e-6"]),
)
def test_requests_survive(code: bytes, tests: list[TestCase], stop: StopRule, comparator: str) -> None:
    limits = Limits(time_s=2.5, clock=Clock.WALL)
    request = Request(code, tuple(tests), limits, comparator, stop, repetitions=3, return_output=True)
    work = parse_work(encode_request(request), SETTINGS)

    def fetch(digest: str) -> bytes:
        raise AssertionError("nothing was uploaded")

    assert work.program(fetch) == code
    assert [work.test(i, fetch) for i in range(len(tests))] == tests
    template = work.template
    assert (template.limits, template.comparator, template.stop) == (limits, comparator, stop)
    assert (template.repetitions, template.return_output) == (3, True)


def _by_hash(data: bytes) -> dict[str, str]:
    return {"sha256": hashlib.sha256(data).hexdigest()}


def test_the_fingerprint_does_not_depend_on_how_contents_travel() -> None:
    request = Request(b"code", (TestCase("a", b"in", b"out"), TestCase("b", b"in2")))
    inline = parse_work(encode_request(request), SETTINGS)
    by_hash = parse_work(encode_request(request, _by_hash), SETTINGS)
    assert inline.fingerprint == by_hash.fingerprint
    assert inline.digests == frozenset() and len(by_hash.digests) == 4
    assert by_hash.code == Uploaded(hashlib.sha256(b"code").hexdigest())


@pytest.mark.parametrize(
    "other",
    [
        Request(b"code2", (TestCase("a", b"in", b"out"),)),
        Request(b"code", (TestCase("b", b"in", b"out"),)),
        Request(b"code", (TestCase("a", b"out", b"in"),)),
        Request(b"code", (TestCase("a", b"in"),)),
        Request(b"code", (TestCase("a", b"in", b"out"), TestCase("a", b"in", b"out"))),
        Request(b"code", (TestCase("a", b"in", b"out"),), comparator="exact"),
        Request(b"code", (TestCase("a", b"in", b"out"),), stop=StopRule.FIRST_FAILURE),
        Request(b"code", (TestCase("a", b"in", b"out"),), limits=Limits(time_s=1.0)),
        Request(b"code", (TestCase("a", b"in", b"out"),), repetitions=2),
        Request(b"code", (TestCase("a", b"in", b"out"),), return_output=True),
    ],
)
def test_the_fingerprint_tells_requests_apart(other: Request) -> None:
    first = parse_work(encode_request(Request(b"code", (TestCase("a", b"in", b"out"),))), SETTINGS)
    assert parse_work(encode_request(other), SETTINGS).fingerprint != first.fingerprint


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"null", b"<html>", b'{"i":0', b"\xff\xfe"])
def test_lines_that_are_no_records(line: bytes) -> None:
    with pytest.raises(WireError):
        decode_line(line)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"test_id": "a"},
        {"test_id": "a", "status": "fine"},
        {"test_id": "a", "status": "success", "duration_s": "fast"},
        {"test_id": "a", "status": "success", "marks": 3},
        {"test_id": "a", "status": "success", "output": {"sha256": "0" * 64}},
        {"test_id": "a", "status": "success", "stderr_tail": {"base64": "not base64!"}},
    ],
)
def test_records_that_are_no_results(record: dict[str, object]) -> None:
    with pytest.raises(WireError):
        decode_result(record)


def test_fields_of_a_newer_node_are_ignored() -> None:
    assert decode_result({"test_id": "a", "status": "success", "colour": "red"}) == Result("a", Status.SUCCESS)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"tests": []}, "tests"),
        ({"code": {"text": "x", "base64": ""}}, "code"),
        ({"code": {"sha256": "abc"}}, "code"),
        ({"code": {"base64": "ab=c"}}, "code"),
        ({"code": {"base64": "abc"}}, "code"),
        ({"comparator": "fuzzy"}, "comparator"),
        ({"comparator": "tokens_float:1e999"}, "comparator"),
        ({"stop": "never"}, "stop"),
        ({"repetitions": 0}, "repetitions"),
        ({"limits": {"time_s": 0}}, "limits.time_s"),
        ({"limits": {"memory_bytes": 1 << 60}}, "limits.memory_bytes"),
        ({"limits": {"colour": 1}}, "limits.colour"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_refusal_names_the_field(change: dict[str, object], where: str) -> None:
    body = {"code": {"text": "x"}, "tests": [{"id": "a", "input": {"text": ""}}]} | change
    with pytest.raises(Problem) as refused:
        parse_work(json.dumps(body).encode(), SETTINGS)
    assert refused.value.status == 422
    assert refused.value.message.startswith(where)


def test_bounds_of_a_request() -> None:
    tests = tuple(TestCase(str(i), b"") for i in range(3))
    with pytest.raises(Problem) as refused:
        parse_work(encode_request(Request(b"x", tests)), ServiceSettings(max_tests=2))
    assert (refused.value.status, refused.value.code) == (413, "too_many_tests")
    with pytest.raises(Problem) as refused:
        parse_work(encode_request(Request(b"x", tests, return_output=True)), ServiceSettings(max_response_bytes=99))
    assert (refused.value.status, refused.value.code) == (413, "too_large")
