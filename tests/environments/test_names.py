from collections import Counter

import pytest
from hypothesis import given

from dmc_optim.environments import FAMILIES, GRID, KEEPERS, build, compose, configurations, parse
from dmc_optim.environments.operators import (
    AbsoluteFilter,
    AbsoluteLimit,
    NoTests,
    QarRanking,
    RankedLimit,
    RelativeFilter,
    RelativeLimit,
    Unlimited,
)
from dmc_optim.errors import InvalidInputError
from tests.environments.strategies import families

CANONICAL = (
    "rlvr",
    "mc",
    "mc_tloc",
    "mc_mo",
    "abs_filter(a=2,limit=0.5,rho=0.1)",
    "charlen_filter(chars=100000,limit=0.5,rho=0.1)",
    "rel_filter(r=30,limit=2,rho=0.1)",
    "abs_timeout(limit=0.5,rho=0.1)",
    "rel_timeout(p=50,rho=0.1)",
    "ranked_timeout(p=80,agg=max,rho=0.1)",
    "qar(p=0.3)",
    "qp(p=0.3)",
)


@pytest.mark.parametrize("name", CANONICAL)
def test_canonical_names_round_trip(name):
    assert str(parse(name)) == name


def test_every_family_has_a_canonical_example_and_a_grid():
    assert [name.partition("(")[0] for name in CANONICAL] == list(FAMILIES) == list(GRID)


def test_table_38_has_1582_distinct_configurations():
    grid = configurations()
    assert len(grid) == len(set(grid)) == len({str(env) for env in grid}) == 1582
    counts = Counter(str(env).partition("(")[0] for env in grid)
    assert counts == {
        "rlvr": 1,
        "mc": 1,
        "mc_tloc": 1,
        "mc_mo": 1,
        "abs_filter": 7 * 7 * 8,
        "charlen_filter": 7 * 7 * 8,
        "rel_filter": 9 * 7 * 8,
        "abs_timeout": 7 * 8,
        "rel_timeout": 9 * 8,
        "ranked_timeout": 9 * 2 * 8,
        "qar": 9,
        "qp": 9,
    }


def test_every_configuration_round_trips():
    for env in configurations():
        assert parse(str(env)) == env
        assert str(parse(str(env))) == str(env)


@given(families())
def test_names_of_equal_operators_are_equal(chosen):
    env = build(chosen[0], **chosen[1])
    assert str(parse(str(env))) == str(env)
    composed = compose(
        pre=env.pre,
        intra=env.intra,
        post=env.post,
        rho=env.rho,
        added_tests=env.added_tests,
        correctness_cap_s=env.correctness_cap_s,
    )
    if chosen[1].get("p") != 100 and chosen[0] != "mc_mo":  # these have other names too
        assert composed == env


def test_combinations_without_a_family_are_named_by_their_operators():
    env = compose(pre=AbsoluteFilter(2.0), post=QarRanking(0.3))
    assert str(env) == "pre=AbsoluteFilter(a=2.0, agg='mean'); intra=Unlimited(); post=QarRanking(p=0.3); rho=1"
    assert str(compose(intra=AbsoluteLimit(10.0), rho=0.0)) == "abs_timeout(limit=10,rho=0)"


def test_operators_of_the_families():
    assert parse("rlvr") == compose(pre=NoTests(), added_tests=False)
    assert parse("mc_tloc").correctness_cap_s == 10
    assert (parse("mc_mo").intra, parse("mc_mo").rho) == (AbsoluteLimit(10), 0)
    assert parse("abs_filter(a=2,limit=0.5,rho=0.1)") == compose(
        pre=AbsoluteFilter(2), intra=AbsoluteLimit(0.5), rho=0.1
    )
    assert parse("rel_filter(r=30,limit=2,rho=0.1)") == compose(pre=RelativeFilter(30), intra=AbsoluteLimit(2), rho=0.1)
    assert parse("rel_timeout(p=50,rho=0.1)").intra == RelativeLimit(50)
    assert parse("ranked_timeout(p=80,agg=median,rho=0.1)").intra == RankedLimit(80, "median")
    assert parse("qar(p=0.3)") == compose(post=QarRanking(0.3))
    assert parse("rel_timeout(p=100,rho=0.1)").intra == Unlimited()


