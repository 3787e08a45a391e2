"""What another order of summation leaves of two numbers that are equal in exact arithmetic.

Kernels of matrix products sum in an order that depends on the sizes of a call, and on the processor, its library and
the number of threads. So there are two promises, and a test says which it holds a thing to:

- ``assert_same_bits``: both sides make the same calls on the same numbers in the same shapes. Equal bits on every
  machine.
- ``assert_same_but_rounding``: calls differ in shape. Equal up to ``floor``, which follows from dtype, width, depth.

``rounding`` is for what is exactly 0 where this processor rounds a row alike in calls of every size, and below the
floor elsewhere. ``make test-any-machine`` runs the tests on a processor that never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from support import naive
from torch import nn

_BATCHES = (2, 3, 5, 8, 13)
_MOST = 1e-3
"""Share of the largest value that is an effect, whatever the model."""
_SHORTEST = 4
"""Tokens below which no kernel rounds alike: one row is a product of its own."""


def floor(hf: nn.Module, dtype: torch.dtype = torch.float32) -> float:
    """Return the share of the largest value that rounding may move any, eps · D · L for width D and L blocks.

    Two orders of summation of D products differ by at most D · eps of the sum of their sizes (Higham, Accuracy and
    Stability of Numerical Algorithms, 2002, 3.1), and each block adds one such difference to the stream.
    """
    width, depth = _sizes(hf)
    return float(torch.finfo(dtype).eps * width * depth)


def bound_of_shares(hf: nn.Module, least: float = 1e-5) -> float:
    """Return ``floor``, or ``least`` where that is larger, for shares of the largest value; never above 0.1 %.

    Raises:
        AssertionError: a model so wide and deep that its floor would let an effect pass for rounding.
    """
    bound = max(least, floor(hf))
    assert bound < _MOST, f"the floor of {type(hf).__name__} is {bound:.1e}, which is no rounding any more"
    return bound


def bound_of_differences(hf: nn.Module, least: float) -> float:
    """Return how far two numbers of other calls may lie apart: each is within ``floor`` of the exact one.

    That is granted only to models whose rounding grows on its way; others are held to ``least``.
    """
    return max(least, 2 * bound_of_shares(hf)) if _grows(hf) else least


def _grows(hf: nn.Module) -> bool:
    """Whether blocks keep a state over tokens by the delta rule, which divides by the norms of keys."""
    return any("Delta" in type(module).__name__ for module in hf.modules())


def assert_same_bits(actual: Any, expected: Any, what: str = "") -> None:
    """Compare values of the same calls in the same shapes, by the bit; NaN equals NaN."""
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected), err_msg=what)


def assert_same_but_rounding(actual: Any, expected: Any, hf: nn.Module, what: str = "") -> None:
    """Compare values of calls in other shapes: within ``floor`` of the largest of them, and of 1 where all are smaller.

    Args:
        hf: the model that they were computed with, in float32.
        what: names the values, for the message.
    """
    values, bound = np.asarray(expected, dtype=np.float64), floor(hf)
    finite = np.abs(values[np.isfinite(values)])
    scale = max(1.0, float(finite.max(initial=0.0)))
    np.testing.assert_allclose(np.asarray(actual), values, rtol=0, atol=bound * scale, err_msg=what)


def _sizes(hf: nn.Module) -> tuple[int, int]:
    """Return width and blocks."""
    config: Any = hf.config
    settings = config.get_text_config(decoder=True)
    return int(settings.hidden_size), int(settings.num_hidden_layers)


@torch.no_grad()
def rounding(hf: nn.Module, lengths: Sequence[int]) -> float:
    """Return what may be left of zero in float32, as a share of the value: eps · √D · L where errors are independent.

    Args:
        lengths: tokens of the prompts that the test computes; tails of them are shorter.
    """
    for length in range(_SHORTEST, max(lengths) + 1):
        ids = (torch.arange(length) % 7 + 1).tolist()
        alone = naive.logits(hf, ids)
        for rows in _BATCHES:
            batch = hf(input_ids=torch.tensor([ids] * rows), use_cache=False).logits
            if not all(torch.equal(row, alone) for row in batch):
                width, depth = _sizes(hf)
                return float(torch.finfo(torch.float32).eps * width**0.5 * depth)
    return 0.0
