"""Residual stream: exact geometry, pads, largest activations; contributions are compared in test_parity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, waves, zoo

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.measures.residual import angular_distances
from bathyscope.wavefront.batch import Batch

LENGTHS = (14, 9, 17)


def test_angles_by_hand() -> None:
    """Boundaries along x, again along x, along y, along −x: angles in halves of a turn."""
    directions = torch.tensor([[3.0, 0.0], [0.5, 0.0], [0.0, 2.0], [-7.0, 0.0]])
    resid_BND = directions[:, None].repeat(1, 3, 1)
    got = angular_distances(list(resid_BND), Batch.of([[1, 2, 3]]))
    nan = float("nan")
    expected = [[0, 0.5, 1], [0.5, 1, nan], [0.5, nan, nan], [nan, nan, nan]]
    for kind in range(2):
        np.testing.assert_allclose(got[0, kind].numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_a_boundary_is_at_no_angle_to_itself(scale: float) -> None:
    resid = torch.randn(1, 200, 64, generator=torch.Generator().manual_seed(0)) * scale
    ids = Batch.of([[1] * 70, [2] * 130])
    same = angular_distances([*torch.cat([resid, 3 * resid])], ids)
    opposite = angular_distances([*torch.cat([resid, -resid])], ids)
    assert same[:, :, 0, 0].max() < 1e-7
    assert (1 - opposite[:, :, 0, 0]).max() < 1e-7


def test_angles_of_a_model() -> None:
    """Every pair of boundaries, from the last token and from all tokens, by numpy in double precision."""
    model = zoo.build("llama")
    ids = zoo.prompts(model, (14, 90, 17))
    got = waves.run(waves.loaded("llama"), ids, {"residual": None})["residual"].angular
    assert got.dims == ("prompt", "tokens", "boundary", "distance")
    for prompt, own in enumerate(ids):
        h = naive.boundaries(model, naive.blocks_of(model), own).double().numpy()
        unit = h / np.linalg.norm(h, axis=-1, keepdims=True)
        for boundary in range(6):
            for distance in range(1, 6):
                at = got[prompt].sel(boundary=boundary, distance=distance)
                if boundary + distance > 5:
                    assert at.isnull().all()
                    continue
                angle = np.arccos((unit[boundary] * unit[boundary + distance]).sum(-1)) / np.pi
                assert float(at.sel(tokens="last")) == pytest.approx(angle[-1], abs=1e-6)
                assert float(at.sel(tokens="all")) == pytest.approx(angle.mean(), abs=1e-6)


def test_largest_activations() -> None:
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        hf.model.embed_tokens.weight[7, 21] = -300.0
    ids = zoo.prompts(hf, LENGTHS)
    ids[1][4] = 7
    found = waves.run(waves.load(hf), ids, {"residual": None})["residual"]
    assert float(found.largest[1, 0]) == 300
    assert (int(found.largest_token[1, 0]), int(found.largest_channel[1, 0])) == (4, 21)
    for prompt, own in enumerate(ids):
        size = naive.boundaries(hf, naive.blocks_of(hf), own).abs().flatten(1)
        for boundary, values in enumerate(size.double().numpy()):
            token, channel = divmod(int(values.argmax()), 64)
            assert int(found.largest_token[prompt, boundary]) == token
            assert int(found.largest_channel[prompt, boundary]) == channel
            ratio = values.max() / np.quantile(values, 0.5, method="lower")
            assert float(found.largest[prompt, boundary]) == pytest.approx(values.max(), rel=1e-5)
            assert float(found.largest_ratio[prompt, boundary]) == pytest.approx(ratio, rel=1e-5)


@pytest.mark.parametrize("name", ["opt_post_norm", "bloom_post_layernorm", "mamba"])
def test_parts_that_cannot_be_told_apart_are_missing(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    found = waves.run(waves.loaded(name), ids, {"residual": None})["residual"]
    for variable in ("norm_attn", "norm_mlp", "ratio_attn_max", "cos_mlp", "norm_mlp_rest"):
        assert found[variable].isnull().all(), variable
    for variable in ("norm_block", "ratio_block", "cos_block", "cos_neighbour", "norm_resid", "angular"):
        assert found[variable].notnull().any(), variable


def test_parallel_blocks_compare_their_mlp_with_the_blocks_input() -> None:
    ids = zoo.prompts(zoo.build("gpt_neox"), LENGTHS)
    parallel = waves.run(waves.loaded("gpt_neox"), ids, {"residual": None})["residual"]
    serial = waves.run(waves.loaded("gpt_neox_serial"), ids, {"residual": None})["residual"]
    assert parallel.ratio_mlp.attrs["formula"] == "‖m_l‖₂ / max(‖h_l‖₂, 1e-6)"
    assert parallel.cos_mlp.attrs["formula"] == "cos(m_l, h_l)"
    assert serial.ratio_mlp.attrs["formula"] == "‖m_l‖₂ / max(‖(h_l + a_l)‖₂, 1e-6)"


def test_a_block_that_adds_nothing() -> None:
    """Zero contributions: norm, ratio and cosine are zero, neighbouring boundaries are the same."""
    hf = zoo.entry("llama").build()
    block = naive.blocks_of(hf)[2]
    with torch.no_grad():
        block.self_attn.o_proj.weight.zero_()
        block.mlp.down_proj.weight.zero_()
    found = waves.run(waves.load(hf), zoo.prompts(hf, LENGTHS), {"residual": None})["residual"].sel(block=2)
    for part in ("attn", "mlp", "block"):
        for variable in (f"norm_{part}", f"norm_{part}_max", f"ratio_{part}", f"cos_{part}"):
            assert (found[variable].values == 0).all(), variable
    np.testing.assert_allclose(found.cos_neighbour, 1, atol=1e-6)
    assert float(found.angular.sel(boundary=2, distance=1).max()) < 1e-7


PUBLISHED = {"mean_norms": "last_prompt", "mean_contributions": "width"}


def as_published(batch_tokens: int | None = None, **options: str) -> xr.Dataset:
    model, ids = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), LENGTHS)
    run = bathyscope.survey(model, ids, ["residual"], batch_tokens=batch_tokens, residual=options, progress=False)
    return run["residual"]


def test_means_as_published_by_numpy() -> None:
    """From the model's own states: the last prompt's sum over all tokens; sums over prompts × width."""
    model = zoo.build("llama")
    states = [
        naive.boundaries(model, naive.blocks_of(model), own).double().numpy() for own in zoo.prompts(model, LENGTHS)
    ]
    found = as_published(**PUBLISHED)
    norms = np.linalg.norm(states[-1], axis=-1).sum(-1) / sum(LENGTHS)
    np.testing.assert_allclose(found.published_norm_resid, norms, rtol=1e-5)
    cosines = np.zeros(5)
    for h in states:
        change = h[1:] - h[:-1]
        length = np.linalg.norm(change, axis=-1) * np.linalg.norm(h[:-1], axis=-1)
        cosines += ((change * h[:-1]).sum(-1) / length).sum(-1)
    np.testing.assert_allclose(found.published_cos_block, cosines / (len(states) * 64), atol=1e-6)
    assert found.published_norm_resid.dims == ("boundary",)
    assert found.published_cos_block.dims == ("block",)
    assert found.published_norm_attn.attrs["long_name"] == "norm of the attention contribution (mean as published)"
    assert (
        found.published_norm_attn.attrs["formula"] == "Σ ‖a_l‖₂ over the last prompt's tokens / tokens of all prompts"
    )


def test_means_as_published_do_not_depend_on_shards() -> None:
    whole, cut = as_published(**PUBLISHED), as_published(batch_tokens=1, **PUBLISHED)
    published = [str(name) for name in whole if str(name).startswith("published_")]
    assert len(published) == 9
    for name in published:
        np.testing.assert_allclose(whole[name], cut[name], rtol=1e-5, atol=1e-7)


def test_means_as_published_are_added_only_where_asked_for() -> None:
    assert not [name for name in as_published() if str(name).startswith("published_")]
    norms = [name for name in as_published(mean_norms="last_prompt") if str(name).startswith("published_")]
    assert norms == ["published_norm_resid", "published_norm_attn", "published_norm_mlp"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "mean_norms",
            "residual: mean_norms='last' is unknown. Did you mean 'last_prompt'? Allowed: tokens, last_prompt.",
        ),
        ("mean_contributions", "residual: mean_contributions='last' is unknown. Allowed: tokens, width."),
    ],
)
def test_unknown_options(option: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        as_published(**{option: "last"})
    assert str(caught.value) == message
