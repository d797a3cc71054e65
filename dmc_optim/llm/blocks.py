"""Find the stretches of an answer that may be Python code. Text only: nothing here parses or runs code.

Every function is linear in the length of the text and returns a bounded number of blocks, so that a hostile
answer of many megabytes costs no more than reading it.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BLOCKS = 32
_OPEN_THINK = re.compile(r"<(think|thinking|reasoning)>", re.IGNORECASE)
_CLOSE_THINK = re.compile(r"</(think|thinking|reasoning)>", re.IGNORECASE)
_FENCE_LINE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([A-Za-z0-9_+.-]{0,20})[ \t]*(?:\{[^{}\n]{0,80}\})?[ \t]*")
_FENCE_AT_END = re.compile(r"(`{3,})[ \t]*(?:python3?|py)?[ \t]*$", re.IGNORECASE)
_CODE_START = re.compile(r"[ \t]*(?:class[ \t]+\w|import[ \t]+\w|from[ \t]+[\w.]+[ \t]+import\b)")
_LONGEST_MARK = 200  # a fence never hides in the tail of a longer line than this looks at


@dataclass(frozen=True, slots=True)
class Block:
    """A candidate. `closed` is False when the text ended before the block did."""

    code: str
    closed: bool


@dataclass(frozen=True, slots=True)
class Parts:
    """An answer without its reasoning. `reasoning_closed` is False when the text ended inside the reasoning."""

    answer: str
    reasoning: str
    reasoning_closed: bool


def normalise_newlines(text: str) -> str:
    """The text with every line end as a single newline, as the Python tokenizer reads it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_reasoning(text: str) -> Parts:
    """Separate `<think>` blocks from the answer.

    A closing mark without an opening one ends reasoning that began in the prompt template; an opening mark
    without a closing one means that the answer was cut off while the model was still reasoning.
    """
    answer: list[str] = []
    reasoning: list[str] = []
    position, closed = 0, True
    first_open, first_close = _OPEN_THINK.search(text), _CLOSE_THINK.search(text)
    if first_close and (first_open is None or first_close.start() < first_open.start()):
        reasoning.append(text[: first_close.start()])
        position = first_close.end()
    while True:
        opening = _OPEN_THINK.search(text, position)
        if opening is None:
            answer.append(text[position:])
            break
        answer.append(text[position : opening.start()])
        closing = _CLOSE_THINK.search(text, opening.end())
        if closing is None:
            reasoning.append(text[opening.end() :])
            closed = False
            break
        reasoning.append(text[opening.end() : closing.start()])
        position = closing.end()
    return Parts("\n".join(answer), "\n".join(reasoning), closed)


def fenced_blocks(text: str) -> list[Block]:
    """Fenced blocks in order, at most the last `MAX_BLOCKS`; the last one may be open.

    Accepts fences of three or more backticks or tildes, indented fences, an opening fence at the end of a line of
    prose, and a closing fence glued to the last line of code.
    """
    blocks: list[Block] = []
    opening = ""
    lines: list[str] = []
    for line in text.split("\n"):
        fence = _FENCE_LINE.fullmatch(line) if len(line) <= _LONGEST_MARK else None
        if not opening:
            tail = fence or _FENCE_AT_END.search(line[-_LONGEST_MARK:])
            if tail:
                opening, lines = tail.group(1), []
        elif fence and fence.group(1).startswith(opening) and not fence.group(2):
            blocks.append(Block(textwrap.dedent("\n".join(lines)), closed=True))
            opening = ""
        elif line.rstrip().endswith(opening):
            lines.append(line.rstrip()[: -len(opening)])
            blocks.append(Block(textwrap.dedent("\n".join(lines)), closed=True))
            opening = ""
        else:
            lines.append(line)
    if opening:
        blocks.append(Block(textwrap.dedent("\n".join(lines)), closed=False))
    return blocks[-MAX_BLOCKS:]


def unfenced_blocks(text: str, marker: str) -> Iterator[Block]:
    """Code written without a fence: all from the first line that looks like code, then the same without prose.

    marker: a string the block must contain, e.g. the class wanted.
    """
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if _CODE_START.match(line[:_LONGEST_MARK])), None)
    if start is None:
        return
    whole = "\n".join(lines[start:])
    if marker not in whole:
        return
    yield Block(textwrap.dedent(whole), closed=False)
    kept = list(_code_lines(lines[start:]))
    yield Block(textwrap.dedent("\n".join(kept)), closed=len(kept) < len(lines) - start)


def _code_lines(lines: list[str]) -> Iterator[str]:
    """Lines that belong to top-level imports and classes; the prose around and after them is left out."""
    inside = False
    for line in lines:
        head = line[:_LONGEST_MARK]
        if _CODE_START.match(head) or head.startswith("@"):
            inside = True
            yield line
        elif inside and (not head.strip() or head[0] in " \t)]}#"):
            yield line
        else:
            inside = False
