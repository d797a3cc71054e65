"""The HTTP surface of one node, called in process: answers, refusals, idempotency, probes, figures."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from dmc_optim.ces.health.epochs import Observation
from dmc_optim.ces.health.state import EpochChange, EpochFile, EpochState, default_state_path
from dmc_optim.ces.service.app import create_app
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.service.wire import encode_request
from dmc_optim.ces.types import Limits, Request, StopRule, TestCase
from dmc_optim.errors import ConfigError
from tests.ces_service.conftest import until
from tests.ces_service.stand_in import StandIn, program, suite

JSON = {"Content-Type": "application/json"}
Open = Callable[..., Any]


@contextmanager
def node(tmp_path: Path, executor: Any = None, **settings: Any) -> Iterator[tuple[TestClient, Any]]:
    executor = executor or StandIn(2)
    app = create_app(executor, ServiceSettings(spool_dir=tmp_path / "spool", **settings))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        until(lambda: not app.state.node.not_ready(), "readiness")
        if isinstance(executor, StandIn):
            executor.started.clear()
        yield client, executor


def post(client: TestClient, request: Request, key: str = "", start: int = 0, **headers: str) -> Any:
    named = {"Idempotency-Key": key} if key else {}
    url = f"/v1/execute?resume_from={start}"
    return client.post(url, content=encode_request(request), headers=JSON | named | headers)


def lines(response: Any) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


def error(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    detail = response.json()["error"]
    assert detail["code"] and detail["message"] and detail["action"]
    return dict(detail)


def figure(client: TestClient, name: str) -> float:
    return next(
        float(line.split()[-1]) for line in client.get("/metrics").text.splitlines() if line.startswith(name + " ")
    )


def test_results_come_in_test_order_with_an_end(tmp_path: Path) -> None:
    with node(tmp_path) as (client, _):
        *records, end = lines(post(client, Request(program(), suite(5, wrong=[2]))))
    assert [record["i"] for record in records] == list(range(5))
    assert [record["status"] for record in records] == ["success"] * 2 + ["wrong_answer"] + ["success"] * 2
    assert end == {"end": {"results": 5, "stopped": False}}


@pytest.mark.parametrize(("stop", "count"), [(StopRule.ALL, 6), (StopRule.FIRST_FAILURE, 3)])
def test_the_stop_rule_ends_a_request(tmp_path: Path, stop: StopRule, count: int) -> None:
    with node(tmp_path) as (client, executor):
        *records, end = lines(post(client, Request(program(), suite(6, wrong=[2, 4]), stop=stop)))
    assert len(records) == count == sum(executor.started.values())
    assert end["end"] == {"results": count, "stopped": count < 6}


def test_the_queue_wait_stands_apart_from_the_duration(tmp_path: Path) -> None:
    with node(tmp_path) as (client, _):
        record = lines(post(client, Request(program(sleep=0.05), suite(1))))[0]
    assert record["wall_s"] == 0.05
    assert record["queue_s"] >= 0
    assert record["duration_s"] < 0.3  # the stand-in's own figure, untouched


def test_outputs_come_only_when_asked_for(tmp_path: Path) -> None:
    test = TestCase("a", b"abc\xff")
    with node(tmp_path) as (client, _):
        assert "output" not in lines(post(client, Request(program(), (test,))))[0]
        record = lines(post(client, Request(program(), (test,), return_output=True)))[0]
    assert record["output"] == {"base64": "QUJD/w=="}


def test_the_same_id_replays_and_executes_nothing(tmp_path: Path) -> None:
    request = Request(program(), suite(4))
    with node(tmp_path) as (client, executor):
        first = lines(post(client, request, "job-1"))
        assert lines(post(client, request, "job-1")) == first
        assert lines(post(client, request, "job-1", start=3)) == first[3:]
        assert lines(post(client, request, "job-1", start=4)) == first[4:]
        assert figure(client, 'ces_executions_total{status="success"}') == 4
        assert figure(client, 'ces_requests_total{outcome="replayed"}') == 3
    assert dict(executor.started) == {f"t{i}": 1 for i in range(4)}


def test_an_id_cannot_be_used_for_another_request(tmp_path: Path) -> None:
    with node(tmp_path) as (client, executor):
        post(client, Request(program(), suite(1)), "job-1")
        assert error(post(client, Request(program(), suite(2)), "job-1"), 409)["code"] == "request_id_reused"
    assert sum(executor.started.values()) == 1


def test_a_request_that_another_node_began_is_taken_up_where_it_stood(tmp_path: Path) -> None:
    request = Request(program(), suite(5))
    with node(tmp_path) as (client, executor):
        records = lines(post(client, request, "job-1", start=3))
        assert [record.get("i") for record in records[:-1]] == [3, 4]
        assert records[-1]["end"]["results"] == 5
        assert sorted(executor.started) == ["t3", "t4"]
        # Somebody who has nothing yet asks under the same id: the journal here does not reach back that far.
        assert [r.get("i") for r in lines(post(client, request, "job-1"))[:-1]] == list(range(5))


def test_an_engine_fault_ends_the_answer_and_the_retry_runs_only_the_rest(tmp_path: Path) -> None:
    class Flaky(StandIn):
        failures = 1

        def execute(self, request: Request) -> Any:
            for result in super().execute(request):
                if result.test_id == "t2" and self.failures:
                    self.failures -= 1
                    raise OSError("supervisor lost")
                yield result

    request = Request(program(), suite(4))
    with node(tmp_path, Flaky(1)) as (client, executor):
        records = lines(post(client, request, "job-1"))
        assert [record.get("i") for record in records[:-1]] == [0, 1]
        assert records[-1]["error"]["code"] == "engine_fault"
        assert "supervisor lost" in records[-1]["error"]["message"]
        again = lines(post(client, request, "job-1", start=2))
        assert [record.get("i") for record in again[:-1]] == [2, 3]
        assert dict(executor.ended) == {"probe": 1, "t0": 1, "t1": 1, "t2": 2, "t3": 1}  # t2's first result was lost
        assert figure(client, 'ces_requests_total{outcome="resumed"}') == 1


@pytest.mark.parametrize("behaviour", [{"raise": "no cgroup"}, {"skip": True}])
def test_after_engine_faults_in_a_row_the_node_is_not_ready_until_a_probe_passes(
    tmp_path: Path, behaviour: dict[str, Any]
) -> None:
    with node(tmp_path) as (client, _):
        for _ in range(3):
            assert lines(post(client, Request(program(**behaviour), suite(1))))[-1]["error"]["code"] == "engine_fault"
        until(lambda: client.get("/readyz").status_code == 200, "readiness")
        assert client.get("/healthz").status_code == 200
        assert len(lines(post(client, Request(program(), suite(1))))) == 2


def test_a_node_whose_engine_runs_nothing_refuses_work(tmp_path: Path) -> None:
    class Broken(StandIn):
        def execute(self, request: Request) -> Any:
            raise RuntimeError("no user namespaces")

    app = create_app(Broken(1), ServiceSettings(spool_dir=tmp_path))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        until(lambda: "no user namespaces" in client.get("/readyz").text, "the reason")
        refused = post(client, Request(program(), suite(1)))
        assert error(refused, 503)["code"] == "not_ready"
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/healthz").status_code == 200


def test_contents_are_uploaded_once_and_named_by_hash(tmp_path: Path) -> None:
    data = b"x" * 100
    digest = hashlib.sha256(data).hexdigest()
    request = Request(program(), (TestCase("a", data, data.upper()),))
    body = encode_request(request, lambda b: {"sha256": digest} if b == data else {"text": b.decode()})
    with node(tmp_path) as (client, _):
        refused = client.post("/v1/execute", content=body, headers=JSON)
        assert error(refused, 424)["missing"] == [digest]
        assert client.head(f"/v1/blobs/{digest}").status_code == 404
        missing = client.post("/v1/blobs/missing", json={"hashes": [digest]})
        assert missing.json() == {"missing": [digest]}
        assert client.put(f"/v1/blobs/{digest}", content=data).status_code == 201
        assert client.put(f"/v1/blobs/{digest}", content=data).status_code == 200
        assert client.head(f"/v1/blobs/{digest}").status_code == 200
        assert client.post("/v1/blobs/missing", json={"hashes": [digest]}).json() == {"missing": []}
        for _ in range(3):
            assert lines(client.post("/v1/execute", content=body, headers=JSON))[0]["status"] == "success"
        assert figure(client, "ces_blobs") == 1


def test_many_large_inputs_are_resolved_in_portions(tmp_path: Path) -> None:
    class Sizes(StandIn):
        portions: list[int] = []  # noqa: RUF012

        def execute(self, request: Request) -> Any:
            self.portions.append(len(request.tests))
            return super().execute(request)

    tests = tuple(TestCase(str(i), b"x" * 600) for i in range(5))
    with node(tmp_path, Sizes(1), memory_per_run_bytes=1300) as (client, executor):
        assert len(lines(post(client, Request(program(), tests)))) == 6
    assert executor.portions == [1, 2, 2, 1]  # the first is the node's own probe


def test_a_blob_under_a_wrong_hash_is_refused(tmp_path: Path) -> None:
    with node(tmp_path) as (client, _):
        detail = error(client.put(f"/v1/blobs/{'0' * 64}", content=b"abc"), 422)
        assert hashlib.sha256(b"abc").hexdigest() in detail["message"]
        error(client.put("/v1/blobs/xyz", content=b"abc"), 422)


def _chunks() -> Iterator[bytes]:
    for _ in range(5):
        yield b"x" * 100


def test_bodies_over_the_limit_get_a_clear_413(tmp_path: Path) -> None:
    with node(tmp_path, max_body_bytes=300, max_blob_bytes=300) as (client, executor):
        big = Request(program(), (TestCase("a", b"x" * 400),))
        for response in (
            post(client, big),
            client.post("/v1/execute", content=_chunks(), headers=JSON),
            client.put(f"/v1/blobs/{'0' * 64}", content=b"x" * 301),
            client.put(f"/v1/blobs/{'0' * 64}", content=_chunks()),
        ):
            detail = error(response, 413)
            assert detail["limit"] == 300 and "300 bytes" in detail["message"]
    assert not executor.started


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    with node(tmp_path) as (client, _):
        assert error(client.post("/v1/execute", content=b"{}"), 415)["code"] == "not_json"
        assert error(client.post("/v1/execute", content=b"{", headers=JSON), 422)["code"] == "invalid_request"
        assert error(post(client, Request(program(), suite(1)), "a b"), 422)["code"] == "invalid_request"
        assert error(post(client, Request(program(), suite(1)), start=2), 422)["code"] == "invalid_request"
        assert error(client.get("/v2"), 404)["code"] == "not_found"
        assert error(client.get("/v1/execute"), 405)["code"] == "method_not_allowed"
        limits = Limits(time_s=10_000.0)
        assert "time_s" in error(post(client, Request(program(), suite(1), limits)), 422)["message"]
        assert figure(client, 'ces_refusals_total{code="not_json"}') == 1


def test_the_token_is_asked_of_everything_but_the_probes(tmp_path: Path) -> None:
    with node(tmp_path, token="secret") as (client, executor):
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert client.get(path).status_code == 200
        for path in ("/v1/info", "/metrics", "/v2"):
            refused = client.get(path)
            assert error(refused, 401)["code"] == "unauthorized"
            assert refused.headers["www-authenticate"] == "Bearer"
        request = Request(program(), suite(1))
        for value in ("Bearer wrong", "secret", "Basic secret"):
            error(post(client, request, Authorization=value), 401)
        assert not executor.started
        assert len(lines(post(client, request, Authorization="Bearer secret"))) == 2
        assert client.get("/openapi.json").json()["security"] == [{"bearer": []}]


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("evil.example", 403), ("127.evil.example", 403)],
)
def test_without_a_token_only_loopback_names_are_served(tmp_path: Path, host: str, status: int) -> None:
    with node(tmp_path) as (client, _):
        assert client.get("/v1/info", headers={"Host": host}).status_code == status


def test_a_full_queue_answers_429_and_keeps_what_it_accepted(tmp_path: Path) -> None:
    with node(tmp_path, StandIn(1), queue_limit=0) as (client, executor):
        app_node = client.app.state.node  # type: ignore[attr-defined]
        app_node.arriving = 2  # bodies of others are on their way, as many as the engine is handed at once
        refused = post(client, Request(program(), suite(1)))
        detail = error(refused, 429)
        assert detail["code"] == "queue_full" and detail["retry_after_s"] > 0
        assert int(refused.headers["retry-after"]) >= 1
        app_node.arriving = 0
        assert len(lines(post(client, Request(program(), suite(1))))) == 2
        assert app_node.arriving == app_node.held_bytes == 0
    assert sum(executor.started.values()) == 1


def test_bodies_together_are_bounded(tmp_path: Path) -> None:
    with node(tmp_path, queue_bytes=1000) as (client, _):
        app_node = client.app.state.node  # type: ignore[attr-defined]
        app_node.held_bytes = 900
        assert error(post(client, Request(program(), suite(1))), 429)["code"] == "queue_full"
        app_node.held_bytes = 0
        assert len(lines(post(client, Request(program(), suite(20))))) == 21  # a lone body may be larger


def test_a_draining_node_refuses_new_work_and_replays_old(tmp_path: Path) -> None:
    request = Request(program(), suite(2))
    with node(tmp_path) as (client, executor):
        post(client, request, "job-1")
        client.app.state.node.draining = True  # type: ignore[attr-defined]
        refused = post(client, request, "job-2")
        assert error(refused, 503)["code"] == "draining"
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/readyz").json() == {"status": "not ready", "reason": "draining"}
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/info").json()["draining"] is True
        assert len(lines(post(client, request, "job-1"))) == 3
    assert sum(executor.started.values()) == 2


def test_figures_tell_what_ran(tmp_path: Path) -> None:
    with node(tmp_path, queue_limit=7) as (client, _):
        post(client, Request(program(), suite(4, wrong=[1])))
        post(client, Request(program(faults=9), suite(2, "f")))
        assert figure(client, 'ces_executions_total{status="success"}') == 3
        assert figure(client, 'ces_executions_total{status="wrong_answer"}') == 1
        assert figure(client, 'ces_executions_total{status="infrastructure"}') == 2
        assert figure(client, 'ces_window_rate{kind="infrastructure"}') == pytest.approx(2 / 6)
        assert figure(client, 'ces_window_rate{kind="service_only"}') == pytest.approx(4 / 6)
        assert figure(client, 'ces_requests_total{outcome="finished"}') == 2
        assert figure(client, "ces_duration_seconds_count") == 4
        assert figure(client, "ces_queue_wait_seconds_count") == 2
        assert figure(client, "ces_queue_capacity") == 7
        assert figure(client, "ces_slots") == 2
        assert figure(client, "ces_ready") == 1
        assert figure(client, "ces_queue_depth") == figure(client, "ces_in_flight") == 0
        assert 'ces_node_info{engine="stand-in",interpreter="none",node="stand-in",tier="none"} 1.0' in (
            client.get("/metrics").text
        )


def test_figures_tell_what_probes_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMC_OPTIM_STATE", str(tmp_path))
    with node(tmp_path) as (client, _):
        assert figure(client, "ces_probed_epoch") == 0
        assert "ces_sentinel_slope" not in client.get("/metrics").text
        moved = {"slope": {"value": 1.25, "expected": 1.0, "low": 0.9, "high": 1.1}}
        state = EpochState(epoch=3, history=(EpochChange(3, "now", "slope"),), last_shift=moved)
        EpochFile(default_state_path("embedded")).update(lambda _: Observation(state, "new_epoch"))
        assert figure(client, "ces_probed_epoch") == 3
        assert figure(client, "ces_sentinel_slope") == 1.25
        default_state_path("embedded").write_text("{")
        assert "ces_probed_epoch" not in client.get("/metrics").text


def test_info_says_what_the_node_takes(tmp_path: Path) -> None:
    with node(tmp_path, node="ces-3", max_tests=77) as (client, _):
        facts = client.get("/v1/info").json()
        assert (facts["node"], facts["slots"], facts["max_tests"], facts["protocol"]) == ("ces-3", 2, 77, 1)
        assert facts["highest_limits"]["time_s"] == 120.0
        assert lines(post(client, Request(program(), suite(1))))[0]["node"] == "ces-3"


@pytest.mark.parametrize(
    "settings", [{"queue_limit": -1}, {"max_tests": 0}, {"token": " "}, {"blob_disk_bytes": 5}, {"stall_s": 0.0}]
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ServiceSettings(**settings)
