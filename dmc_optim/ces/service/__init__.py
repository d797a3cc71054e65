"""The execution service: any `Executor` behind HTTP, one stateless node a process.

    settings   what a node accepts and keeps, one frozen dataclass
    wire       the protocol's bytes: contents, requests, result lines (shared with the client)
    bodies     the request models: validation and the OpenAPI document
    problems   refusals: status code, JSON body, headers
    blobs      content-addressed store, memory over disk, both bounded
    journal    the result lines of one request, spilled to disk when large
    ledger     idempotency: which request ids are known, what they gave
    dispatch   bounded queue and the threads that feed the executor
    metrics    Prometheus figures
    stream     the response that follows a request's results
    app        the HTTP surface
    server     binding, signals, drain

Only `app` and `server` need FastAPI and uvicorn; importing this package imports neither.
"""
