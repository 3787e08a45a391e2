"""The growth study: its steps, its intervals over seeds, and what is stored."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

from studies.growth.experiment import Grown, record_of, summary
from studies.growth.figure import draw
from studies.growth.trainings import COPIES, GROWN_BLOCKS, ORIGINALS, kept_steps


def made_up(seed: int, gain: float) -> Grown:
    """A seed in which copies cost 0.1 nats at the growth and so much more at the end, and all else 1."""
    added = np.ones((4, GROWN_BLOCKS))
    added[:, COPIES] = 0.1 + gain
    at_growth = np.ones((4, GROWN_BLOCKS))
    at_growth[:, COPIES] = 0.1
    by_step = np.stack([at_growth.mean(0), added.mean(0)])
    steps = np.array([1.0, 0.5])
    course = xr.Dataset(
        {
            **dict.fromkeys(("readable", "own", "idle_blocks", "loss"), ("step", steps)),
            **dict.fromkeys(("added_loss", "skip_effect"), (("step", "block"), by_step)),
            "matters_from": ("block", [np.nan, *[0.0] * (GROWN_BLOCKS - 1)]),
        },
        {"step": [0, 10]},
    )
    return Grown(seed, {"grown": course, "scratch": course}, {"grown": added, "scratch": added}, at_growth, 0.2)


def test_a_dozen_steps_are_kept_from_first_to_last() -> None:
    steps = kept_steps(400)
    assert len(steps) >= 12
    assert (steps[0], steps[-1]) == (0, 400)


def test_intervals_are_over_seeds() -> None:
    rows = summary([made_up(seed, gain) for seed, gain in enumerate((0.1, 0.2, 0.3))])
    row = rows["copies, end less growth"]
    assert row["seeds"] == pytest.approx([0.1, 0.2, 0.3])
    # Student with two degrees of freedom: 4.303 standard errors of 0.1/√3.
    assert row["low"] == pytest.approx(0.2 - 4.3027 * 0.1 / np.sqrt(3), abs=1e-4)
    assert rows["originals at the end"]["mean"] == 1
    assert set(ORIGINALS).isdisjoint(COPIES)


def test_what_is_stored_is_json_and_can_be_drawn() -> None:
    record = json.loads(json.dumps(record_of([made_up(0, 0.1), made_up(1, 0.2)])))
    assert record["seeds"]["1"]["grown"]["text"] == "Never mattering: 0."
    assert len(draw(record).axes) == 2
