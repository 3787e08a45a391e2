"""A made-up run with plausible curves: every figure can be drawn from it without a model.

The curves follow no real model. They only have the shapes, signs and exact zeros that the definitions ask
for: KL falls to 0 at the last boundary, E is 0 left of the diagonal and 1 on it, O stays below √2.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from bathyscope.measures.registry import MEASURES
from bathyscope.prompts.prompts import COORDINATES
from bathyscope.runs.manifest import FileEntry, Identity, Manifest, Record
from bathyscope.runs.run import Run

REDUCTIONS = ["mean", "p95", "max"]
ESTIMATORS = [
    "cosine",
    "kl",
    "overlap",
    "interpolated_cosine",
    "interpolated_kl",
    "interpolated_overlap",
    "centre_of_mass",
]

_OPTIONS = {"lens": {"k": 5}, "repeat": {"length": 3, "times": 1}}

Array = np.ndarray


def synthetic_run(
    L: int = 12,
    prompts: int = 6,
    seed: int = 0,
    *,
    norms: Sequence[str] = ("recompute",),
    parts: Sequence[str] = ("block",),
    model: str = "example/model-12",
    prompt_ids: Sequence[str] | None = None,
) -> Run:
    """A run of ``L`` blocks and ``prompts`` prompts, the same for the same seed.

    Args:
        norms: logit-lens norms; more than one gives the lens variables a leading dim ``norm``.
        parts: what was skipped (block, attention, mlp).
        model: the model id in the manifest.
        prompt_ids: names of the prompts; ``p0``, ``p1``, … where None.
    """
    rng = np.random.default_rng(seed)
    n_tokens = rng.integers(20, 200, prompts)
    coords = {
        "prompt_id": ("prompt", np.array(prompt_ids or [f"p{i}" for i in range(prompts)], dtype=object)),
        "n_tokens": ("prompt", n_tokens),
        "dataset": ("prompt", np.array(["synthetic"] * prompts, dtype=object)),
    }
    block, boundary = np.arange(L), np.arange(L + 1)
    residual = _residual(L, prompts, rng)
    lens = _lens(L, prompts, rng, norms)
    skip = _skip(L, prompts, rng, parts)
    groups = {
        "residual": made_up("residual", residual, {**coords, "block": block, "boundary": boundary}),
        "lens": made_up(
            "lens", lens, {**coords, "boundary": boundary, **({"norm": list(norms)} if len(norms) > 1 else {})}
        ),
        "skip": made_up(
            "skip", skip, {**coords, "part": list(parts), "reduction": REDUCTIONS, "skipped": block, "block": block}
        ),
    }
    places = {"drop": ("dropped", L), "swap": ("swapped", L - 1), "repeat": ("start", max(L - 2, 1))}
    for measure, (dim, length) in places.items():
        groups[measure] = made_up(measure, _schedule(prompts, rng, length), {**coords, dim: np.arange(length)})
    groups |= {"effective_depth": _effective_depth(L), "noise": _noise()}
    return Run(_tree(groups), _manifest(model, n_tokens, list(groups)))


def plain_run(
    datasets: Mapping[str, xr.Dataset],
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    controls: Mapping[str, Run] | None = None,
) -> Run:
    """A run of these datasets, whose manifest tells these options of measures."""
    prompts = next(dataset.sizes["prompt"] for dataset in datasets.values() if "prompt" in dataset.sizes)
    manifest = _manifest("example/model", np.full(prompts, 20), list(datasets))
    manifest["identity"]["measures"] = {name: dict(options) for name, options in (settings or {}).items()}
    return Run(_tree(datasets), manifest, controls=controls or {})


def without(run: Run, *measures: str) -> Run:
    """The same run with some of its groups left out."""
    kept = {name: run[name] for name in run.measures if name not in measures}
    return Run(_tree(kept), run.manifest)


def replaced(run: Run, measure: str, dataset: xr.Dataset) -> Run:
    """The same run with one of its groups exchanged."""
    kept = {name: run[name] for name in run.measures}
    return Run(_tree({**kept, measure: dataset}), run.manifest)


def told(run: Run, measure: str, **options: Any) -> Run:
    """The same run whose manifest tells further options of a measure."""
    manifest = copy.deepcopy(run.manifest)
    manifest["identity"]["measures"].setdefault(measure, {}).update(options)
    return Run(_tree({name: run[name] for name in run.measures}), manifest)


def in_books(run: Run, books: Sequence[str]) -> Run:
    """The same run, each prompt of which has the label ``book``."""
    for name in [one for one in run.measures if "prompt" in run[one].sizes]:
        run = replaced(run, name, run[name].assign_coords(book=("prompt", np.array(list(books), dtype=object))))
    return run


def small_run(L: int = 3, **options: Any) -> Run:
    """A run of two small figures: effective depth, and the KL of drop."""
    run = synthetic_run(L, **options)
    kept = without(run, *(name for name in run.measures if name not in ("effective_depth", "drop", "noise")))
    return replaced(kept, "drop", run["drop"].drop_vars(["top1_agreement", "entropy", "loss"]))


def made_up(measure: str, values: Mapping[str, Any], coords: Mapping[str, Any]) -> xr.Dataset:
    """Values with the dimensions and attributes that the measure's declaration gives them."""
    return MEASURES[measure].dataset(values, coords)


