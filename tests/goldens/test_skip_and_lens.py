"""Values of the authors' own code on tiny models, through the public call (shared/goldens)."""

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

SHARED = Path(__file__).resolve().parents[3] / "shared"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the shared reference material is not beside this checkout"),
]
CLOSE = 2e-5
"""Of an array's largest magnitude."""

Golden = dict[str, Any]


@cache
def csordas2025() -> tuple[Golden, bathyscope.Run]:
    golden = json.loads((SHARED / "goldens/csordas2025_tiny-qwen2.json").read_text())
    model = SHARED / "checkpoints/tiny-qwen2"
    return golden, bathyscope.survey(str(model), golden["tokens"], preset="csordas2025", progress=False)


def assert_close(got: xr.DataArray | np.ndarray, expected: object) -> None:
    values, wanted = np.asarray(got, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert values.shape == wanted.shape
    gap = np.abs(values - wanted).max() / np.abs(wanted).max()
    assert gap <= CLOSE, f"{gap:.1e} of the largest magnitude"


def token_weighted(values: xr.DataArray) -> xr.DataArray:
    return values.weighted(values["n_tokens"]).mean("prompt")


def test_the_published_positions_are_drawn() -> None:
    golden, run = csordas2025()
    assert run["skip"].positions.values.tolist() == golden["positions"]


@pytest.mark.parametrize(("key", "kind"), [("current_layer", "all"), ("future_layer", "future")])
def test_skip_effects(key: str, kind: str) -> None:
    golden, run = csordas2025()
    largest = run["skip"].sel(part="block", reduction="max")
    assert_close(largest[f"effect_{kind}"], [effect for effect, _ in golden[key]])
    assert_close(largest[f"output_{kind}"], [output for _, output in golden[key]])


@pytest.mark.parametrize(
    ("key", "variable"),
    [
        ("mean_rel_att", "ratio_attn"),
        ("mean_rel_mlp", "ratio_mlp"),
        ("mean_rel_layer", "ratio_block"),
        ("att_cos", "cos_attn"),
        ("mlp_cos", "cos_mlp"),
        ("layer_cos", "cos_block"),
        ("layer_io_cos", "cos_neighbour"),
    ],
)
def test_ratios_and_cosines(key: str, variable: str) -> None:
    golden, run = csordas2025()
    assert_close(token_weighted(run["residual"][variable]), golden["norms"][key])


@pytest.mark.parametrize(
    ("key", "variable"),
    [
        ("max_res_norms", "norm_resid_max"),
        ("max_att_norms", "norm_attn_max"),
        ("max_mlp_norms", "norm_mlp_max"),
        ("max_rel_att", "ratio_attn_max"),
        ("max_rel_mlp", "ratio_mlp_max"),
    ],
)
def test_maxima(key: str, variable: str) -> None:
    golden, run = csordas2025()
    assert_close(run["residual"][variable].max("prompt"), golden["norms"][key])


@pytest.mark.parametrize(
    ("key", "variable"), [("res_norms", "norm_resid"), ("att_norms", "norm_attn"), ("mlp_norms", "norm_mlp")]
)
def test_mean_norms_carry_the_published_fault(key: str, variable: str) -> None:
    """Published: the last prompt's sum over the tokens of all prompts."""
    golden, run = csordas2025()
    norms = run["residual"][variable]
    tokens = norms["n_tokens"]
    published = norms.isel(prompt=-1) * tokens.isel(prompt=-1) / tokens.sum()
    assert_close(published, golden["norms"][key])


@pytest.mark.parametrize(("key", "variable"), [("lens_kl", "kl_lens_final"), ("lens_overlap", "overlap")])
def test_lens(key: str, variable: str) -> None:
    golden, run = csordas2025()
    assert_close(run["lens"][variable].isel(boundary=slice(0, -1)), golden[key])


def test_a_trained_model_has_its_published_loss(tmp_path: Path, shared: Callable[[str], Path]) -> None:
    """stories260K on the first 20,000 characters of its own kind of text, in pieces, BOS first."""
    source = f"{shared('data/text/tinystories_slice.txt')}?chars=1000&limit=20000"
    model = shared("checkpoints/stories260K")
    run = bathyscope.survey(str(model), source, measures=["lens"], progress=False)
    loss = run["lens"].cross_entropy.isel(boundary=-1)
    scored = loss["n_tokens"] - 1
    assert run["lens"].sizes["prompt"] == 20
    assert float((loss * scored).sum() / scored.sum()) == pytest.approx(1.47, abs=0.02)
    assert float(run["lens"].kl_lens_final.isel(boundary=-1).max()) == 0
