"""Families of environments as reports name, group and colour them."""

import re
from dataclasses import dataclass

Value = float | int | str

POINTS = ("pre-execution", "intra-execution", "post-execution", "baseline")


@dataclass(frozen=True)
class FamilyLook:
    """label: words for a reader. point: intervention point, an index into POINTS. colour: index into the palette."""

    label: str
    point: int
    colour: int


LOOKS: dict[str, FamilyLook] = {
    "rlvr": FamilyLook("Standard RLVR", 3, 7),
    "mc": FamilyLook("More correctness", 3, 7),
    "mc_tloc": FamilyLook("MC + 10 s cap", 3, 7),
    "mc_mo": FamilyLook("MC + optimization tests", 3, 7),
    "abs_filter": FamilyLook("Absolute filter", 0, 0),
    "charlen_filter": FamilyLook("Character-length filter", 0, 5),
    "rel_filter": FamilyLook("Relative filter", 0, 2),
    "abs_timeout": FamilyLook("Absolute time-out", 1, 3),
    "rel_timeout": FamilyLook("Relative time-out", 1, 6),
    "ranked_timeout": FamilyLook("Ranked-reference time-out", 1, 1),
    "qar": FamilyLook("Per-test percentile (QAR)", 2, 4),
    "qp": FamilyLook("Leaderboard percentile (QP)", 2, 7),
}


def dissect(name: str) -> tuple[str, dict[str, Value]]:
    """Family and parameters of a canonical environment name.

    >>> dissect("ranked_timeout(p=80,agg=max,rho=0.1)")
    ('ranked_timeout', {'p': 80, 'agg': 'max', 'rho': 0.1})
    """
    match = re.fullmatch(r"(\w+)(?:\((.*)\))?", name)
    if match is None:
        return name, {}
    pairs = (item.split("=", 1) for item in (match[2] or "").split(",") if item)
    return match[1], {key: _value(text) for key, text in pairs}


def look(family: str) -> FamilyLook:
    """How a family is shown; one without a look of its own is shown under its name."""
    return LOOKS.get(family, FamilyLook(family, 3, 7))


def _value(text: str) -> Value:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number
