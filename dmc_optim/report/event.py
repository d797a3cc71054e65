"""What stories are made of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One line of a story. reason, value, threshold: what decided, when something was dropped."""

    stage: str
    text: str
    reason: str | None = None
    value: float | None = None
    threshold: float | None = None
