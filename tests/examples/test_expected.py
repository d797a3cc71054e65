"""`check_expected` finds every difference; a build in out/, where there is one, shows none."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmc_optim.artifacts.source import find_files
from examples import assemble, check
from schemas import TABLES

OUT = assemble.HERE.parent / "out"


def test_the_build_in_out_is_as_expected():
    """Runs after `make build`; without a build of these very examples there is nothing to compare."""
    manifest = json.loads((OUT / "manifest.json").read_text()) if (OUT / "manifest.json").exists() else {}
    if not manifest.get("complete"):
        pytest.skip("no finished build in out/: `make build` makes one")
    source = [[file.split, file.rows, file.fingerprint] for file in find_files(str(assemble.HERE / "corpus"))]
    answers = {row["completion"] for row in assemble.recorded_generators()}
    attempts = [row["completion"] for row in check._rows(OUT, "generator_attempts")]
    if manifest["source"]["files"] != source or not answers.issuperset(attempts):
        pytest.skip("out/ was built from something else than the present examples")
    assert check.check_expected(OUT) == []


def write_table(out, table, rows):
    schema = TABLES[table].schema
    filled = [{name: row.get(name) for name in schema.names} for row in rows]
    (out / "tables" / table).mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist(filled, schema=pa.schema([f.with_nullable(True) for f in schema])), *target(out, table)
    )


def target(out, table):
    return [out / "tables" / table / "any-00000.parquet"]


def as_promised(out):
    """Write the tables of a build in which everything went as expected.toml says."""
    expected = assemble.expected()
    ids = {row["slug"]: row["id"] for row in expected["rows"]}
    kept = [row for row in expected["rows"] if row["outcome"] != "dropped"]
    exclusions = [
        {
            "stage": row["stage"],
            "entity": "row" if row["reason"] == "malformed_row" else "problem",
            "problem_id": row["id"],
            "entity_id": row["id"],
            "reason": row["reason"],
        }
        for row in expected["rows"]
        if "stage" in row
    ]
    for lost in expected["solutions"]:
        entity, problem, solution = check._solution_key(ids, lost["file"])
        found = {"entity": entity, "problem_id": problem, "entity_id": solution}
        exclusions.append({**found, "stage": lost["stage"], "reason": lost["reason"]})
    for number, test in enumerate(expected["tests"]):
        found = {"entity": "test", "problem_id": ids[test["slug"]], "entity_id": f"{number:016x}"}
        exclusions.append({**found, "stage": test["stage"], "reason": test["reason"]})
    write_table(out, "exclusions", exclusions)
    sides = {"rl": "train", "complement": "none"}
    splits = [{"problem_id": r["id"], "pool": r["outcome"], "split": sides[r["outcome"]]} for r in kept]
    write_table(out, "splits", splits)
    twins = {ids[slug]: str(n) for n, cluster in enumerate(expected["clusters"]) for slug in cluster["slugs"]}
    write_table(out, "clusters", [{"problem_id": p, "cluster_id": twins.get(p, p)} for p in ids.values()])
    attempts = [
        {"problem_id": ids[slug], "campaign": campaign, "attempt": n, "reason": None if r == "accepted" else r}
        for slug, campaigns in expected["attempts"].items()
        for campaign, reasons in campaigns.items()
        for n, r in enumerate(reasons)
    ]
    write_table(out, "generator_attempts", attempts)
    caught = [check._solution_key(ids, caught["file"])[1:] for caught in expected["caught"]]
    executions = [
        {"problem_id": p, "solution_id": s, "test_id": "0" * 16, "campaign": c, "status": status}
        for p, s in caught
        for c, status in (("original", "success"), ("correctness", "wrong_answer"))
    ]
    write_table(out, "executions", executions)


@pytest.fixture(scope="module")
def promised(tmp_path_factory):
    out = tmp_path_factory.mktemp("promised")
    as_promised(out)
    return out


def test_a_build_as_promised_has_no_differences(promised):
    assert check.check_expected(promised) == []


CHANGES = [
    ("exclusions", lambda r: r["reason"] == "low_cv", {"reason": "below_resolution"}, "prime-desk"),
    ("exclusions", lambda r: r["reason"] == "file_io", None, "river-gauge-files"),
    ("exclusions", lambda r: r["reason"] == "failed_original_tests", None, "mislabelled_greedy"),
    ("exclusions", lambda r: r["reason"] == "timeout_fraction", None, "stair-rhythm: 0 tests"),
    ("splits", lambda r: r["problem_id"] == "train/0", None, "close-readings): expected rl, found in pool None"),
    ("splits", lambda r: r["problem_id"] == "train/0", {"split": "none"}, "on no side of the split"),
    ("splits", lambda r: r["problem_id"] == "train/1", {"split": "test"}, "on different sides"),
    ("clusters", lambda r: r["problem_id"] == "train/2", {"cluster_id": "other"}, "not in one cluster"),
    ("clusters", lambda r: r["problem_id"] == "train/3", {"cluster_id": "0"}, "train/3: in the cluster of"),
    ("generator_attempts", lambda r: r["reason"] == "no_class", {"reason": "no_code"}, "found no_code"),
    ("generator_attempts", lambda r: r["problem_id"] == "test/1", None, "found no attempt"),
    ("executions", lambda r: r["campaign"] == "original", {"status": "timeout"}, "expected to pass every original"),
]


@pytest.mark.parametrize(("table", "which", "change", "says"), CHANGES, ids=[c[3] for c in CHANGES])
def test_a_difference_is_named(promised, tmp_path, table, which, change, says):
    out = tmp_path / "out"
    shutil.copytree(promised, out)
    rows = pq.read_table(*target(out, table)).to_pylist()
    assert any(which(row) for row in rows)
    changed = [row if not which(row) else {**row, **change} for row in rows if change or not which(row)]
    write_table(out, table, changed)
    assert any(says in line for line in check.check_expected(out))


def test_an_incorrect_solution_that_passes_is_named(promised, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(promised, out)
    ids = {row["slug"]: row["id"] for row in assemble.expected()["rows"]}
    entity, problem, solution = check._solution_key(ids, assemble.expected()["caught"][0]["file"])
    passed = {"stage": "filter_correctness", "entity": entity, "reason": "passes_suite"}
    rows = pq.read_table(*target(out, "exclusions")).to_pylist()
    write_table(out, "exclusions", [*rows, {**passed, "problem_id": problem, "entity_id": solution}])
    assert any("passes the suite" in line for line in check.check_expected(out))
