"""Times are of this machine; what they add up to is not."""

from __future__ import annotations

import numpy as np
import pytest
from support import waves

from bathyscope.surgery.exits import times as module
from bathyscope.surgery.exits.drafting import Counts
from bathyscope.surgery.exits.times import Times, measured


@pytest.fixture
def _twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """How small the least of some repeats is, is not looked at."""
    monkeypatch.setattr(module, "_REPEATS", 2)


def test_speed_is_plain_seconds_over_drafting_and_checking() -> None:
    times = Times(10, block=(1.0, 1.1, 1.2), rest=(2.0, 2.5, 3.0), step=0.5, round_=4.0)
    counts = np.array(Counts(tokens=30, passes=12, checked=0, accepted=0, drafted=20), dtype=np.float64)
    # 10 blocks and the rest for each token; 20 drafted by 4 blocks; 12 checks of 3 tokens each
    plain, drafting, checking = 30 * (10 + 2 + 0.5), 20 * (4 + 2 + 0.5), 12 * (12 + 3 + 4)
    assert times.speed(counts, 4, 2, bare=False) == pytest.approx(plain / (drafting + checking))
    assert times.speed(counts, 4, 2, bare=True) == pytest.approx(30 * 12 / (20 * 6 + 12 * 15))


@pytest.mark.usefixtures("_twice")
def test_prompts_longer_than_a_sliding_window_are_timed_too() -> None:
    model = waves.loaded("mixtral")
    window = model.hf.config.sliding_window
    found = measured(model, range(5, 5 + 2 * window), longest=1)
    assert min(*found.block, *found.rest) > 0


@pytest.mark.usefixtures("_twice")
def test_all_times_are_measured_and_no_hook_stays() -> None:
    model = waves.loaded("llama")
    found = measured(model, [5, 6, 7, 8], longest=2)
    assert len(found.block) == len(found.rest) == 3
    assert min(*found.block, *found.rest) > 0
    assert min(found.step, found.round_) >= 0
    assert not any(block._forward_hooks or block._forward_pre_hooks for block in model.anatomy.blocks)
