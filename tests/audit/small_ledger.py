"""The ledger of a small build: attrition of every stage, entity and label, counted row by row."""

from collections import Counter
from typing import Any

from schemas.enums import Stage

Row = dict[str, Any]
STAGES = [stage.value for stage in Stage]
BORN = {"correctness": "synthesize_correctness", "optimization": "synthesize_optimization"}


def ledger_of(tables: dict[str, list[Row]]) -> list[Row]:
    """Attrition of every stage, entity and label, counted."""
    labels = {(s["problem_id"], s["solution_id"]): s["label"] for s in tables["solutions"]}
    categories = {(t["problem_id"], t["test_id"]): t["category"] for t in tables["tests"]}
    excluded: dict[str, list[Row]] = {stage: [] for stage in STAGES}
    for row in tables["exclusions"]:
        excluded[row["stage"]].append(row)
    alive: dict[str, set[tuple[str, str]]] = {"problem": set(), "solution": set(), "test": set()}
    ledger: list[Row] = []
    malformed = sum(row["entity"] == "row" for row in tables["exclusions"])
    for stage in STAGES[:-1]:
        drops: Counter[tuple[str, str, str]] = Counter()
        before = {
            entity: Counter(_label(entity, key, labels, categories) for key in keys) for entity, keys in alive.items()
        }
        if stage == "ingest":
            alive["problem"] = {(p["problem_id"], p["problem_id"]) for p in tables["problems"]}
            alive["solution"] = set(labels)
        alive["test"] |= {key for key, category in categories.items() if BORN.get(category, "ingest") == stage}
        created = {
            entity: Counter(_label(entity, key, labels, categories) for key in keys) - before[entity]
            for entity, keys in alive.items()
        }
        for row in excluded[stage]:
            key = (row["problem_id"], row["entity_id"])
            if row["entity"] in alive and key in alive[row["entity"]]:
                alive[row["entity"]].remove(key)
                drops[row["entity"], _label(row["entity"], key, labels, categories), row["reason"]] += 1
        living = {problem for problem, _ in alive["problem"]}
        for entity in ("solution", "test"):
            for key in [key for key in alive[entity] if key[0] not in living]:
                alive[entity].remove(key)
                drops[entity, _label(entity, key, labels, categories), "problem_dropped"] += 1
        if stage == "ingest":
            n = len(tables["problems"])
            drops["row", "", "malformed_row"] = malformed
            ledger.append(_total(stage, "row", "", 0, n + malformed, n, malformed))
        if stage in BORN.values():
            campaign = stage.removeprefix("synthesize_")
            attempts = [row for row in tables["generator_attempts"] if row["campaign"] == campaign]
            rejected = [row for row in attempts if not row["accepted"]]
            ledger.append(_total(stage, "attempt", "", 0, len(attempts), len(attempts) - len(rejected), len(rejected)))
            for reason, n in Counter(row["reason"] for row in rejected).items():
                drops["attempt", "", reason] = n
        for entity, keys in alive.items():
            after = Counter(_label(entity, key, labels, categories) for key in keys)
            for label in before[entity] | created[entity] | after:
                lost = sum(n for (e, name, _), n in drops.items() if (e, name) == (entity, label))
                counts = (before[entity][label], created[entity][label], after[label], lost)
                ledger.append(_total(stage, entity, label, *counts))
        for (entity, label, reason), n in drops.items():
            row = {"stage": stage, "entity": entity, "label": label, "reason": reason, "n_dropped": n}
            ledger.append(row | {"n_in": None, "n_out": None, "n_created": None})
    return ledger


def _label(entity: str, key: tuple[str, str], labels: dict[Any, str], categories: dict[Any, str]) -> str:
    return labels[key] if entity == "solution" else categories[key] if entity == "test" else ""


def _total(stage: str, entity: str, label: str, n_in: int, n_created: int, n_out: int, n_dropped: int) -> Row:
    row = {"stage": stage, "entity": entity, "label": label, "reason": "total", "n_in": n_in}
    return row | {"n_created": n_created, "n_out": n_out, "n_dropped": n_dropped}
