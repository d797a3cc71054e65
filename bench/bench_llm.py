"""Throughput and memory of a campaign against the fake server: how much of the server's own capacity is kept busy.

    .venv/bin/python bench/bench_llm.py                       # 5,000 prompts, 64 slots, 1 s an answer
    .venv/bin/python bench/bench_llm.py --prompts 500 --json

The server answers `slots` requests at a time, each in `latency_s`, so it can give slots / latency_s answers a
second; the busy share is what it did of that between its first and its last answer. Memory is the resident size
of this process, sampled while the campaign runs.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dmc_optim.llm.backends.openai import OpenAIBackend  # noqa: E402
from dmc_optim.llm.campaign import run_campaign  # noqa: E402
from tests.llm.conftest import make_prompts, serving  # noqa: E402
from tests.llm.fake_server import MODEL  # noqa: E402

MIB = 1 << 20


def watch_memory(stop: threading.Event, samples: list[tuple[float, int]]) -> None:
    """Resident bytes of this process, four times a second."""
    me = psutil.Process()
    while not stop.wait(0.25):
        samples.append((time.monotonic(), me.memory_info().rss))


def measure(
    prompts: int, slots: int, latency_s: float, concurrency: int, statement_chars: int, faults: list[str]
) -> dict:
    """One campaign with k = 1 against one server; the figures of the report."""
    flags = [flag for fault in faults for flag in ("--fault", fault)]
    stop, samples = threading.Event(), []
    watcher = threading.Thread(target=watch_memory, args=(stop, samples))
    with (
        tempfile.TemporaryDirectory() as folder,
        serving("--slots", str(slots), "--latency-s", str(latency_s), *flags) as url,
    ):
        watcher.start()
        started, cpu = time.monotonic(), psutil.Process().cpu_times()
        try:
            report = run_campaign(
                make_prompts(prompts, size=statement_chars // 12),
                OpenAIBackend([url], MODEL),
                Path(folder) / "c.jsonl",
                k=1,
                concurrency=concurrency,
            )
        finally:
            stop.set()
            watcher.join()
        wall, after = time.monotonic() - started, psutil.Process().cpu_times()
        with urllib.request.urlopen(f"{url}/stats") as reply:
            stats = json.load(reply)
    after_warm_up = [rss for at, rss in samples if at - started > wall * 0.2]
    late = [rss for at, rss in samples if at - started > wall * 0.8]
    early = [rss for at, rss in samples if wall * 0.2 < at - started < wall * 0.4]
    return {
        "prompts": prompts,
        "answered": report.answered,
        "retries": dict(report.retries),
        "wall_s": round(wall, 2),
        "answers_per_s": round(report.answered / wall, 1),
        "capacity_per_s": round(slots / latency_s, 1),
        "busy_share": round(stats["busy_share"], 4),
        "client_cpu_s": round(after.user + after.system - cpu.user - cpu.system, 2),
        "peak_mib": round(max(after_warm_up) / MIB, 1),
        "growth_mib": round((max(late) - max(early)) / MIB, 2),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=5000)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--latency-s", type=float, default=1.0)
    parser.add_argument("--concurrency", type=int, default=0, help="requests in flight; 0: slots + 8")
    parser.add_argument("--statement-chars", type=int, default=4000)
    parser.add_argument("--fault", action="append", default=[], help="NAME=SHARE of the fake server")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    concurrency = args.concurrency or args.slots + 8
    figures = measure(args.prompts, args.slots, args.latency_s, concurrency, args.statement_chars, args.fault)
    if args.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<16} {value}")


if __name__ == "__main__":
    main()
