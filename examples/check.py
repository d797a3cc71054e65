"""Compare a finished build of the bundled corpus with `expected.toml`: `python examples/check.py out`.

Every row, generator attempt and solution that `expected.toml` names is looked up in the build's tables; whatever
differs is one line of the answer.
"""

import hashlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
Row = dict[str, Any]


def check_expected(out: str | Path) -> list[str]:
    """What differs between a build directory and `expected.toml`; empty where nothing does."""
    return list(_differences(Path(out)))


def _differences(out: Path) -> Iterator[str]:
    expected = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
    ids = {row["slug"]: row["id"] for row in expected["rows"]}
    excluded = {(x["entity"], x["problem_id"], x["entity_id"]): x for x in _rows(out, "exclusions")}
    yield from _check_rows(out, expected["rows"], excluded)
    yield from _check_clusters(out, expected["clusters"], ids)
    yield from _check_attempts(out, expected["attempts"], ids)
    for wanted in expected["solutions"]:
        key = _solution_key(ids, wanted["file"])
        yield from _compare(wanted["file"], excluded.get(key), wanted["stage"], wanted["reason"])
    passed = _passing_originals(out)
    for wanted in expected["caught"]:
        _, problem, solution = _solution_key(ids, wanted["file"])
        if (problem, solution) not in passed:
            yield f"{wanted['file']}: expected to pass every original test"
        if ("solution", problem, solution) in excluded:
            yield f"{wanted['file']}: expected to be caught by generated tests, but it passes the suite"
    for wanted in expected["tests"]:
        found = [x for x in excluded.values() if x["entity"] == "test" and x["problem_id"] == ids[wanted["slug"]]]
        n = sum((x["stage"], x["reason"]) == (wanted["stage"], wanted["reason"]) for x in found)
        if n < wanted["least"]:
            yield f"{wanted['slug']}: {n} tests dropped by {wanted['stage']} for {wanted['reason']}"


def _rows(out: Path, table: str) -> list[Row]:
    files = sorted((out / "tables" / table).glob("*.parquet"))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def _check_rows(out: Path, rows: list[Row], excluded: dict[tuple[str, str, str], Row]) -> Iterator[str]:
    pools = {row["problem_id"]: row["pool"] for row in _rows(out, "splits")}
    sides = {row["problem_id"]: row["split"] for row in _rows(out, "splits")}
    for row in rows:
        problem, who = row["id"], f"{row['id']} ({row['slug']})"
        dropped = excluded.get(("row", problem, problem)) or excluded.get(("problem", problem, problem))
        pool = pools.get(problem)
        if pool != {"rl": "rl", "complement": "complement", "dropped": None}[row["outcome"]]:
            yield f"{who}: expected {row['outcome']}, found in pool {pool}"
        elif row["outcome"] == "rl" and sides[problem] == "none":
            yield f"{who}: in the RL pool, but on no side of the split"
        yield from _compare(who, dropped, row.get("stage"), row.get("reason"))


def _compare(who: str, found: Row | None, stage: str | None, reason: str | None) -> Iterator[str]:
    actual = (found["stage"], found["reason"]) if found else (None, None)
    if actual != (stage, reason):
        figure = f" ({found['value']} against {found['threshold']})" if found else ""
        yield f"{who}: expected {_name(stage, reason)}, found {_name(*actual)}{figure}"


def _name(stage: str | None, reason: str | None) -> str:
    return f"{stage}/{reason}" if stage else "no exclusion"


def _check_clusters(out: Path, clusters: list[Row], ids: dict[str, str]) -> Iterator[str]:
    cluster = {row["problem_id"]: row["cluster_id"] for row in _rows(out, "clusters")}
    side = {row["problem_id"]: row["split"] for row in _rows(out, "splits")}
    for wanted in clusters:
        problems = [ids[slug] for slug in wanted["slugs"]]
        if len({cluster.get(p) for p in problems}) != 1:
            yield f"{', '.join(wanted['slugs'])}: not in one cluster"
        if len({side.get(p) for p in problems}) != 1:
            yield f"{', '.join(wanted['slugs'])}: on different sides of the split"
        others = [p for p, c in cluster.items() if c == cluster.get(problems[0]) and p not in problems]
        if others:
            yield f"{', '.join(others)}: in the cluster of {', '.join(wanted['slugs'])}"


def _check_attempts(out: Path, attempts: dict[str, Row], ids: dict[str, str]) -> Iterator[str]:
    wanted = {
        (ids[slug], campaign, number): reason
        for slug, campaigns in attempts.items()
        for campaign, reasons in campaigns.items()
        for number, reason in enumerate(reasons)
    }
    found = {
        (row["problem_id"], row["campaign"], row["attempt"]): row["reason"] or "accepted"
        for row in _rows(out, "generator_attempts")
        if row["reason"] != "no_completion"
    }
    for key in sorted(wanted.keys() | found.keys()):
        if wanted.get(key) != found.get(key):
            name = "{} {} attempt {}".format(*key)
            yield f"{name}: expected {wanted.get(key, 'no attempt')}, found {found.get(key, 'no attempt')}"


def _solution_key(ids: dict[str, str], file: str) -> tuple[str, str, str]:
    digest = hashlib.sha256((HERE / "problems" / file).read_bytes()).hexdigest()
    return "solution", ids[file.split("/")[0]], digest[:16]


def _passing_originals(out: Path) -> set[tuple[str, str]]:
    """(problem, solution) pairs whose executions on original tests all succeeded."""
    statuses: dict[tuple[str, str], set[str]] = {}
    for row in _rows(out, "executions"):
        if row["campaign"] == "original":
            statuses.setdefault((row["problem_id"], row["solution_id"]), set()).add(row["status"])
    return {pair for pair, seen in statuses.items() if seen == {"success"}}


def main() -> None:
    """Print the differences; exit status 1 where there are any."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "tables").is_dir():
        sys.exit("usage: python examples/check.py OUT   (the directory of a finished `dmc-optim build`)")
    differences = check_expected(sys.argv[1])
    sys.stdout.write("".join(f"{line}\n" for line in differences) or "as expected\n")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
