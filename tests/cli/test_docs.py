"""Every command is documented, has an example, and docs/cli.md is what the help says now."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cli_docs", ROOT / "make" / "cli_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DOCS = load()
COMMANDS = list(DOCS.commands(DOCS.cli, ("dmc-optim",)))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(p) for p, _ in COMMANDS])
def test_every_command_says_what_it_does_and_shows_an_example(path: tuple[str, ...], command: object) -> None:
    text = DOCS.help_text(path, command)
    assert "Example" in text, f"{' '.join(path)}: no example in the help"
    assert f"{' '.join(path[:2])} " in text.split("Example", 1)[1]


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(p) for p, _ in COMMANDS])
def test_every_option_has_help(path: tuple[str, ...], command: object) -> None:
    for parameter in command.params:  # type: ignore[attr-defined]
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert parameter.help, f"{' '.join(path)} {parameter.opts[0]}: no help"


def test_the_page_is_up_to_date() -> None:
    # In a process of its own: click keeps a command's help option as its first caller named it.
    script = [sys.executable, str(ROOT / "make" / "cli_docs.py")]
    page = subprocess.run(script, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == page, "run `make docs`"


def test_the_commands_of_the_design_exist() -> None:
    names = {" ".join(path[1:]) for path, _ in COMMANDS}
    wanted = {"build", "status", "why", "audit", "report", "diff", "simulate", "study", "ces", "generate", "publish"}
    assert wanted <= names
    assert {f"ces {n}" for n in ("serve", "run", "bench", "calibrate", "probe", "doctor")} <= names
    assert {f"study {n}" for n in ("ranking", "noise", "fallback", "calibration")} <= names
