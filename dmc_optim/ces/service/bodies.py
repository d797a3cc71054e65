"""The bodies of the API: their validation, their part of the OpenAPI document, and what they become."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dmc_optim.ces.service.problems import Problem, invalid, too_large
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.service.wire import WireError, decode_content
from dmc_optim.ces.types import Clock, Limits, Request, StopRule, TestCase

SHA256_PATTERN = r"^[0-9a-f]{64}$"
_COMPARATOR_PATTERN = r"^(exact|trimmed|tokens|tokens_float:[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?)$"
Sha256 = Annotated[str, Field(pattern=SHA256_PATTERN, description="SHA-256 of the bytes, lower-case hexadecimal")]


M = TypeVar("M", bound=BaseModel)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class TextContent(_Body):
    """Bytes that are UTF-8 text."""

    text: str


class Base64Content(_Body):
    """Any bytes, in base64 with padding."""

    base64: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$")]


class HashContent(_Body):
    """Bytes uploaded before, by their hash."""

    sha256: Sha256


# In this order, the first that fits: trying all three to find the best would triple the time of the largest part.
Content = Annotated[TextContent | Base64Content | HashContent, Field(union_mode="left_to_right")]


class TestBody(_Body):
    """One test. Without `expected` nothing is compared: a normal exit is then a success."""

    __test__ = False  # not a pytest class

    id: Annotated[str, Field(max_length=512)]
    input: Content
    expected: Content | None = None


_DEFAULT = Limits()


class LimitsBody(_Body):
    """The envelope of one execution: seconds, bytes, counts."""

    time_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _DEFAULT.time_s
    wall_factor: Annotated[float, Field(ge=1, allow_inf_nan=False)] = _DEFAULT.wall_factor
    memory_bytes: Annotated[int, Field(gt=0)] = _DEFAULT.memory_bytes
    output_bytes: Annotated[int, Field(ge=0)] = _DEFAULT.output_bytes
    stderr_bytes: Annotated[int, Field(ge=0)] = _DEFAULT.stderr_bytes
    tmp_bytes: Annotated[int, Field(ge=0)] = _DEFAULT.tmp_bytes
    processes: Annotated[int, Field(gt=0)] = _DEFAULT.processes
    clock: Clock = _DEFAULT.clock


class ExecuteBody(_Body):
    """One program on many tests."""

    code: Content
    tests: Annotated[list[TestBody], Field(min_length=1)]
    limits: LimitsBody = LimitsBody()
    comparator: Annotated[str, Field(pattern=_COMPARATOR_PATTERN)] = "trimmed"
    stop: StopRule = StopRule.ALL
    repetitions: Annotated[int, Field(ge=1, le=100)] = 1
    return_output: bool = False


class HashesBody(_Body):
    """Hashes to ask about."""

    hashes: Annotated[list[Sha256], Field(max_length=10_000)]


class MissingAnswer(BaseModel):
    """Which of the hashes asked about have to be uploaded."""

    missing: list[str]


class ErrorDetail(BaseModel):
    """What is wrong and what to do; further fields depend on the code."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    action: str


class ErrorAnswer(BaseModel):
    """The body of every refusal."""

    error: ErrorDetail


class StateAnswer(BaseModel):
    """Answer of the health probes."""

    status: str
    reason: str = ""


class InfoAnswer(BaseModel):
    """What this node is and takes."""

    protocol: int
    node: str
    slots: int
    engine: str
    tier: str
    interpreter: str
    epoch: int
    draining: bool
    max_tests: int
    max_body_bytes: int
    max_blob_bytes: int
    max_response_bytes: int
    highest_limits: LimitsBody


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A content that stands in the blob store."""

    digest: str


Reference = bytes | Uploaded


@dataclass(frozen=True, slots=True)
class Work:
    """An accepted body: contents inline or by hash, ready to become requests to the executor.

    tests: (id, input, expected or None). fingerprint: the same for two bodies that ask for the same thing, however
    their contents travelled. digests: the blobs it needs.
    """

    code: Reference
    tests: tuple[tuple[str, Reference, Reference | None], ...]
    template: Request
    fingerprint: str
    digests: frozenset[str]

    def test(self, index: int, fetch: Callable[[str], bytes]) -> TestCase:
        """Test number `index` with its bytes."""
        test_id, given, expected = self.tests[index]
        return TestCase(test_id, _resolve(given, fetch), None if expected is None else _resolve(expected, fetch))

    def program(self, fetch: Callable[[str], bytes]) -> bytes:
        """The bytes of the program."""
        return _resolve(self.code, fetch)


def parse_body(model: type[M], body: bytes) -> M:
    """The model of a JSON body; Problem 422 that names the first field at fault."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part not in _UNION_TAGS) or "body"
        raise invalid(f"{where}: {first['msg']}") from None


