"""Overhead of the pipeline: wall × slots / Σ (time inside executions), and the cost of a rerun.

Writes a corpus of busy loops of about 50 ms, builds it through `validate` with the embedded engine, and reads the
times back from `executions`. Target: at most 1.25 on 20,000 executions with 2 slots; a rerun of at most 5 s.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.pipeline.corpus import SourceProblem, text_schema

SLOTS, SOLUTIONS, TESTS = 2, 20, 100


def loop_length(seconds: float) -> int:
    """Iterations that take about so many CPU seconds on this machine."""
    n = 200_000
    started = time.process_time()
    total = 0
    for i in range(n):
        total += i
    return int(n * seconds / (time.process_time() - started))


def corpus(executions: int, iterations: int) -> list[SourceProblem]:
    """Problems of 20 correct solutions and one wrong one, on 100 tests."""
    problems = []
    for number in range(max(1, executions // (SOLUTIONS * TESTS))):
        # Inside a function, as in loop_length: global variables are slower by half.
        loop = f"def work():\n    x = 0\n    for i in range({iterations}):\n        x += i\n"
        loop += "work()\nprint(int(input()) + 1)\n"
        correct = [f"# {number} {i}\n{loop}" for i in range(SOLUTIONS)]
        tests = [(f"{number * TESTS + t}\n", f"{number * TESTS + t + 1}\n") for t in range(TESTS)]
        problems.append(SourceProblem(f"Loop {number}", correct, [f"print({number})"], tests))
    return problems


def build(source: Path, out: Path) -> float:
    """Wall seconds of `dmc-optim build --through validate`."""
    started = time.perf_counter()
    line = [sys.executable, "-m", "dmc_optim.cli.main", "build", "--source", str(source), "--out", str(out)]
    subprocess.run([*line, "--through", "validate", "--slots", str(SLOTS)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=20_000)
    parser.add_argument("--ms", type=float, default=50.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "train.parquet", Path(folder) / "out"
        problems = corpus(options.executions, loop_length(options.ms / 1000))
        pq.write_table(pa.Table.from_pylist([p.row() for p in problems], schema=text_schema()), source)
        wall = build(source, out)
        table = ds.dataset(str(out / "tables" / "executions")).to_table(columns=["wall_s", "status"])
        inside = pc.sum(table.column("wall_s")).as_py()
        good = pc.sum(pc.equal(table.column("status"), "success")).as_py()
        rerun = min(build(source, out) for _ in range(3))
    n = table.num_rows
    print(f"executions            {n} ({good} success), {1000 * inside / n:.1f} ms each")
    print(f"wall                  {wall:.1f} s with {SLOTS} slots, {n / wall:.1f} executions/s")
    print(f"overhead              {wall * SLOTS / inside:.3f}  (wall × slots / time inside executions; target 1.25)")
    print(f"rerun, complete       {rerun:.2f} s  (target 5)")


if __name__ == "__main__":
    main()
