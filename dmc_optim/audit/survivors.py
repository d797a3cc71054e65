"""What survives each stage, in SQL: rows that no exclusion of that stage or an earlier one names.

For every stage S there are `survivors_S_problems`, `survivors_S_solutions`, `survivors_S_tests` (all columns of
the table) and `survivors_S` (entity, problem_id, entity_id, label), which unites the three. Solutions and tests
need a surviving problem; a generated test exists from its campaign's synthesis on.

`fates` has one row for every malformed row, problem, solution and test, and for every solution that ingest set aside
(with an empty label): the stage, reason and figures that dropped it (`problem_dropped` with its problem's stage when it
fell with its problem), or nulls when it survives everything.
"""

from collections.abc import Iterator

from schemas.enums import ORIGINAL_CATEGORIES, Category, Stage

_BORN = {Category.CORRECTNESS: Stage.SYNTHESIZE_CORRECTNESS, Category.OPTIMIZATION: Stage.SYNTHESIZE_OPTIMIZATION}


def stages_until(stage: Stage) -> list[Stage]:
    """That stage and all before it, in build order."""
    order = list(Stage)
    return order[: order.index(stage) + 1]


def categories_at(stage: Stage) -> list[Category]:
    """Categories of the tests that exist when the stage is done."""
    until = stages_until(stage)
    return [*ORIGINAL_CATEGORIES, *(category for category, born in _BORN.items() if born in until)]


def survivor_views() -> Iterator[tuple[str, str]]:
    """(view name, SELECT) for every stage and entity."""
    for stage in Stage:
        name = f"survivors_{stage}"
        until = _quoted(stages_until(stage))
        problem_lives = f"x.problem_id IN (SELECT problem_id FROM {name}_problems)"
        yield f"{name}_problems", f"SELECT x.* FROM problems x WHERE {_not_excluded('problem', until)}"
        yield (
            f"{name}_solutions",
            f"SELECT x.* FROM solutions x WHERE {problem_lives} AND {_not_excluded('solution', until)}",
        )
        yield (
            f"{name}_tests",
            f"SELECT x.* FROM tests x WHERE {problem_lives} AND {_not_excluded('test', until)} "
            f"AND x.category IN ({_quoted(categories_at(stage))})",
        )
        yield (
            name,
            f"SELECT 'problem' AS entity, problem_id, problem_id AS entity_id, '' AS label FROM {name}_problems "
            f"UNION ALL SELECT 'solution', problem_id, solution_id, label FROM {name}_solutions "
            f"UNION ALL SELECT 'test', problem_id, test_id, category FROM {name}_tests",
        )


def fates_view() -> str:
    """SELECT entity, problem_id, entity_id, label, stage, reason, value, threshold, detail."""
    decided = "e.stage, e.reason, e.value, e.threshold, e.detail"
    parts = [
        f"SELECT 'row' AS entity, e.problem_id, e.entity_id, '' AS label, {decided} FROM exclusions e "
        "WHERE e.entity = 'row'",
        f"SELECT 'problem', x.problem_id, x.problem_id, '', {decided} FROM problems x "
        "LEFT JOIN exclusions e ON e.entity = 'problem' AND e.problem_id = x.problem_id",
        f"SELECT 'solution', e.problem_id, e.entity_id, '', {decided} FROM exclusions e "
        f"WHERE e.entity = 'solution' AND e.stage = '{Stage.INGEST}'",
    ]
    for entity, table, label in (("solution", "solutions", "label"), ("test", "tests", "category")):
        parts.append(
            f"SELECT '{entity}', x.problem_id, x.{entity}_id, x.{label}, coalesce(e.stage, p.stage), "
            "CASE WHEN e.stage IS NULL AND p.stage IS NOT NULL THEN 'problem_dropped' ELSE e.reason END, "
            f"e.value, e.threshold, coalesce(e.detail, p.reason) FROM {table} x "
            f"LEFT JOIN exclusions e ON e.entity = '{entity}' AND e.problem_id = x.problem_id "
            f"AND e.entity_id = x.{entity}_id "
            "LEFT JOIN exclusions p ON p.entity = 'problem' AND p.problem_id = x.problem_id"
        )
    return " UNION ALL ".join(parts)


def _not_excluded(entity: str, stages: str) -> str:
    same = "" if entity == "problem" else f" AND e.entity_id = x.{entity}_id"
    return (
        f"NOT EXISTS (SELECT 1 FROM exclusions e WHERE e.entity = '{entity}' AND e.problem_id = x.problem_id{same} "
        f"AND e.stage IN ({stages}))"
    )


def _quoted(values: list[Stage] | list[Category]) -> str:
    return ", ".join(f"'{value}'" for value in values)
