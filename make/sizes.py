"""Fail where a Python file has grown past 400 lines or a function past 60: split it by meaning."""

import ast
import subprocess
import sys
from pathlib import Path

MOST_LINES, MOST_FUNCTION_LINES = 400, 60


def main() -> int:
    """Exit status 1 with a line for each file or function that is too long."""
    names = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()
    found = []
    for name in names:
        path = Path(name)
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > MOST_LINES:
            found.append(f"{name}: {lines} lines, at most {MOST_LINES}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MOST_FUNCTION_LINES:
                    found.append(f"{name}:{node.lineno}: {node.name} has {length} lines, at most {MOST_FUNCTION_LINES}")
    print("\n".join(found) or f"{len(names)} files, none too long")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
