"""What HTTP costs: the same requests on the embedded engine and through a service node, interleaved in one run.

    python bench/bench_ces_http.py [--source PROBLEMS.parquet] [--rounds 3] [--slots 2] [--batch 32] [--json]

Work set: with --source (a CodeContests table), the first 12 problems with at least 6 correct solutions and 40 tests,
6 solutions each, their first 40 tests: 2,880 executions. Without it, as many of programs made here, right and wrong.
Beside throughput: the forms the wire could have, a 20 MB input, how fast work stops when its client is gone, and
verdicts and durations while ten times as many clients ask as the node takes (--overload-s seconds).
"""

import argparse
import base64
import hashlib
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

from dmc_optim.ces import Executor, Limits, Request, Result, TestCase, connect
from dmc_optim.ces.engine.bench import bare_cpu_s
from dmc_optim.ces.service.wire import decode_line, decode_result, encode_request, encode_result
from schemas.enums import Status

PROBLEMS, CORRECT, TESTS = 12, 6, 40


def problems_of(source: Path) -> Iterator[tuple[list[bytes], list[TestCase]]]:
    import pyarrow.parquet

    taken = 0
    for row in pyarrow.parquet.read_table(source).to_pylist():
        tests = [
            TestCase(f"t{number}", given.encode(), expected.encode())
            for number, (given, expected) in enumerate(
                pair
                for category in ("public_tests", "private_tests", "generated_tests")
                for pair in zip(row[category]["input"], row[category]["output"], strict=True)
            )
        ]
        correct = row["solutions"]["solution"]
        if len(correct) >= CORRECT and len(tests) >= TESTS:
            yield [program.encode() for program in correct[:CORRECT]], tests[:TESTS]
            taken += 1
        if taken == PROBLEMS:
            return


def problems_made_here() -> Iterator[tuple[list[bytes], list[TestCase]]]:
    """Sums over a few hundred numbers, some of the programs off by one."""
    for problem in range(PROBLEMS):
        tests = []
        for number in range(TESTS):
            values = [(problem * 7919 + number * 104729 + i * 31) % 1000 for i in range(20 * (number + 1))]
            text = f"{len(values)}\n{' '.join(map(str, values))}\n"
            tests.append(TestCase(f"t{number}", text.encode(), f"{sum(values)}\n".encode()))
        right = b"n = int(input())\nvalues = list(map(int, input().split()))\nprint(sum(values))\n"
        wrong = right.replace(b"sum(values)", b"sum(values[1:])")
        yield [right, right + b"#", right + b"##", wrong, wrong + b"#", wrong + b"##"], tests


def requests_of(problems: list[tuple[list[bytes], list[TestCase]]], batch: int) -> list[Request]:
    return [
        Request(program, tuple(tests[start : start + batch]))
        for programs, tests in problems
        for program in programs
        for start in range(0, len(tests), batch)
    ]


@contextmanager
def service(slots: int, *options: str) -> Iterator[str]:
    """A node in a process of its own; its URL."""
    script = "from dmc_optim.cli.ces_serve import serve; serve()"
    command = [sys.executable, "-c", script, "--port", "0", "--json", "--slots", str(slots), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    try:
        while httpx2.get(f"{url}/readyz").status_code != 200:
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()


def throughput(executor: Executor, requests: list[Request]) -> tuple[float, float, list[list[Status]]]:
    """Executions a second; core milliseconds an execution, of client, service, engine and programs; the statuses."""
    list(executor.execute_many(requests[:8]))  # warm: interpreters, connections, caches
    started, busy = time.perf_counter(), core_seconds()
    answers = dict(executor.execute_many(requests))
    elapsed, busy = time.perf_counter() - started, core_seconds() - busy
    count = sum(map(len, answers.values()))
    return count / elapsed, busy / count * 1e3, [[r.status for r in answers[i]] for i in range(len(requests))]


def core_seconds() -> float:
    """CPU time of this process and all its descendants, those that have ended included."""
    this = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (this, *this.children(recursive=True)))


