"""Inside the sandbox: execute a solution and end the process as CPython would, with the same exit code.

The solution may have rebound anything, builtins included; what is needed after it is therefore captured before.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import os
import sys

# the one import for type annotations alone is not made inside the sandbox
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CODE_PATH = "/box/solution.py"


def main_module() -> Any:
    """A fresh __main__, as `python solution.py` makes it."""
    module: Any = type(sys)("__main__")
    module.__builtins__ = builtins
    module.__file__ = CODE_PATH
    module.__annotations__ = {}
    module.__cached__ = None
    sys.modules["__main__"] = module
    sys.argv[:] = [CODE_PATH]
    sys.path[0] = os.path.dirname(CODE_PATH)
    return module


def run(
    code: Any,
    namespace: dict[str, Any],
    flag: Any,
    *,
    leave: Any = os._exit,
    run_exit_functions: Any = atexit._run_exitfuncs,
    collect: Any = gc.collect,
    modules: Any = sys.modules,
    is_a: Any = isinstance,
    exit_type: Any = SystemExit,
    memory_type: Any = MemoryError,
    any_type: Any = BaseException,
) -> None:
    """Execute the program; does not return. flag[0] becomes 1 for an uncaught MemoryError."""
    status = 0
    try:
        exec(code, namespace)
    except any_type as error:
        if is_a(error, exit_type):
            status = exit_status(error.code)
        else:
            status = 1
            if is_a(error, memory_type):
                flag[0] = 1
            show_exception(error)
    try:
        threading = modules.get("threading")
        if threading is not None:
            threading._shutdown()
    except any_type as error:
        show_exception(error)
    try:
        run_exit_functions()
    except any_type:
        pass
    status = flush_streams(status)
    clear_module(namespace)
    collect()
    leave(flush_streams(status))


def exit_status(code: Any, is_a: Any = isinstance, whole: Any = int, text: Any = str, write: Any = os.write) -> int:
    """What sys.exit(code) means."""
    if code is None:
        return 0
    if is_a(code, whole):
        return int(code & 0xFF)
    try:
        sys.stdout.flush()
    except BaseException:
        pass
    try:
        write(2, text(code).encode("utf-8", "replace") + b"\n")
    except BaseException:
        pass
    return 1


def show_exception(error: BaseException, kind: Any = type) -> None:
    """Print a traceback without the frame of this file."""
    try:
        trace = error.__traceback__
        if trace is not None:
            trace = trace.tb_next
        sys.excepthook(kind(error), error.with_traceback(trace), trace)
    except BaseException:
        pass


def flush_streams(status: int, attribute: Any = getattr) -> int:
    """Flush as at exit; a failure turns success into 120, as in CPython."""
    for name in ("stdout", "stderr"):
        try:
            stream = attribute(sys, name, None)
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            status = status or 120
    return status


def clear_module(namespace: dict[str, Any], names: Any = list) -> None:
    """Drop the program's globals in CPython's order, so that finalizers run and open files are flushed."""
    try:
        for private in (True, False):
            for name in names(namespace):
                if (name[:1] == "_" and name[1:2] != "_") is private and name != "__builtins__":
                    namespace[name] = None
    except BaseException:
        pass
