"""Every measure on every family against one full forward of the real model per intervention.

The prompts of a model run in one padded batch; the reference runs each prompt alone, unpadded, without any
engine code. The logit lens is read by the model itself: its last block is made to return the boundary.

The checks of one family follow each other (``scope="module"`` sorts them so), and its model is built once for all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, waves, zoo
from support.brute_force import (
    REPEATED,
    Curves,
    cosine,
    lens,
    lens_curves,
    norm,
    orders_of,
    positions,
    schedules,
    skip,
)
from support.rounding import bound_of_differences
from torch import Tensor

from bathyscope.model import weight_hash

BRUTE_FORCE = ("test_skip", "test_lens")
BRUTE_FORCE_OF_PARTS = ("test_residual_contributions",)
"""What test_looped_parity.py asks of looped models too."""

pytestmark = pytest.mark.filterwarnings("ignore:drop.1 cannot run")

CLOSE = 1e-5
LENGTHS = (9, 14)

WITH_PARTS = zoo.swept(entry.name for entry in zoo.entries() if entry.parts)
NAMES = [*WITH_PARTS, *zoo.swept(entry.name for entry in zoo.entries() if not entry.parts)]
IMPOSSIBLE = {
    **{(name, "drop"): (1,) for name in ("gemma4", "gemma4_multimodal", "gemma3n", "gemma3n_multimodal")},
    **{(name, measure): (0,) for name in ("zaya", "glm_moe_dsa_shared") for measure in ("drop", "swap")},
}
"""Blocks that hand on what others need: keys and values, the router's states in Zaya, and chosen positions."""
STREAMS = frozenset(
    (
        *("deepseek_v4", "deepseek_v4_compressed", "gemma3n", "gemma3n_multimodal"),
        *("inkling2", "hy_v4", "qwen4_exp", "reformer", "reformer_chunk"),
    )
)
"""Several streams: the model itself reads a boundary where all blocks behind it hand on what they are given."""


@cache
def prompts(name: str) -> list[list[int]]:
    return zoo.prompts(zoo.build(name), LENGTHS)


@cache
def measured(name: str) -> dict[str, xr.Dataset]:
    model = waves.loaded(name)
    everyone = prompts(name)
    alone = model.anatomy.equal_lengths
    found = []
    for ids in [[one] for one in everyone] if alone else [everyone]:
        options = {
            "residual": None,
            "lens": None,
            "skip": {"positions": [positions(one) for one in ids]},
            "drop": None,
            "swap": None,
            "repeat": {"length": REPEATED},
        }
        found.append(waves.run(model, ids, options))
    return {measure: xr.concat([part[measure] for part in found], dim="prompt") for measure in found[0]}


def assert_close(got: xr.DataArray, expected: np.ndarray, bound: float = CLOSE) -> None:
    expected = np.asarray(expected, dtype=np.float64)
    assert got.shape == expected.shape
    gap = np.abs(got.values - expected) / np.maximum(1, np.abs(expected))
    assert gap.max() <= bound, f"{got.name}: {gap.max():.1e} at {np.unravel_index(gap.argmax(), gap.shape)}"


def over_prompts(name: str, one: Callable[[list[int]], Curves]) -> Curves:
    """Per-prompt reference curves, stacked along a leading prompt axis."""
    found = []
    for ids in prompts(name):
        if "dynamic" in name:
            # the tables stay as long as the longest forward made them; a short one puts them back
            naive.logits(zoo.build(name), ids[:4])
        found.append(one(ids))
    return {key: np.stack([curves[key] for curves in found]) for key in found[0]}


@pytest.mark.each
@pytest.mark.parametrize("name", NAMES, scope="module")
def test_skip(name: str) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)

    got = measured(name)["skip"]
    for variable, expected in over_prompts(name, partial(skip, model, blocks)).items():
        assert_close(got[variable].sel(part="block"), expected, bound_of_differences(model, CLOSE))


