"""A program in the sandbox ends as under a cold `python3`: same output, same exit status."""

import os
import subprocess
import sys

import pytest

from dmc_optim.ces import Request, TestCase
from dmc_optim.ces.engine import interpreter
from dmc_optim.ces.engine.embedded import Embedded

PROGRAMS = {
    "plain": "print(1)",
    "no_newline": "import sys; sys.stdout.write('x')",
    "exit_none": "print(1); exit()",
    "exit_text": "import sys; print(1); sys.exit('bye')",
    "exit_true": "import sys; sys.exit(True)",
    "exit_256": "import sys; print(1); sys.exit(256)",
    "exit_minus_1": "import sys; sys.exit(-1)",
    "exit_77": "import sys; sys.exit(77)",
    "exit_in_finally": "import sys\ntry:\n    sys.exit(3)\nfinally:\n    print('finally')",
    "system_exit_subclass": "class E(SystemExit): pass\nraise E(4)",
    "exception": "print(1)\nraise KeyError('x')",
    "keyboard": "raise KeyboardInterrupt",
    "os_exit": "import os; print(1); os._exit(5)",
    "os_exit_flushed": "import os; print(1, flush=True); os._exit(0)",
    "kill_self": "import os, signal; print(1, flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "term_self": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "alarm": "import signal, time; signal.alarm(1); time.sleep(30)",
    "alarm_handled": "import signal, time\ndef f(*a): print('rang')\nsignal.signal(signal.SIGALRM, f); signal.setitimer(0, 0.05); time.sleep(0.3)",
    "atexit": "import atexit; atexit.register(print, 'late'); print('early')",
    "atexit_raises": "import atexit\ndef f(): raise ValueError\natexit.register(print, 'second'); atexit.register(f)",
    "atexit_after_exception": "import atexit; atexit.register(print, 'late'); 1 / 0",
    "thread": "import threading, time\ndef f(): time.sleep(0.05); print('late')\nthreading.Thread(target=f).start(); print('main')",
    "thread_raises": "import threading\ndef f(): 1 / 0\nthreading.Thread(target=f).start()",
    "daemon_thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start(); print(1)",
    "pool": "from concurrent.futures import ThreadPoolExecutor as P\nprint(sum(P(3).map(abs, [-1, -2])))",
    "unclosed_stdout_wrapper": "out = open(1, 'w'); out.write('x' * 10)",
    "unclosed_wrapper_in_class": "import io, os\nclass W:\n    def __init__(self): self.f = open(1, 'w', closefd=False)\nw = W(); w.f.write('kept')",
    "finalizer": "class A:\n    def __del__(self): print('gone', x)\nx = 1\na = A()",
    "finalizer_in_cycle": "class A:\n    def __del__(self): print('gone')\na = A(); a.me = a; del a",
    "stdout_closed": "import sys; print(5); sys.stdout.close()",
    "stdout_none": "import sys; sys.stdout = None; print(1)",
    "stdout_replaced": "import sys, io; sys.stdout = io.StringIO(); print('lost')",
    "stdout_restored": "import sys, io; old = sys.stdout; sys.stdout = io.StringIO(); print('a'); got = sys.stdout.getvalue(); sys.stdout = old; print(got)",
    "stdout_detached": "import sys; b = sys.stdout.detach(); b.write(b'raw')",
    "fd1_closed": "import os; print(1); os.close(1)",
    "dup2": "import os, sys; r, w = os.pipe(); os.dup2(w, 1); print('x', flush=True); os.write(2, os.read(r, 9))",
    "devstdout": "open('/dev/stdout', 'w').write('x\\n')",
    "devfd": "print(open('/dev/fd/0').read())",
    "excepthook": "import sys; sys.excepthook = lambda *a: print('hook'); 1 / 0",
    "excepthook_exits": "import sys\ndef h(*a): sys.exit(9)\nsys.excepthook = h\n1 / 0",
    "fork_falls_through": "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('child' if not pid else 'parent')",
    "subprocess": "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(7)'], capture_output=True, text=True).stdout)",
    "multiprocessing": "from multiprocessing import Pool\ndef f(x): return x * x\nif __name__ == '__main__':\n    with Pool(2) as p: print(p.map(f, range(4)))",
    "asyncio": "import asyncio\nasync def m(): await asyncio.sleep(0.01); print('a')\nasyncio.run(m())",
    "generator_finally": "def g():\n    try: yield 1\n    finally: print('closed')\nit = g(); next(it)",
    "recursion": "import sys\nm = 0\ndef f(n):\n    global m\n    m = n\n    f(n + 1)\ntry: f(1)\nexcept RecursionError: print(m)",
    "deep_recursion": "import sys; sys.setrecursionlimit(10**6)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(50000))",
    "repr_recursion": "import sys; sys.setrecursionlimit(10**5)\na = []\nfor i in range(3000): a = [a]\nprint(len(repr(a)))",
    "main_names": "print(__name__, __spec__, __package__, __doc__, __builtins__.__name__, sorted(n for n in globals() if n != '__loader__'))",
    "docstring": "'''doc'''\nprint(__doc__)",
    "future": "from __future__ import annotations\ndef f(x: undefined): pass\nprint(f.__annotations__)",
    "no_future": "def f(x: int): pass\nprint(f.__annotations__)",
    "annotations": "x: int = 1\nprint(__annotations__)",
    "dataclass_pickle": "import pickle\nfrom dataclasses import dataclass\n@dataclass\nclass P: x: int\nprint(pickle.loads(pickle.dumps(P(3))))",
    "enum_json": "import json, enum\nclass E(enum.Enum): A = 1\nprint(E.A, json.dumps({'a': [1, 2.5, None]}))",
    "hash": "print(hash('abc') == hash('ab' + 'c'), len({'a', 'b'}))",
    "globals_exec": "exec('y = 2'); print(y, eval('y + 1'))",
    "import_self": "import __main__; print(__main__.__name__)",
    "decimal": "from decimal import *; getcontext().prec = 50; print(Decimal(1) / 7)",
    "warnings": "import warnings; warnings.warn('x'); print(1)",
    "input_prompt": "print(input('prompt> '))",
    "readlines": "import sys; print(sys.stdin.readlines())",
    "crlf": "print(repr(input()), repr(input()))",
    "buffer_then_text": "import sys; print(sys.stdin.buffer.readline(), sys.stdin.read())",
    "isatty": "import sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stdin.seekable(), sys.stdout.seekable())",
    "fileno": "import sys; print(sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno(), sys.stdin.name, sys.stdout.mode)",
    "encodings": "import sys; print(sys.stdin.encoding, sys.stdout.encoding, sys.stdout.errors, sys.stdin.errors, sys.getdefaultencoding())",
    "bad_utf8": "import sys; print(ascii(sys.stdin.read()))",
    "surrogate": "print('\\udcff')",
    "unicode": "print('é', '漢', '😀')",
    "gc": "import gc; print(gc.isenabled(), gc.get_threshold())",
    "signals": "import signal; print([signal.getsignal(s) for s in (2, 10, 12, 13, 15, 17)])",
    "random_differs": "import random; print(random.random() != random.random())",
    "random_seeded": "import random; random.seed(5); print(random.random(), random.sample(range(100), 5))",
    "tmp": "import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f:\n    f.write('x'); f.seek(0); print(f.read())",
    "big_int": "print(len(str(10 ** 5000)))",
    "thread_stack": "import threading, sys\nsys.setrecursionlimit(10**6); threading.stack_size(1 << 27)\ndef f(n): return 0 if not n else 1 + f(n - 1)\nt = threading.Thread(target=lambda: print(f(30000))); t.start(); t.join()",
    "site_builtins": "print(callable(quit), callable(exit), callable(help), copyright is not None)",
    "cwd_import": "import os\nopen('helper.py', 'w').write('v = 3')\nimport sys; sys.path.insert(0, os.getcwd())\nimport helper; print(helper.v)",
}  # fmt: skip

