"""Inside the sandbox: execute a solution and end the process as CPython would, with the same exit code.

The solution may have rebound anything, builtins included; what is needed after it is therefore captured before.
"""

from __future__ import annotations

import _weakref
import atexit
import builtins
import gc
import os
import signal
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
    namespaces: list[dict[str, Any]],
    flag: Any,
    *,
    leave: Any = os._exit,
    run_exit_functions: Any = atexit._run_exitfuncs,
    is_a: Any = isinstance,
    exit_type: Any = SystemExit,
    interrupt_type: Any = KeyboardInterrupt,
    memory_type: Any = MemoryError,
    any_type: Any = BaseException,
) -> None:
    """Execute the program; does not return. flag[0] becomes 1 for an uncaught MemoryError.

    namespaces: the program's globals, alone in a list so that the caller keeps no reference to them.
    """
    status, interrupted = 0, False
    namespace = namespaces.pop()
    try:
        try:
            exec(code, namespace)
        finally:
            flush_at_once()  # before anything else can end the process
    except any_type as error:
        if is_a(error, exit_type):
            status = exit_status(error.code)
        else:
            if is_a(error, memory_type):
                flag[0] = 1
            interrupted = is_a(error, interrupt_type)
            status = show_exception(error)
    wait_for_threads()
    try:
        run_exit_functions()
    except any_type:
        pass
    status = flush_streams(status)
    del namespace
    restore_streams()
    clear_main()
    flush_streams(0)  # what finalizers printed; here failures no longer count
    if interrupted:
        end_by_interrupt()
    leave(status)


def wait_for_threads(modules: Any = sys.modules) -> None:
    """Threads that are no daemons are waited for, as at the exit of an interpreter."""
    try:
        threading = modules.get("threading")
        if threading is not None:
            threading._shutdown()
    except BaseException as error:
        show_exception(error)


def end_by_interrupt(set_handler: Any = signal.signal, kill: Any = os.kill, own_pid: Any = os.getpid) -> None:
    """An uncaught KeyboardInterrupt ends the process by the signal."""
    set_handler(2, signal.SIG_DFL)
    kill(own_pid(), 2)


def exit_status(code: Any, is_a: Any = isinstance, whole: Any = int, text: Any = str, write: Any = os.write) -> int:
    """What sys.exit(code) means."""
    if code is None:
        return 0
    if is_a(code, whole):
        return int(code & 0xFF) if -(1 << 63) <= code < 1 << 63 else 255
    try:
        sys.stdout.flush()
    except BaseException:
        pass
    try:
        write(2, text(code).encode("utf-8", "replace") + b"\n")
    except BaseException:
        pass
    return 1


def show_exception(error: BaseException, kind: Any = type, exit_type: Any = SystemExit) -> int:
    """Print a traceback without the frame of this file; returns the exit status, which a hook may choose."""
    try:
        trace = error.__traceback__
        if trace is not None:
            trace = trace.tb_next
        sys.excepthook(kind(error), error.with_traceback(trace), trace)
    except exit_type as wish:
        return exit_status(wish.code)
    except BaseException:
        pass
    return 1


def flush_at_once(attribute: Any = getattr) -> None:
    """What CPython does when the main module has ended; failures do not count yet."""
    for name in ("stderr", "stdout"):
        try:
            attribute(sys, name).flush()
        except BaseException:
            pass


def flush_streams(status: int, attribute: Any = getattr) -> int:
    """Flush as at exit; a failure makes the status 120, as in CPython."""
    for name in ("stdout", "stderr"):
        try:
            stream = attribute(sys, name, None)
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            status = 120
    return status


def restore_streams(read: Any = getattr, write: Any = setattr) -> None:
    """Finalizers that run from here on print to the streams that the interpreter began with."""
    for name in ("stdin", "stdout", "stderr"):
        try:
            write(sys, name, read(sys, f"__{name}__"))
        except BaseException:
            pass


def clear_main(
    modules: Any = sys.modules,
    enabled: Any = gc.isenabled,
    collect: Any = gc.collect,
    weak: Any = _weakref.ref,
    names: Any = list,
) -> None:
    """Let go of __main__ in CPython's order, so that finalizers run and open files are flushed."""
    try:
        if enabled():
            collect()  # while all is reachable: this sets the order in which the next collection finds things
        module = modules.pop("__main__", None)
        still_there = weak(module)
        del module
        collect()
        module = still_there()
        if module is not None:
            namespace = module.__dict__
            for private in (True, False):
                for name in names(namespace):
                    if (name[:1] == "_" and name[1:2] != "_") is private and name != "__builtins__":
                        namespace[name] = None
            collect()
    except BaseException:
        pass
