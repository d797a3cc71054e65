"""Matching against a benchmark, clusters, statement rules."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from dmc_optim.config import DedupConfig
from schemas.enums import Reason
from transforms.dedup import (
    Matcher,
    benchmark_match,
    clusters,
    jaccard,
    normalise,
    shingles,
    signature,
    statement_rules,
)

CONFIG = DedupConfig()
WORDS = [f"word{i}" for i in range(400)]


def text(seed: int, length: int = 120) -> list[str]:
    rng = random.Random(seed)
    return [rng.choice(WORDS) for _ in range(length)]


def test_normalising_ignores_case_punctuation_and_white_space() -> None:
    assert normalise("  You are GIVEN:\n\n n_items, (x-1)!") == "you are given n items x 1"


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.lists(st.sampled_from("abcd"), max_size=30))
def test_jaccard_equals_the_definition_on_sets_of_runs(a: list[str], b: list[str]) -> None:
    def runs(words: list[str]) -> set[tuple[str, ...]]:
        return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))} if words else set()

    expected = len(runs(a) & runs(b)) / len(runs(a) | runs(b)) if a or b else 0.0
    assert jaccard(shingles(" ".join(a), 5), shingles(" ".join(b), 5)) == expected


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 20))
def test_near_duplicates_are_found_exactly_from_the_threshold_on(seed: int, changes: int) -> None:
    words = text(seed)
    other = words[: len(words) - changes] + [f"new{i}" for i in range(changes)]
    benchmark = Matcher([signature("bench#1", " ".join(words), CONFIG)], CONFIG)
    query = signature("train/0", " ".join(other), CONFIG)
    similarity = jaccard(shingles(" ".join(words), 5), query.hashes)
    drop = benchmark_match(query, benchmark)
    if changes == 0:
        assert drop is not None
        assert drop.reason == Reason.BENCHMARK_EXACT
    else:
        assert (drop is not None and drop.reason == Reason.BENCHMARK_NEAR) == (similarity >= 0.8)
        if drop is not None:
            assert drop.value == similarity
            assert "bench#1" in drop.detail


def test_clusters_are_transitive_and_named_by_their_smallest_member() -> None:
    base = text(1, 200)
    chain = {
        "train/3": base,
        "train/1": [*base[:190], *(f"x{i}" for i in range(10))],
        "train/2": base,
        "train/9": text(2, 200),
    }
    found = clusters([signature(k, " ".join(w), CONFIG) for k, w in sorted(chain.items())], CONFIG)
    assert found == {"train/1": "train/1", "train/2": "train/1", "train/3": "train/1", "train/9": "train/9"}


def test_statement_rules() -> None:
    def reason(statement: str) -> str | None:
        drop = statement_rules(statement, CONFIG)
        return None if drop is None else drop.reason

    assert reason(" \n") == Reason.STATEMENT_EMPTY
    assert reason("x" * 79) == Reason.STATEMENT_SHORT
    assert reason("x" * 80) is None
    assert reason("<image> " * 20) == Reason.STATEMENT_IMAGES_ONLY
    assert reason('<img src="a.png">\n' * 10 + "find the sum of all numbers") is None


def test_an_empty_statement_matches_nothing() -> None:
    benchmark = Matcher([signature("bench#1", "...", CONFIG)], CONFIG)
    assert benchmark_match(signature("train/0", "", CONFIG), benchmark) is None
