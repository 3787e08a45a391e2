"""Made-up results of the measures that look at single tokens or single blocks, added to a synthetic run.

As in ``synthetic``, the numbers follow no model; they have the shapes, signs and zeros of the definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from support.synthetic import REDUCTIONS, made_up, prompt_coords, replaced, synthetic_run
from support.synthetic_neurons import neurons
from support.synthetic_similarity import cka, pairs, swap_cosine
from support.synthetic_stages import stages

from bathyscope.labels import range_of
from bathyscope.measures.depth_score_levels import level_results
from bathyscope.measures.of.depth_score import DepthScoreOptions
from bathyscope.measures.registry import MEASURES
from bathyscope.runs.run import Run
from bathyscope.statistics.crossing import centre_of_mass

SITES = ["block", "attention", "mlp"]
PIECES = [
    "The",
    " spouse",
    " of",
    "\n",
    "\t",
    "$x_1$",
    "<b>&",
    " ",
    "\x07",
    "中",
    "internationalisation",
    "5",
    " +",
    "=",
]
ANSWER = 2

Array = np.ndarray


def with_places(run: Run, measure: str = "skip") -> Run:
    """The run with two named places in a measure: "city", tokens 3 and 4 but of prompt 0 token 2 alone, and
    "last", token 4 of all.
    """
    start = np.full((run[measure].sizes["prompt"], 2), (3, 4))
    stop = np.full_like(start, 5)
    start[0, 0], stop[0, 0] = 2, 3
    places = {"place_start": (("prompt", "place"), start), "place_stop": (("prompt", "place"), stop)}
    return replaced(run, measure, run[measure].assign(places).assign_coords(place=["city", "last"]))


def complete_run(L: int = 12, prompts: int = 6, *, tokens: int = 20, seed: int = 0, **options: Any) -> Run:
    """A synthetic run that also holds direct, erasure, integrated_gradients, gradient and what lens and residual
    tell of single prompts; the prompts have between ``tokens`` / 2 and ``tokens`` tokens there.

    The first prompt has no answer where there are several: erasure and integrated gradients miss it.
    """
    rng = np.random.default_rng(seed)
    run = synthetic_run(L, prompts, seed, **options)
    lengths = rng.integers(max(tokens // 2, ANSWER + 2), tokens + 1, prompts)
    lengths[-1] = tokens
    coords = token_coords(run, lengths)
    groups = {name: run[name] for name in run.measures}
    groups["residual"] = groups["residual"].merge(made_up("residual", largest(L, prompts, rng), {}))
    groups["lens"] = groups["lens"].merge(made_up("lens", settling(L, prompts, rng), {}))
    groups["direct"] = direct(groups["skip"])
    start = np.where(unmeasured(prompts), -1, lengths - ANSWER)
    groups["erasure"] = made_up(
        "erasure",
        {"effect": erased(L, lengths, rng), "answer_start": start},
        {**coords, "boundary": np.arange(L + 1)},
    )
    groups["integrated_gradients"] = made_up(
        "integrated_gradients",
        {**attributed(L, lengths, rng), "answer_start": start},
        {**coords, "site": SITES, "block": np.arange(L)},
    )
    groups["depth_score"] = depth_scores(L, prompts, rng, groups["residual"])
    groups["gradient"] = gradient(L, prompts, rng, groups["residual"])
    groups["neurons"] = neurons(L, rng)
    groups["swap_cosine"] = swap_cosine(L, prompts, rng, groups["residual"])
    groups["pairs"] = pairs(L, prompts, np.random.default_rng(seed), groups["residual"])
    groups["cka"] = cka(L, groups["residual"])
    groups["attention_locality"] = attention(L, prompts, rng, groups["residual"])
    groups["patching"] = patched(L, lengths, np.random.default_rng(seed), coords)
    groups["stages"] = stages(groups)
    groups["translated_lens"] = translated(L, prompts, groups["residual"])
    groups["jacobian_lens"] = jacobian(L, prompts, groups["residual"])
    for name in [name for name, declaration in MEASURES.items() if declaration.panels and name not in groups]:
        groups[name] = from_table(name, L, coords)
    tree = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
    return Run(tree, run.manifest)


def from_table(measure: str, L: int, coords: Mapping[str, Any]) -> xr.Dataset:
    """Numbers without any meaning for every variable that a measure's table has, within what it can be.

    Args:
        coords: of prompts and tokens.
    """
    rng = np.random.default_rng(0)
    lengths = coords["n_tokens"][1]
    sizes = {
        "prompt": len(lengths),
        "token": int(lengths.max()),
        "boundary": L + 1,
        **dict.fromkeys(("block", "skipped", "dropped", "other"), L),
        **dict.fromkeys(("swapped", "start"), L - 1),
    }
    values = {}
    for name, label in (MEASURES[measure].table or {}).items():
        if label.optional or not label.units:
            continue
        low, high = (limit if np.isfinite(limit) else other for limit, other in zip(range_of(name), (-1.0, 2.0)))
        values[name] = rng.uniform(low, high, [sizes.get(dim, 3) for dim in label.always])
        if label.units == "token":
            values[name] = values[name].round().astype(np.int64)
    used = {dim for name in values for dim in MEASURES[measure].table[name].always}
    own = {dim: np.arange(sizes.get(dim, 3)) for dim in used - {"prompt", "token"}}
    given = ("token", "piece") if "token" in used else ()
    return made_up(
        measure, values, {**own, **{name: coords[name] for name in ("prompt_id", "dataset", "n_tokens", *given)}}
    )


def token_coords(run: Run, lengths: Array) -> dict[str, Any]:
    """Coordinates of measures by token; pieces are padded with empty texts."""
    width = int(lengths.max())
    pieces = np.full((len(lengths), width), "", dtype=object)
    for prompt, length in enumerate(lengths):
        pieces[prompt, :length] = [PIECES[(token + prompt) % len(PIECES)] for token in range(length)]
    data = run["residual"]
    return {
        "prompt_id": ("prompt", data["prompt_id"].values),
        "dataset": ("prompt", data["dataset"].values),
        "n_tokens": ("prompt", lengths),
        "piece": (("prompt", "token"), pieces),
        "token": np.arange(width),
    }


def unmeasured(prompts: int) -> Array:
    """(prompt), which prompts have no answer."""
    return (np.arange(prompts) == 0) & (prompts > 1)


def erased(L: int, lengths: Array, rng: np.random.Generator) -> Array:
    """(prompt, boundary, token), 0 at the last token, NaN beyond the end and without an answer."""
    fade = np.linspace(1, 0, L + 1)[:, None] ** rng.uniform(0.3, 3, lengths.max())
    values = 1.2 * fade * rng.uniform(0.3, 1, (len(lengths), 1, lengths.max()))
    values[np.arange(len(lengths)), :, lengths - 1] = 0.0
    return _blanked(values, lengths)


def patched(L: int, lengths: Array, rng: np.random.Generator, coords: Mapping[str, Any]) -> xr.Dataset:
    """Two parts; the first prompt is not patched where there are several, and the last pair has one answer."""
    read = np.where(unmeasured(len(lengths)), -1, lengths - ANSWER - 1)
    shape = (len(lengths), 2, L + 1, lengths.max())
    there = (np.arange(lengths.max()) <= read[:, None])[:, None, None]
    kl, recovered = (np.where(there, rng.uniform(0, 1, shape), np.nan) for _ in range(2))
    kl[:, 1, -1], recovered[:, 1, -1] = np.nan, np.nan
    if len(lengths) > 1:
        recovered[-1] = np.nan
    values = {"recovered": recovered, "kl": kl, "read_at": read}
    return made_up("patching", values, {**coords, "part": ["block", "mlp"], "boundary": np.arange(L + 1)})


def attributed(L: int, lengths: Array, rng: np.random.Generator) -> Mapping[str, Array]:
    """Attributions of both signs and small completeness gaps."""
    values = rng.normal(0, 0.05, (len(lengths), len(SITES), L, lengths.max())) * np.array([1, 0.5, 0.4])[:, None, None]
    gaps = rng.normal(0, 1e-5, (len(lengths), len(SITES), L))
    gaps[unmeasured(len(lengths))] = np.nan
    return {"attribution": _blanked(values, lengths), "completeness": gaps}


def depth_scores(L: int, prompts: int, rng: np.random.Generator, like: xr.Dataset) -> xr.Dataset:
    """Scores that rise with the number of hops, 2 to 4, and their levels and trend."""
    hops = 2 + np.arange(prompts) % 3
    s = np.arange(L)
    output = np.exp(-np.abs(s - (hops[:, None] + rng.normal(0, 0.3, (prompts, 1))) * L / 6) / L * 4)
    output = output[:, None] * np.array([0.3, 0.7, 1.0])[:, None]
    effect = np.where(s[None, :] > s[:, None], output[..., None], 0.0)
    values = {
        "effect": effect,
        "output_effect": output,
        "prompt_score_layer": centre_of_mass(effect.sum(-1)),
        "prompt_score_output": centre_of_mass(output),
    }
    coords = {"hops": ("prompt", hops), "reduction": REDUCTIONS, "skipped": s, "block": s}
    data = made_up("depth_score", values, {**prompt_coords(like), **coords})
    return data.merge(level_results(data, "hops", DepthScoreOptions(resamples=200, permutations=99), seed=0))


def direct(skip: xr.Dataset) -> xr.Dataset:
    """Half of the skip effects, nothing on the diagonal."""
    chosen = skip[["effect_all", "effect_future"]].isel(part=0, drop=True) * 0.5
    kept = chosen["block"] > chosen["skipped"]
    return chosen.where(kept, 0.0).assign_coords(reduction=REDUCTIONS)


def largest(L: int, prompts: int, rng: np.random.Generator) -> Mapping[str, Array]:
    """One huge channel at position 0."""
    size = np.exp(np.linspace(1, 8, L + 1)) * rng.uniform(0.9, 1.1, (prompts, 1))
    return {
        "largest": size,
        "largest_ratio": size * 3,
        "largest_token": np.zeros(size.shape),
        "largest_channel": np.full(size.shape, 317),
    }


def settling(L: int, prompts: int, rng: np.random.Generator) -> Mapping[str, Array]:
    """Depths between a half and the whole of the model."""
    return {
        "settle_depth": L * rng.uniform(0.5, 0.9, prompts),
        "prediction_depth": L * rng.uniform(0.6, 1, prompts),
        "deep_thinking_ratio": rng.uniform(0.1, 0.4, prompts),
    }


def translated(L: int, prompts: int, like: xr.Dataset) -> xr.Dataset:
    """Curves of two readers that reach the end, of which the lens is later; the first prompt is fitted to."""
    rng = np.random.default_rng(1)
    depth = np.linspace(0, 1, L + 1) ** np.array([[0.5], [2.0]])
    agreement = depth * rng.uniform(0.7, 1, (prompts, 2, L + 1))
    agreement[..., -1] = 1.0
    first = L * rng.uniform([0.3, 0.6], [0.5, 0.9], (prompts, 2))
    fitted = unmeasured(prompts)
    for values in (agreement, first):
        values[fitted] = np.nan
    counts = np.where(fitted, 0, like["n_tokens"].values - 1)
    means = {name: np.nanmean(first[:, i]) for i, name in enumerate(("decodable", "readable"))}
    values = {
        "kl": 3 * (1 - agreement),
        "top1_agreement": agreement,
        "prediction_depth": first,
        "n_averaged": counts,
        **means,
    }
    coords = {"reader": ["translated", "lens"], "boundary": np.arange(L + 1)}
    return made_up("translated_lens", values, {**prompt_coords(like), **coords})


def jacobian(L: int, prompts: int, like: xr.Dataset) -> xr.Dataset:
    """Curves of three readers that reach the end, the Jacobian lens between the others, and a band in the middle."""
    rng = np.random.default_rng(2)
    depth = np.linspace(0, 1, L + 1) ** np.array([[1.0], [2.0], [0.5]])
    agreement = depth * rng.uniform(0.7, 1, (prompts, 3, L + 1))
    agreement[..., -1] = 1.0
    values = {
        "kl": 3 * (1 - agreement),
        "top1_agreement": agreement,
        "mrr": agreement,
        "n_averaged": like["n_tokens"].values - 1,
        "half_agreement": np.linspace(0.8, 1, L + 1),
        "half_agreement_rest": np.linspace(0.2, 0.9, L + 1),
        "identity_share": np.linspace(0.3, 1, L + 1),
        "sampling_error": np.zeros(L + 1),
    }
    band = {"band_first": 1.0, "band_last": L - 1.0}
    gain = {"band_gain": 0.4, "band_gain_low": 0.2, "band_gain_high": 0.6}
    ends = {f"{name}_{end}": place for name, place in band.items() for end in ("low", "high")} | gain
    coords = {"reader": ["jacobian", "lens", "translated"], "boundary": np.arange(L + 1)}
    data = made_up("jacobian_lens", {**values, **band, **ends, "band_p": 0.01}, {**prompt_coords(like), **coords})
    return data.assign_attrs(fit_prompts=100, fit_tokens=11100)


def gradient(L: int, prompts: int, rng: np.random.Generator, like: xr.Dataset) -> xr.Dataset:
    """A gradient that shrinks with depth, split in two."""
    own = np.exp(-np.linspace(0, 2, L + 1)) * rng.uniform(0.8, 1.2, (prompts, 1))
    rest = np.exp(-np.linspace(0, 6, L + 1)) * rng.uniform(0.8, 1.2, (prompts, 1))
    rest[:, -1] = 0.0
    values = {"norm": np.hypot(own, rest), "norm_own": own, "norm_rest": rest}
    return made_up("gradient", values, {**prompt_coords(like), "boundary": np.arange(L + 1)})


def attention(L: int, prompts: int, rng: np.random.Generator, like: xr.Dataset, heads: int = 4) -> xr.Dataset:
    """Attention to the tokens before that fades with depth and with their distance."""
    offsets = np.array([1, 2, 4, 8, 16])
    depth = np.linspace(0, 2, L)[:, None]
    weight = np.exp(-depth - offsets / 4) * rng.uniform(0.8, 1.2, (prompts, L, 5))
    head = np.exp(-depth) * rng.uniform(0.02, 0.1, (prompts, L, heads))
    values = {
        "weight": weight,
        "mean_prev5": head.mean(-1),
        "total_prev5": 5 * head.mean(-1),
        "self_weight": rng.uniform(0.05, 0.1, (prompts, L)),
        "first_key": rng.uniform(0.2, 0.6, (prompts, L)),
        "head_prev1": 2 * head,
        "head_prev5": head,
    }
    coords = {"block": np.arange(L), "offset": offsets, "head": np.arange(heads)}
    return made_up("attention_locality", values, {**prompt_coords(like), **coords})


def _blanked(values: Array, lengths: Array) -> Array:
    """NaN behind each prompt's end, and throughout where there is no answer; prompts first, tokens last."""
    values = values.copy()
    for prompt, length in enumerate(lengths):
        values[prompt, ..., length:] = np.nan
    values[unmeasured(len(lengths))] = np.nan
    return values


