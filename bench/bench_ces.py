"""Executions: overhead beside a bare fork, a cold interpreter and bubblewrap; executions a second; big inputs.

    .venv/bin/python bench/bench_ces.py [--rounds 10] [--tier full] [--work-set ../shared/data/dmc_sample.parquet]

The work set (when its file is there): the first 12 problems with at least 5 correct solutions and 40 tests, 5
correct solutions and the first incorrect one that needs under a second everywhere, their first 40 tests: 2,880
executions.
"""

import argparse
import statistics
from pathlib import Path

from dmc_optim.ces import Limits, Request, Status, TestCase
from dmc_optim.ces.engine import bench
from dmc_optim.ces.engine.embedded import Embedded

PROBLEMS, CORRECT, TESTS = 12, 5, 40


def print_overhead(found: bench.Overhead) -> None:
    print("trivial execution in one slot, ms (medians of rounds)")
    rows = [("bare fork + exit of the zygote", found.fork), ("ours, one request each", found.single)]
    rows += [("ours, another program each time", found.other), ("ours, many tests a request", found.batch)]
    rows += [("cold python3 -I -S", found.cold)]
    if found.bubblewrap:
        rows.append(("bubblewrap + that", found.bubblewrap))
    for name, values in rows:
        print(f"  {name:<34}{statistics.median(values):8.2f}")
    ours = ("single", "other", "batch")
    print(f"  {'':<18}{'one program':>12}{'another each':>14}{'batch':>8}")
    fork = [found.ratio(way, "fork") for way in ours]
    print(f"  {'ours / fork':<18}{fork[0]:>12.2f}{fork[1]:>14.2f}{fork[2]:>8.2f}  (target ≤ 3)")
    for peer, target in (("cold", 2.5), ("bubblewrap", 4)):
        if getattr(found, peer):
            over = [found.ratio(peer, way) for way in ours]
            print(f"  {peer + ' / ours':<18}{over[0]:>12.2f}{over[1]:>14.2f}{over[2]:>8.2f}  (target ≥ {target})")
    p50, p99 = found.percentile(0.5), found.percentile(0.99)
    print(f"  p50 {p50:.2f} ms, p99 {p99:.2f} ms, p99 / p50 {p99 / p50:.2f} (target ≤ 4)")


def quick(engine: Embedded, code: str, cases: tuple[TestCase, ...]) -> bool:
    """Whether no test takes a program a second."""
    request = Request(code.encode(), cases, Limits(time_s=1.0))
    return all(result.status is not Status.TIMEOUT for result in engine.execute(request))


def work_set(engine: Embedded, path: Path) -> list[tuple[str, Request]]:
    """(label, request) pairs of the work set."""
    import pyarrow.parquet as pq

    found: list[tuple[str, Request]] = []
    problems = 0
    for row in pq.read_table(path).to_pylist():
        tests = [
            (text, expected)
            for kind in ("public_tests", "private_tests", "generated_tests")
            for text, expected in zip(row[kind]["input"], row[kind]["output"], strict=True)
        ]
        correct, incorrect = row["solutions"]["solution"], row["incorrect_solutions"]["solution"]
        if len(correct) < CORRECT or len(tests) < TESTS:
            continue
        problems += 1
        cases = tuple(TestCase(str(n), text.encode(), want.encode()) for n, (text, want) in enumerate(tests[:TESTS]))
        found += [("correct", Request(code.encode(), cases)) for code in correct[:CORRECT]]
        wrong = next(code for code in incorrect if quick(engine, code, cases))
        found.append(("incorrect", Request(wrong.encode(), cases)))
        if problems == PROBLEMS:
            break
    return found


def print_work_set(engine: Embedded, path: Path) -> None:
    labelled = work_set(engine, path)
    requests = [request for _, request in labelled]
    rates, wrong, cpu = [], 0, []
    for _ in range(3):
        rate, count = bench.throughput(engine, requests)
        rates.append(rate)
    for index, results in engine.execute_many(requests):
        cpu += [result.cpu_s or 0.0 for result in results]
        if labelled[index][0] == "correct":
            wrong += sum(result.status is not Status.SUCCESS for result in results)
        if any(result.status is Status.INFRASTRUCTURE for result in results):
            raise RuntimeError("an execution gave no verdict")
    shape = f"{count} executions, {engine.parallelism} slots, tier {engine.plan.tier}"
    print(f"work set: {shape}: {statistics.median(rates):.0f}/s (target ≥ 420)")
    print(
        f"  runs: {', '.join(f'{rate:.0f}' for rate in rates)}; solution CPU median {statistics.median(cpu) * 1e3:.2f} ms"
    )
    print(f"  executions of solutions labelled correct that did not succeed: {wrong}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tier")
    default = Path(__file__).parents[2] / "shared" / "data" / "dmc_sample.parquet"
    parser.add_argument("--work-set", type=Path, default=default)
    options = parser.parse_args()
    with Embedded(1, options.tier) as engine:
        print_overhead(bench.overhead(engine, options.rounds))
        rate, count = bench.throughput(engine, bench.trivial_requests(25))
        print(f"trivial executions, one slot: {rate:.0f}/s of {count} (target ≥ 300 on a quiet core)")
        first, again, small = bench.big_input_ms(engine)
        print(f"20 MB input, unread: {first:.1f} ms, again {again:.1f} ms; 20 B: {small:.1f} ms (target: ≤ 50 ms more)")
    with Embedded(None, options.tier) as engine:
        rate, count = bench.throughput(engine, bench.trivial_requests(50))
        print(f"trivial executions, {engine.parallelism} slots: {rate:.0f}/s of {count}")
        if options.work_set.exists():
            print_work_set(engine, options.work_set)
        else:
            print(f"work set: {options.work_set} is absent, skipped")


if __name__ == "__main__":
    main()
