"""Measures of one model against one full forward of that model per intervention, for models of any family.

``compare`` runs every measure that has a plain reference, and says how many variables it compared and how far apart
the worst of them are. Nothing of the references is shared with the engine (``support.naive``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

import numpy as np
import torch
import xarray as xr
from support import naive, naive_erasure, waves
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.model import Model

Curves = dict[str, np.ndarray]
REPEATED = 2
HITS = (1, 3, 5, 10)
ANSWER = 3
MEASURES = ("residual", "lens", "skip", "drop", "swap", "repeat", "erasure")


@dataclass
class Comparison:
    """By measure and variable the largest gap, relative to max(1, |expected|)."""

    gaps: dict[str, float] = field(default_factory=dict)

    @property
    def measures(self) -> list[str]:
        """Measures of which at least one variable was compared."""
        return list(dict.fromkeys(name.split(".")[0] for name in self.gaps))

    @property
    def worst(self) -> float:
        """The largest gap; NaN where one is not a number."""
        return float(np.max(list(self.gaps.values())))


def blocks_of(model: Model, hf: PreTrainedModel) -> list[nn.Module]:
    """The blocks of a second copy of a loaded model that run, at the paths of its family."""
    family = model.anatomy.family
    listed = [block for path in family.block_lists for block in attrgetter(path)(hf)]
    return [block for block in listed if family.idle is None or not hasattr(block, family.idle)]


def compare(model: Model, hf: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> Comparison:
    """Compare what the engine measures on a loaded model with a reference on an untouched copy of it.

    Args:
        model: loaded, each of whose blocks runs once.
        hf: the same model, built again.
        prompts: token ids; in one padded batch for the engine, one by one for the reference.
    """
    blocks = blocks_of(model, hf)
    result = Comparison()
    batches = [[ids] for ids in prompts] if model.anatomy.equal_lengths else [list(prompts)]
    datasets = [measure(model, batch) for batch in batches]
    joined = {name: xr.concat([part[name] for part in datasets], dim="prompt") for name in datasets[0]}
    for name in ("drop", "swap", "repeat"):
        orders = orders_of(name, joined[name], len(blocks))
        _note(result, name, joined[name], prompts, partial(schedules, hf, blocks, orders=orders))
    skip_data = joined["skip"].sel(part="block")
    _note(result, "skip", skip_data, prompts, partial(skip, hf, blocks))
    _note(result, "lens", joined["lens"], prompts, partial(lens, hf, blocks))
    _note(result, "residual", joined["residual"], prompts, partial(residual, hf, blocks))
    means = {id(ids): naive_erasure.mean_residual(hf, blocks, batch) for batch in batches for ids in batch}
    _note(result, "erasure", joined["erasure"], prompts, partial(erasure, hf, blocks, means=means))
    return result


def measure(model: Model, batch: Sequence[Sequence[int]]) -> dict[str, xr.Dataset]:
    """Every measure that has a reference, of prompts in one batch."""
    options = {
        "residual": None,
        "lens": None,
        "skip": {"positions": [positions(ids) for ids in batch]},
        "drop": None,
        "swap": None,
        "repeat": {"length": REPEATED},
        "erasure": {"future": True},
    }
    return waves.run(model, batch, options, answers=[ANSWER] * len(batch))


def positions(ids: Sequence[int]) -> list[int]:
    """The first, the middle and the last token before which a block may be skipped."""
    return [1, len(ids) // 2, len(ids) - 1]


def _note(
    result: Comparison,
    name: str,
    data: xr.Dataset,
    prompts: Sequence[Sequence[int]],
    reference: Callable[[Sequence[int]], Curves],
) -> None:
    curves = [reference(ids) for ids in prompts]
    for variable in curves[0]:
        expected = _stacked([curve[variable] for curve in curves])
        values = data[variable].values
        values = values[tuple(slice(size) for size in expected.shape)]
        assert values.shape == expected.shape, f"{name}.{variable}: {values.shape} and {expected.shape}"
        gap = np.abs(values - expected) / np.maximum(1, np.abs(expected))
        assert np.array_equal(np.isnan(values), np.isnan(expected)), f"{name}.{variable} has NaN elsewhere"
        result.gaps[f"{name}.{variable}"] = float(np.nanmax(gap))


def _stacked(curves: Sequence[np.ndarray]) -> np.ndarray:
    """Prompts in front; those with fewer tokens along the last axis end with NaN."""
    longest = max((curve.shape[-1] for curve in curves if curve.ndim), default=0)
    padded = [
        np.pad(curve, [(0, 0)] * (curve.ndim - 1) + [(0, longest - curve.shape[-1])], constant_values=np.nan)
        if curve.ndim
        else curve
        for curve in (np.asarray(curve, dtype=np.float64) for curve in curves)
    ]
    return np.stack(padded)


def reduced(per_token: Tensor) -> np.ndarray:
    """Mean, 95th percentile and maximum over the last axis, in front."""
    values = per_token.double().numpy()
    return np.stack([values.mean(-1), np.quantile(values, 0.95, axis=-1), values.max(-1)])


def skip(hf: PreTrainedModel, blocks: naive.Blocks, ids: Sequence[int]) -> Curves:
    """Each block skipped everywhere, and before three tokens."""
    base, base_logits = naive.boundaries(hf, blocks, ids), naive.logits(hf, ids)
    effect_all, output_all, effect_future, output_future = [], [], [], []
    for s in range(len(blocks)):
        stream, logits = naive.skip_all(hf, blocks, ids, s)
        effect_all.append(reduced(naive.effects(base, stream)))
        output_all.append(reduced(naive.output_change(base_logits, logits)))
        effects, outputs = [], []
        for t in positions(ids):
            stream, logits = naive.skip_future(hf, blocks, ids, s, t)
            effects.append(naive.effects(base, stream)[:, t:])
            outputs.append(naive.output_change(base_logits, logits)[t:])
        effect_future.append(reduced(torch.cat(effects, dim=-1)))
        output_future.append(reduced(torch.cat(outputs, dim=-1)))
    return {
        "effect_all": np.stack(effect_all, axis=1),
        "output_all": np.stack(output_all, axis=1),
        "effect_future": np.stack(effect_future, axis=1),
        "output_future": np.stack(output_future, axis=1),
    }


def orders_of(name: str, data: xr.Dataset, n_blocks: int) -> list[list[int]]:
    """The orders of blocks behind the entries of a measure of schedules."""
    dimension, order = {
        "drop": ("dropped", partial(naive.drop_order, n_blocks)),
        "swap": ("swapped", partial(naive.swap_order, n_blocks)),
        "repeat": ("start", partial(naive.repeat_order, n_blocks, length=REPEATED)),
    }[name]
    return [order(int(index)) for index in data[dimension].values]


def schedules(
    hf: PreTrainedModel, blocks: naive.Blocks, ids: Sequence[int], *, orders: Sequence[Sequence[int]]
) -> Curves:
    """Blocks in other orders."""
    base = naive.logits(hf, ids)
    recorded = naive.record(hf, blocks, ids)
    runs = [naive.run_schedule(hf, blocks, ids, order, recorded)[0] for order in orders]
    return {
        "kl": np.array([naive.kl(base, run)[:-1].mean() for run in runs]),
        "top1_agreement": np.array([naive.agreement(base, run)[:-1].mean() for run in runs]),
        "entropy": np.array([naive.entropy_bits(run)[:-1].mean() for run in runs]),
        "loss": np.array([naive.loss(run, ids).mean() for run in runs]),
        "baseline_entropy": np.array(naive.entropy_bits(base)[:-1].mean().item()),
        "baseline_loss": np.array(naive.loss(base, ids).mean().item()),
    }


def residual(hf: PreTrainedModel, blocks: naive.Blocks, ids: Sequence[int]) -> Curves:
    """Norms and cosines of whole states."""
    h = naive.boundaries(hf, blocks, ids).double().numpy()
    added = h[1:] - h[:-1]
    size = norm(added)
    ratio = size / np.maximum(norm(h[:-1]), 1e-6)
    return {
        "norm_resid": norm(h).mean(-1),
        "norm_resid_max": norm(h).max(-1),
        "norm_resid_rest": norm(h)[:, 1:].mean(-1),
        "cos_neighbour": cosine(h[:-1], h[1:]).mean(-1),
        "norm_block": size.mean(-1),
        "norm_block_max": size.max(-1),
        "norm_block_rest": size[:, 1:].mean(-1),
        "ratio_block": ratio.mean(-1),
        "ratio_block_max": ratio.max(-1),
        "cos_block": cosine(added, h[:-1]).mean(-1),
    }


def lens(hf: PreTrainedModel, blocks: naive.Blocks, ids: Sequence[int]) -> Curves:
    """Every boundary read by the model itself: blocks behind it hand their input on."""
    reads = [read_boundary(hf, blocks, ids, boundary) for boundary in range(len(blocks) + 1)]
    return lens_curves(naive.logits(hf, ids), reads, ids)


def lens_curves(final: Tensor, reads: Sequence[Tensor], ids: Sequence[int]) -> Curves:
    """The curves of the logit lens, of the logits [T, V] of the model and of every boundary."""
    top, k = final.argmax(-1), 5
    mean = partial(np.mean, axis=-1)
    ranks = np.stack([1 + (read > read.gather(-1, top[:, None])).sum(-1).numpy() for read in reads])
    best = [set(row) for row in final.topk(k).indices.tolist()]
    tops = [read.topk(k).indices.tolist() for read in reads]
    return {
        "kl_lens_final": mean(np.stack([naive.kl(read, final) for read in reads])),
        "kl_final_lens": mean(np.stack([naive.kl(final, read) for read in reads])),
        "entropy": mean(np.stack([naive.entropy_bits(read) for read in reads])),
        "top1_agreement": mean(np.stack([naive.agreement(final, read) for read in reads])),
        "cross_entropy": mean(np.stack([naive.loss(read, ids) for read in reads])),
        "mrr": mean(1 / ranks),
        "hits": np.stack([mean(ranks <= hit) for hit in HITS], axis=-1),
        "overlap": np.array([np.mean([len(best[t] & set(row)) / k for t, row in enumerate(rows)]) for rows in tops]),
    }


def read_boundary(hf: PreTrainedModel, blocks: naive.Blocks, ids: Sequence[int], boundary: int) -> Tensor:
    """Logits [T, V] of a forward in which the blocks from ``boundary`` on hand their input on."""
    with naive.handing_on(blocks[boundary:]):
        return naive.logits(hf, ids)


def erasure(hf: PreTrainedModel, blocks: naive.Blocks, ids: Sequence[int], *, means: Mapping[int, Tensor]) -> Curves:
    """Every token at every boundary replaced by the mean state of that boundary.

    Args:
        means: by the identity of the prompt [boundaries, width].
    """
    effect, future = naive_erasure.erasure(hf, blocks, ids, ANSWER, means[id(ids)])
    return {"effect": effect.numpy(), "effect_future": future.numpy()}


def norm(values: np.ndarray) -> np.ndarray:
    """‖v‖ along the last axis."""
    return np.linalg.norm(values, axis=-1)


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cosine along the last axis; 0 where a vector has no length."""
    size = norm(a) * norm(b)
    return np.divide((a * b).sum(-1), size, out=np.zeros_like(size), where=size > 0)
