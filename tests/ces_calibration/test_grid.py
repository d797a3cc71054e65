"""Table 34, entry by entry."""

import pytest

from dmc_optim.ces.calibration.grid import (
    Affine,
    linear_family,
    named_calibration,
    relative_sweeps,
    reward_calibrations,
    score_calibrations,
)
from dmc_optim.errors import InvalidInputError

TABLE_34 = {
    "ab1": (0.594939, 0.054482),
    "ab2": (0.612762, 0.053698),
    "ab3": (0.630585, 0.052914),
    "ab4": (0.648407, 0.052130),
    "ab5": (0.666230, 0.051345),
    "ab6": (0.684053, 0.050561),
    "ab7": (0.701876, 0.049777),
    "ab8": (0.719699, 0.048993),
    "s0": (0.701876, 0.049777),
    "s1": (0.691227, 0.048502),
    "s2": (0.680578, 0.047228),
    "s3": (0.669928, 0.045953),
    "s4": (0.659279, 0.044679),
    "s5": (0.648630, 0.043404),
    "s6": (0.637981, 0.042130),
    "s7": (0.627331, 0.040855),
    "s8": (0.616682, 0.039581),
    "s9": (0.606033, 0.038306),
}


def test_every_entry_of_the_paper():
    points = {**reward_calibrations(), **score_calibrations()}
    assert list(points) == list(TABLE_34)
    for name, (alpha, beta) in TABLE_34.items():
        assert points[name].alpha == pytest.approx(alpha, abs=1e-6)
        assert points[name].beta_s == pytest.approx(beta, abs=1e-6)


@pytest.mark.parametrize("name", ["ab3", "s5", "ab1", "ab8", "s0", "s9"])
def test_named_vectors_to_six_decimals(name):
    point = named_calibration(name)
    assert (round(point.alpha, 6), round(point.beta_s, 6)) == TABLE_34[name]


def test_own_numbers_and_nonsense():
    assert named_calibration("0.6306,0.0529") == Affine(0.6306, 0.0529)
    for name in ("ab9", "s10", "0.6", "a,b", ""):
        with pytest.raises(InvalidInputError, match="is no calibration"):
            named_calibration(name)


def test_a_family_has_both_ends():
    points = linear_family(Affine(1.0, 0.0), Affine(2.0, 0.4), 5)
    assert [p.alpha for p in points] == [1.0, 1.25, 1.5, 1.75, 2.0]
    assert points[-1].beta_s == 0.4
    with pytest.raises(InvalidInputError):
        linear_family(Affine(1, 0), Affine(2, 0), 1)


def test_sweeps_move_by_the_papers_shares():
    sweeps = relative_sweeps(Affine(0.7019, 0.0498))
    assert sweeps["beta"][-1].beta_s == pytest.approx(0.0344)
    assert sweeps["alpha"][-1].alpha == pytest.approx(0.5692)
    assert {p.alpha for p in sweeps["beta"]} == {0.7019}
    assert {p.beta_s for p in sweeps["alpha"]} == {0.0498}
