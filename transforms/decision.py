"""What a stage decides about one problem, and how decisions are counted: one convention for all stages.

A rule only decides (Keep is the absence of a Drop); exclusions rows and the attrition ledger are made here, in one
place, from the state before and the decision.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from schemas.enums import Category, Entity, Label, Reason, Stage

CountKey = tuple[str, str, str]  # entity, label, reason or one of the three below
N_IN, N_OUT, N_CREATED = "n_in", "n_out", "n_created"


@dataclass(frozen=True)
class Drop:
    """Why something does not survive: the reason, the figure that decided, what it was compared with."""

    reason: str
    value: float | None = None
    threshold: float | None = None
    detail: str = ""


@dataclass
class ProblemState:
    """What has survived of one problem: labels of its solutions, categories of its tests, by id."""

    problem_id: str
    solutions: dict[str, str] = field(default_factory=dict)
    tests: dict[str, str] = field(default_factory=dict)

    def solutions_of(self, label: Label) -> list[str]:
        """Ids of one label, sorted."""
        return sorted(s for s, own in self.solutions.items() if own == label)

    def tests_of(self, *categories: Category) -> list[str]:
        """Ids of some categories, sorted."""
        return sorted(t for t, own in self.tests.items() if own in categories)


@dataclass
class Decision:
    """A stage's verdict on one problem, and the rows it writes for it.

    created: rows for `tests` that the stage makes. duplicates: created ones that collapsed, by category.
    attempts: rejected attempts by number, of n_attempts. rows: rows for other tables, as Arrow where they are many.
    """

    problem: Drop | None = None
    solutions: dict[str, Drop] = field(default_factory=dict)
    tests: dict[str, Drop] = field(default_factory=dict)
    attempts: dict[str, Drop] = field(default_factory=dict)
    n_attempts: int = 0
    created: list[dict[str, Any]] = field(default_factory=list)
    duplicates: Counter[str] = field(default_factory=Counter)
    rows: dict[str, list[dict[str, Any]] | pa.Table] = field(default_factory=dict)


def exclusion(stage: str, entity: Entity, problem_id: str, entity_id: str, drop: Drop) -> dict[str, Any]:
    """One row of `exclusions`."""
    return {
        "stage": stage,
        "entity": entity.value,
        "problem_id": problem_id,
        "entity_id": entity_id,
        "reason": str(drop.reason),
        "value": None if drop.value is None else float(drop.value),
        "threshold": None if drop.threshold is None else float(drop.threshold),
        "detail": drop.detail,
    }


def exclusions(stage: Stage, state: ProblemState, decision: Decision) -> list[dict[str, Any]]:
    """The exclusions rows of a decision: the problem's own, then its solutions', tests' and attempts'."""
    pid = state.problem_id
    rows = []
    if decision.problem is not None:
        rows.append(exclusion(stage, Entity.PROBLEM, pid, pid, decision.problem))
    for entity, drops in (
        (Entity.SOLUTION, decision.solutions),
        (Entity.TEST, decision.tests),
        (Entity.ATTEMPT, decision.attempts),
    ):
        rows += [exclusion(stage, entity, pid, key, drop) for key, drop in drops.items()]
    return rows


def after(state: ProblemState, decision: Decision) -> ProblemState | None:
    """What survives the decision; None when the problem does not."""
    if decision.problem is not None:
        return None
    solutions = {s: label for s, label in state.solutions.items() if s not in decision.solutions}
    tests = state.tests | {row["test_id"]: row["category"] for row in decision.created}
    tests = {t: category for t, category in tests.items() if t not in decision.tests}
    return ProblemState(state.problem_id, solutions, tests)


def tally(state: ProblemState, decision: Decision) -> Counter[CountKey]:
    """Counts of one decision for the attrition ledger. Survivors are counted, not computed as a difference."""
    counts: Counter[CountKey] = Counter()
    survivor = after(state, decision)
    counts[Entity.PROBLEM, "", N_IN] += 1
    if decision.problem is not None:
        counts[Entity.PROBLEM, "", decision.problem.reason] += 1
    else:
        counts[Entity.PROBLEM, "", N_OUT] += 1
    for label in state.solutions.values():
        counts[Entity.SOLUTION, label, N_IN] += 1
    for category in state.tests.values():
        counts[Entity.TEST, category, N_IN] += 1
    _tally_kept(counts, survivor)
    created = Counter(row["category"] for row in decision.created)
    for category, number in (created + decision.duplicates).items():
        counts[Entity.TEST, category, N_CREATED] += number
    for category, number in decision.duplicates.items():
        counts[Entity.TEST, category, Reason.DUPLICATE] += number
    _tally_dropped(counts, Entity.SOLUTION, state.solutions, decision.solutions, survivor is None)
    tests = state.tests | {row["test_id"]: row["category"] for row in decision.created}
    _tally_dropped(counts, Entity.TEST, tests, decision.tests, survivor is None)
    if decision.n_attempts:
        counts[Entity.ATTEMPT, "", N_CREATED] += decision.n_attempts
        counts[Entity.ATTEMPT, "", N_OUT] += decision.n_attempts - len(decision.attempts)
        for drop in decision.attempts.values():
            counts[Entity.ATTEMPT, "", drop.reason] += 1
    return Counter({(str(e), str(label), str(r)): n for (e, label, r), n in counts.items()})


def _tally_kept(counts: Counter[CountKey], survivor: ProblemState | None) -> None:
    if survivor is None:
        return
    for label in survivor.solutions.values():
        counts[Entity.SOLUTION, label, N_OUT] += 1
    for category in survivor.tests.values():
        counts[Entity.TEST, category, N_OUT] += 1


def _tally_dropped(
    counts: Counter[CountKey], entity: Entity, labels: dict[str, str], drops: dict[str, Drop], problem_dropped: bool
) -> None:
    for key, label in labels.items():
        if key in drops:
            counts[entity, label, drops[key].reason] += 1
        elif problem_dropped:
            counts[entity, label, Reason.PROBLEM_DROPPED] += 1


def attrition_rows(stage: str, counts: dict[CountKey, int]) -> list[dict[str, Any]]:
    """Rows of `attrition` from summed counts: one a reason, and the `total` of every entity and label."""
    figures = (N_IN, N_OUT, N_CREATED)
    rows = []
    for entity, label in sorted({key[:2] for key in counts}):
        dropped = {
            reason: number
            for (e, own, reason), number in counts.items()
            if (e, own) == (entity, label) and reason not in figures
        }
        common = {"stage": stage, "entity": entity, "label": label}
        for reason, number in sorted(dropped.items()):
            rows.append({**common, "reason": reason, **dict.fromkeys(figures), "n_dropped": number})
        total = {name: counts.get((entity, label, name), 0) for name in figures}
        rows.append({**common, "reason": Reason.TOTAL.value, **total, "n_dropped": sum(dropped.values())})
    return rows
