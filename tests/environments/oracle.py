"""Environments recomputed from the definitions, one family at a time, with loops and exact fractions."""

from fractions import Fraction

from tests.ranking.oracle import CAP, best_references, column, leaderboard, mean, median, quantile


def decimal(value):
    """A parameter as the decimal that was written."""
    return Fraction(str(value))


def signals(family, parameters, problem, rollout):
    """(c_cor, c̃_cor, g, q, φ, q_QAR, q_QP) with exact q.

    problem: dict base, added, chars, rows (list of rows of Fractions or None).
    rollout: dict base, added, status (lists of names), delta (list of Fractions or None).
    """
    rows, n_tests = problem["rows"], len(rollout["status"])
    delta = [
        CAP if rollout["status"][t] == "timeout" or rollout["delta"][t] is None else rollout["delta"][t]
        for t in range(n_tests)
    ]
    correctness = list(rollout["base"]) + ([] if family == "rlvr" else list(rollout["added"]))
    c_cor = all(status == "success" for status in correctness)
    if family in {"rlvr", "mc", "mc_tloc"}:
        return c_cor, c_cor, True, Fraction(0), Fraction(0), None, None
    kept = filtered(family, parameters, problem, n_tests)
    limit = limits(family, parameters, rows, kept, n_tests)
    used = [t for t in kept if limit[t] is not None]
    late = [
        t
        for t in used
        if rollout["status"][t] == "timeout"
        or (rollout["status"][t] == "success" and limit[t] != "none" and delta[t] >= limit[t])
    ]
    phi = Fraction(len(late), len(used)) if used else Fraction(0)
    strict = c_cor and not any(rollout["status"][t] == "failure" for t in used)
    if family in {"qar", "qp"}:
        _, qar, qp, _ = leaderboard(delta, rows, used)
        q = qar if family == "qar" else qp
        if q is None:
            return c_cor, strict, True, Fraction(0), phi, None, None
        return c_cor, strict, q <= decimal(parameters["p"]), q, phi, qar, qp
    if parameters.get("p") == 100:
        return c_cor, strict, True, Fraction(0), phi, None, None
    rho = Fraction(0) if family == "mc_mo" else decimal(parameters["rho"])
    return c_cor, strict, phi <= rho, phi, phi, None, None


def filtered(family, parameters, problem, n_tests):
    rows = problem["rows"]
    everything = list(range(n_tests))
    how = {"mean": mean, "median": median}[parameters.get("agg", "mean")] if "filter" in family else None
    if family == "abs_filter":
        aggregate = [how(column(rows, t)) for t in everything]
        return [t for t in everything if aggregate[t] is not None and aggregate[t] < decimal(parameters["a"])]
    if family == "charlen_filter":
        return [t for t in everything if problem["chars"][t] <= parameters["chars"]]
    if family == "rel_filter":
        ranked = sorted((how(column(rows, t)), t) for t in everything if column(rows, t))
        drop = int(decimal(parameters["r"]) * len(ranked) / 100)
        dropped = {t for _, t in ranked[len(ranked) - drop :]}
        return [t for t in everything if t not in dropped]
    return everything


def limits(family, parameters, rows, kept, n_tests):
    """λ_t: seconds, "none" for no limit, None for an omitted test."""
    if family in {"qar", "qp"} or parameters.get("p") == 100:
        return ["none"] * n_tests
    if family == "mc_mo":
        return [CAP] * n_tests
    if family == "rel_timeout":
        return [quantile(column(rows, t), parameters["p"]) if column(rows, t) else None for t in range(n_tests)]
    if family == "ranked_timeout":
        best = best_references(rows, kept, parameters["p"])
        limit = []
        for t in range(n_tests):
            durations = [rows[h][t] for h in best if rows[h][t] is not None]
            limit.append((max(durations) if parameters["agg"] == "max" else median(durations)) if durations else None)
        return limit
    return [decimal(parameters["limit"])] * n_tests