_UNION_TAGS = ("TextContent", "Base64Content", "HashContent")


def parse_work(body: bytes, settings: ServiceSettings) -> Work:
    """An execution body as work. Raises Problem (422, 413) for what this node does not take."""
    parsed = parse_body(ExecuteBody, body)
    limits = Limits(**dict(parsed.limits))
    _check_bounds(parsed, limits, settings)
    hashed = hashlib.sha256()
    digests: set[str] = set()

    def reference(content: TextContent | Base64Content | HashContent, role: bytes, index: int = 0) -> Reference:
        hashed.update(role)
        if isinstance(content, HashContent):
            hashed.update(bytes.fromhex(content.sha256))
            digests.add(content.sha256)
            return Uploaded(content.sha256)
        data = _inline(content, role, index)
        hashed.update(hashlib.sha256(data).digest())
        return data

    code = reference(parsed.code, b"code")
    tests = []
    for index, test in enumerate(parsed.tests):
        hashed.update(f"{len(test.id)}:{test.id}".encode("utf-8", "surrogatepass"))
        given = reference(test.input, b"input", index)
        expected = None if test.expected is None else reference(test.expected, b"expected", index)
        tests.append((test.id, given, expected))
    template = Request(
        code=b"",
        tests=(),
        limits=limits,
        comparator=parsed.comparator,
        stop=parsed.stop,
        repetitions=parsed.repetitions,
        return_output=parsed.return_output,
    )
    hashed.update(repr((limits, template.comparator, template.stop, template.repetitions)).encode())
    hashed.update(str(template.return_output).encode())
    return Work(code, tuple(tests), template, hashed.hexdigest(), frozenset(digests))


def _inline(content: TextContent | Base64Content, role: bytes, index: int) -> bytes:
    try:
        if isinstance(content, TextContent):
            return content.text.encode("utf-8")
        return decode_content({"base64": content.base64})
    except (WireError, UnicodeEncodeError) as error:
        where = "code" if role == b"code" else f"tests.{index}.{role.decode()}"
        raise invalid(f"{where}: {error}") from None


def _check_bounds(parsed: ExecuteBody, limits: Limits, settings: ServiceSettings) -> None:
    if len(parsed.tests) > settings.max_tests:
        raise Problem(
            413,
            "too_many_tests",
            f"{len(parsed.tests)} tests in one request; this node takes {settings.max_tests}",
            "send the tests in several requests",
            limit=settings.max_tests,
        )
    for field in fields(limits):
        value, highest = getattr(limits, field.name), getattr(settings.highest_limits, field.name)
        if not isinstance(value, str) and value > highest:
            raise invalid(f"limits.{field.name}: {value} is over this node's highest, {highest}", "ask for less")
    if parsed.comparator.startswith("tokens_float:") and not math.isfinite(float(parsed.comparator.split(":")[1])):
        raise invalid(f"comparator: {parsed.comparator} has no finite tolerance")
    answer = len(parsed.tests) * limits.output_bytes
    if parsed.return_output and answer > settings.max_response_bytes:
        raise too_large(
            f"the answer ({len(parsed.tests)} tests × {limits.output_bytes} bytes of output)",
            settings.max_response_bytes,
            "ask for fewer tests in one request or a lower limits.output_bytes",
        )


def _resolve(content: Reference, fetch: Callable[[str], bytes]) -> bytes:
    return fetch(content.digest) if isinstance(content, Uploaded) else content


def openapi_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a body, for OpenAPI's `requestBody`, with its definitions under components."""
    return model.model_json_schema(ref_template="#/components/schemas/{model}")
