import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.errors import InvalidInputError
from dmc_optim.train.objective import advantages

groups = st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 32_768)), min_size=1, max_size=16).filter(
    lambda group: any(length for _, length in group)
)


@given(groups)
def test_equation_38_by_exact_fractions(group):
    returns, lengths = zip(*group, strict=True)
    mean = sum(Fraction(r) * n for r, n in group) / sum(lengths)
    expected = [float(Fraction(r) - mean) for r in returns]
    np.testing.assert_allclose(advantages(returns, lengths), expected, atol=1e-12)


@given(groups)
def test_token_weighted_advantages_sum_to_zero(group):
    returns, lengths = (np.array(column) for column in zip(*group, strict=True))
    assert abs(lengths @ advantages(returns, lengths)) <= 1e-12 * lengths.sum()


def test_there_is_no_division_by_the_deviation():
    np.testing.assert_allclose(advantages([1, -1, -1, -1], [10, 10, 10, 10]), [1.5, -0.5, -0.5, -0.5])
    np.testing.assert_array_equal(advantages([0.5, 0.5], [3, 900]), [0, 0])


@pytest.mark.train
def test_torch_tensors():
    torch = pytest.importorskip("torch")
    returns, lengths = [1.0, -1.0, 0.25], [100, 3000, 517]
    expected = advantages(returns, lengths)
    for given_lengths in (lengths, torch.tensor(lengths)):
        got = advantages(torch.tensor(returns, dtype=torch.float64), given_lengths)
        np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)
    assert advantages(torch.tensor(returns, dtype=torch.bfloat16), lengths).dtype == torch.bfloat16


def test_without_a_tensor_torch_is_not_imported():
    code = "import sys; from dmc_optim.train.objective import advantages; advantages([1, 0], [1, 1]); "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("returns", "lengths", "message"),
    [
        ([1.0, 2.0], [1], "one length for each return"),
        ([[1.0]], [[1]], "one length for each return"),
        ([np.nan], [1], "finite"),
        ([1.0], [0], "positive sum"),
        ([1.0], [-1], "non-negative"),
        ([1.0, 1.0], [np.nan, 1], "non-negative"),
    ],
)
def test_unusable_groups_are_refused(returns, lengths, message):
    with pytest.raises(InvalidInputError, match=message):
        advantages(returns, lengths)
