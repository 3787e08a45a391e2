"""Times are of this machine; what they add up to is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import waves

from bathyscope.surgery.exits import times as module
from bathyscope.surgery.exits.drafting import Counts, counts
from bathyscope.surgery.exits.times import Times, Timings, measured


@pytest.fixture
def _twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """How well the rounds agree is not looked at."""
    monkeypatch.setattr(module, "_ROUNDS", 2)


seconds = st.floats(0.0, 1e3, allow_nan=False)


@given(
    block=st.lists(seconds, min_size=9, max_size=9),
    rest=st.lists(seconds, min_size=9, max_size=9),
    around=st.tuples(seconds, seconds),
    agrees=st.lists(st.booleans(), min_size=1, max_size=40),
    exit_=st.integers(1, 11),
    draft=st.integers(1, 8),
    bare=st.booleans(),
)
def test_nothing_is_faster_than_its_tokens_per_pass_whatever_the_clocks_say(
    block: list[float],
    rest: list[float],
    around: tuple[float, float],
    agrees: list[bool],
    exit_: int,
    draft: int,
    bare: bool,
) -> None:
    """A check is a pass of the whole model, so that each token costs at least its share of one."""
    times = Times(12, np.array(block) + 1e-9, np.array(rest), *map(np.array, around))
    own = counts(np.array(agrees), draft, len(agrees))
    speed = float(times.speed(np.array(own, dtype=np.float64), exit_, draft, bare=bare))
    assert speed <= own.tokens / own.passes * (1 + 1e-9)


def noisy(rng: np.random.Generator, blocks: int, load: float) -> Timings:
    """Rounds of a machine that other work slows by up to so much, each part by itself."""
    slow = lambda *shape: 1 + load * rng.random(shape)  # noqa: E731
    return Timings(blocks, slow(9, 9), slow(9, 9), (blocks + 1.1) * slow(9), (blocks + 4) * slow(9))


@pytest.mark.parametrize("load", [0.0, 0.1, 3.0])
def test_the_scatter_of_timings_widens_the_draws(load: float) -> None:
    own = np.array(Counts(tokens=30, passes=12, checked=0, accepted=0, drafted=20), dtype=np.float64)
    timings = noisy(np.random.default_rng(0), 12, load)
    speeds = timings.resampled(500, 0).speed(np.tile(own, (501, 1)), 4, 2, bare=False)
    assert speeds[0] == pytest.approx(float(timings.settled.speed(own, 4, 2, bare=False)))
    assert (speeds <= 30 / 12).all()
    assert speeds.std() == pytest.approx(0) if load == 0 else speeds.std() > 0.002 * load
    np.testing.assert_array_equal(speeds, timings.resampled(500, 0).speed(np.tile(own, (501, 1)), 4, 2, bare=False))


def test_a_machine_that_decodes_faster_than_it_computes_is_too_busy() -> None:
    quiet = Timings(10, np.ones((9, 3)), np.ones((9, 3)), np.full(9, 11.5), np.full(9, 30.0))
    assert not quiet.busy
    assert replace(quiet, plain=np.full(9, 10.0)).busy
    # rounds of the same moment that agree but for rounding are no sign
    assert not replace(quiet, plain=np.full(9, 10.9)).busy


def test_too_busy_is_judged_by_the_estimate_that_is_printed() -> None:
    """The median of the rounds' sums lies above the sum of the medians where parts are slow in other rounds."""
    block, rest = np.ones((3, 2)), np.ones((3, 2))
    block[0], rest[1] = 6.0, 60.0
    scattered = Timings(10, block, rest, np.full(3, 30.0), np.full(3, 60.0))
    assert np.median(10 * block[:, 0] + rest[:, 0]) == 61.0
    assert float(scattered.settled.forward(1)) == 11.0
    assert not scattered.busy
    assert replace(scattered, plain=np.full(3, 10.0)).busy


def test_exact_times_come_back() -> None:
    times = Times(10, np.array([1.0, 1.1, 1.2]), np.array([2.0, 2.5, 3.0]), np.array(0.5), np.array(4.0))
    settled = Timings.exact(times).settled
    np.testing.assert_allclose([settled.step, settled.round_], [0.5, 4.0])
    np.testing.assert_array_equal(settled.block, times.block)


def test_speed_is_plain_seconds_over_drafting_and_checking() -> None:
    times = Times(10, np.array([1.0, 1.1, 1.2]), np.array([2.0, 2.5, 3.0]), np.array(0.5), np.array(4.0))
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
    assert min(found.block.min(), found.rest.min()) > 0


@pytest.mark.usefixtures("_twice")
def test_all_times_are_measured_and_no_hook_stays() -> None:
    model = waves.loaded("llama")

    def hooks() -> list[list[int]]:
        # the library leaves its own where a test has asked for the states of all blocks
        return [[*block._forward_hooks, *block._forward_pre_hooks] for block in model.anatomy.blocks]

    before = hooks()
    found = measured(model, [5, 6, 7, 8], longest=2)
    assert found.block.shape == found.rest.shape == (2, 3)
    assert found.plain.shape == found.drafted.shape == (2,)
    assert min(found.block.min(), found.rest.min()) > 0
    assert min(found.settled.step, found.settled.round_) >= 0
    assert hooks() == before


def test_no_call_that_is_timed_looks_for_where_the_model_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking through its weights takes as long as half a small block, and would make every forward seem slower."""
    model = waves.loaded("llama")
    found = model.device
    asked: list[torch.device] = []
    monkeypatch.setattr(type(model), "device", property(lambda _: asked.append(found) or found))
    ids_BT = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        cache = model.hf(ids_BT, use_cache=True).past_key_values
        module._time_forward(model, ids_BT, cache, 1)
    assert len(asked) == 1
