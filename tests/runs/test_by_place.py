"""Means along the depth and their intervals, one column at a time by the one interval of means."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from support.synthetic import replaced, synthetic_run

from bathyscope.runs.by_place import ByPlace, by_block, by_place, cost_of_leaving_out
from bathyscope.statistics import bootstrap
from bathyscope.statistics.bootstrap import mean_interval, mean_intervals
from bathyscope.statistics.sampling import Sampling

RUN = synthetic_run(4, prompts=5)


def test_columns_have_the_interval_that_each_has_alone() -> None:
    values = np.random.default_rng(3).normal(size=(7, 4))
    values[2, 1] = np.nan
    values[1:, 3] = np.nan
    for column, found in enumerate(mean_intervals(values, Sampling(seed=5))):
        own = values[:, column]
        np.testing.assert_allclose(found, mean_interval(own[~np.isnan(own)], Sampling(seed=5)), rtol=1e-12)
    assert np.isnan(mean_intervals(values[:1])).all()


def test_columns_without_gaps_are_reckoned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has thousands of places, whose intervals one after the other would take most of its time."""

    def one_alone(*_: object, **__: object) -> None:
        raise AssertionError("a column was reckoned alone")

    monkeypatch.setattr(bootstrap, "bootstrap_interval", one_alone)
    assert len(mean_intervals(np.random.default_rng(3).normal(size=(7, 40)))) == 40


def test_the_cost_of_a_block_is_paired_by_prompt() -> None:
    cost = cost_of_leaving_out(RUN)
    assert cost is not None
    drop = RUN["drop"]
    added = np.array([[float(drop.loss[p, b]) - float(drop.baseline_loss[p]) for b in range(4)] for p in range(5)])
    np.testing.assert_array_equal(cost.by_prompt, added)
    np.testing.assert_allclose(cost.mean, added.mean(0))
    assert cost.places == (0, 1, 2, 3)
    keys = [one.key for one in by_block(RUN)]
    assert len(set(keys)) == len(keys)
    assert {"drop", "swap", "norm-block", "output-all"} <= set(keys)


def test_what_was_not_measured_is_no_quantity_of_blocks() -> None:
    """A survey may be asked for the largest change of the output alone, whose means are missing then."""
    skip = RUN["skip"].copy(deep=True)
    skip["output_all"].loc[{"reduction": "mean"}] = np.nan
    keys = [one.key for one in by_block(replaced(RUN, "skip", skip))]
    assert "output-all" not in keys
    assert "output-future" in keys


def test_an_interval_holds_its_mean_whatever_the_variable_is_called() -> None:
    """Parts of a KL may be negative, and so may what somebody else calls a ratio."""
    values = np.array([[-0.3, 0.2], [-0.1, 0.1], [-0.2, 0.3]])
    places = (("prompt", "boundary"), values)
    data = xr.Dataset(dict.fromkeys(("kl_tail", "kl_top_p", "ratio_log", "kl"), places), {"boundary": [0, 1]})
    for one in by_place(data, 0):
        for mean, (low, high) in zip(one.mean, one.intervals):
            assert low < mean < high, one.key
    positive = xr.Dataset({"kl": (("prompt", "boundary"), np.abs(values) ** 8)}, {"boundary": [0, 1]})
    assert all(interval.low >= 0 for one in by_place(positive, 0) for interval in one.intervals)


def test_only_variables_along_the_depth_are_summed_up() -> None:
    data = xr.Dataset(
        {
            "one": (("prompt", "boundary"), np.array([[1.0, np.nan], [3.0, 2.0]]), {"units": "nats"}),
            "two": (("prompt", "block", "token"), np.zeros((2, 1, 3))),
            "number": (("prompt", "boundary"), np.array([[7, 9], [31, 2]]), {"formula": "argmax |h_b|"}),
            "three": ("prompt", np.zeros(2)),
            "four": (("prompt", "block"), np.array([["a"], ["b"]])),
        },
        {"boundary": [0, 1]},
    )
    (found,) = by_place(data, seed=0)
    assert (found.key, found.units, found.places) == ("one", "nats", (0, 1))
    assert found.mean.tolist() == [2.0, 2.0]


