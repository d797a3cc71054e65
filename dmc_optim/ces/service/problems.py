"""Refusals: what a client is told, with which status code, and what it can do about it."""

import math
from typing import Any

from starlette.responses import JSONResponse


class Problem(Exception):
    """A request is refused. `code` is for programs, `message` says what is wrong, `action` what to do.

    extra: further fields of the JSON body (`missing`, `retry_after_s`, `limit`).
    """

    def __init__(self, status: int, code: str, message: str, action: str, **extra: Any) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.action = action
        self.extra = extra

    def response(self) -> JSONResponse:
        """The HTTP answer; Retry-After is rounded up to whole seconds, the body holds the exact figure."""
        headers = {}
        if "retry_after_s" in self.extra:
            headers["Retry-After"] = str(max(1, math.ceil(self.extra["retry_after_s"])))
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        body = {"error": {"code": self.code, "message": self.message, "action": self.action, **self.extra}}
        return JSONResponse(body, self.status, headers)


def unauthorized() -> Problem:
    """No token, or another one than the node's."""
    return Problem(
        401, "unauthorized", "the bearer token is missing or wrong", "send the token the node was started with"
    )


def too_large(what: str, limit: int, action: str) -> Problem:
    """A body, a blob or an answer beyond the node's bounds."""
    return Problem(413, "too_large", f"{what} is over this node's limit of {limit} bytes", action, limit=limit)


def invalid(message: str, action: str = "correct the request; the OpenAPI document is at /openapi.json") -> Problem:
    """The request is not of the form the OpenAPI document describes."""
    return Problem(422, "invalid_request", message, action)


def queue_full(retry_after_s: float, what: str) -> Problem:
    """The bounded queue has no place."""
    return Problem(
        429, "queue_full", f"the queue is full ({what})", "try again after retry_after_s", retry_after_s=retry_after_s
    )


def draining(retry_after_s: float) -> Problem:
    """The node is about to stop."""
    return Problem(
        503, "draining", "this node is stopping", "use another node, or try again later", retry_after_s=retry_after_s
    )


def store_full(retry_after_s: float) -> Problem:
    """Every byte of the blob store is in use by accepted requests."""
    return Problem(
        503,
        "store_full",
        "the blob store is full of contents that accepted requests use",
        "try again after retry_after_s, or use another node",
        retry_after_s=retry_after_s,
    )


def missing_blobs(hashes: list[str]) -> Problem:
    """Contents named by hash that this node does not hold (never uploaded here, or evicted)."""
    return Problem(
        424,
        "missing_blobs",
        f"{len(hashes)} content(s) named by hash are not on this node",
        "PUT each of `missing` to /v1/blobs/{sha256}, then send the request again",
        missing=hashes,
    )


def id_reused(request_id: str) -> Problem:
    """The same request id with another program, other tests or other limits."""
    return Problem(
        409,
        "request_id_reused",
        f"request id {request_id!r} was used here for a different request",
        "use a new Idempotency-Key for a new request",
    )
