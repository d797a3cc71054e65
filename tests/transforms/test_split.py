"""The split: seeded, cluster-aware, of the size asked for; ablation pools."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.config import SplitConfig
from schemas.enums import Split
from transforms.datasets import memberships
from transforms.split import assign

POOLS = st.dictionaries(st.integers(0, 99).map(lambda i: f"train/{i}"), st.sampled_from([f"k{i}" for i in range(30)]))


@given(POOLS, st.floats(0, 0.99), st.integers(0, 5))
def test_no_cluster_is_split_and_the_size_is_never_exceeded(pool: dict[str, str], fraction: float, seed: int) -> None:
    sides = assign(pool, SplitConfig(test_fraction=fraction), seed)
    assert sides.keys() == pool.keys()
    by_cluster = defaultdict(set)
    for problem, side in sides.items():
        by_cluster[pool[problem]].add(side)
    assert all(len(found) == 1 for found in by_cluster.values())
    n_test = sum(side is Split.TEST for side in sides.values())
    assert n_test <= max(1, round(fraction * len(pool)))
    assert not pool or n_test < len(pool)


def test_singletons_give_exactly_the_size_asked_for() -> None:
    pool = {f"train/{i}": f"train/{i}" for i in range(50)}
    for seed in range(3):
        sides = assign(pool, SplitConfig(test_size=13), seed)
        assert sum(side is Split.TEST for side in sides.values()) == 13
    assert assign(pool, SplitConfig(test_size=13), 0) != assign(pool, SplitConfig(test_size=13), 1)


def test_the_split_does_not_depend_on_order() -> None:
    pool = {f"train/{i}": f"k{i % 7}" for i in range(40)}
    backwards = dict(reversed(pool.items()))
    assert assign(pool, SplitConfig(), 3) == assign(backwards, SplitConfig(), 3)


def test_ablation_pools_have_the_train_size_and_the_corpus_ratio() -> None:
    splits = {f"r{i}": ("rl", "train" if i < 30 else "test") for i in range(40)}
    splits |= {f"c{i}": ("complement", "none") for i in range(60)}
    members = memberships(splits, {}, seed=0)
    assert len(members["rl_pool"]) == 40
    assert len(members["rl_pool_complement"]) == 30
    assert len(members["rl_pool_mixed"]) == 30
    assert sum(p.startswith("r") for p in members["rl_pool_mixed"]) == 12  # 30 × 40 / 100
    assert all(splits[p][1] != "test" for p in members["rl_pool_mixed"])
    assert members["cleaned"]["c0"] == "complement"
    assert memberships({}, {}, 0)["rl_pool_mixed"] == {}


def test_no_pool_that_is_trained_on_has_a_twin_of_a_test_problem() -> None:
    splits = {f"r{i}": ("rl", "test" if i < 10 else "train") for i in range(40)}
    splits |= {f"c{i}": ("complement", "none") for i in range(60)}
    twins = {f"c{i}": f"r{i}" for i in range(10)} | {"c20": "r20"}
    members = memberships(splits, {p: twins.get(p, p) for p in splits}, seed=0)
    for config in ("rl_pool_mixed", "rl_pool_complement"):
        assert len(members[config]) == 30
        assert not members[config].keys() & {f"c{i}" for i in range(10)}
    assert members["cleaned"].keys() == splits.keys()
