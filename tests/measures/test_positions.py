from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.errors import OptionError
from bathyscope.measures.of.direct import DirectOptions
from bathyscope.measures.of.skip import SkipOptions
from bathyscope.measures.positions import check_positions, sample_positions
from bathyscope.options import coerce


@given(st.lists(st.integers(1, 120), max_size=6), st.integers(0, 1000))
def test_every_eighth_token_shuffled_first_four(lengths: list[int], seed: int) -> None:
    draw = random.Random(seed)
    for found, length in zip(sample_positions(lengths, seed), lengths, strict=True):
        candidates = [t for t in range(length) if t >= 8 and t % 8 == 0 and t < length - 4]
        draw.shuffle(candidates)
        assert list(found) == candidates[:4]


def test_short_prompts_have_none() -> None:
    assert sample_positions([2, 12, 13], 0) == [(), (), (8,)]


def test_seed_123_draws_the_published_positions(shared: Callable[[str], Path]) -> None:
    golden = json.loads(shared("goldens/csordas2025_tiny-qwen2.json").read_text())
    lengths = [len(ids) for ids in golden["tokens"]]
    assert [list(own) for own in sample_positions(lengths, 123)] == golden["positions"]


def test_positions_of_the_caller_are_kept_in_order() -> None:
    assert check_positions([[5, 1], [], [3]], [6, 9, 4], "skip") == [(5, 1), (), (3,)]
    # a single list is for all prompts
    assert check_positions([[3, 1]], [6, 9, 4], "skip") == [(3, 1)] * 3


@pytest.mark.parametrize("options", [SkipOptions, DirectOptions])
@pytest.mark.parametrize("positions", [[3, 7], 3, "3,7", [[3], 7]])
def test_a_flat_list_could_mean_two_things_and_is_refused(options: type, positions: object) -> None:
    with pytest.raises(OptionError, match=r"is no list of lists\. Give one for each prompt, .* all prompts: \[\[3"):
        coerce(options, {"positions": positions}, "skip")


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (
            [[1], [2], [3]],
            "skip: positions has 3 lists for 2 prompts; give one list per prompt, or a single one for all.",
        ),
        ([[0], [1]], "skip: position 0 of prompt 0 is out of range; this prompt has 5 tokens, allowed: 1 to 4."),
        ([[1], [7]], "skip: position 7 of prompt 1 is out of range; this prompt has 7 tokens, allowed: 1 to 6."),
        ([[1], [-1]], "position -1 of prompt 1 is out of range"),
    ],
)
def test_errors(positions: list[list[int]], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_positions(positions, [5, 7], "skip")
    assert message in str(caught.value)
