"""What a campaign will execute: sampled problems, their references, their optimization tests, R times (paper C.7)."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dmc_optim.artifacts.layout import Layout
from dmc_optim.audit.settings import stored_config
from dmc_optim.config import digest
from dmc_optim.errors import ArtifactError
from schemas.enums import Category, Pool, Status

UNIT_EXECUTIONS = 4096  # what a crash can cost at most
GROUP_CHARS = 32 << 20  # input and output text of the tests that one unit holds in memory
GROUP_TESTS = 64
MIN_REFERENCES = 2  # one to be the candidate, one to rank it against


@dataclass(frozen=True)
class CampaignSettings:
    """How a campaign is drawn. pool: `rl` keeps to duration-filterable problems, `all` takes any with references.

    max_solutions, max_tests: seeded subsample of each problem's references and tests, None for all of them.
    """

    problems: int = 33
    runs: int = 20
    seed: int = 0
    pool: str = "rl"
    max_solutions: int | None = None
    max_tests: int | None = None


@dataclass(frozen=True)
class ProblemPlan:
    """One sampled problem. test_groups: optimization tests in groups that fit into memory together."""

    problem_id: str
    test_groups: tuple[tuple[str, ...], ...]
    solution_ids: tuple[str, ...]
    stored_s: float  # sum of the stored durations of its pairs

    @property
    def test_ids(self) -> tuple[str, ...]:
        """All tests, in the order of the groups."""
        return tuple(test for group in self.test_groups for test in group)

    @property
    def pairs(self) -> int:
        """Executions of one run."""
        return len(self.test_ids) * len(self.solution_ids)


@dataclass(frozen=True)
class Unit:
    """A bounded piece of work: some references of one problem on one group of tests, in one run."""

    name: str
    run: int
    problem: ProblemPlan
    test_ids: tuple[str, ...]
    solution_ids: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """A campaign's work. execution: the envelope of the build, under which the stored durations were measured."""

    settings: CampaignSettings
    execution: dict[str, Any]
    problems: tuple[ProblemPlan, ...]

    @cached_property
    def digest(self) -> str:
        """Two plans with one digest ask for the same executions."""
        return digest(self.to_json())

    @property
    def executions(self) -> int:
        """Executions of the whole campaign."""
        return self.settings.runs * sum(problem.pairs for problem in self.problems)

    @property
    def estimated_s(self) -> float:
        """Time on one core if nothing had changed since the durations were stored."""
        return self.settings.runs * sum(problem.stored_s for problem in self.problems)

    def units(self) -> Iterator[Unit]:
        """All units; each run visits the problems in an order of its own, so that a disturbance hits no problem more.

        A run is complete before the next begins: repeated measurements of a triple lie far apart in time.
        """
        for run in range(self.settings.runs):
            order = list(range(len(self.problems)))
            random.Random(f"{self.settings.seed}/{run}").shuffle(order)
            for index in order:
                yield from _problem_units(index, self.problems[index], run)

    def to_json(self) -> dict[str, Any]:
        """As stored in the campaign's plan.json."""
        return {
            "settings": asdict(self.settings),
            "execution": self.execution,
            "problems": [asdict(problem) for problem in self.problems],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], where: str) -> "Plan":
        """The reverse. Raises ArtifactError for a broken file."""
        try:
            problems = tuple(
                ProblemPlan(
                    p["problem_id"],
                    tuple(tuple(group) for group in p["test_groups"]),
                    tuple(p["solution_ids"]),
                    p["stored_s"],
                )
                for p in data["problems"]
            )
            return cls(CampaignSettings(**data["settings"]), data["execution"], problems)
        except (KeyError, TypeError) as error:
            raise ArtifactError(f"{where}: not a calibration plan ({error}); move the folder away") from error