def with_tokens(run: Run, prompts: int = 16, tokens: int = 40, seed: int = 0) -> Run:
    """The run with values of single tokens of its first prompts, for all boundaries and all left-out blocks."""
    rng = np.random.default_rng(seed)
    prompts = min(prompts, len(run.prompts))
    L, words = run.n_blocks, 50
    shape = (prompts, tokens, L + 1)
    probability = np.sort(rng.dirichlet(np.ones(6), shape), -1)[..., :0:-1]
    # Drawn token by token, and stored with the tokens last.
    data = {
        "top_id": rng.integers(words, size=(*shape, 5)).transpose(0, 2, 3, 1),
        "top_probability": probability.transpose(0, 2, 3, 1),
        **{name: rng.uniform(0, 1, shape).swapaxes(1, 2) for name in ("kl_final_lens", "entropy", "next_probability")},
        **{name: rng.uniform(0, L, shape[:2]) for name in ("settle_depth", "prediction_depth")},
        "added_loss": rng.normal(0, 0.1, (*shape[:2], L)).swapaxes(1, 2),
        "piece": np.array([f"{PIECES[n % len(PIECES)]}{n}" for n in range(words)], dtype=object),
    }
    coords = {
        "prompt": np.arange(prompts),
        "n_tokens": ("prompt", np.full(prompts, tokens)),
        "boundary": np.arange(L + 1),
        "dropped": np.arange(L),
        "id": np.arange(words),
    }
    groups = {f"/{name}": run[name] for name in run} | {"/tokens": made_up("tokens", data, coords)}
    return Run(xr.DataTree.from_dict(groups), run.manifest)
