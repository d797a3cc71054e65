"""Statuses and clocks of real runs; what a program must not be able to forge."""

import pytest

from dmc_optim.ces import Clock, Limits, Request, Status, TestCase
from dmc_optim.ces.engine.embedded import Embedded
from tests.ces_engine.conftest import Run

BURN = "import time\nend = time.process_time() + {s}\nwhile time.process_time() < end: pass\n"


def test_output_at_the_cap_is_whole_and_one_byte_more_is_the_output_limit(run: Run) -> None:
    code = "import sys\nsys.stdout.write('x' * int(input()))"
    exact = run(code, b"1000000", expected=b"x" * 1000000, output_bytes=1_000_000)
    assert (exact.status, exact.output_truncated, len(exact.output or b"")) == (Status.SUCCESS, False, 1_000_000)
    over = run(code, b"1000001", expected=b"x" * 1000001, output_bytes=1_000_000)
    assert (over.status, over.output_truncated, len(over.output or b"")) == (Status.OUTPUT_LIMIT, True, 1_000_000)


def test_an_endless_output_ends_quickly_even_when_errors_are_swallowed(run: Run) -> None:
    flood = "while True: print('y' * 1000)"
    assert run(flood).status == Status.OUTPUT_LIMIT
    stubborn = "import os\nwhile True:\n    try: os.write(1, b'y' * 65536)\n    except OSError: pass"
    result = run(stubborn, time_s=0.5)
    assert result.status == Status.TIMEOUT
    assert len(result.output or b"") == 16 << 20


def test_a_flood_on_stderr_is_no_failure_and_its_head_and_tail_are_kept(run: Run) -> None:
    code = "import sys\nsys.stderr.write('HEAD\\n' + 'e' * (40 << 20) + '\\nTAIL\\n')\nprint('ok')"
    result = run(code, expected=b"ok", stderr_bytes=4096)
    assert result.status == Status.SUCCESS
    assert len(result.stderr_tail) <= 4096
    assert result.stderr_tail.startswith(b"HEAD") and result.stderr_tail.endswith(b"TAIL\n")


def test_cpu_time_is_the_kernels_and_counts_the_whole_tree(run: Run) -> None:
    fake = "import time\nclock = time.process_time\ntime.time = time.perf_counter = time.monotonic = lambda: 0.0\n"
    code = fake + "end = clock() + 0.2\nwhile clock() < end: pass\ntime.process_time = lambda: 0.0"
    assert 0.19 < (run(code).duration_s or 0) < 0.5
    child = (
        "import os\nif os.fork() == 0:\n    " + BURN.format(s=0.2).replace("\n", "\n    ") + "os._exit(0)\nos.wait()"
    )
    assert 0.19 < (run(child).cpu_s or 0) < 0.5


def test_cpu_time_of_children_that_nobody_waits_for_is_counted(run: Run) -> None:
    burn = BURN.format(s=0.2).replace("\n", "\n    ")
    ignored = f"import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nif os.fork() == 0:\n    {burn}os._exit(0)\n"
    ignored += "try: os.wait()\nexcept ChildProcessError: pass"
    assert 0.19 < (run(ignored).cpu_s or 0) < 0.6
    orphan = (
        f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    {burn}open('/tmp/done', 'w')\n    time.sleep(60)\n"
    )
    orphan += "while not os.path.exists('/tmp/done'): time.sleep(0.02)"
    assert 0.19 < (run(orphan).cpu_s or 0) < 0.6


def test_a_sleeper_is_timed_on_the_wall_and_marked(run: Run) -> None:
    result = run("import time\ntime.sleep(0.3)\nprint(1)")
    assert result.status == Status.SUCCESS
    assert (result.cpu_s or 0) < 0.1
    assert 0.29 < (result.duration_s or 0)
    assert {"wall_clock", "rerun", "blocked"} <= set(result.marks)


def test_limits_act_on_the_chosen_clock(run: Run) -> None:
    busy = run("while True: pass", time_s=0.3)
    assert (busy.status, busy.detail) == (Status.TIMEOUT, "cpu limit")
    assert (busy.duration_s or 0) >= 0.3
    asleep = run("import time\ntime.sleep(60)", time_s=0.3)
    assert (asleep.status, asleep.detail) == (Status.TIMEOUT, "wall limit")
    assert 0.45 <= (asleep.wall_s or 0)
    on_wall = run("import time\ntime.sleep(60)", time_s=0.3, clock=Clock.WALL)
    assert (on_wall.status, on_wall.detail) == (Status.TIMEOUT, "wall limit")


def test_what_was_flushed_before_a_time_out_is_returned(run: Run) -> None:
    result = run("print('partial', flush=True)\nprint('buffered')\nwhile True: pass", time_s=0.2)
    assert (result.status, result.output) == (Status.TIMEOUT, b"partial\n")


