"""Effective depth of a run: which curves go in, against the criteria written out here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from support import waves, zoo

from bathyscope.errors import OptionError
from bathyscope.measures.curves import depth_inputs
from bathyscope.measures.of.effective_depth import EffectiveDepth, EffectiveDepthOptions
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.effective_depth import effective_depth
from bathyscope.statistics.sampling import Sampling

pytestmark = pytest.mark.filterwarnings("ignore:skip. .* too short for a sampled position")

LENGTHS = (14, 9, 17, 30)
L = 5


def merged(name: str, lengths: tuple[int, ...] = LENGTHS, **lens: object) -> dict[str, xr.Dataset]:
    ids = zoo.prompts(zoo.build(name), lengths)
    found = waves.run(waves.loaded(name), ids, {"residual": None, "lens": lens, "skip": None})
    tokens = ("prompt", np.array(lengths))
    return {measure: dataset.assign_coords(n_tokens=tokens) for measure, dataset in found.items()}


def derived(datasets: dict[str, xr.Dataset], name: str = "llama", **options: object) -> xr.Dataset:
    measure = EffectiveDepth(EffectiveDepthOptions(**options))  # type: ignore[arg-type]
    return measure.derive(waves.facts(waves.loaded(name)), datasets, seed=3)


def token_weighted(values: xr.DataArray) -> np.ndarray:
    tokens = values["n_tokens"].values
    return tokens @ values.values / tokens.sum()


@pytest.mark.parametrize("name", ["llama", "gpt2", "olmo2", "gemma2", "gemma3", "gpt2_sink"])
def test_depths_by_their_criteria(name: str) -> None:
    datasets = merged(name)
    found = derived(datasets, name)
    residual, lens, skip = datasets["residual"], datasets["lens"], datasets["skip"]
    cosine = np.mean([token_weighted(residual[f"cos_{part}"]) for part in ("attn", "mlp", "block")], axis=0)
    kl, overlap = (token_weighted(lens[v].isel(boundary=slice(0, L))) for v in ("kl_lens_final", "overlap"))
    turns = [block for block in range(L - 1) if cosine[block] < 0 <= cosine[block + 1]]
    below = [b for b in range(L - 1) if kl[b] < 0.5 * kl.max()]
    above = [b for b in range(L - 1) if overlap[b] > 0.3]
    # prompts of 9 tokens have no position
    effect = skip.effect_future.sel(part="block", reduction="max").isel(prompt=[0, 2, 3]).mean("prompt").values
    by_layer = np.array([effect[s].sum() / max(L - 1 - s, 1) for s in range(L)])
    expected = {
        "cosine": turns[-1] if turns else np.nan,
        "kl": below[0] if below else np.nan,
        "overlap": above[0] if above else np.nan,
        "settle": float(lens.settle_depth.mean()),
        "prediction": float(lens.prediction_depth.mean()),
        "centre_of_mass": (np.arange(L) * by_layer).sum() / by_layer.sum(),
    }
    for estimator, depth in expected.items():
        got = found.sel(estimator=estimator)
        done = depth + {"cosine": 1, "centre_of_mass": 0.5}.get(estimator, 0)
        np.testing.assert_allclose(got.index, depth, rtol=1e-9)
        np.testing.assert_allclose(got.depth, done, rtol=1e-9)
        np.testing.assert_allclose(got.ratio, done / L, rtol=1e-9)
        assert bool(str(got.reason.values)) == bool(np.isnan(depth) or np.isnan(got.ci_low))


def test_names_and_attributes() -> None:
    found = derived(merged("llama"), resamples=50, level=0.9)
    assert found["estimator"].values.tolist() == [
        "cosine",
        "kl",
        "overlap",
        "interpolated_cosine",
        "interpolated_kl",
        "interpolated_overlap",
        "settle",
        "prediction",
        "centre_of_mass",
    ]
    assert set(found.data_vars) == {"depth", "ratio", "index", "ci_low", "ci_high", "crossing_share", "reason"}
    for name, values in found.data_vars.items():
        assert values.dims == ("estimator",)
        assert {"long_name", "units", "formula", "source"} <= set(values.attrs), name
    assert found.attrs == {"n_blocks": L, "level": 0.9, "resamples": 50}
    assert "90 %" in found.ci_low.attrs["long_name"]


def test_the_seed_draws_the_resamples() -> None:
    datasets = merged("gpt2")
    xr.testing.assert_identical(derived(datasets), derived(datasets))


def test_clusters_are_resampled_as_one() -> None:
    labelled = {
        name: data.assign_coords(book=("prompt", ["a", "b", "b", "c"])) for name, data in merged("llama").items()
    }
    inputs = depth_inputs(labelled["residual"], labelled["lens"], labelled["skip"])
    wanted = effective_depth(replace(inputs, cluster=np.array([0, 1, 1, 2])), Sampling(100, seed=3))["settle"]
    found, plain = (derived(labelled, resamples=100, cluster=label) for label in ("book", None))
    settle = found.sel(estimator="settle")
    assert (settle.ci_low, settle.ci_high) == (wanted.ci_low, wanted.ci_high)
    assert not np.array_equal(found.ci_low, plain.ci_low, equal_nan=True)
    measure = EffectiveDepth(EffectiveDepthOptions(cluster="boo"))
    given = [TokenizedPrompt(str(n), (1, 2), None, {"book": book}) for n, book in enumerate("abbc")]
    with pytest.raises(OptionError, match=r"no label 'boo'. Did you mean 'book'\?"):
        measure.prepare(waves.facts(waves.loaded("llama")), given, seed=0)


def test_the_recomputed_norm_is_used_where_there_are_two() -> None:
    alone = depth_inputs(*merged("gpt2").values())
    both = depth_inputs(*merged("gpt2", norm=["frozen", "recompute"]).values())
    np.testing.assert_array_equal(alone.kl, both.kl)
    np.testing.assert_array_equal(alone.overlap, both.overlap)
    np.testing.assert_array_equal(alone.settle_depth, both.settle_depth)
    np.testing.assert_array_equal(alone.prediction_depth, both.prediction_depth)
    assert alone.kl.shape == (len(LENGTHS), L)


def test_the_cosine_is_the_mean_of_the_three() -> None:
    low, high = [-0.9, -0.9, -0.9, 0.0, 0.0], [0.2, 0.2, 0.5, 0.5, 0.5]

    def index(**cosines: list[float]) -> float:
        datasets = merged("llama")
        residual = datasets["residual"]
        made = {
            name: xr.full_like(residual[name], 0) + xr.DataArray(own, dims="block") for name, own in cosines.items()
        }
        inputs = depth_inputs(residual.assign(made), datasets["lens"], datasets["skip"])
        return effective_depth(inputs, Sampling(5))["cosine"].index

    assert index(cos_attn=low, cos_mlp=high, cos_block=high) == 1
    assert np.isnan(index(cos_attn=high, cos_mlp=high, cos_block=high))


def test_prompts_too_short_for_positions_have_no_centre_of_mass() -> None:
    found = derived(merged("llama", lengths=(9, 8))).sel(estimator="centre_of_mass")
    assert np.isnan(found.depth)
    assert str(found.reason.values)


def test_without_skips_of_whole_blocks_there_is_no_centre_of_mass() -> None:
    datasets = merged("llama")
    some = datasets | {"skip": datasets["skip"].assign_coords(part=["attention"])}
    found = derived(some).sel(estimator="centre_of_mass")
    assert np.isnan(found.depth)
    assert str(found.reason.values) == "future skip effects were not measured"


def test_without_parts_the_cosine_estimate_says_why() -> None:
    found = derived(merged("opt_post_norm"), "opt_post_norm")
    assert np.isnan(found.depth.sel(estimator="cosine"))
    assert str(found.reason.sel(estimator="cosine").values)
    assert np.isfinite(found.depth.sel(estimator="centre_of_mass"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resamples": 0}, "effective_depth: resamples=0 is out of range; allowed: 20 to"),
        ({"level": 1.0}, "effective_depth: level=1.0 is out of range"),
        ({"kl_fraction": 0.0}, "effective_depth: kl_fraction=0.0 is out of range"),
        ({"overlap_threshold": 1.0}, "effective_depth: overlap_threshold=1.0 is out of range"),
    ],
)
def test_errors(options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        EffectiveDepth(options)
    assert message in str(caught.value)
