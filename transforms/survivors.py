"""What has survived the earlier stages, read from the tables: everything ingested or made, less the exclusions."""

from collections import defaultdict

from schemas.enums import Entity
from transforms.context import StageContext
from transforms.decision import ProblemState

_THIN = {
    "problems": ["problem_id"],
    "solutions": ["problem_id", "solution_id", "label"],
    "tests": ["problem_id", "test_id", "category"],
    "exclusions": ["entity", "problem_id", "entity_id"],
}


def survivors(context: StageContext, shard: int, stages: tuple[str, ...] | None = None) -> dict[str, ProblemState]:
    """State of every problem of a shard after `stages` (default: all before this one), by id, sorted.

    Reads no text columns.
    """
    tables = {
        name: context.layout.rows(name, stages=stages or context.earlier, shard=shard, columns=columns)
        for name, columns in _THIN.items()
    }
    dropped: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in tables["exclusions"]:
        dropped[row["entity"]].add((row["problem_id"], row["entity_id"]))
    states = {
        row["problem_id"]: ProblemState(row["problem_id"])
        for row in sorted(tables["problems"], key=lambda row: row["problem_id"])
        if (row["problem_id"], row["problem_id"]) not in dropped[Entity.PROBLEM]
    }
    for row in tables["solutions"]:
        if row["problem_id"] in states and (row["problem_id"], row["solution_id"]) not in dropped[Entity.SOLUTION]:
            states[row["problem_id"]].solutions[row["solution_id"]] = row["label"]
    for row in tables["tests"]:
        if row["problem_id"] in states and (row["problem_id"], row["test_id"]) not in dropped[Entity.TEST]:
            states[row["problem_id"]].tests[row["test_id"]] = row["category"]
    return states
