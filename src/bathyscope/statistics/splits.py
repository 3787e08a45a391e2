"""Prompts dealt out to fitting maps, choosing their ridge penalty, and testing them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bathyscope.core.arrays import IntArray
from bathyscope.errors import OptionError, PromptError, warn

FEWEST = 4
"""Prompts: one to fit, one to choose by, two to test, since an interval over prompts needs two."""

_COMFORTABLE = 4
"""Tokens for each feature below which a map is far from what more text would give."""


@dataclass(frozen=True)
class Splits:
    """Numbers of the prompts of each split, in ascending order; every prompt is in one of them."""

    fit: tuple[int, ...]
    choose: tuple[int, ...]
    test: tuple[int, ...]


def require_shares(choose_share: float, test_share: float, where: str = "") -> None:
    """Refuse shares that leave nothing on some side.

    Args:
        where: begins the message, such as ``"translated_lens: "``.

    Raises:
        OptionError: with what is allowed.
    """
    for name, share in (("choose_share", choose_share), ("test_share", test_share)):
        if not 0 < share < 1:
            raise OptionError(f"{where}{name}={share} is out of range; allowed: above 0 and below 1, such as 0.1.")
    if choose_share + test_share >= 1:
        raise OptionError(
            f"{where}choose_share={choose_share} and test_share={test_share} leave no prompts to fit maps to; together "
            "they must be below 1."
        )


def split(
    prompts: int, choose_share: float, test_share: float, seed: int, cluster: IntArray | None = None, noun: str = ""
) -> Splits:
    """Deals out whole prompts at random, or clusters [prompts] of them, which have one number; ``noun`` is their name.

    Shares are of the prompts or clusters, rounded, but at least one to choose by and two to test; the rest are fitted
    to.
    """
    require_shares(choose_share, test_share)
    _, of = np.unique(np.arange(prompts) if cluster is None else cluster, return_inverse=True)
    units, what = len(set(of.tolist())), noun or ("prompts" if cluster is None else "clusters of prompts")
    if units < FEWEST:
        raise PromptError(
            f"Maps need at least {FEWEST} {what} (to fit, to choose the ridge penalty by, and two to test); {units} "
            "given. Give more prompts, or cut a text into more windows (corpus.txt?window=256)."
        )
    test = min(max(2, round(units * test_share)), units - 2)
    choose = min(max(1, round(units * choose_share)), units - test - 1)
    order = np.random.default_rng(seed).permutation(units)
    parts = np.split(order, [units - choose - test, units - test])
    return Splits(*(tuple(np.flatnonzero(np.isin(of, part)).tolist()) for part in parts))


def require_tokens(splits: Splits, tokens: Callable[[Sequence[int]], int], width: int) -> None:
    """Refuse fewer fitted tokens than a map has free values per target channel, and warn where there are few.

    With fewer, a map would fit any two models exactly.

    Args:
        tokens: how many tokens count in some prompts.
        width: of the source's residual stream.
    """
    n_tokens, features = tokens(splits.fit), width + 1
    prompts = len(splits.fit)
    if n_tokens <= features:
        times = -(-_COMFORTABLE * features // max(n_tokens, 1))
        raise PromptError(
            f"There are {n_tokens} tokens to fit maps to (of {prompts} prompts, position 0 left out), and a map from a "
            f"residual stream of width {width} has {features} values for every channel of its target: it would "
            f"give these tokens exactly. Give at least {times} times as much text."
        )
    if n_tokens < _COMFORTABLE * features:
        warn(
            f"Maps are fitted to {n_tokens} tokens with {features} values for every channel, fewer than {_COMFORTABLE} "
            "tokens for each: their errors on the test prompts would be smaller with more text."
        )
