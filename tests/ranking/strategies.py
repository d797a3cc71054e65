"""Hypothesis strategies for tables of durations, rich in ties, censoring and missing cells."""

import numpy as np
from hypothesis import strategies as st

COMMON = (0.25, 0.5, 1.0, 1.0, 2.0, 3.0, 4.0, 10.0)
ODD = (float("nan"), float("nan"), 0.0, -1.0, 20.0, float("inf"))

seconds = st.one_of(st.sampled_from(COMMON), st.floats(1e-4, 10.0, allow_nan=False))
cells = st.one_of(seconds, seconds, st.sampled_from(ODD))
calibrations = st.sampled_from([None, None, (0.6306, 0.0529), (1.0, 0.5), (2.0, -1.0)])


@st.composite
def tables(draw, min_references=0, max_references=6, min_tests=0, max_tests=6, cell=cells):
    """(H, T) raw reference durations."""
    n_references = draw(st.integers(min_references, max_references))
    n_tests = draw(st.integers(min_tests, max_tests))
    flat = draw(st.lists(cell, min_size=n_references * n_tests, max_size=n_references * n_tests))
    return np.array(flat, dtype=float).reshape(n_references, n_tests)


def rows(n_tests, cell=seconds):
    """(T,) candidate durations."""
    return st.lists(cell, min_size=n_tests, max_size=n_tests).map(np.array)