def compare(requests: list[Request], slots: int, rounds: int) -> dict[str, Any]:
    """Both ways in turn, `rounds` times. ratio: HTTP over embedded throughput; core_ratio: the same from core time
    alone, which other work on the machine moves less. Medians of the rounds."""
    rates: dict[str, list[float]] = {"embedded": [], "http": []}
    cores: dict[str, list[float]] = {"embedded": [], "http": []}
    statuses, disagreements = Counter[str](), 0
    for _ in range(rounds):
        answers = {}
        with closing(connect("embedded", slots=slots)) as engine:
            measured = {"embedded": throughput(engine, requests)}
        with service(slots) as url, closing(connect(url)) as client:
            measured["http"] = throughput(client, requests)
        for way, (rate, core_ms, answer) in measured.items():
            rates[way].append(rate)
            cores[way].append(core_ms)
            answers[way] = [status for statuses in answer for status in statuses]
        statuses.update(status.value for status in answers["http"])
        disagreements += sum(a != b for a, b in zip(answers["embedded"], answers["http"], strict=True))
    return {
        "executions": sum(len(request.tests) for request in requests),
        "requests": len(requests),
        "embedded_per_s": rates["embedded"],
        "http_per_s": rates["http"],
        "ratio": statistics.median(h / e for h, e in zip(rates["http"], rates["embedded"], strict=True)),
        "embedded_core_ms": cores["embedded"],
        "http_core_ms": cores["http"],
        "core_ratio": statistics.median(e / h for h, e in zip(cores["http"], cores["embedded"], strict=True)),
        "disagreements": disagreements,
        "statuses": dict(statuses),
    }


def wire_forms() -> dict[str, float]:
    """Microseconds to write and read one result, as a JSON line and as a binary frame; and a 1 MiB output in each."""
    result = Result(
        "t17",
        Status.SUCCESS,
        duration_s=0.00123,
        cpu_s=0.00123,
        wall_s=0.0031,
        queue_s=0.004,
        peak_memory_bytes=9_629_696,
        node="node-3",
        epoch=2,
        tier="full-v1",
        interpreter="cpython 3.11.7; numpy 2.4.6",
        engine="dmc-optim 0.1.0",
    )
    output = os.urandom(1 << 20)
    fields = struct.Struct("<IB4dQ")

    def frame() -> None:
        texts = [result.test_id, result.node, result.tier, result.interpreter, result.engine]
        head = fields.pack(3, 1, 0.00123, 0.00123, 0.0031, 0.004, 9_629_696)
        data = head + b"".join(struct.pack("<H", len(t)) + t.encode() for t in texts)
        offset = fields.size
        values = fields.unpack_from(data)
        read = []
        for _ in texts:
            (length,) = struct.unpack_from("<H", data, offset)
            read.append(data[offset + 2 : offset + 2 + length].decode())
            offset += 2 + length
        Result(read[0], Status.SUCCESS, *values[2:4], node=read[1], tier=read[2], interpreter=read[3], engine=read[4])

    def lines() -> None:
        decode_result(decode_line(encode_result(3, result)))

    def base64_output() -> None:
        base64.b64decode(json.loads(json.dumps(base64.b64encode(output).decode())))

    return {
        "json_line_us": timed(lines, 3000),
        "binary_frame_us": timed(frame, 3000),
        "output_1mib_base64_us": timed(base64_output, 20),
        "output_1mib_raw_us": timed(lambda: bytes(memoryview(output)), 20),
    }


def timed(action: Callable[[], object], count: int) -> float:
    """Median microseconds of a call, of five series."""
    series = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(count):
            action()
        series.append((time.perf_counter() - started) / count * 1e6)
    return statistics.median(series)


def large_input(url: str) -> dict[str, float]:
    """Seconds of one execution with a 20 B and with a 20 MB input, uploaded before; and what crossed the wire."""
    program = b"import sys\nprint(len(sys.stdin.buffer.read()))\n"
    times: dict[str, list[float]] = {"small": [], "large": []}
    inputs = {"small": b"x" * 20, "large": os.urandom(20_000_000).replace(b"\n", b"x")}
    with closing(connect(url)) as client:
        for turn in range(8):
            for name, data in inputs.items():
                test = TestCase(name, data, str(len(data)).encode())
                started = time.perf_counter()
                (result,) = client.execute(Request(program + b"#" * turn, (test,)))
                assert result.status is Status.SUCCESS, result
                times[name].append(time.perf_counter() - started)
    metrics = httpx2.get(f"{url}/metrics").text
    uploaded = next(float(x.split()[1]) for x in metrics.splitlines() if x.startswith("ces_blob_uploaded_bytes_total"))
    bodies = next(float(x.split()[1]) for x in metrics.splitlines() if x.startswith("ces_body_bytes_total"))
    return {
        "first_large_s": times["large"][0],
        "small_s": statistics.median(times["small"][1:]),
        "large_s": statistics.median(times["large"][1:]),
        "uploaded_bytes": uploaded,
        "body_bytes": bodies,
        "programs": 8,
    }


