"""The sandbox of one slot over time: started when needed, recycled, replaced when it breaks; its empty-run baseline."""

import shutil
import statistics
from dataclasses import dataclass, field, replace

from dmc_optim.ces.comparators import Comparator
from dmc_optim.ces.engine.cgroups import CgroupV1, CgroupV2, SlotCgroup
from dmc_optim.ces.engine.clocks import Baseline, Timing
from dmc_optim.ces.engine.launch import Isolation, make_scratch
from dmc_optim.ces.engine.process_table import ProcessTable
from dmc_optim.ces.engine.protocol import Configure, OpenProgram
from dmc_optim.ces.engine.sandbox import EMPTY_ONLY, EMPTY_RUN, Compiled, Lost, Run, Sandbox, Watch
from dmc_optim.ces.engine.steal import StealMeter
from dmc_optim.ces.engine.verdict import Outcome
from dmc_optim.ces.types import Limits

_FIRST_EMPTY_RUNS = 15
_EMPTY_RUNS = 5
_RECYCLE_RUNS = 20_000
_KEPT_RUNS = 1_000  # of one compiled program: its forks use up the CPU time that the template is limited to


@dataclass
class Program:
    """The program at hand.

    failure: why it does not compile, once that is known. kept: whether it stays compiled for later requests.
    """

    opened: OpenProgram
    code: bytes
    compare: Comparator
    failure: Outcome | None = None
    baseline: Baseline = field(default_factory=Baseline)
    kept: bool = False

    @property
    def once(self) -> bool:
        """Whether it will run only once, so that compiling and running share a process."""
        return self.opened.tests_ahead == 1 and not self.kept

    @property
    def expected_runs(self) -> int:
        """How many runs are prepared ahead of their tests."""
        return _KEPT_RUNS if self.kept else self.opened.tests_ahead

    def same_as(self, other: "Program") -> bool:
        """Whether a template compiled for this one serves the other."""
        return self.opened.limits == other.opened.limits and self.code == other.code


class Runner:
    """Runs programs in the slot's sandbox.

    watch: see Sandbox. Raises Lost when the sandbox broke (call `drop`, then try again), Cancelled from `watch`.
    """

    def __init__(self, configure: Configure, watch: Watch) -> None:
        self._configure = configure
        self._watch = watch
        self._cgroup = _accounting(configure)
        self._scratch = "" if configure.tier.namespaces else make_scratch()
        self._steal = StealMeter(configure.core)
        self._sandbox: Sandbox | None = None
        self._tmp_bytes = Limits().tmp_bytes
        self._runs = self._compiled_at = 0
        self._baselines: dict[tuple[bool, str], Baseline] = {}

    def prepare(self) -> Baseline:
        """Start the sandbox and measure empty runs."""
        for once in (False, True):
            self._baselines[once, ""] = self._empty_runs(b"", once, _FIRST_EMPTY_RUNS, Limits())
        self.end_program()
        return self._baselines[False, ""]

    def run(self, program: Program, stdin: bytes | int, keep_output: bool) -> Run | None:
        """One run of a program; None, and program.failure says why, when it does not compile."""
        if program.failure is not None:
            return None
        limits = program.opened.limits
        sandbox = self._started(limits)
        self._runs += 1
        if program.once:
            self._steal.before()
            done = sandbox.run_once(program.code, stdin, limits, keep_output)
            program.failure = done.compiled.failure
            if done.run is None:
                return None
            run = self._with_steal(done.run)
            self._find_baseline(program, done.compiled)
            return run
        if not sandbox.has_program:
            compiled = sandbox.compile(program.code, limits, program.expected_runs)
            self._compiled_at = self._runs
            program.failure = compiled.failure
            if program.failure is not None:
                return None
            self._find_baseline(program, compiled)
        self._steal.before()
        return self._with_steal(sandbox.run(stdin, limits, keep_output))

    def goes_on(self) -> bool:
        """Whether the compiled program takes further runs."""
        sandbox = self._sandbox
        return sandbox is not None and sandbox.has_program and self._runs - self._compiled_at < _KEPT_RUNS

    def end_program(self) -> None:
        """The program at hand will not run again."""
        if self._sandbox is not None:
            self._sandbox.end_program()

    def drop(self) -> None:
        """Take the sandbox down; the next run starts another."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def close(self) -> None:
        """Take everything down."""
        self.drop()
        self._cgroup.remove()
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _find_baseline(self, program: Program, compiled: Compiled) -> None:
        """The baseline of programs of its kind: run once or several times, with these modules imported."""
        kind = program.once, compiled.preloaded
        if kind not in self._baselines:
            self._baselines[kind] = self._empty_runs(program.code, program.once, _EMPTY_RUNS, program.opened.limits)
        program.baseline = self._baselines[kind]

    def _empty_runs(self, code: bytes, once: bool, count: int, limits: Limits) -> Baseline:
        """Median clocks of runs that execute nothing, with the modules of a program imported."""
        sandbox = self._started(limits)
        timings: list[Timing] = []
        if not once and not sandbox.has_program:
            sandbox.compile(code, limits, count)
        for _ in range(count):
            if once:
                run = sandbox.run_once(code, b"", limits, kind=EMPTY_ONLY).run
            else:
                run = sandbox.run(b"", limits, kind=EMPTY_RUN)
            if run is None:
                raise Lost("an empty program does not run")
            timings.append(run.timing)
        cpu = statistics.median(timing.cpu_s for timing in timings)
        return Baseline(cpu, statistics.median(timing.wall_s for timing in timings))

    def _with_steal(self, run: Run) -> Run:
        return replace(run, timing=replace(run.timing, steal_s=self._steal.after(run.timing.wall_s)))

    def _started(self, limits: Limits) -> Sandbox:
        """A running sandbox with the scratch size asked for, recycled now and then."""
        stale = limits.tmp_bytes != self._tmp_bytes or self._runs > _RECYCLE_RUNS
        if self._sandbox is not None and (self._sandbox.broken or (stale and not self._sandbox.has_program)):
            self.drop()
        if self._sandbox is None:
            self._runs = 0
            self._tmp_bytes = limits.tmp_bytes
            configure = self._configure
            isolation = Isolation(
                configure.tier.namespaces,
                configure.outer_uids,
                configure.core,
                limits.tmp_bytes,
                self._scratch,
                configure.tier.limits_by_cgroup,
            )
            self._sandbox = Sandbox(configure.interpreter, isolation, self._cgroup, self._watch)
        return self._sandbox


def _accounting(configure: Configure) -> SlotCgroup:
    plan = configure.cgroups
    if plan.version == 1:
        return CgroupV1(plan.parents, configure.name)
    if plan.version == 2:
        return CgroupV2(plan.parents[""], configure.name)
    return ProcessTable()