def make_plan(layout: Layout, settings: CampaignSettings) -> Plan:
    """Sample problems of a built artifact (seeded) and list their references and optimization tests.

    Fewer eligible problems than asked for are all taken. Raises ArtifactError when the build has no reference
    durations, or fewer than two eligible problems.
    """
    execution = asdict(stored_config(layout.manifest()).execution)
    names = _candidates(layout, settings.pool)
    random.Random(settings.seed).shuffle(names)
    problems: list[ProblemPlan] = []
    for name in names:
        if len(problems) == settings.problems:
            break
        problem = _plan_problem(layout, name, settings)
        if problem is not None:
            problems.append(problem)
    if len(problems) < 2:
        raise ArtifactError(
            f"{layout.out}: {len(problems)} of {len(names)} problems of pool '{settings.pool}' have optimization tests "
            f"with at least {MIN_REFERENCES} timed references, calibration needs 2; try --pool all, or a larger build"
        )
    return Plan(settings, execution, tuple(sorted(problems, key=lambda problem: problem.problem_id)))


def _candidates(layout: Layout, pool: str) -> list[str]:
    timed = set(layout.read("reference_durations", columns=["problem_id"])["problem_id"].unique().to_pylist())
    if not timed:
        raise ArtifactError(
            f"{layout.out}: no reference durations; `ces calibrate` needs a build that went through stage 'datasets'"
        )
    if pool == "all":
        return sorted(timed)
    splits = layout.read("splits", columns=["problem_id", "pool"]).to_pylist()
    return sorted(row["problem_id"] for row in splits if row["pool"] == Pool.RL and row["problem_id"] in timed)


def _plan_problem(layout: Layout, problem_id: str, settings: CampaignSettings) -> ProblemPlan | None:
    """None for a problem without optimization tests, or with too few references timed on them."""
    tests = layout.read("tests", columns=["test_id", "category", "n_chars"], problem_id=problem_id).to_pylist()
    chars = {row["test_id"]: row["n_chars"] for row in tests if row["category"] == Category.OPTIMIZATION}
    columns = ["test_id", "solution_id", "duration_s", "status"]
    timed = [
        row
        for row in layout.read("reference_durations", columns=columns, problem_id=problem_id).to_pylist()
        if row["test_id"] in chars and row["status"] == Status.SUCCESS and row["duration_s"]
    ]
    solutions = _subsample(sorted({row["solution_id"] for row in timed}), settings.max_solutions, settings.seed)
    test_ids = _subsample(sorted({row["test_id"] for row in timed}), settings.max_tests, settings.seed)
    if len(solutions) < MIN_REFERENCES or not test_ids:
        return None
    chosen = set(solutions), set(test_ids)
    stored_s = sum(r["duration_s"] for r in timed if r["solution_id"] in chosen[0] and r["test_id"] in chosen[1])
    return ProblemPlan(problem_id, _groups(test_ids, chars), tuple(solutions), round(stored_s, 6))


def _subsample(names: list[str], limit: int | None, seed: int) -> list[str]:
    if limit is None or limit >= len(names):
        return names
    return sorted(random.Random(f"{seed}/{len(names)}").sample(names, limit))


def _groups(test_ids: Sequence[str], chars: dict[str, int]) -> tuple[tuple[str, ...], ...]:
    groups: list[tuple[str, ...]] = []
    current: list[str] = []
    size = 0
    for test_id in test_ids:
        if current and (len(current) == GROUP_TESTS or size + chars[test_id] > GROUP_CHARS):
            groups.append(tuple(current))
            current, size = [], 0
        current.append(test_id)
        size += chars[test_id]
    return (*groups, tuple(current)) if current else tuple(groups)


def _problem_units(index: int, problem: ProblemPlan, run: int) -> Iterator[Unit]:
    number = 0
    for group in problem.test_groups:
        step = max(1, UNIT_EXECUTIONS // len(group))
        for start in range(0, len(problem.solution_ids), step):
            name = f"p{index:04d}-r{run:03d}-u{number:05d}"
            yield Unit(name, run, problem, group, problem.solution_ids[start : start + step])
            number += 1
