"""The policy-gradient objective (paper Appendix F)."""

from typing import Any

import numpy as np

from dmc_optim.errors import InvalidInputError


def advantages(returns: Any, lengths: Any) -> Any:
    r"""Token-weighted centred advantages of one group.

    Â_i = R_i − μ_x,  μ_x = Σ_j L_j R_j / Σ_j L_j, without division by a standard deviation, so Σ_i L_i Â_i = 0.

    Args:
        returns: (G,) R_i, a torch tensor or anything NumPy reads.
        lengths: (G,) L_i ≥ 0, model-generated tokens, of the same kind.

    Returns:
        (G,) of the kind and floating type of returns.

    Raises:
        InvalidInputError: not one group, different shapes, a return that is not finite, no token at all.

    Source: paper Eq. 38.
    """
    if type(returns).__module__.partition(".")[0] == "torch":
        import torch  # loaded already, since the caller holds a tensor

        wide = returns.detach().double()
        weights = torch.as_tensor(lengths, dtype=torch.float64, device=returns.device)
        _check(wide.cpu().numpy(), weights.cpu().numpy())
        return returns - ((weights * wide).sum() / weights.sum()).to(returns.dtype)
    values = np.asarray(returns, dtype=np.result_type(np.asarray(returns).dtype, np.float32))
    weights = np.asarray(lengths, dtype=np.float64)
    _check(values, weights)
    return values - values.dtype.type((weights * values).sum() / weights.sum())


def _check(returns: Any, lengths: Any) -> None:
    if returns.ndim != 1 or returns.shape != lengths.shape:
        raise InvalidInputError(f"a group needs one length for each return; got {returns.shape} and {lengths.shape}")
    if not np.all(np.isfinite(returns)):
        raise InvalidInputError("every return of a group must be finite; leave unscored rollouts out of it")
    if not np.all(lengths >= 0) or not lengths.sum() > 0:
        raise InvalidInputError("lengths must be non-negative token counts with a positive sum")
