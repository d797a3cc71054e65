"""Names of environments: families, their parameters, aliases, and the parser that reads them back."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dmc_optim.environments.environment import Environment
from dmc_optim.environments.operators import (
    AbsoluteFilter,
    AbsoluteLimit,
    CharacterFilter,
    NoRanking,
    NoTests,
    QarRanking,
    QpRanking,
    RelativeFilter,
    ranked_limit,
    relative_limit,
)
from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import CAP_S

Value = float | str


@dataclass(frozen=True)
class Family:
    """One row of Table 38: canonical parameters in order, their operators, and defaults of optional ones."""

    parameters: tuple[str, ...]
    operators: Callable[..., dict[str, Any]]
    defaults: tuple[tuple[str, Value], ...] = ()


def _rlvr() -> dict[str, Any]:
    return {"pre": NoTests(), "added_tests": False}


def _mc() -> dict[str, Any]:
    return {"pre": NoTests()}


def _mc_tloc() -> dict[str, Any]:
    return {"pre": NoTests(), "correctness_cap_s": CAP_S}


def _mc_mo() -> dict[str, Any]:
    return {"intra": AbsoluteLimit(CAP_S), "rho": 0.0}


def _abs_filter(a: float, limit: float, rho: float, agg: str) -> dict[str, Any]:
    return {"pre": AbsoluteFilter(a, agg), "intra": AbsoluteLimit(limit), "rho": rho}


def _charlen_filter(chars: float, limit: float, rho: float) -> dict[str, Any]:
    return {"pre": CharacterFilter(chars), "intra": AbsoluteLimit(limit), "rho": rho}


def _rel_filter(r: float, limit: float, rho: float, agg: str) -> dict[str, Any]:
    return {"pre": RelativeFilter(r, agg), "intra": AbsoluteLimit(limit), "rho": rho}


def _abs_timeout(limit: float, rho: float) -> dict[str, Any]:
    return {"intra": AbsoluteLimit(limit), "rho": rho}


def _rel_timeout(p: float, rho: float) -> dict[str, Any]:
    return {"intra": relative_limit(p), "rho": rho}


def _ranked_timeout(p: float, agg: str, rho: float) -> dict[str, Any]:
    return {"intra": ranked_limit(p, agg), "rho": rho}


def _qar(p: float) -> dict[str, Any]:
    return {"post": QarRanking(p)}


def _qp(p: float) -> dict[str, Any]:
    return {"post": QpRanking(p)}


FAMILIES: dict[str, Family] = {
    "rlvr": Family((), _rlvr),
    "mc": Family((), _mc),
    "mc_tloc": Family((), _mc_tloc),
    "mc_mo": Family((), _mc_mo),
    "abs_filter": Family(("a", "limit", "rho", "agg"), _abs_filter, (("agg", "mean"),)),
    "charlen_filter": Family(("chars", "limit", "rho"), _charlen_filter),
    "rel_filter": Family(("r", "limit", "rho", "agg"), _rel_filter, (("agg", "mean"),)),
    "abs_timeout": Family(("limit", "rho"), _abs_timeout),
    "rel_timeout": Family(("p", "rho"), _rel_timeout),
    "ranked_timeout": Family(("p", "agg", "rho"), _ranked_timeout, (("agg", "max"),)),
    "qar": Family(("p",), _qar),
    "qp": Family(("p",), _qp),
}
PRINTED_DEFAULTS = {"ranked_timeout"}  # families whose canonical name spells an optional parameter out

FAMILY_ALIASES = {
    "standard_rlvr": "rlvr",
    "mc+tloc": "mc_tloc",
    "mc+mo": "mc_mo",
    "absolute_filter": "abs_filter",
    "length_filter": "charlen_filter",
    "relative_filter": "rel_filter",
    "absolute_timeout": "abs_timeout",
    "relative_timeout": "rel_timeout",
    "ranked_worst": "ranked_timeout",
    "ranked_reference_timeout": "ranked_timeout",
    "per_test_percentile": "qar",
    "leaderboard_percentile": "qp",
}
PARAMETER_ALIASES = {"ℓ": "limit", "ρ": "rho", "tau": "limit", "b": "agg", "l": "limit", "aggregate": "agg"}

LABELS: tuple[tuple[str, str], ...] = (  # how the paper's figures and tables name runs; nn is a percent
    (r"(?:filter|abs|abs filter) 2 ?s", "abs_filter(a=2,limit=0.5,rho=0.1)"),
    (r"tl abs 0\.5 ?s", "abs_timeout(limit=0.5,rho=0.1)"),
    (r"(?:rw|ranked worst|ranked-worst) p(?P<nn>\d+)", "ranked_timeout(p={nn},agg=max,rho=0.1)"),
    (r"(?:qar|qp|ranked|per-test percentile) p(?P<nn>\d+)", "qar(p={fraction})"),  # "QP p30" of Figures 4-5 is QAR
    (r"leaderboard percentile p(?P<nn>\d+)", "qp(p={fraction})"),
)


def parse(text: str) -> Environment:
    """Environment of a canonical name, an alias, or a label of the paper.

    >>> str(parse("abs_filter(a=2, limit=0.5, rho=0.1)"))
    'abs_filter(a=2,limit=0.5,rho=0.1)'

    Raises:
        InvalidInputError: an unknown family, a missing, repeated or unknown parameter, a value out of range.
    """
    match = re.fullmatch(r"\s*([\w+]+)\s*(?:\(\s*(.*?)\s*\))?\s*", text, flags=re.DOTALL)
    if match is None:
        labelled = _label(text)
        if labelled is None:
            raise InvalidInputError(f"environment {text!r} is not of the form family(parameter=value,...)")
        return parse(labelled)
    name = match[1].lower()
    family = FAMILY_ALIASES.get(name, name)
    if family not in FAMILIES:
        raise InvalidInputError(f"unknown environment family {name!r}; known: {', '.join(FAMILIES)}")
    return build(family, **_arguments(family, match[2] or "", text))


def build(family: str, **parameters: Value) -> Environment:
    """Environment of a family from its parameters, named canonically.

    Raises:
        InvalidInputError: parameters that are missing, unknown or out of range.
    """
    spec = FAMILIES[family]
    values = dict(spec.defaults) | parameters
    missing = [name for name in spec.parameters if name not in values]
    unknown = [name for name in values if name not in spec.parameters]
    if missing or unknown:
        what = f"lacks {', '.join(missing)}" if missing else f"has no parameter {', '.join(unknown)}"
        raise InvalidInputError(f"{family}({','.join(spec.parameters)}) {what}")
    for name, value in values.items():
        if isinstance(value, str) != (name == "agg"):
            raise InvalidInputError(f"{family}: {name} cannot be {value!r}")
    return Environment(_canonical(family, values), **spec.operators(**values))


def compose(**operators: Any) -> Environment:
    """Environment put together from operators (pre, intra, post, rho, ...), named after its family if it has one.

    A combination that no family has is named by its operators; such a name is for people, `parse` does not read it.
    """
    env = Environment("", **operators)
    family, values = _family_of(env)
    if family is not None:
        named = build(family, **values)
        if replace(named, name="") == env:
            return named
    return replace(env, name=f"pre={env.pre}; intra={env.intra}; post={env.post}; rho={_number(env.rho)}")


def _family_of(env: Environment) -> tuple[str | None, dict[str, Value]]:
    def values(*objects: object) -> dict[str, Value]:
        return {name: value for item in objects for name, value in vars(item).items()}

    if isinstance(env.pre, NoTests):
        return ("rlvr" if not env.added_tests else "mc" if env.correctness_cap_s is None else "mc_tloc"), {}
    if not isinstance(env.post, NoRanking):
        return ("qar" if isinstance(env.post, QarRanking) else "qp"), values(env.post)
    found = values(env.pre, env.intra) | {"rho": env.rho}
    for name, family in FAMILIES.items():
        required = set(family.parameters) - {key for key, _ in family.defaults}
        if required and required <= set(found) <= set(family.parameters):
            return name, found
    return None, {}


def _arguments(family: str, inside: str, text: str) -> dict[str, Value]:
    names = FAMILIES[family].parameters
    values: dict[str, Value] = {}
    items = [item.strip() for item in inside.split(",")] if inside else []
    for place, item in enumerate(items):
        key, equals, raw = (part.strip() for part in item.partition("="))
        if not equals:
            if place >= len(names):
                raise InvalidInputError(f"environment {text!r}: {family} takes {len(names)} parameters")
            key, raw = names[place], item
        key = key if key in names else PARAMETER_ALIASES.get(key.lower(), key)
        if key in values:
            raise InvalidInputError(f"environment {text!r}: {key} is given twice")
        values[key] = _value(key, raw, text)
    return values


def _value(key: str, raw: str, text: str) -> Value:
    if key == "agg":
        return raw.lower()
    try:
        return float(raw)
    except ValueError:
        raise InvalidInputError(f"environment {text!r}: {key} must be a number; got {raw!r}") from None


def _label(text: str) -> str | None:
    plain = " ".join(text.lower().replace("_", " ").split())
    for pattern, template in LABELS:
        match = re.fullmatch(pattern, plain)
        if match:
            nn = int(match.groupdict().get("nn") or 0)
            return template.format(nn=nn, fraction=nn / 100)
    return None


def _canonical(family: str, values: dict[str, Value]) -> str:
    spec = FAMILIES[family]
    defaults = {} if family in PRINTED_DEFAULTS else dict(spec.defaults)
    shown = [(name, values[name]) for name in spec.parameters if defaults.get(name) != values[name]]
    if not shown:
        return family
    return f"{family}({','.join(f'{name}={_number(value)}' for name, value in shown)})"


def _number(value: Value) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if float(value).is_integer() else repr(float(value))