def stop_after_leaving(url: str) -> list[float]:
    """Seconds from the moment a client is gone until no slot works for it."""
    body = encode_request(Request(b"while True: pass\n", (TestCase("a", b""),), Limits(time_s=60.0)))
    head = "POST /v1/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    port = int(url.rsplit(":", 1)[1])
    waits = []
    for _ in range(5):
        raw = socket.create_connection(("127.0.0.1", port))
        raw.sendall(head.encode() + body)
        while "ces_in_flight 1.0" not in httpx2.get(f"{url}/metrics").text:
            time.sleep(0.01)
        raw.close()
        started = time.perf_counter()
        while "ces_in_flight 0.0" not in httpx2.get(f"{url}/metrics").text:
            time.sleep(0.01)
        waits.append(time.perf_counter() - started)
    return waits


def overload(slots: int, seconds: float) -> dict[str, float]:
    """Ten times as many clients as a node with a short queue takes: refusals, wrong verdicts, drift of durations.

    bare: the same program in a plain process, by its CPU time less that of an empty one, now and then in between.
    """
    program = b"n = int(input())\nx = 0\nfor i in range(200_000):\n    x = (x * 31 + i) & 0xFFFF\nprint(n * n)\n"
    right = [TestCase(f"r{n}", str(n).encode(), str(n * n).encode()) for n in range(3)]
    request = Request(program, (*right, TestCase("w", b"7", b"50")))
    wanted = [Status.SUCCESS] * 3 + [Status.WRONG_ANSWER]
    cold = [sys.executable, "-I", "-S", "-c"]
    same = program.replace(b"int(input())", b"7").decode()
    durations: list[float] = []
    wrong: list[list[Status]] = []  # appended to by many threads, where a count could lose some

    def bare(until: float) -> float:
        found = []
        while time.monotonic() < until:
            found.append(bare_cpu_s([*cold, same]) - bare_cpu_s([*cold, ""]))
            time.sleep(0.1)
        return statistics.median(found)

    def ask(until: float) -> None:
        with closing(connect(url)) as client:
            while time.monotonic() < until:
                results = list(client.execute(request))
                if (statuses := [result.status for result in results]) != wanted:
                    wrong.append(statuses)
                durations.extend(result.duration_s or 0.0 for result in results)

    with service(slots, "--queue-limit", "2") as url:
        ask(time.monotonic() + 5)
        alone, durations = statistics.median(durations), []
        bare_alone = bare(time.monotonic() + 5)
        until = time.monotonic() + seconds
        clients = [threading.Thread(target=ask, args=(until,)) for _ in range(10 * (3 * slots + 2))]
        for client in clients:
            client.start()
        bare_loaded = bare(until)
        for client in clients:
            client.join()
        metrics = httpx2.get(f"{url}/metrics").text
    refusals = next(float(x.split()[1]) for x in metrics.splitlines() if 'refusals_total{code="queue_full"}' in x)
    return {
        "clients": len(clients),
        "answers": len(durations) / 4,
        "refusals": refusals,
        "wrong_answers": len(wrong),
        "median_duration_alone_s": alone,
        "median_duration_drift": statistics.median(durations) / alone - 1,
        "bare_drift": bare_loaded / bare_alone - 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="CodeContests table; without it, programs made here")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--overload-s", type=float, default=60.0)
    options = parser.parse_args()
    problems = list(problems_of(options.source) if options.source else problems_made_here())
    figures: dict[str, Any] = {
        "throughput": compare(requests_of(problems, options.batch), options.slots, options.rounds)
    }
    figures["wire"] = wire_forms()
    with service(options.slots) as url:
        figures["large_input"] = large_input(url)
        figures["stop_after_leaving_s"] = stop_after_leaving(url)
    figures["overload"] = overload(options.slots, options.overload_s)
    figures["work_set_sha256"] = hashlib.sha256(repr(problems).encode()).hexdigest()[:16]
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for name, part in figures.items():
        print(name)
        for key, value in part.items() if isinstance(part, dict) else [("", part)]:
            if isinstance(value, list):
                value = "  ".join(f"{number:.4g}" for number in value)
            print(f"  {key:24} {value if not isinstance(value, float) else format(value, '.4g')}")


if __name__ == "__main__":
    main()