def prompt_coords(like: xr.Dataset) -> dict[str, xr.DataArray]:
    """The coordinates of prompts that every result has, from another result of the run."""
    return {name: like[name] for name in COORDINATES}


def _tree(groups: Mapping[str, xr.Dataset]) -> xr.DataTree:
    return xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})


def noisy(curve: Array, prompts: int, rng: np.random.Generator, spread: float = 0.1) -> Array:
    """The curve for every prompt, scaled by a factor of its own and by a little noise."""
    factor = rng.normal(1.0, spread, (prompts,) + (1,) * curve.ndim)
    return np.asarray(curve * factor * rng.normal(1.0, spread / 3, (prompts, *curve.shape)))


def _residual(L: int, prompts: int, rng: np.random.Generator) -> dict[str, Array]:
    boundary, block = np.linspace(0, 1, L + 1), np.linspace(0, 1, L)
    curves = {
        "norm_resid": np.exp(1 + 4 * boundary),
        "norm_attn": np.exp(0.5 + 3 * block),
        "norm_mlp": np.exp(0.8 + 3.2 * block),
        "norm_block": np.exp(1.1 + 3.2 * block),
        "ratio_attn": 0.2 + 0.5 * np.exp(-4 * block),
        "ratio_mlp": 0.3 + 0.6 * np.exp(-4 * block),
        "ratio_block": 0.4 + 0.9 * np.exp(-4 * block),
        "cos_attn": 0.3 * np.sin(5 * block - 1.5),
        "cos_mlp": 0.4 * np.sin(5 * block - 2.0),
        "cos_block": 0.4 * np.sin(5 * block - 1.8),
        "cos_neighbour": 0.98 - 0.4 * np.exp(-6 * block),
    }
    values: dict[str, Array] = {}
    for name, curve in curves.items():
        values[name] = noisy(curve, prompts, rng, 0.02 if name == "cos_neighbour" else 0.15)
        if name.startswith(("norm", "ratio")):
            values[f"{name}_max"] = values[name] * 6
        if name.startswith("norm"):
            values[f"{name}_rest"] = values[name] * 0.7
    return values


def _lens(L: int, prompts: int, rng: np.random.Generator, norms: Sequence[str]) -> dict[str, Array]:
    x = np.linspace(0, 1, L + 1)
    curves = {
        "kl_lens_final": 8 * (1 - x**2),
        "kl_final_lens": 10 * (1 - x**1.5),
        "jsd": 0.9 * (1 - x),
        "entropy": 10 - 7 * x,
        "overlap": x**3,
        "top1_agreement": x**4,
        "mrr": x**3.5,
        "cross_entropy": 9 - 6.5 * x,
    }
    by_norm = [
        {name: noisy(curve, prompts, rng) * (1 + 0.3 * number * (1 - x)) for name, curve in curves.items()}
        for number, _ in enumerate(norms)
    ]
    values = {name: np.stack([curves_of_norm[name] for curves_of_norm in by_norm]) for name in curves}
    for name in ("overlap", "top1_agreement", "mrr"):
        values[name] = np.clip(values[name], 0, 1)
    values["top1_kept"] = np.minimum.accumulate(values["top1_agreement"][..., ::-1], axis=-1)[..., ::-1] * (
        0.7 + 0.3 * x
    )
    values["top1_kept"][..., -1] = 1
    values["near_ties"] = 0.4 * (1 - values["top1_agreement"])
    return values if len(norms) > 1 else {name: stacked[0] for name, stacked in values.items()}