@pytest.mark.parametrize(
    ("alias", "canonical"),
    [
        (" QAR( p = 0.30 ) ", "qar(p=0.3)"),
        ("per_test_percentile(0.5)", "qar(p=0.5)"),
        ("leaderboard_percentile(p=0.5)", "qp(p=0.5)"),
        ("abs_filter(2, 0.5, 0.1)", "abs_filter(a=2,limit=0.5,rho=0.1)"),
        ("abs_filter(a=2,ℓ=0.5,ρ=0.1)", "abs_filter(a=2,limit=0.5,rho=0.1)"),
        ("abs_filter(a=2,limit=0.5,rho=0.1,agg=mean)", "abs_filter(a=2,limit=0.5,rho=0.1)"),
        ("abs_filter(a=2,limit=0.5,rho=0.1,agg=median)", "abs_filter(a=2,limit=0.5,rho=0.1,agg=median)"),
        ("length_filter(chars=1e5,limit=.5,rho=0)", "charlen_filter(chars=100000,limit=0.5,rho=0)"),
        ("ranked_worst(p=80,rho=0.1)", "ranked_timeout(p=80,agg=max,rho=0.1)"),
        ("MC+MO", "mc_mo"),
        ("mc+tloc", "mc_tloc"),
        ("standard_rlvr", "rlvr"),
        ("rlvr()", "rlvr"),
        ("qar(p=1.0)", "qar(p=1)"),
        ("Abs 2s", "abs_filter(a=2,limit=0.5,rho=0.1)"),
        ("RW p80", "ranked_timeout(p=80,agg=max,rho=0.1)"),
        ("QP p30", "qar(p=0.3)"),
        ("ranked p30", "qar(p=0.3)"),
        ("QAR p50", "qar(p=0.5)"),
        ("TL abs 0.5s", "abs_timeout(limit=0.5,rho=0.1)"),
        ("leaderboard percentile p10", "qp(p=0.1)"),
    ],
)
def test_aliases(alias, canonical):
    assert str(parse(alias)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qarr(p=0.3)", "unknown environment family 'qarr'; known: rlvr, mc"),
        ("qar", "lacks p"),
        ("qar(p=0.3,p=0.4)", "given twice"),
        ("qar(0.3,0.4)", "takes 1 parameters"),
        ("qar(p=fast)", "p must be a number"),
        ("qar(q=0.3)", "has no parameter q|lacks p"),
        ("qar(p=30)", "between 0 and 1"),
        ("qar(p=nan)", "between 0 and 1"),
        ("rel_timeout(p=110,rho=0)", "between 0 and 100"),
        ("abs_timeout(limit=0,rho=0)", "positive"),
        ("abs_timeout(limit=inf,rho=0)", "positive"),
        ("abs_timeout(limit=1,rho=2)", "rho must lie between 0 and 1"),
        ("abs_timeout(limit=1)", "lacks rho"),
        ("ranked_timeout(p=80,agg=min,rho=0)", "max, median"),
        ("ranked_timeout(p=100,agg=min,rho=0)", "max, median"),
        ("charlen_filter(chars=-1,limit=1,rho=0)", "between 0"),
        ("rel_filter(r=101,limit=1,rho=0)", "between 0 and 100"),
        ("mc_mo(rho=0)", "has no parameter rho"),
        ("nothing like it p30", "not of the form"),
        ("", "not of the form"),
    ],
)
def test_names_that_mean_nothing_are_refused(text, message):
    with pytest.raises(InvalidInputError, match=message):
        parse(text)


def test_the_four_keepers():
    assert [str(env) for env in KEEPERS] == [
        "abs_filter(a=2,limit=0.5,rho=0.1)",
        "ranked_timeout(p=80,agg=max,rho=0.1)",
        "qar(p=0.5)",
        "qar(p=0.3)",
    ]


def test_default_rewards():
    for name in CANONICAL:
        expected = "correctness_only/binary" if name in {"rlvr", "mc", "mc_tloc"} else "collapsed/binary"
        assert parse(name).default_reward == expected
