"""Every value of lad2024's reference file on a tiny GPT-2, through the public call (shared/goldens)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import bathyscope
from bathyscope.surveying.papers.faults import faults_in

pytestmark = pytest.mark.shared
CLOSE, CLOSE_MOMENTS = 2e-5, 1e-4
"""Of an array's largest magnitude."""
PRESETS = {"canonical": "lad2024", "published_positions": "lad2024-as-published"}
"""Which positions a value is the mean over → the preset that takes them."""
SCHEDULES = {"drop": ("drop", "dropped"), "swap": ("swap", "swapped"), "repeat3": ("repeat", "start")}
METRICS = {"kl": "kl", "top1_agreement": "top1_agreement", "entropy_bits": "entropy", "loss_nats": "loss"}
MOMENTS = {"mean": "mean", "var": "variance", "skew": "skew", "kurt": "kurtosis"}
NO_VALUES = {"model", "ids"}

Ids = Sequence[Sequence[int]]
Surveyed = Callable[..., Any]
Read = Callable[[Surveyed], xr.DataArray]


def everything(model: bathyscope.Model, ids: Ids, preset: str) -> bathyscope.Run:
    measures = ["lens", "drop", "swap", "repeat", "neurons", "attention_locality"]
    return bathyscope.survey(model, list(ids), measures, preset=preset, repeat={"length": 3}, progress=False)


def unchanged(model: bathyscope.Model, ids: Ids, preset: str) -> xr.Dataset:
    """Drop with every token of each prompt protected from it, which leaves the normal run."""
    return xr.concat(
        [
            bathyscope.survey(
                model, [own], "drop", preset=preset, drop={"blocks": (0,), "protect_first": len(own)}, progress=False
            )["drop"]
            for own in ids
        ],
        "prompt",
    )


def scheduled(measure: str, dimension: str, preset: str, variable: str) -> Read:
    return lambda survey: survey(preset)[measure][variable].transpose(dimension, "prompt")


def normal(preset: str, variable: str) -> Read:
    return lambda survey: survey(preset, unchanged)[variable].isel(dropped=0)


def readings() -> Iterator[tuple[str, Read]]:
    """Key of the file, parts joined by dots → the same from a survey."""
    for positions, preset in PRESETS.items():
        for metric, variable in METRICS.items():
            yield f"baseline.{positions}.{metric}", normal(preset, variable)
            for key, (measure, dimension) in SCHEDULES.items():
                yield f"{key}.{positions}.{metric}", scheduled(measure, dimension, preset, variable)
    for key, variable in MOMENTS.items():
        yield f"neuron_moments.{key}", lambda survey, variable=variable: survey("lad2024")["neurons"][variable]
    yield "lens_entropy_bits", lambda survey: survey("lad2024-as-published")["lens"].entropy
    yield "attention_prev5_mean", lambda survey: survey("lad2024")["attention_locality"].mean_prev5


READINGS = dict(readings())


def leaves(entry: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of the file by its key; of a list of tables each value is the list over it."""
    if isinstance(entry, list) and isinstance(entry[0], dict):
        for name in entry[0]:
            yield from leaves([one[name] for one in entry], f"{key}.{name}")
    elif isinstance(entry, dict):
        for name, value in entry.items():
            yield from leaves(value, f"{key}.{name}")
    else:
        yield key.removeprefix("."), entry


@pytest.fixture
def golden(shared: Callable[[str], Path]) -> dict[str, Any]:
    return dict(leaves(json.loads(shared("goldens/lad2024_tiny-gpt2.json").read_text())))


@pytest.fixture
def survey(golden: dict[str, Any], shared: Callable[[str], Path]) -> Surveyed:
    ids, model = tuple(map(tuple, golden["ids"])), shared("checkpoints/tiny-gpt2")
    return lambda preset, kind=everything: _survey(kind, model, ids, preset)


@cache
def _survey(kind: Callable[..., Any], model: Path, ids: tuple[tuple[int, ...], ...], preset: str) -> Any:
    return kind(bathyscope.load(model), ids, preset)


def gap(got: xr.DataArray, expected: object) -> float:
    """The largest difference, in shares of the largest magnitude (the difference itself where all is 0)."""
    values, wanted = got.values.astype(np.float64), np.asarray(expected, dtype=np.float64)
    assert values.shape == wanted.shape
    return float(np.abs(values - wanted).max() / (np.abs(wanted).max() or 1.0))


def test_every_key_is_compared(golden: dict[str, Any]) -> None:
    assert set(READINGS) | NO_VALUES == set(golden)


@pytest.mark.each
@pytest.mark.parametrize("key", READINGS)
def test_values(key: str, golden: dict[str, Any], survey: Surveyed) -> None:
    found = gap(READINGS[key](survey), golden[key])
    assert found <= (CLOSE_MOMENTS if key.startswith("neuron_moments") else CLOSE), f"{found:.1e} of the largest value"


@pytest.mark.parametrize("preset", PRESETS.values())
@pytest.mark.parametrize("measure", ["drop", "swap", "repeat"])
def test_every_measure_has_the_baseline(measure: str, preset: str, golden: dict[str, Any], survey: Surveyed) -> None:
    (positions,) = (name for name, own in PRESETS.items() if own == preset)
    run = survey(preset)[measure]
    assert gap(run.baseline_entropy, golden[f"baseline.{positions}.entropy_bits"]) <= CLOSE
    assert gap(run.baseline_loss, golden[f"baseline.{positions}.loss_nats"]) <= CLOSE


@pytest.mark.parametrize("key", SCHEDULES)
@pytest.mark.parametrize("metric", METRICS)
def test_the_two_sets_of_positions_can_be_told_apart(
    key: str, metric: str, golden: dict[str, Any], survey: Surveyed
) -> None:
    """But for the loss, which has the same in both."""
    canonical = READINGS[f"{key}.canonical.{metric}"](survey)
    assert (gap(canonical, golden[f"{key}.published_positions.{metric}"]) <= CLOSE) == (metric == "loss_nats")


def test_the_recomputed_lens_is_another(golden: dict[str, Any], survey: Surveyed) -> None:
    assert gap(survey("lad2024")["lens"].entropy, golden["lens_entropy_bits"]) > 100 * CLOSE


def test_the_run_says_which_faults_it_has(survey: Surveyed) -> None:
    reproduced = faults_in(survey("lad2024-as-published").manifest["identity"]["measures"])
    assert [(fault.paper, fault.measure) for fault in reproduced] == [
        ("lad2024", measure) for measure in ("lens", "drop", "swap", "repeat")
    ]
    assert faults_in(survey("lad2024").manifest["identity"]["measures"]) == ()