INPUT = b"first\r\nsecond \xff line\n"


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, int]]:
    """(stdout, exit status) of every program under a cold interpreter with files as standard streams."""
    directory = tmp_path_factory.mktemp("cold")
    (directory / "in").write_bytes(INPUT)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "PYTHONINTMAXSTRDIGITS": "0", "PYTHONUTF8": "1"}
    found = {}
    for name, code in PROGRAMS.items():
        script = directory / name / "solution.py"
        script.parent.mkdir()
        script.write_text(code)
        out = directory / name / "out"
        with (directory / "in").open("rb") as stdin, out.open("wb") as stdout:
            command = [interpreter.find().executable, "-B", str(script)]
            done = subprocess.run(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=script.parent,
                check=False,
            )
        found[name] = out.read_bytes(), done.returncode
    return found


@pytest.fixture(scope="module", params=[1, 2], ids=["only_test", "of_several"])
def sandboxed(engine: Embedded, request: pytest.FixtureRequest) -> dict[str, tuple[bytes, int]]:
    """The same from the sandbox, for both process models: a program run once, and one compiled for several tests."""
    tests = tuple(TestCase(str(index), INPUT) for index in range(request.param))
    requests = [Request(code.encode(), tests, return_output=True) for code in PROGRAMS.values()]
    names = list(PROGRAMS)
    found = {}
    for index, results in engine.execute_many(requests):
        last = results[-1]
        code = 0
        if last.status != "success":
            assert last.status == "runtime_exception", (names[index], last)
            kind, number = last.detail.split(":")[0].split()[:2]
            code = -int(number) if kind == "signal" else int(number)
        found[names[index]] = last.output or b"", code
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_ends_like_a_cold_interpreter(
    name: str, cold: dict[str, tuple[bytes, int]], sandboxed: dict[str, tuple[bytes, int]]
) -> None:
    assert sandboxed[name] == cold[name]


def test_the_interpreter_is_the_one_recorded(engine: Embedded) -> None:
    (result,) = engine.execute(Request(b"import sys; print(sys.version)", (TestCase("v", b""),), return_output=True))
    assert (result.output or b"").decode().strip() in result.interpreter
    assert sys.version_info[:2] == tuple(int(part) for part in interpreter.find().version.split(".")[:2])
    assert os.path.exists(interpreter.find().executable)
