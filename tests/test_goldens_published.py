"""lad2024 as its published code has it: other positions, and the lens on the final boundary's scale."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import bathyscope
from bathyscope.papers.faults import faults_in

pytestmark = pytest.mark.shared
CLOSE = 2e-5
"""Of an array's largest magnitude."""
VARIABLES = {"kl": "kl", "top1_agreement": "top1_agreement", "entropy_bits": "entropy", "loss_nats": "loss"}


@cache
def surveyed(model: Path, golden: Path, preset: str) -> tuple[dict[str, Any], bathyscope.Run]:
    values = json.loads(golden.read_text())
    measures = ["lens", "drop", "swap", "repeat"]
    return values, bathyscope.survey(
        str(model), values["ids"], measures, preset=preset, repeat={"length": 3}, progress=False
    )


@pytest.fixture
def published(shared: Callable[[str], Path]) -> tuple[dict[str, Any], bathyscope.Run]:
    return surveyed(shared("checkpoints/tiny-gpt2"), shared("goldens/lad2024_tiny-gpt2.json"), "lad2024-as-published")


@pytest.fixture
def canonical(shared: Callable[[str], Path]) -> bathyscope.Run:
    return surveyed(shared("checkpoints/tiny-gpt2"), shared("goldens/lad2024_tiny-gpt2.json"), "lad2024")[1]


def gap(got: xr.DataArray | np.ndarray, expected: object) -> float:
    """The largest difference, in shares of the largest magnitude."""
    values, wanted = np.asarray(got, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert values.shape == wanted.shape
    return float(np.abs(values - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize(("key", "measure"), [("drop", "drop"), ("swap", "swap"), ("repeat3", "repeat")])
@pytest.mark.parametrize("metric", VARIABLES)
def test_schedules_at_the_published_positions(
    published: tuple[dict[str, Any], bathyscope.Run], canonical: bathyscope.Run, key: str, measure: str, metric: str
) -> None:
    golden, run = published
    expected = np.array([entry["published_positions"][metric] for entry in golden[key]]).T
    variable = VARIABLES[metric]
    assert gap(run[measure][variable], expected) <= CLOSE
    # the two sets of positions can be told apart, but for the loss, which has the same in both
    assert (gap(canonical[measure][variable], expected) <= CLOSE) == (metric == "loss_nats")


@pytest.mark.parametrize("measure", ["drop", "swap", "repeat"])
def test_the_baseline_at_the_published_positions(
    published: tuple[dict[str, Any], bathyscope.Run], measure: str
) -> None:
    golden, run = published
    expected = golden["baseline"]["published_positions"]
    assert gap(run[measure].baseline_entropy, expected["entropy_bits"]) <= CLOSE
    assert gap(run[measure].baseline_loss, expected["loss_nats"]) <= CLOSE


def test_the_frozen_lens_at_inner_positions(
    published: tuple[dict[str, Any], bathyscope.Run], canonical: bathyscope.Run
) -> None:
    golden, run = published
    assert gap(run["lens"].entropy, golden["lens_entropy_bits"]) <= CLOSE
    assert gap(canonical["lens"].entropy, golden["lens_entropy_bits"]) > 100 * CLOSE


def test_the_run_says_which_faults_it_has(
    published: tuple[dict[str, Any], bathyscope.Run], canonical: bathyscope.Run
) -> None:
    reproduced = faults_in(published[1].manifest["identity"]["measures"])
    assert [(fault.paper, fault.measure) for fault in reproduced] == [
        ("lad2024", measure) for measure in ("lens", "drop", "swap", "repeat")
    ]
    assert faults_in(canonical.manifest["identity"]["measures"]) == ()
