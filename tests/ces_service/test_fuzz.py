"""Fuzzing of the API from its own OpenAPI document: no 5xx, no answer that the document does not describe."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dmc_optim.ces.service.app import create_app
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.service.wire import decode_line
from dmc_optim.ces.types import Request
from tests.ces_service.conftest import metric, until
from tests.ces_service.stand_in import StandIn

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OPERATIONS = [
    ("GET", "/healthz"),
    ("GET", "/metrics"),
    ("GET", "/readyz"),
    ("GET", "/v1/info"),
    ("HEAD", "/v1/blobs/{sha256}"),
    ("POST", "/v1/blobs/missing"),
    ("POST", "/v1/execute"),
    ("PUT", "/v1/blobs/{sha256}"),
]


class AnyProgram(StandIn):
    """Takes whatever the fuzzer calls a program."""

    def execute(self, request: Request) -> Any:
        yield from super().execute(Request(b"{}", request.tests, request_id=request.request_id))


@pytest.fixture
def url(serve_app: Callable[[Any], str], tmp_path: Any) -> str:
    address = serve_app(create_app(AnyProgram(), ServiceSettings(spool_dir=tmp_path)))
    until(lambda: httpx2.get(f"{address}/readyz").status_code == 200, "readiness")
    return address


def test_every_operation_is_fuzzed(url: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    documented = {(found.ok().method.upper(), found.ok().path) for found in schema.get_all_operations()}
    assert documented == set(OPERATIONS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_the_api_is_as_documented(url: str, method: str, path: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operation = schema[path][method]
    seen: set[int] = set()

    @given(case=operation.as_strategy())
    @settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def fuzz(case: Any) -> None:
        response = case.call()
        seen.add(response.status_code)
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=CHECKS)
        if response.status_code >= 400 and method != "HEAD":
            assert set(response.json()["error"]) >= {"code", "message", "action"}
        if response.status_code == 200 and path == "/v1/execute":
            last = decode_line(response.content.splitlines()[-1])
            assert "end" in last or "error" in last

    fuzz()
    assert seen
    assert metric(url, "ces_in_flight") == metric(url, "ces_accepted_body_bytes") == 0


@pytest.mark.parametrize("path", ["/v1/execute", "/v1/blobs/missing"])
def test_mutilated_bodies_are_refused_with_a_reason(url: str, path: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operation = schema[path]["POST"]
    refused: set[int] = set()

    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    @settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def fuzz(case: Any) -> None:
        response = case.call()
        refused.add(response.status_code)
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=CHECKS)

    fuzz()
    assert 422 in refused
