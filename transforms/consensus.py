"""Which solutions agree on a generator's inputs, and so what the expected outputs are (paper Table 11, steps 4–6)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dmc_optim.ces.comparators import comparator as comparator_named
from schemas.enums import AttemptReason

Outputs = Sequence[bytes]


@dataclass(frozen=True)
class Consensus:
    """The agreeing group, sorted; empty with the reason where there is none. size: of the largest group.

    digests: {solution: digest of its group}, equal exactly within a group.
    """

    agreed: tuple[str, ...]
    size: int
    reason: AttemptReason | None = None
    digests: Mapping[str, str] = field(default_factory=dict)


def outputs_digest(outputs: Outputs, comparator: str) -> str:
    """sha256 over the outputs in their comparator's canonical form, NUL between them."""
    return hashlib.sha256(b"\0".join(canonical(output, comparator) for output in outputs)).hexdigest()


def canonical(output: bytes, comparator: str) -> bytes:
    """A form that is the same exactly for outputs that are equal under the comparator.

    For `tokens_float`, where equality is no equivalence, it is the tokens as they are.
    """
    if comparator == "exact":
        return output
    if comparator == "trimmed":
        return b"\n".join(line.rstrip() for line in output.rstrip().split(b"\n"))
    return b" ".join(output.split())


def groups(outputs: Mapping[str, Outputs], comparator: str) -> list[list[str]]:
    """Solutions whose whole output lists are equal under the comparator, each group led by its smallest id.

    A list joins the first group in which it passes with the leader's outputs as the expected ones, which is what
    they become. For all comparators but `tokens_float` this is the partition into equal lists.
    """
    found: list[list[str]] = []
    for solution in sorted(outputs):
        for group in found:
            if _passes(outputs[solution], outputs[group[0]], comparator):
                group.append(solution)
                break
        else:
            found.append([solution])
    return found


def consensus(outputs: Mapping[str, Outputs], comparator: str, least: int = 2) -> Consensus:
    """The largest agreeing group wins; fewer than `least` members, or two groups of that size, reject the attempt."""
    found = sorted(groups(outputs, comparator), key=len, reverse=True)
    digests: dict[str, str] = {}
    for group in found:
        digests |= dict.fromkeys(group, outputs_digest(outputs[group[0]], comparator))
    size = len(found[0]) if found else 0
    if size < least:
        return Consensus((), size, AttemptReason.NO_CONSENSUS, digests)
    if len(found) > 1 and len(found[1]) == size:
        return Consensus((), size, AttemptReason.AMBIGUOUS_CONSENSUS, digests)
    return Consensus(tuple(found[0]), size, None, digests)


def _passes(outputs: Outputs, expected: Outputs, comparator: str) -> bool:
    differs = comparator_named(comparator)
    return all(differs(x, y) is None for x, y in zip(outputs, expected, strict=True))
