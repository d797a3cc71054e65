"""What this host can isolate: every tier tried by running a program in it, with reasons and what to change."""

import os
from dataclasses import asdict, dataclass
from typing import Any

from dmc_optim.ces.engine import admission, interpreter, landlock, tiers
from dmc_optim.ces.engine.tiers import Tier
from dmc_optim.errors import DmcOptimError

_SMOKE = b"import os\nprint(sum(map(int, input().split())))\n"


@dataclass(frozen=True)
class TierFinding:
    """One tier: whether a program ran in it, and if not, why and what to do."""

    tier: Tier
    works: bool
    reasons: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything `ces doctor` says. slots: how many executions at once the host can hold."""

    findings: tuple[TierFinding, ...]
    best: Tier | None
    slots: int
    cores: int
    interpreter: str
    packages: tuple[str, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def examine(executable: str = "") -> Report:
    """Try every tier on this host. Raises EngineError when the interpreter itself does not start."""
    facts = tiers.read_facts()
    found = interpreter.find(executable)
    findings = tuple(_tried(report, executable) for report in tiers.assess(facts))
    best = next((finding.tier for finding in findings if finding.works), None)
    cores = len(os.sched_getaffinity(0))
    return Report(
        findings=findings,
        best=best,
        slots=admission.possible_slots(),
        cores=cores,
        interpreter=found.identity,
        packages=tuple(name for name in interpreter.PACKAGES if any(inner == name for _, inner in found.packages)),
        notes=tuple(_notes(facts, best, cores)),
    )


def _tried(report: tiers.TierReport, executable: str) -> TierFinding:
    if not report.possible:
        return TierFinding(report.tier, False, report.missing, report.advice)
    from dmc_optim.ces.engine.embedded import Embedded
    from dmc_optim.ces.types import Request, TestCase

    try:
        with Embedded(1, report.tier, executable=executable) as engine:
            result = next(iter(engine.execute(Request(_SMOKE, (TestCase("sum", b"1 2\n", b"3\n"),)))))
    except DmcOptimError as error:
        return TierFinding(report.tier, False, (str(error),), _advice(str(error)))
    if result.status != "success":
        return TierFinding(report.tier, False, (f"a program ended with {result.status}: {result.detail}",))
    return TierFinding(report.tier, True)


def _advice(trouble: str) -> tuple[str, ...]:
    """What usually helps against a set-up fault."""
    if "unshare" in trouble or "uid_map" in trouble:
        return ("a container runtime or security module forbids user namespaces: allow them, or add CAP_SYS_ADMIN",)
    if "mount proc" in trouble or "/proc" in trouble:
        return ("the container hides parts of /proc: run it with an unmasked /proc",)
    if "Permission denied" in trouble:
        return ("the interpreter must be readable for everybody: install it outside a private home directory",)
    return ()


def _notes(facts: tiers.HostFacts, best: Tier | None, cores: int) -> list[str]:
    notes = []
    if best in (Tier.FULL_V1, Tier.FULL_V2) and not facts.mapped:
        notes.append("programs share the uid of their sandbox, kept apart by seccomp; as root they get their own")
    if best is Tier.RLIMIT and landlock.version() < 1:
        notes.append("this kernel has no Landlock: in tier rlimit programs can read what this user can read")
    if cores < 2:
        notes.append("one core: supervisors and callers run on the core that is measured")
    return notes


def as_text(report: Report) -> str:
    """The report for people."""
    lines = []
    for finding in report.findings:
        mark = "yes" if finding.works else "no "
        lines.append(f"{mark}  {finding.tier:<8} {_MEANING[finding.tier]}")
        lines += [f"       because {reason}" for reason in finding.reasons]
        lines += [f"       change: {advice}" for advice in finding.advice]
    lines.append(f"best tier: {report.best or 'none'}; slots: {report.slots} on {report.cores} cores")
    lines.append(f"interpreter: {report.interpreter}")
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(lines)


_MEANING = {
    Tier.FULL_V2: "own files, processes, network; memory and processes limited by cgroup v2",
    Tier.FULL_V1: "own files, processes, network; memory and processes limited by cgroup v1",
    Tier.USERNS: "own files, processes, network; memory by polling, processes by rlimit",
    Tier.RLIMIT: "host files by Landlock only, host processes visible; limits by polling and rlimit",
}
