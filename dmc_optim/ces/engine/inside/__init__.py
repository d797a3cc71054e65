"""Programs that run inside the sandbox. They are carried there as text and import nothing of this package.

zygote     waits, forks templates; a template compiles one solution and forks its runs
program    executes a solution and ends the process as CPython would
processes  kills and reaps what a run leaves, empties its scratch directories
"""

from pathlib import Path

_PARTS = ("processes", "program", "zygote")


def bundle() -> str:
    """One script out of all parts; the last one is its main program."""
    texts = {name: Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in _PARTS}
    lines = ["import sys"]
    for name, text in texts.items():
        lines.append(f"module = type(sys)({name!r})")
        lines.append(f"sys.modules[{name!r}] = module")
        lines.append(f"exec(compile({text!r}, {name!r}, 'exec'), module.__dict__)")
    return "\n".join(lines) + "\n"
