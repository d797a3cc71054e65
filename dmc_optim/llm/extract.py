"""Take the input generator out of a model's answer: imports and one class `InputGenerator`.

The answer is only read, with `ast`; nothing of it is imported, compiled to run, or executed here. What comes out
is still untrusted and runs in the sandbox alone. Covered: code fences of every usual form, several fences,
several classes, reasoning blocks, prose without fences, answers cut off in the middle, text of any size or depth.
"""

import ast
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from dmc_optim.llm.blocks import Block, fenced_blocks, normalise_newlines, split_reasoning, unfenced_blocks
from schemas.enums import AttemptReason

CLASS_NAME = "InputGenerator"
MAX_CODE_CHARS = 256 * 1024
MAX_BRACKET_DEPTH = 100  # the tokenizer of CPython refuses 200
_MAX_DETAIL = 200
_WANTED = f"class {CLASS_NAME}"

# CPython 3.11 keeps the recursion depth of its tree builder per interpreter: two threads that parse at once can
# raise SystemError ("AST constructor recursion depth mismatch").
_PARSER = threading.Lock()

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def parse_module(code: str) -> ast.Module:
    """`ast.parse`, one thread at a time. Raises what it raises."""
    with _PARSER:
        return ast.parse(code)


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an answer gave: `source`, or the `reason` why there is none. `detail` says more, in one line."""

    source: str | None
    reason: AttemptReason | None
    detail: str = ""


def extract_generator(text: str, reasoning: str = "") -> Extraction:
    """The generator's source in an answer, or the reason why it has none; never raises, whatever the text.

    text: the completion. reasoning: the separate reasoning text some servers return; looked at last.
    Of several complete classes the last wins (models correct themselves). Of the module level, only imports and
    the definitions that the class needs are kept: example calls, prints and `__main__` blocks are left out.
    """
    if not text.strip() and not reasoning.strip():
        return Extraction(None, AttemptReason.NO_CODE, "the completion is empty")
    parts = split_reasoning(normalise_newlines(text))
    failures: list[Extraction] = []
    for place, body in (
        ("", parts.answer),
        ("reasoning", parts.reasoning),
        ("reasoning", normalise_newlines(reasoning)),
    ):
        found = _best(body, failures)
        if found is not None:
            detail = "; ".join(filter(None, ("found in the reasoning" if place else "", found.detail)))
            return Extraction(found.source, None, detail)
    if not parts.reasoning_closed and not parts.answer.strip():
        return Extraction(None, AttemptReason.TRUNCATED, "the answer ends inside its reasoning")
    return _worst_reason(failures)


def _best(text: str, failures: list[Extraction]) -> Extraction | None:
    """The last block of the text that yields the class; failures of the others are added to `failures`."""
    fenced = fenced_blocks(text)
    for index in range(len(fenced) - 1, -1, -1):
        got = _from_block(fenced[index], failures)
        if got is not None:
            return _with_imports_of(fenced[:index], got)
    if any(_WANTED in block.code for block in fenced):
        return None
    for block in unfenced_blocks(text, _WANTED):
        got = _from_block(block, failures)
        if got is not None:
            return got
    return None


def _from_block(block: Block, failures: list[Extraction]) -> Extraction | None:
    """The class out of one block, or None with the failure noted."""
    mentions = _WANTED in block.code
    problem = _unparseable(block.code)
    tree = None
    if problem is None:
        try:
            tree = parse_module(block.code)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            problem = _describe(error)
            if not block.closed and _cut_off(error, block.code):
                failures.append(_failure(AttemptReason.TRUNCATED if mentions else AttemptReason.NO_CODE, problem))
                return None
    if tree is None:
        failures.append(_failure(AttemptReason.NOT_PARSEABLE if mentions else AttemptReason.NO_CODE, problem or ""))
        return None
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if CLASS_NAME in names:
        return _needed_source(block.code, tree)
    if tree.body and not _only_words(tree):
        classes = f"classes found: {', '.join(names[:5])}" if names else "no class in the code"
        failures.append(_failure(AttemptReason.NO_CLASS, classes))
    return None


def _unparseable(code: str) -> str | None:
    """Why the code is not even handed to the parser; linear in its length."""
    if len(code) > MAX_CODE_CHARS:
        return f"the code has {len(code)} characters, more than {MAX_CODE_CHARS}"
    depth = 0
    for character in code:
        if character in "([{":
            depth += 1
            if depth > MAX_BRACKET_DEPTH:
                return f"brackets nested deeper than {MAX_BRACKET_DEPTH}"
        elif character in ")]}":
            depth = max(0, depth - 1)
    return None


def _describe(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    if isinstance(error, MemoryError | RecursionError):
        return "nested too deeply for the parser"
    return str(error)


def _cut_off(error: Exception, code: str) -> bool:
    """Whether the parser failed because the text ended, not because it is wrong."""
    if not isinstance(error, SyntaxError):
        return False
    at_end = (error.lineno or 0) >= code.rstrip().count("\n") + 1
    unfinished = ("was never closed", "unterminated triple-quoted", "unexpected EOF")
    return at_end or any(words in (error.msg or "") for words in unfinished)


def _only_words(tree: ast.Module) -> bool:
    """Whether the text parses by accident (a single word, a number, an example input) and is no program."""
    return all(isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call) for node in tree.body)


def _needed_source(code: str, tree: ast.Module) -> Extraction:
    """Imports, the last `InputGenerator` and the module-level definitions it needs, in their order, as written."""
    last = max(i for i, node in enumerate(tree.body) if isinstance(node, ast.ClassDef) and node.name == CLASS_NAME)
    bindings: dict[str, list[int]] = {}
    for index, node in enumerate(tree.body):
        for name in _bound_names(node):
            bindings.setdefault(name, []).append(index)
    keep, waiting = {last}, [last]
    while waiting:
        for name in _loaded_names(tree.body[waiting.pop()]):
            for index in bindings.get(name, ()):
                if index not in keep and name != CLASS_NAME:
                    keep.add(index)
                    waiting.append(index)
    chosen = [node for i, node in enumerate(tree.body) if i in keep or _is_import(node)]
    dropped = len(tree.body) - len(chosen)
    lines = code.split("\n")
    source = "\n".join(_segment(lines, node) for node in chosen) + "\n"
    return Extraction(source, None, f"{dropped} other top-level statements left out" if dropped else "")


def _bound_names(node: ast.stmt) -> Iterable[str]:
    """Names that a definition or an assignment at module level binds; other statements bind nothing we keep."""
    if isinstance(node, _Definition):
        return (node.name,)
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return ()


def _loaded_names(node: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _is_import(node: ast.stmt) -> bool:
    """An import, or a `try` that only imports (with its fallback)."""
    if isinstance(node, ast.Try):
        return bool(node.body) and all(_is_import(inner) for inner in node.body)
    return isinstance(node, ast.Import | ast.ImportFrom)


def _segment(lines: list[str], node: ast.stmt) -> str:
    """The text of one statement as written, decorators included; column offsets count UTF-8 bytes."""
    first = min([node, *getattr(node, "decorator_list", [])], key=lambda n: n.lineno)
    start, end = first.lineno - 1, (node.end_lineno or node.lineno) - 1
    begin = 0 if first is not node else first.col_offset
    text = [line.encode() for line in lines[start : end + 1]]
    text[-1] = text[-1][: node.end_col_offset]
    text[0] = text[0][begin:]
    return b"\n".join(text).decode()


def _with_imports_of(earlier: list[Block], found: Extraction) -> Extraction:
    """Put imports given in fences of their own before a class that came without any."""
    assert found.source is not None
    if any(_is_import(node) for node in parse_module(found.source).body):
        return found
    imports: list[str] = []
    for block in earlier:
        if _unparseable(block.code) is not None:
            continue
        try:
            body = parse_module(block.code).body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        if body and all(_is_import(node) for node in body):
            imports.append(block.code.strip("\n") + "\n")
    return Extraction("".join(imports) + found.source, None, found.detail)


def _failure(reason: AttemptReason, detail: str) -> Extraction:
    line = " ".join(detail.split())
    return Extraction(None, reason, line if len(line) <= _MAX_DETAIL else line[: _MAX_DETAIL - 1] + "…")


def _worst_reason(failures: list[Extraction]) -> Extraction:
    """The failure that came closest to an answer."""
    for reason in (AttemptReason.TRUNCATED, AttemptReason.NOT_PARSEABLE, AttemptReason.NO_CLASS):
        for failure in reversed(failures):
            if failure.reason is reason:
                return failure
    return Extraction(None, AttemptReason.NO_CODE, "no Python code in the answer")
