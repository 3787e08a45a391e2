"""Beginnings that prompts have in common: against every pair of prompts, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bathyscope.prompts.beginnings import share_in_common


def by_pairs(prompts: list[tuple[int, ...]]) -> float:
    """Compare every prompt with every other one, token by token."""
    longest = []
    for prompt in prompts:
        same = [
            len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(prompt, other))))
            for other in prompts
            if other != prompt
        ]
        longest.append(max(same, default=0))
    return sum(longest) / sum(map(len, prompts))


@pytest.mark.parametrize("seed", range(5))
def test_the_share_is_that_of_all_pairs_of_prompts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prompts = list({tuple(rng.integers(0, 2, rng.integers(1, 9)).tolist()) for _ in range(12)})
    assert 0 < by_pairs(prompts) < 1
    assert share_in_common(prompts) == pytest.approx(by_pairs(prompts))


def test_copies_and_single_prompts_have_nothing_in_common() -> None:
    assert share_in_common([[1, 2], [1, 2]]) == share_in_common([[1, 2]]) == share_in_common([]) == 0
