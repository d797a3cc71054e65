"""Cloud Storage in memory, over HTTP: as much of its JSON API as gcsfs uses on small files."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

OBJECT = re.compile(r"(?:/download|/upload)?/storage/v1/b/([^/]+)(?:/o(?:/([^/]+)(?:/moveTo/o/([^/]+))?)?)?")

PRIVATE = "private-bucket"  # may not be read


class Storage(BaseHTTPRequestHandler):
    """One request. `server.objects` holds {(bucket, name): (generation, content)}."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet an answer
    server: "StorageServer"

    def log_message(self, *arguments: Any) -> None:
        """Nothing is printed."""

    def _asked(self) -> tuple[dict[str, str], str, str, str]:
        """(query, bucket, object, target of a move)."""
        url = urlsplit(self.path)
        match = OBJECT.fullmatch(url.path)
        names = [unquote(name or "") for name in match.groups()] if match else ["", "", ""]
        return {name: values[0] for name, values in parse_qs(url.query).items()}, names[0], names[1], names[2]

    def do_GET(self) -> None:
        query, bucket, name, _ = self._asked()
        with self.server.lock:
            if bucket == PRIVATE:
                self._answer(403, {"error": {"code": 403, "message": "no storage.objects.get access"}})
            elif name:
                self._get_object(bucket, name, media=query.get("alt") == "media")
            elif urlsplit(self.path).path.endswith("/o"):
                self._list(bucket, query.get("prefix", ""), query.get("delimiter", ""))
            else:
                self._answer(200, {"kind": "storage#bucket", "name": bucket, "id": bucket})

    def _get_object(self, bucket: str, name: str, media: bool) -> None:
        if (bucket, name) not in self.server.objects:
            self._answer(404, {"error": {"code": 404, "message": f"No such object: {bucket}/{name}"}})
        elif not media:
            self._answer(200, self._described(bucket, name))
        else:
            content = self.server.objects[bucket, name][1]
            span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if span is None:
                self._send(200, content)
            else:
                start, stop = int(span[1]), int(span[2] or len(content) - 1) + 1
                self._send(206 if start < len(content) else 416, content[start:stop])

    def _list(self, bucket: str, prefix: str, delimiter: str) -> None:
        names = sorted(n for b, n in self.server.objects if b == bucket and n.startswith(prefix))
        folders = {
            prefix + n.removeprefix(prefix).split(delimiter)[0] + delimiter
            for n in names
            if delimiter and delimiter in n.removeprefix(prefix)
        }
        items = [n for n in names if not (delimiter and delimiter in n.removeprefix(prefix))]
        found = {"items": [self._described(bucket, n) for n in items], "prefixes": sorted(folders)}
        self._answer(200, found)

    def do_POST(self) -> None:
        query, bucket, name, target = self._asked()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            self.server.written += 1
            if "upload_id" in query:
                self._upload(query["upload_id"], body)
            elif target and (bucket, name) in self.server.objects:
                content = self.server.objects.pop((bucket, name))[1]
                self.server.objects[bucket, target] = (self.server.written, content)
                self._answer(200, self._described(bucket, target))
            elif target:
                self._answer(404, {"error": {"code": 404, "message": f"No such object: {bucket}/{name}"}})
            elif query.get("uploadType") == "resumable":
                key = str(self.server.written)
                self.server.uploads[key] = (bucket, query["name"], bytearray())
                where = f"http://{self.headers['Host']}/upload/storage/v1/b/{bucket}/o?upload_id={key}"
                self._send(200, b"{}", {"Location": where})
            else:
                self._answer(501, {"error": {"code": 501, "message": f"not in this fake: {self.path}"}})

    def _upload(self, key: str, chunk: bytes) -> None:
        bucket, name, content = self.server.uploads[key]
        content += chunk
        if self.headers["Content-Range"].endswith("/*"):
            self._send(308, b"", {"Range": f"bytes=0-{len(content) - 1}"})
        else:
            del self.server.uploads[key]
            self.server.objects[bucket, name] = (int(key), bytes(content))
            self._answer(200, self._described(bucket, name))

    def do_DELETE(self) -> None:
        _, bucket, name, _ = self._asked()
        with self.server.lock:
            known = self.server.objects.pop((bucket, name), None)
        self._answer(204 if known else 404, {"error": {"code": 404, "message": f"No such object: {name}"}})

    def _described(self, bucket: str, name: str) -> dict[str, Any]:
        generation, content = self.server.objects[bucket, name]
        moment = "2026-01-01T00:00:00.000Z"
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": name,
            "size": str(len(content)),
            "generation": str(generation),
            "timeCreated": moment,
            "updated": moment,
        }

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        self._send(status, b"" if status == 204 else json.dumps(value).encode())

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for header, value in (headers or {}).items():
            self.send_header(header, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.server.answered += 1


class StorageServer(ThreadingHTTPServer):
    """Every bucket exists."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Storage)
        self.objects: dict[tuple[str, str], tuple[int, bytes]] = {}
        self.uploads: dict[str, tuple[str, str, bytearray]] = {}
        self.written = 0
        self.answered = 0
        self.lock = threading.RLock()


@contextmanager
def storage() -> Iterator[tuple[StorageServer, dict[str, str]]]:
    """A running server, and the environment in which gcsfs talks to it."""
    with StorageServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield (
            server,
            {
                "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{server.server_port}",
                "FSSPEC_GS_TOKEN": "anon",
                "FSSPEC_GCS_TOKEN": "anon",
                "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # asks for the kind of bucket over gRPC
            },
        )
        server.shutdown()
