"""Programs that misbehave, or behave in rare ways, with the statuses that a plain reading of the contract allows.

Data only; test_variants.py runs them, each followed by an ordinary program in the same slot.
"""

from dataclasses import dataclass

STATUSES = {
    "S": "success",
    "W": "wrong_answer",
    "R": "runtime_exception",
    "T": "timeout",
    "M": "out_of_memory",
    "O": "output_limit",
    "X": "syntax_error",
}


@dataclass(frozen=True)
class Variant:
    """One program on one input. statuses: initials of the accepted ones; expected None: nothing is compared."""

    statuses: str
    solution: str | bytes
    expected: bytes | None = b""
    input: bytes = b""
    comparator: str = "trimmed"

    @property
    def accepted(self) -> set[str]:
        """Statuses in full."""
        return {STATUSES[initial] for initial in self.statuses}

    @property
    def code(self) -> bytes:
        """The program as bytes."""
        return self.solution if isinstance(self.solution, bytes) else self.solution.encode()