@pytest.mark.parametrize("name", NAMES, scope="module")
@pytest.mark.parametrize("measure", ["drop", "swap", "repeat"])
def test_schedules(name: str, measure: str) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    n_blocks = len(blocks)
    got = measured(name)[measure]
    dimension = {"drop": "dropped", "swap": "swapped", "repeat": "start"}[measure]
    everything = n_blocks - {"drop": 0, "swap": 1, "repeat": REPEATED - 1}[measure]
    indices = got[dimension].values.tolist()
    assert indices == [i for i in range(everything) if i not in IMPOSSIBLE.get((name, measure), ())]
    orders = orders_of(measure, got, n_blocks)
    for variable, expected in over_prompts(name, partial(schedules, model, blocks, orders=orders)).items():
        assert_close(got[variable], expected)


@pytest.mark.parametrize("name", WITH_PARTS, scope="module")
def test_residual_contributions(name: str) -> None:
    model = zoo.build(name)
    blocks, family = naive.blocks_of(model), naive.family_of(model)
    parallel = getattr(model.config, family.parallel) if isinstance(family.parallel, str) else family.parallel

    def reference(ids: list[int]) -> Curves:
        h = naive.boundaries(model, blocks, ids).double().numpy()
        parts = naive.contributions(model, blocks, ids)
        a, m = (np.broadcast_to(parts[kind].double().numpy(), h[1:].shape) for kind in ("attention", "mlp"))
        c = h[1:] - h[:-1]
        curves = {"norm_resid": norm(h).mean(-1), "norm_resid_max": norm(h).max(-1)}
        curves["norm_resid_rest"] = norm(h)[:, 1:].mean(-1)
        curves["cos_neighbour"] = cosine(h[:-1], h[1:]).mean(-1)
        streams = {"attn": h[:-1], "mlp": h[:-1] if parallel else h[:-1] + a, "block": h[:-1]}
        for part, added in (("attn", a), ("mlp", m), ("block", c)):
            size, ratio = norm(added), norm(added) / np.maximum(norm(streams[part]), 1e-6)
            curves[f"norm_{part}"], curves[f"norm_{part}_max"] = size.mean(-1), size.max(-1)
            curves[f"norm_{part}_rest"] = size[:, 1:].mean(-1)
            curves[f"ratio_{part}"], curves[f"ratio_{part}_max"] = ratio.mean(-1), ratio.max(-1)
            curves[f"cos_{part}"] = cosine(added, streams[part]).mean(-1)
        return curves

    got = measured(name)["residual"]
    for variable, expected in over_prompts(name, reference).items():
        assert_close(got[variable], expected)


@pytest.mark.parametrize("name", NAMES, scope="module")
def test_lens(name: str) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)

    def reference(ids: list[int]) -> Curves:
        if name in STREAMS:
            return lens(model, blocks, ids)
        reads = [read_by_the_model(name, ids, h) for h in naive.boundaries(model, blocks, ids)]
        return lens_curves(naive.logits(model, ids), reads, ids)

    got = measured(name)["lens"]
    for variable, expected in over_prompts(name, reference).items():
        assert_close(got[variable], expected)


def read_by_the_model(name: str, ids: list[int], h: Tensor) -> Tensor:
    """Logits [T, V] of the boundary h [T, d]: the model's own forward with its last block answering h."""
    model = zoo.build(name)

    def answer(module: torch.nn.Module, args: object, output: object) -> object:
        # some families have the tokens in front of the rows
        if isinstance(output, Tensor):
            return h.reshape(output.shape)
        assert isinstance(output, tuple | list)
        return type(output)([h.reshape(output[0].shape), *output[1:]])

    handle = naive.blocks_of(model)[-1].register_forward_hook(answer)
    try:
        return naive.logits(model, ids)
    finally:
        handle.remove()


@pytest.mark.parametrize("name", NAMES, scope="module")
def test_what_was_measured_is_still_the_model_that_was_built(name: str) -> None:
    """Tests share models, so that none may leave a trace in one."""
    fresh = weight_hash(zoo.entry(name).build())
    assert weight_hash(zoo.build(name)) == weight_hash(waves.loaded(name).hf) == fresh