def test_compiling_is_limited_too(run: Run) -> None:
    slow = "x = " + "+".join(["(1,2,3)*100"] * 20000)
    result = run(slow, time_s=0.05)
    assert result.status in (Status.TIMEOUT, Status.SYNTAX_ERROR), result
    assert run("(" * 100_000 + ")" * 100_000).status == Status.SYNTAX_ERROR
    assert run("-" * 1_000_000 + "1").status in (Status.SYNTAX_ERROR, Status.OUT_OF_MEMORY)
    assert run("print(1)").retries == 0


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        (b"if 1:\n\tx = 1\n        y = 2\n", "TabError"),
        (b"print(1", "SyntaxError"),
        (b"\xff\xfe", "SyntaxError"),
        (b"# coding: nonsense\n", "SyntaxError"),
        (b"x = 1\x00", "SyntaxError: source code string cannot contain null bytes"),
        (b"return 1", "SyntaxError"),
        (b"def f():\n  yield\n  await x", "SyntaxError"),
    ],
)
def test_syntax_errors(run: Run, code: bytes, detail: str) -> None:
    result = run(code, expected=b"")
    assert result.status == Status.SYNTAX_ERROR
    assert result.detail.startswith(detail)


@pytest.mark.parametrize(
    "code",
    [
        "eval('1+')",
        "raise SyntaxError('x')",
        "raise IndentationError",
        "import sys; sys.stderr.write('SyntaxError\\n'); sys.exit(1)",
        "compile('(', 'solution.py', 'exec')",
        "import sys; sys.stderr.write('MemoryError\\n'); sys.exit(1)",
        "import os; os._exit(137)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys; sys.exit(77)",
        "import os\nfor fd in range(3, 200):\n    try: os.write(fd, b'S')\n    except OSError: pass\nraise ValueError",
        "import sys\nf = sys._getframe()\nwhile f.f_back: f = f.f_back\nf.f_globals.clear()\n1 / 0",
    ],
)
def test_no_program_can_claim_another_failure_than_its_own(run: Run, code: str) -> None:
    result = run(code, expected=b"")
    assert (result.status, result.retries) == (Status.RUNTIME_EXCEPTION, 0)


def test_memory_errors(run: Run) -> None:
    assert run("x = [0] * 10**12").status == Status.OUT_OF_MEMORY
    assert run("raise MemoryError").status == Status.OUT_OF_MEMORY
    caught = run("try:\n    x = [0] * 10**12\nexcept MemoryError:\n    print('caught')", expected=b"caught")
    assert caught.status == Status.SUCCESS
    child = "import os\nif os.fork() == 0:\n    x = b'x' * (400 << 20)\nprint(os.wait()[1])"
    assert run(child, memory_bytes=128 << 20).detail == "memory limit"  # though the parent ended with 0


def test_comparison_sees_bytes(run: Run) -> None:
    assert run("import sys; sys.stdout.buffer.write(b'\\xff')", expected=b"y").status == Status.WRONG_ANSWER
    assert (
        run("class A(str):\n    def __eq__(s, o): return True\nprint(A('z'))", expected=b"right").status
        == Status.WRONG_ANSWER
    )
    assert run("print('\\u2019' * 100)", expected="\u2019".encode() * 100).status == Status.SUCCESS
    assert run("print(89.6)", expected=b"89.600000", comparator="tokens_float:1e-6").status == Status.SUCCESS
    assert run("print(1)").status == Status.SUCCESS  # nothing to compare


def test_big_inputs_arrive_whole_and_may_stay_unread(run: Run) -> None:
    big = b"1 " * 10_000_000
    assert run("import sys\nprint(len(sys.stdin.buffer.read()))", big, expected=b"20000000").status == Status.SUCCESS
    assert run("print('done')", big, expected=b"done").status == Status.SUCCESS
    assert run("import os\nprint(os.fstat(0).st_size)", big, expected=b"20000000").status == Status.SUCCESS


def test_repetitions(engine: Embedded) -> None:
    request = Request(b"print(sum(range(20000)))", (TestCase("a", b"", b"199990000"),) * 2, repetitions=5)
    for result in engine.execute(request):
        assert (result.status, result.repetitions) == (Status.SUCCESS, 5)
        assert result.duration_std_s is not None and result.duration_std_s >= 0


def test_every_result_says_where_and_how_it_was_measured(engine: Embedded) -> None:
    (result,) = engine.execute(Request(b"print(1)", (TestCase("a", b""),), Limits()))
    assert result.tier.startswith("full-") and result.node and "numpy" in result.interpreter and result.engine
    assert result.queue_s is not None and result.wall_s is not None and result.context_switches is not None


def test_imports_are_no_part_of_a_duration(run: Run) -> None:
    result = run("import numpy, decimal, json\nprint(numpy.__name__)", expected=b"numpy")
    assert result.status == Status.SUCCESS
    assert (result.cpu_s or 0) < 0.05