def test_intervals_end_at_what_a_mean_can_be() -> None:
    """Of two prompts Student's interval of a norm or a share would reach far below 0 or above 1."""
    run = synthetic_run(3, prompts=2)
    for key in ("norm-block", "output-all"):
        (quantity,) = [one for one in by_block(run) if one.key == key]
        assert min(interval.low for interval in quantity.intervals) >= 0
    shares = [one for one in by_place(run["lens"], seed=0) if one.key in ("overlap", "top1_agreement")]
    assert all(interval.low >= 0 and interval.high <= 1 for one in shares for interval in one.intervals)
    # a cost may be a gain
    cost = costing(np.array([[0.3], [-0.1], [0.2], [-0.2]]))
    assert cost.intervals[0].low < 0
    assert cost.limits == (-np.inf, np.inf)


def costing(cost_PX: np.ndarray) -> ByPlace:
    """The costs of leaving out blocks of a run that has these."""
    run = synthetic_run(cost_PX.shape[1], prompts=len(cost_PX))
    drop = run["drop"].copy(deep=True)
    drop["loss"].values[:] = drop.baseline_loss.values[:, None] + cost_PX
    cost = cost_of_leaving_out(replaced(run, "drop", drop))
    assert cost is not None
    return cost


def test_costs_that_few_prompts_carry_have_no_upper_end() -> None:
    """Block 1 costs two of twelve answers much and others next to nothing; blocks 0 and 2 cost all alike."""
    values = np.random.default_rng(0).normal(0.02, 0.005, size=(12, 3))
    values[:, 1] = [2.0, 1.5, *[0.001] * 5, *[0.0] * 5]
    cost = costing(values)
    assert cost.unbounded == (1,)
    assert "need 40 different prompts or clusters" in cost.why_unbounded
    assert [np.isnan(ends).tolist() for ends in cost.intervals] == [[False, False], [True, True], [False, False]]
    # that it costs something at least is not understated
    assert np.isfinite(cost.joint_intervals[1].low)
    assert np.isnan(cost.joint_intervals[1].high)
    for place in (0, 2):
        np.testing.assert_allclose(cost.intervals[place], mean_interval(values[:, place], Sampling()), rtol=1e-9)


def test_forty_prompts_bound_what_few_of_them_carry() -> None:
    values = np.random.default_rng(0).normal(0.02, 0.005, size=(40, 3))
    values[:, 1] = [2.0, 1.5, *[0.0] * 38]
    cost = costing(values)
    assert cost.unbounded == ()
    assert cost.why_unbounded == ""
    plain = mean_interval(values[:, 1], Sampling())
    assert cost.intervals[1].low < plain.low < plain.high < cost.intervals[1].high
    assert cost.joint_intervals[1].high > cost.intervals[1].high


@pytest.mark.parametrize("prompts", [2, 3])
def test_three_prompts_bound_no_cost(prompts: int) -> None:
    cost = costing(np.random.default_rng(0).normal(0.02, 0.005, size=(prompts, 2)))
    assert cost.unbounded == (0, 1)
    assert cost.why_unbounded == "intervals of costs need 4 different prompts or clusters, better ten or more"
    assert np.isnan(cost.intervals).all()


def test_one_prompt_has_no_interval_of_anything() -> None:
    assert costing(np.full((1, 2), 0.02)).unbounded == ()


def test_other_quantities_are_bounded_however_few_prompts_carry_them() -> None:
    values = np.array([2.0, *[0.0] * 7])[:, None]
    assert ByPlace("norm-block", "", "1", (0,), values).unbounded == ()
    assert np.isfinite(ByPlace("norm-block", "", "1", (0,), values).intervals).all()
