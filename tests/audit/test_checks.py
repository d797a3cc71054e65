"""Every cross-table check and every table's own rule catches a planted violation, and nothing in a sound build."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from dmc_optim.audit.recompute import recompute_round
from schemas import TABLES
from schemas.enums import Campaign
from tests.audit.memory import CHECKS, CONFIG, connect, violations
from tests.audit.small_build import SmallBuild

Plant = Callable[[SmallBuild], None]


def change(table: str, values: dict, **where: object) -> Plant:
    """Change the first row with these values."""

    def plant(build: SmallBuild) -> None:
        build.rows(table, **where)[0].update(values)

    return plant


def named(table: str, values: dict, name: str, column: str, **where: object) -> Plant:
    """Change the first row whose column holds the id behind a short name."""

    def plant(build: SmallBuild) -> None:
        build.rows(table, **{column: build.id(name)}, **where)[0].update(values)

    return plant


def remove(table: str, name: str = "", column: str = "", **where: object) -> Plant:
    """Remove the first such row."""

    def plant(build: SmallBuild) -> None:
        own = {column: build.id(name)} if name else {}
        build.tables[table].remove(build.rows(table, **own, **where)[0])

    return plant


def exclude(stage: str, entity: str, problem: str, name: str, reason: str, recount: bool = True) -> Plant:
    """Add an exclusions row, and make the ledger agree with it."""

    def plant(build: SmallBuild) -> None:
        build._exclude(stage, entity, problem, build.id(name) if name else problem, reason)
        if recount:
            build.recount()

    return plant


def drop_exclusion(reason: str, recount: bool = True) -> Plant:
    """Forget an exclusion, in the ledger too."""

    def plant(build: SmallBuild) -> None:
        build.tables["exclusions"].remove(build.rows("exclusions", reason=reason)[0])
        if recount:
            build.recount()

    return plant


def unverified(campaign: str) -> Plant:
    """An incorrect solution vouches for outputs."""

    def plant(build: SmallBuild) -> None:
        build.rows("consensus", campaign=campaign, problem_id="train/0")[0]["solution_id"] = build.id("0/w1")

    return plant


PLANTED: dict[str, Plant] = {
    "problems: id of its split": change("problems", {"source_split": "valid"}),
    "clusters: named by its smallest member": change("clusters", {"cluster_id": "train/9"}, problem_id="train/8"),
    "solutions: id of its code": change("solutions", {"code": "print(2)"}),
    "tests: id of its texts": change("tests", {"output": "another\n"}),
    "tests: length": change("tests", {"n_chars": 3}),
    "tests: attempt of generated tests": change("tests", {"generator_attempt": None}, category="correctness"),
    "executions: verdicts have a duration": change("executions", {"duration_s": None}),
    "consensus: only normal exits take part": change("consensus", {"status": "timeout"}),
    "consensus: agreement needs outputs": change("consensus", {"outputs_sha256": None}, agreed=True),
    "generator_attempts: rejected for a reason": change("generator_attempts", {"reason": None}, accepted=False),
    "generator_attempts: rejected gives no tests": change("generator_attempts", {"n_tests": 3}, accepted=False),
    "generator_attempts: two must agree": change("generator_attempts", {"n_agreeing": 1}, accepted=True),
    "exclusions: problems name themselves": change("exclusions", {"entity_id": ""}, entity="problem"),
    "attrition: only totals count survivors": change("attrition", {"n_in": 1}, reason="file_io"),
    "attrition: conservation": change("attrition", {"n_out": 999}, reason="total"),
    "attrition: label of its entity": change("attrition", {"label": "public"}, entity="solution"),
    "problem_metrics: no more out than in": change("problem_metrics", {"n_correct_out": 99}),
    "problem_metrics: removing tests never lowers a pass rate": change("problem_metrics", {"fp_raw": 0.9}),
    "problem_metrics: correct pass rates are monotone": change("problem_metrics", {"correct_pass_final": 0.1}),
    "filterability: not filterable for a reason": change("filterability", {"reason": None}, reason="low_cv"),
    "filterability: correlation": change("filterability", {"pearson_r": 1.5}),
    "attrition: total is the sum of the reasons": change("attrition", {"n_dropped": 5}, reason="file_io"),
    "attrition: stages follow on": change(
        "attrition", {"n_in": 12}, stage="complete", entity="problem", reason="total"
    ),
    "attrition: survivors recounted": change(
        "attrition", {"n_out": 3}, stage="split", entity="problem", reason="total"
    ),
    "attrition: every drop is explained": drop_exclusion("timeout_fraction", recount=False),
    "attrition: rows become problems": change("attrition", {"n_out": 8}, entity="row", reason="total"),
    "exclusions: dropped once": exclude("complete", "problem", "train/4", "", "no_optimization_tests"),
    "executions: campaign of its test": change("executions", {"campaign": "optimization"}, campaign="original"),
    "executions: verified solutions were run on everything": remove(
        "executions", "1/c2", "solution_id", campaign="optimization"
    ),
    "controls: both labels": drop_exclusion("correct_only"),
    "validate: verified means no failure": named(
        "executions", {"status": "output_limit"}, "0/c1", "solution_id", campaign="original"
    ),
    "validate: both labels left": drop_exclusion("no_correct_left"),
    "complete: both generated suites": drop_exclusion("no_optimization_tests"),
    "consensus: agreement decided": change("generator_attempts", {"n_agreeing": 4}, accepted=True),
    "consensus: agreed are counted": change("consensus", {"agreed": False}, agreed=True),
    "consensus: agreed marks one group": change("consensus", {"agreed": False}, agreed=True),
    "generator_attempts: tests of accepted attempts": change("generator_attempts", {"n_tests": 14}, accepted=True),
    "generator_attempts: rejected ones are excluded": drop_exclusion("no_consensus"),
    "consensus: correctness pool is verified": unverified("correctness"),
    "consensus: optimization pool is verified": unverified("optimization"),
    "filter_correctness: tests removed": drop_exclusion("failure_fraction"),
    "filter_correctness: solutions reclassified": drop_exclusion("passes_suite"),
    "filter_correctness: gates": drop_exclusion("false_positive_rate"),
    "filter_optimization: tests removed": exclude(
        "filter_optimization", "test", "train/0", "0/optimization3", "timeout_fraction"
    ),
    "filter_optimization: solutions reclassified": exclude(
        "filter_optimization", "solution", "train/0", "0/c1", "fails_suite"
    ),
    "filter_optimization: gates": exclude("filter_optimization", "problem", "train/1", "", "correct_drop_rate"),
    "problem_metrics: correctness figures": change("problem_metrics", {"fp_final": 0.0}, problem_id="train/0"),
    "problem_metrics: optimization figures": change(
        "problem_metrics", {"correct_pass_final": 0.5}, campaign="optimization"
    ),
    "filterability: figures": change("filterability", {"robust_cv": 0.9}, category="optimization"),
    "filterability: decision": change("filterability", {"length_filterable": True}, category="original"),
    "filterability: complete": remove("filterability", category="correctness"),
    "filterability: pool": drop_exclusion("low_cv"),
    "splits: whole corpus": remove("splits", problem_id="train/1"),
    "splits: sides of the RL pool only": change("splits", {"split": "train"}, pool="complement"),
    "splits: clusters stay whole": change("splits", {"split": "test"}, problem_id="train/7"),
    "clusters: every survivor of dedup": remove("clusters", problem_id="train/3"),
    "reference_durations: complete": remove("reference_durations"),
    "reference_durations: as measured": change("reference_durations", {"duration_s": 3.0}),
}


@pytest.mark.parametrize("name", PLANTED)
def test_check_catches_a_planted_violation(name: str) -> None:
    build = SmallBuild()
    PLANTED[name](build)
    assert violations(build, name)


def test_a_sound_build_violates_nothing() -> None:
    connection = connect(SmallBuild())
    recompute_round(connection, Campaign.CORRECTNESS, CONFIG.filter_correctness)
    recompute_round(connection, Campaign.OPTIMIZATION, CONFIG.filter_optimization)
    assert {name: rows for name, check in CHECKS.items() if (rows := connection.execute(check.sql).fetchall())} == {}


def test_every_check_that_is_not_generic_has_a_planted_violation() -> None:
    generic = (": unique key", ": not null", ": accepted values", ": range", ": foreign key")
    assert {name for name in CHECKS if not name.endswith(generic)} == PLANTED.keys()


GENERIC = [name for name in CHECKS if name.endswith((": not null", ": accepted values", ": foreign key"))]


def test_generic_checks_catch_planted_violations() -> None:
    """Null, unknown value and dangling reference in every column that forbids them."""
    build = SmallBuild()
    build.tables["generation_usage"] = [
        {"problem_id": "train/0", "campaign": "correctness", "attempt": 0, "model": "m", "prompt_tokens": 1}
    ]
    build.tables["statement_quality"] = [{"problem_id": "train/0", "model": "m", "well_formed": True}]
    build.tables["calibrations"] = [
        {"fit_id": "f", "family": "affine", "coefficients": [1.0], "from_epoch": 0, "to_epoch": 1, "n_pairs": 3}
    ]
    connection = connect(build)
    for name in GENERIC:
        head, kind = name.split(": ")
        table, column = head.split(".")[0], head.split(".")[1].split(" in ")[0].split(",")[0]
        rows = build.tables[table]
        assert connection.execute(CHECKS[name].sql).fetchall() == [], name
        broken = _broken(build, table, column, kind)
        connection.register("broken", broken)
        sql = CHECKS[name].sql.replace(f"FROM {table} ", "FROM broken ", 1)
        assert connection.execute(sql).fetchall(), (name, len(rows))


def _broken(build: SmallBuild, table: str, column: str, kind: str):

    type_ = TABLES[table][column].type
    value = None if kind == "not null" else "nobody" if type_ == pa.string() else 12345
    schema = pa.schema([field.with_nullable(True) for field in TABLES[table].schema])
    rows = [{**row, column: value} for row in build.tables[table] if row.get("entity") != "row"]
    return pa.Table.from_pylist(rows, schema=schema)


def test_a_duplicated_row_violates_every_unique_key() -> None:
    build = SmallBuild()
    for name, table in TABLES.items():
        if build.tables[name]:
            build.tables[name].append(build.tables[name][0])
            assert len(violations(build, f"{name}: unique key")) == 1, table.key


def test_ranges_catch_negative_and_not_a_number() -> None:
    build = SmallBuild()
    build.tables["executions"][0]["duration_s"] = -1.0
    build.tables["executions"][1]["duration_s"] = float("nan")
    assert len(violations(build, "executions.duration_s: range")) == 2


def test_contradictory_labels_count_under_both_labels_with_one_exclusion() -> None:
    build = SmallBuild()
    build._exclude("ingest", "solution", "train/0", "feedfeedfeedfeed", "contradictory_label")
    for label in ("correct", "incorrect"):
        row = {"stage": "ingest", "entity": "solution", "label": label, "reason": "contradictory_label", "n_dropped": 1}
        build.tables["attrition"].append(row | {"n_in": None, "n_out": None, "n_created": None})
    assert violations(build, "attrition: every drop is explained") == []
    build.tables["attrition"].pop()
    assert violations(build, "attrition: every drop is explained")
