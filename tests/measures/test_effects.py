"""Relative changes of contributions: what vanishing contributions give, and the noise floor beside them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr
from support import idle, waves, zoo

from bathyscope.measures import effects
from bathyscope.measures.effects import relative
from bathyscope.measures.over_tokens import LEFT_OUT
from bathyscope.measures.skip import SkipProbe
from bathyscope.model import load
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.probe import RowsView
from bathyscope.wavefront.rows import SkipRow

LENGTHS = (14, 9)
POSITIONS = [[3, 8], [4]]


def measured(order: list[int | None], scale: float = 0.0) -> dict[str, xr.Dataset]:
    """Skip and direct effects of a Llama whose blocks stand in this order, those put in adding ``scale`` of what the
    block before them adds."""
    plain = zoo.build("llama")
    model = idle.with_idle_blocks(plain, order)
    if scale:
        with torch.no_grad():
            for place, number in enumerate(order):
                if number is None:
                    source, own = plain.model.layers[order[place - 1]], model.model.layers[place]
                    own.self_attn.o_proj.weight.copy_(scale * source.self_attn.o_proj.weight)
                    own.mlp.down_proj.weight.copy_(scale * source.mlp.down_proj.weight)
    options = {"skip": {"positions": POSITIONS}, "direct": {"positions": POSITIONS}, "depth_score": None}
    return waves.run(load(model), zoo.prompts(plain, LENGTHS), options, answers=(4, 3))


def test_a_block_that_adds_nothing_loses_nothing() -> None:
    found = measured([0, 1, None, 2, 3, 4])["skip"].sel(part="block")
    diagonal = found.effect_all.values[:, :, range(6), range(6)]
    assert (diagonal[:, :, 2] == 0).all()
    assert (diagonal[:, 2, [0, 1, 3, 4, 5]] == 1).all()
    assert (found.effect_all.sel(block=2) == 0).all()
    assert (found.effect_future.sel(block=2) == 0).all()


def test_rounding_of_a_contribution_that_vanishes_is_no_effect() -> None:
    """In so small a model it is of the order of 1; over streams of thousands it would be hundreds."""
    found = measured([0, 1, None, 2, 3, 4], scale=1e-7)
    for measure in ("skip", "direct"):
        for reach in ("effect_all", "effect_future"):
            effect = found[measure][reach]
            assert effect.sel(block=2, skipped=[0, 1]).isnull().all(), (measure, reach)
            assert np.isfinite(effect.sel(block=[1, 3, 4, 5])).all(), (measure, reach)


def test_a_small_contribution_beside_a_stream_keeps_its_effect() -> None:
    found = measured([0, 1, None, 2, 3, 4], scale=1e-3)["skip"]
    assert np.isfinite(found.effect_all).all()
    assert float(found.effect_all.sel(block=2, skipped=1, reduction="mean").min()) > 1e-3


def view(**changes: torch.Tensor) -> RowsView:
    """A call of block 1 on two prompts of 3 and 2 tokens: the control changes each stream by one, one row by two."""
    before = torch.full((2, 3, 4), 10.0)
    given = {
        "before": before[None],
        "after": before[None] + 2,
        "control_before": before,
        "control_after": before + 1,
        "baseline_before": before,
        "baseline_after": before + 1,
    }
    return RowsView(1, [[SkipRow(0)]], **{**given, **changes})


def changes(of: RowsView) -> list[list[list[float]]]:
    """What the rows of a call change, by row, prompt and token."""
    found: list[list[list[float]]] = relative(*of.change).tolist()
    return found


def noise(probe: SkipProbe) -> list[float]:
    found = probe.noise()
    assert found is not None
    return list(found)


def test_effects_are_relative_to_the_control() -> None:
    assert changes(view()) == [[[1.0] * 3] * 2]
    still = torch.full((2, 3, 4), 10.0)
    assert changes(view(control_after=still)) == [[[LEFT_OUT] * 3] * 2]
    # over a stream of thousands the last digit of a float32 is hundreds of 1e-6
    large = torch.full((2, 3, 4), 4096.0)
    digit = {"before": large[None], "control_before": large, "control_after": large, "after": large[None] + 2**-11}
    assert changes(view(**digit)) == [[[LEFT_OUT] * 3] * 2]
    assert changes(view(control_after=still, after=still[None])) == [[[0.0] * 3] * 2]


def test_the_noise_is_the_largest_deviation_of_any_token() -> None:
    after = torch.full((2, 3, 4), 11.0)
    after[0, 1] += 0.5
    after[0, 2] += 0.25
    after[1, 0] += 0.125
    after[1, 2] += 4.0  # beyond the second prompt's end
    shown = view(control_after=after)
    plain = relative(*shown.control_change)
    assert plain[0, 0].tolist() == [0.0, 0.5, 0.25]
    batch = Batch.of([[5, 6, 7], [5, 6]])
    probe = waves.skipping(batch, [(), ()])
    probe.rows(shown)
    assert noise(probe) == [0.5, 0.125]
    probe.rows(view())
    assert noise(probe) == [0.5, 0.125]


def test_noise_of_a_later_call_counts_too() -> None:
    batch = Batch.of([[5, 6, 7]])
    probe = waves.skipping(batch, [(1,)])
    one = torch.full((1, 2, 4), 10.0)
    shifted = one + 1
    shifted[0, 1] += 0.5
    tail = RowsView(1, [[]], one[None], one[None], one, shifted, one, one + 1, prompt=0, start=1)
    probe.rows(tail)
    assert noise(probe) == pytest.approx([0.5])
    probe.rows(RowsView(2, [[]], one[None], one[None], one, one + 1, one, one + 1, prompt=0, start=1))
    assert noise(probe) == pytest.approx([0.5])  # a quiet call takes nothing back


def test_effects_that_do_not_wait_are_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of single tokens are reduced many blocks at a time; after every block gives the same."""
    together = measured([0, 1, 2, 3, 4])
    monkeypatch.setattr(effects, "_AT_ONCE", 0)
    for name, dataset in measured([0, 1, 2, 3, 4]).items():
        xr.testing.assert_identical(dataset, together[name])


def test_values_of_several_starts_are_joined_by_what_they_fill() -> None:
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0], [6.0]])
    places, values = effects.pooled([([(0, 1), (0, 2)], a), ([(0, 1), (0, 2)], b)])
    assert (list(places), values.tolist()) == ([(0, 1), (0, 2)], [[1, 2, 5], [3, 4, 6]])
    places, values = effects.pooled([([(0, 1), (0, 2)], a), ([(0, 2), (0, 1)], b)])
    assert (list(places), values.tolist()) == ([(0, 1), (0, 2)], [[1, 2, 6], [3, 4, 5]])
