"""Benchmarks on real shapes: time is counted by the innermost kind of work, and nothing of it stays behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import zoo
from torch import nn

import bathyscope


@pytest.fixture
def time_shares(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark, as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import time_shares

    return time_shares


class Ticking:
    """A clock whose hands are moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def process_time(self) -> float:
        """Return its time."""
        return self.now


def test_what_is_entered_inside_something_else_is_taken_off_it(
    time_shares: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One second before, two in comparing, three in a product inside, four in comparing again, five after."""
    hand = Ticking()
    monkeypatch.setattr(time_shares, "time", hand)
    clock = time_shares.Clock()

    def wait(seconds: float) -> None:
        hand.now += seconds

    product = clock.counted("product", lambda _, seconds: wait(seconds), lambda owner: owner == "head")

    def compare(_: str) -> None:
        wait(2)
        product("head", 3)
        product("another layer", 4)

    wait(1)
    clock.counted("arithmetic", compare, lambda _: True)("reader")
    wait(5)
    assert clock.stop() == {"rest": 6 / 15, "arithmetic": 6 / 15, "product": 3 / 15, "cpu_s": 15}


def test_a_survey_is_timed_by_kind_and_leaves_no_clock_behind(time_shares: Any) -> None:
    hf = zoo.build("llama")
    before = nn.Linear.forward, type(hf.base_model.layers[0]).forward
    model = bathyscope.load(hf)
    with time_shares.clock_of(hf) as clock:
        run = bathyscope.survey(model, zoo.prompts(hf, (9,)), ["drop"], progress=False)
    shares = clock.stop()
    assert set(shares) == {"rest", "blocks", "product", "arithmetic", "cpu_s"}
    assert sum(share for kind, share in shares.items() if kind != "cpu_s") == pytest.approx(1)
    assert (nn.Linear.forward, type(hf.base_model.layers[0]).forward) == before
    plain = bathyscope.survey(model, zoo.prompts(hf, (9,)), ["drop"], progress=False)
    assert run["drop"].identical(plain["drop"])
