"""Values of the authors' own code for sublayer parts and direct effects, through the public call (shared/goldens)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import bathyscope

SHARED = Path(__file__).resolve().parents[3] / "shared"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the shared reference material is not beside this checkout"),
]
CLOSE = 2e-5
"""Of an array's largest magnitude."""
PARTS = ("block", "attention", "mlp")


@cache
def measured() -> tuple[dict[str, Any], bathyscope.Run]:
    golden = json.loads((SHARED / "goldens/csordas2025_tiny-qwen2.json").read_text())
    options = {"skip": {"parts": PARTS, "positions": golden["positions"]}, "direct": {"positions": golden["positions"]}}
    model = str(SHARED / "checkpoints/tiny-qwen2")
    return golden, bathyscope.survey(model, golden["tokens"], ["skip", "direct"], progress=False, **options)


def assert_close(got: xr.DataArray, expected: object) -> None:
    wanted = np.asarray(expected, dtype=np.float64)
    assert got.shape == wanted.shape
    gap = np.abs(got.values - wanted).max() / np.abs(wanted).max()
    assert gap <= CLOSE, f"{gap:.1e} of the largest magnitude"


@pytest.mark.each
@pytest.mark.parametrize(("key", "reach"), [("current", "all"), ("future", "future")])
@pytest.mark.parametrize(("kind", "part"), [("layer", "block"), ("attention", "attention"), ("mlp", "mlp")])
def test_skip_effects_of_parts(key: str, reach: str, kind: str, part: str) -> None:
    golden, run = measured()
    largest = run["skip"].sel(part=part, reduction="max")
    assert_close(largest[f"effect_{reach}"], [effect for effect, _ in golden[f"{key}_{kind}"]])
    assert_close(largest[f"output_{reach}"], [output for _, output in golden[f"{key}_{kind}"]])


@pytest.mark.parametrize(("key", "reach"), [("current", "all"), ("future", "future")])
def test_direct_effects(key: str, reach: str) -> None:
    golden, run = measured()
    assert_close(run["direct"][f"effect_{reach}"].sel(reduction="max"), golden[f"{key}_local"])
