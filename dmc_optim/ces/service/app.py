"""The HTTP surface of a node: an ASGI application around any `Executor`."""

import hmac
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from dmc_optim.ces.service import bodies
from dmc_optim.ces.service.blobs import DigestMismatchError, StoreFullError
from dmc_optim.ces.service.node import Node
from dmc_optim.ces.service.problems import Problem, draining, invalid, store_full, unauthorized
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.service.stream import ResultStream, announced_length, read_parts
from dmc_optim.ces.service.wire import CONTENT_TYPE, PROTOCOL
from dmc_optim.ces.types import Executor

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:\-]{1,128}")
_OPEN_PATHS = ("/healthz", "/readyz", "/openapi.json")
_PARSE_IN_THREAD_BYTES = 256 * 1024
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_DigestPath = Annotated[str, Path(pattern=bodies.SHA256_PATTERN, description="SHA-256, lower-case hexadecimal")]


def create_app(executor: Executor, settings: ServiceSettings | None = None) -> FastAPI:
    """The application of one node; `app.state.node` is its state. The executor stays the caller's to close."""
    node = Node(executor, settings or ServiceSettings())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        node.start()
        try:
            yield
        finally:
            await node.close()

    app = FastAPI(
        title="DMC-Optim execution service",
        version=str(PROTOCOL),
        description="Runs untrusted programs on tests in a sandbox and measures them.",
        lifespan=lifespan,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.state.node = node
    _add_refusals(app, node)
    _add_guard(app, node)
    _add_probes(app, node)
    _add_blobs(app, node)
    _add_execution(app, node)
    _describe_security(app, node)
    return app


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": bodies.ErrorAnswer} for status in (401, *statuses)}


def _add_refusals(app: FastAPI, node: Node) -> None:
    """Every refusal has the same JSON body, the framework's own ones too."""

    @app.exception_handler(Problem)
    async def refuse(_: Request, problem: Problem) -> Response:
        node.metrics.refused(problem.code)
        return problem.response()

    @app.exception_handler(RequestValidationError)
    async def refuse_parameters(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return await refuse(request, invalid(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> Response:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
        problem = Problem(error.status_code, code, str(error.detail), "the OpenAPI document is at /openapi.json")
        response = await refuse(request, problem)
        response.headers.update(error.headers or {})
        return response


def _add_guard(app: FastAPI, node: Node) -> None:
    """The token; without one, only calls that name the loopback (a page in a browser may know it by another name)."""
    expected = None if node.settings.token is None else f"Bearer {node.settings.token}".encode()
    app.add_middleware(_Guard, node=node, expected=expected)


class _Guard:
    """Plain ASGI: the framework's own middleware would hide a client's disconnect from the stream."""

    def __init__(self, app: Any, node: Node, expected: bytes | None) -> None:
        self._app = app
        self._node = node
        self._expected = expected

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        problem = self._problem(scope) if scope["type"] == "http" else None
        if problem is None:
            await self._app(scope, receive, send)
        else:
            self._node.metrics.refused(problem.code)
            await problem.response()(scope, receive, send)

    def _problem(self, scope: Any) -> Problem | None:
        headers = dict(scope["headers"])
        if self._expected is None:
            host = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0].strip("[]")
            if host in ("localhost", "::1") or re.fullmatch(r"127(\.\d{1,3}){3}", host):
                return None
            return Problem(
                403,
                "loopback_only",
                f"a node without a token answers only on the loopback, not as {host!r}",
                "start the node with a token",
            )
        if scope["path"] in _OPEN_PATHS:
            return None
        if hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            return None
        return unauthorized()


def _add_probes(app: FastAPI, node: Node) -> None:
    @app.get("/healthz", responses={503: {"model": bodies.StateAnswer}})
    async def liveness(response: Response) -> bodies.StateAnswer:
        """Liveness: 503 asks for a restart."""
        return _state(response, node.not_alive(), "alive", "dead")

    @app.get("/readyz", responses={503: {"model": bodies.StateAnswer}})
    async def readiness(response: Response) -> bodies.StateAnswer:
        """Readiness: 503 while starting, draining or unable to execute."""
        return _state(response, node.not_ready(), "ready", "not ready")

    @app.get("/v1/info", responses=_refusals())
    async def info() -> bodies.InfoAnswer:
        """What this node is and takes; `slots` is how many executions run at the same time."""
        return node.info()

    @app.get("/metrics", responses={**_refusals(), 200: {"content": {"text/plain": {}}}}, response_class=Response)
    async def metrics() -> Response:
        """Prometheus figures."""
        return Response(node.metrics.text(), media_type=_METRICS_TYPE)


def _state(response: Response, trouble: str, good: str, bad: str) -> bodies.StateAnswer:
    if trouble:
        response.status_code = 503
    return bodies.StateAnswer(status=bad if trouble else good, reason=trouble)


def _add_blobs(app: FastAPI, node: Node) -> None:
    limit = node.settings.max_blob_bytes
    what, action = "the blob", "ask the node's operator to raise max_blob_bytes, or use a smaller content"

    @app.head("/v1/blobs/{sha256}", responses={401: {}, 404: {}, 422: {}}, response_class=Response)
    async def has_blob(sha256: _DigestPath) -> Response:
        """Whether this node holds a content: 200 or 404."""
        return Response(status_code=200 if sha256 in node.blobs else 404)

    @app.put(
        "/v1/blobs/{sha256}",
        status_code=201,
        response_class=Response,
        responses={200: {"description": "Already here"}, **_refusals(400, 408, 413, 422, 503)},
        openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
    )
    async def put_blob(sha256: _DigestPath, request: Request) -> Response:
        """Upload a content under its hash: 201 when it is new, 200 when it was here."""
        announced_length(request, limit, what, action)
        if node.draining:
            raise draining(node.retry_after_s())
        with node.blobs.upload(sha256) as upload:
            async for part in read_parts(request, limit, node.settings.stall_s, what, action):
                upload.write(part)
            known = sha256 in node.blobs
            try:
                upload.commit()
            except DigestMismatchError as error:
                raise invalid(
                    f"the body's SHA-256 is {error}, not {sha256}", "send the bytes whose hash it is"
                ) from None
            except StoreFullError:
                raise store_full(node.retry_after_s()) from None
        node.metrics.uploads.inc()
        node.metrics.uploaded_bytes.inc(upload.size)
        return Response(status_code=200 if known else 201)

    @app.post(
        "/v1/blobs/missing",
        responses=_refusals(400, 408, 413, 415, 422),
        openapi_extra=_json_body(bodies.HashesBody),
    )
    async def missing_blobs(request: Request) -> bodies.MissingAnswer:
        """Which of these contents have to be uploaded."""
        _check_json(request)
        most = 1 << 20
        parts = read_parts(request, most, node.settings.stall_s, "the list", "ask about fewer hashes at a time")
        asked = bodies.parse_body(bodies.HashesBody, b"".join([part async for part in parts]))
        return bodies.MissingAnswer(missing=[digest for digest in asked.hashes if digest not in node.blobs])


def _add_execution(app: FastAPI, node: Node) -> None:
    settings = node.settings
    what, action = "the body", "upload large contents to /v1/blobs and name them by hash, or send fewer tests"
    parameters = [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "Request id: the same id again attaches to the running request or replays the finished one.",
            "schema": {"type": "string", "pattern": f"^{_REQUEST_ID.pattern}$"},
        }
    ]

    @app.post(
        "/v1/execute",
        response_class=Response,
        responses={
            **_refusals(400, 408, 409, 413, 415, 422, 424, 429, 503),
            200: {"description": "One JSON object a line, see wire format", "content": {CONTENT_TYPE: {}}},
        },
        openapi_extra={**_json_body(bodies.ExecuteBody), "parameters": parameters},
    )
    async def execute(
        request: Request,
        resume_from: Annotated[int, Query(ge=0, le=1_000_000, description="Position of the first result wanted")] = 0,
    ) -> Response:
        """Run a program on tests; results stream back in the order of the tests as they are known."""
        _check_json(request)
        request_id = _request_id(request)
        length = announced_length(request, settings.max_body_bytes, what, action)
        with node.admit(request_id) as admission:
            admission.grow(length)
            read = 0
            parts = []
            async for part in read_parts(request, settings.max_body_bytes, settings.stall_s, what, action):
                parts.append(part)
                admission.grow(max(0, read + len(part) - max(length, read)))
                read += len(part)
            node.metrics.downloads.inc(read)
            body = b"".join(parts)
            del parts
            if read > _PARSE_IN_THREAD_BYTES:
                work = await run_in_threadpool(bodies.parse_work, body, settings)
            else:
                work = bodies.parse_work(body, settings)
            if resume_from > len(work.tests):
                raise invalid(f"resume_from is {resume_from}, but the request has {len(work.tests)} tests")
            job = await node.open(request_id, work, resume_from, admission)
            return ResultStream(node, job, resume_from)


def _request_id(request: Request) -> str:
    given = request.headers.get("idempotency-key")
    if given is None:
        return uuid.uuid4().hex
    if not _REQUEST_ID.fullmatch(given):
        raise invalid("Idempotency-Key must be 1 to 128 letters, digits, or . _ : -", "use another request id")
    return given


def _check_json(request: Request) -> None:
    # Also what keeps a page in a browser from posting here: JSON from elsewhere needs a permission we never give.
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "not_json", f"the body's type is {kind!r}", "send it as application/json")


def _json_body(model: type[bodies.BaseModel]) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


def _describe_security(app: FastAPI, node: Node) -> None:
    """Put the bodies that are read by hand, and the token, into the OpenAPI document."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            components = document.setdefault("components", {})
            schemas = components.setdefault("schemas", {})
            for model in (bodies.ExecuteBody, bodies.HashesBody):
                schema = bodies.openapi_schema(model)
                schemas.update(schema.pop("$defs", {}))
                schemas[model.__name__] = schema
            if node.settings.token is not None:
                components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
                document["security"] = [{"bearer": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
