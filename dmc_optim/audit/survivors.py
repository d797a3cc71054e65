"""What survives each stage, in SQL: rows that no exclusion of that stage or an earlier one names.

For every stage S there are `survivors_S_problems`, `survivors_S_solutions`, `survivors_S_tests` (all columns of
the table) and `survivors_S` (entity, problem_id, entity_id, label), which unites the three. Solutions and tests
need a surviving problem; a generated test exists from its campaign's synthesis on.
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


def _not_excluded(entity: str, stages: str) -> str:
    same = "" if entity == "problem" else f" AND e.entity_id = x.{entity}_id"
    return (
        f"NOT EXISTS (SELECT 1 FROM exclusions e WHERE e.entity = '{entity}' AND e.problem_id = x.problem_id{same} "
        f"AND e.stage IN ({stages}))"
    )


def _quoted(values: list[Stage] | list[Category]) -> str:
    return ", ".join(f"'{value}'" for value in values)
