"""Consensus: the largest group, ties, and agreement under the build's comparator."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from schemas.enums import AttemptReason
from transforms.consensus import consensus, groups, outputs_digest

SOLUTIONS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3), st.lists(st.sampled_from([b"1\n", b"2\n"]), min_size=2, max_size=2)
)


@given(SOLUTIONS)
def test_exact_consensus_equals_counting_equal_lists(outputs: dict[str, list[bytes]]) -> None:
    found = consensus(outputs, "exact")
    counts = Counter(tuple(o) for o in outputs.values()).most_common()
    top = counts[0][1] if counts else 0
    if top < 2:
        assert (found.reason, found.agreed) == (AttemptReason.NO_CONSENSUS, ())
    elif len(counts) > 1 and counts[1][1] == top:
        assert (found.reason, found.agreed) == (AttemptReason.AMBIGUOUS_CONSENSUS, ())
    else:
        assert found.reason is None
        assert list(found.agreed) == sorted(s for s, o in outputs.items() if tuple(o) == counts[0][0])
    assert found.size == top


def test_two_equally_large_groups_that_disagree_reject() -> None:
    outputs = {"a": [b"1"], "b": [b"1"], "c": [b"2"], "d": [b"2"], "e": [b"3"]}
    assert consensus(outputs, "trimmed").reason is AttemptReason.AMBIGUOUS_CONSENSUS
    assert consensus(outputs | {"f": [b"2\n"]}, "trimmed").agreed == ("c", "d", "f")


def test_agreement_is_the_comparators() -> None:
    outputs = {"a": [b"1.0\n"], "b": [b"1.0000001\n"], "c": [b"7\n"]}
    assert consensus(outputs, "trimmed").reason is AttemptReason.NO_CONSENSUS
    assert consensus(outputs, "tokens_float:1e-6").agreed == ("a", "b")


def test_digest_is_equal_for_outputs_that_are_equal_under_the_comparator() -> None:
    assert outputs_digest([b"1 2  \r\n\n"], "trimmed") == outputs_digest([b"1 2\n"], "trimmed")
    assert outputs_digest([b"1 2 \n"], "exact") != outputs_digest([b"1 2\n"], "exact")
    assert outputs_digest([b"1\n 2"], "tokens") == outputs_digest([b"1 2"], "tokens")


def test_members_pass_with_the_leaders_outputs_as_expected_ones() -> None:
    """The relative tolerance is of the expected value: 110.5 is not within a tenth of 100, though 100 is of 110.5."""
    assert consensus({"a": [b"100"], "b": [b"110.5"]}, "tokens_float:0.1").size == 1
    assert consensus({"a": [b"110.5"], "b": [b"100"]}, "tokens_float:0.1").agreed == ("a", "b")


@given(
    st.dictionaries(st.text("abcd", min_size=1, max_size=2), st.lists(st.integers(0, 4), min_size=1, max_size=1)),
    st.sampled_from(["exact", "trimmed", "tokens", "tokens_float:1.5"]),
)
def test_digests_are_equal_exactly_within_a_group(values: dict[str, list[int]], comparator: str) -> None:
    outputs = {s: [f"{v}.0\n".encode() for v in own] for s, own in values.items()}
    found = consensus(outputs, comparator)
    for group in groups(outputs, comparator):
        (digest,) = {found.digests[s] for s in group}
        assert [s for s in sorted(outputs) if found.digests[s] == digest] == group
    assert found.digests.keys() == outputs.keys()
