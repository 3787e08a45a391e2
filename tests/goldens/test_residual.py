"""The residual statistics of csordas2025's own code, key by key, by the preset that repeats its fault."""

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
PUBLISHED = {"res_norms": "published_norm_resid", "att_norms": "published_norm_attn", "mlp_norms": "published_norm_mlp"}
LARGEST = {
    "max_res_norms": "norm_resid_max",
    "max_att_norms": "norm_attn_max",
    "max_mlp_norms": "norm_mlp_max",
    "max_rel_att": "ratio_attn_max",
    "max_rel_mlp": "ratio_mlp_max",
}
TOKEN_WEIGHTED = {
    "mean_rel_att": "ratio_attn",
    "mean_rel_mlp": "ratio_mlp",
    "mean_rel_layer": "ratio_block",
    "att_cos": "cos_attn",
    "mlp_cos": "cos_mlp",
    "layer_cos": "cos_block",
    "layer_io_cos": "cos_neighbour",
}


@cache
def published() -> tuple[dict[str, Any], xr.Dataset]:
    golden = json.loads((SHARED / "goldens/csordas2025_tiny-qwen2.json").read_text())
    model = str(SHARED / "checkpoints/tiny-qwen2")
    preset = "csordas2025-as-published"
    run = bathyscope.survey(model, golden["tokens"], ["residual"], preset=preset, progress=False)
    return golden["norms"], run["residual"]


def reduced(found: xr.Dataset, key: str) -> xr.DataArray:
    if key in PUBLISHED:
        return found[PUBLISHED[key]]
    if key in LARGEST:
        return found[LARGEST[key]].max("prompt")
    values = found[TOKEN_WEIGHTED[key]]
    return values.weighted(values["n_tokens"]).mean("prompt")


def test_every_key_is_covered() -> None:
    assert set(published()[0]) == {*PUBLISHED, *LARGEST, *TOKEN_WEIGHTED}


@pytest.mark.parametrize("key", [*PUBLISHED, *LARGEST, *TOKEN_WEIGHTED])
def test_norms(key: str) -> None:
    golden, found = published()
    wanted = np.asarray(golden[key])
    got = np.asarray(reduced(found, key))
    assert got.shape == wanted.shape
    gap = np.abs(got - wanted).max() / np.abs(wanted).max()
    assert gap <= CLOSE, f"{gap:.1e} of the largest magnitude"


def test_the_fault_is_as_large_as_its_mark_says() -> None:
    """The published means are too small by the ratio of all tokens to the last prompt's, maxima are not."""
    golden, found = published()
    right = found["norm_resid"].weighted(found["n_tokens"]).mean("prompt")
    share = float(found["n_tokens"][-1] / found["n_tokens"].sum())
    factor = right.values / np.asarray(golden["res_norms"])
    assert 1 / share > 3
    np.testing.assert_allclose(factor, 1 / share, rtol=0.05)