def _skip(L: int, prompts: int, rng: np.random.Generator, parts: Sequence[str]) -> dict[str, Array]:
    s, l = np.arange(L)[:, None], np.arange(L)[None, :]  # noqa: E741 - the block index is l everywhere
    below = np.where(l > s, (0.1 + 0.7 * np.exp(-(l - s) / 4)) * np.exp(-2 * s / L), 0.0)
    scale = np.array([0.3, 0.7, 1.0])
    shape = (prompts, len(parts), len(REDUCTIONS), L, L)
    future = np.empty(shape)
    for p in range(len(parts)):
        for r, factor in enumerate(scale):
            future[:, p, r] = noisy(below * factor, prompts, rng) / (1 + p)
    everything = np.where(l > s, future * 1.4, np.where(l == s, 1.0, 0.0))
    output = np.clip(noisy(np.exp(-3 * np.arange(L) / L)[None, None] * np.ones(shape[1:4]), prompts, rng), 0, 1.4)
    output *= scale[:, None]
    return {
        "effect_all": everything,
        "effect_future": future,
        "output_all": output,
        "output_future": 0.6 * output,
    }


def _schedule(prompts: int, rng: np.random.Generator, length: int) -> dict[str, Array]:
    x = np.linspace(0, 1, length)
    hurt = 4 * np.exp(-8 * x) + 0.1 + 0.8 * np.exp(-8 * (1 - x))
    baseline_entropy, baseline_loss = rng.uniform(2, 4, prompts), rng.uniform(2, 3, prompts)
    kl = noisy(hurt, prompts, rng)
    return {
        "kl": kl,
        "top1_agreement": np.exp(-kl / 2),
        "entropy": baseline_entropy[:, None] + 0.5 * kl,
        "loss": baseline_loss[:, None] + 0.8 * kl,
        "baseline_entropy": baseline_entropy,
        "baseline_loss": baseline_loss,
    }


def _effective_depth(L: int) -> xr.Dataset:
    depth = np.array([0.55, 0.65, 0.8, 0.53, 0.62, 0.78, 0.4]) * (L - 1)
    depth[:3] = np.round(depth[:3])
    depth[3] = np.nan
    reason = np.array([""] * len(ESTIMATORS), dtype=object)
    reason[3] = "the mean cosine is positive at every block"
    values = {
        "depth": depth,
        "ratio": depth / L,
        "index": depth,
        "ci_low": np.clip(depth - 0.08 * L, 0, L - 1),
        "ci_high": np.clip(depth + 0.05 * L, 0, L - 1),
        "crossing_share": np.array([1.0, 1.0, 0.97, 0.12, 1.0, 0.99, 1.0]),
        "reason": reason,
    }
    attrs = {"n_blocks": L, "level": 0.95, "resamples": 1000}
    return made_up("effective_depth", values, {"estimator": ESTIMATORS}).assign_attrs(attrs)


def _noise() -> xr.Dataset:
    """The largest deviation of each measure's control; no measure of its own declares it."""
    floor = {"skip": 3.1e-7, "drop": 1.2e-7, "swap": 1.3e-7, "repeat": 1.1e-7}
    return xr.Dataset({"floor": ("measure", list(floor.values()))}, {"measure": list(floor)})


def _manifest(model: str, n_tokens: Array, measures: list[str]) -> dict[str, Any]:
    identity = Identity(
        model=model,
        revision="0123abcd",
        weight_hash="ab" * 32,
        tokenizer_hash="cd" * 32,
        prompt_hash="ef" * 32,
        dataset="synthetic",
        prompts=len(n_tokens),
        measures={name: _OPTIONS.get(name, {}) for name in measures if name != "noise"},
        dtype="float32",
        attention="sdpa",
        device="cpu",
        seed=0,
        preset=None,
        batch_tokens=None,
        plan=((0, len(n_tokens)),),
        noise=None,
    )
    record = Record(
        versions={"bathyscope": "0.1.0", "torch": "2.13.0", "transformers": "5.23.0"},
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:01:00+00:00",
        shards={0: FileEntry("shard-00000.nc", "12" * 32, (0, len(n_tokens)))},
    )
    return Manifest(identity, record).to_dict()
