"""Made-up runs for comparisons: the three curves of effective depth, shifted at will, and nothing else.

Prompts of equal ``seed`` deviate alike whatever the model, as the same texts would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from support.kept import ramps
from support.synthetic_runs import identity

from bathyscope.runs.run import Run


def a_run(
    *,
    shift: float = 0.0,
    blocks: int = 10,
    prompts: int = 6,
    seed: int = 0,
    spread: float = 0.05,
    uneven: float = 0.0,
    ids: Sequence[str] | None = None,
    n_tokens: Sequence[int] | None = None,
    labels: Mapping[str, Sequence[Any]] | None = None,
    **changes: Any,
) -> Run:
    """A run whose curves cross ``shift`` of the depth later than at 0.5 (cosine), 0.55 (KL) and 0.65 (overlap).

    Args:
        spread: how far a prompt's own curves deviate from these.
        uneven: how much more a prompt is shifted than the one before it, as a share of ``shift``; by default all agree.
        changes: of the manifest's identity.
    """
    rng = np.random.default_rng([seed, prompts])
    own = spread * rng.standard_normal((prompts, 1))
    counts = rng.integers(40, 80, prompts) if n_tokens is None else np.asarray(n_tokens)
    block, boundary = (np.arange(blocks) + 0.5) / blocks, np.arange(blocks + 1) / blocks
    later = shift * (1 + uneven * np.arange(prompts)[:, None])
    cosine = np.tanh(4 * (block - 0.5 - later - own))
    kl = 9 / (1 + np.exp(12 * (boundary - 0.55 - later - own)))
    overlap = 1 / (1 + np.exp(-12 * (boundary - 0.72 - later - own)))
    effect = np.triu(np.ones((blocks, blocks)), k=1) * np.exp(-3 * (block - shift)[:, None]) * (1 + own[:, :, None])
    at = {"block": np.arange(blocks), "boundary": np.arange(blocks + 1)}
    coords = {
        "prompt_id": ("prompt", np.array(ids or [str(n) for n in range(prompts)], dtype=object)),
        "n_tokens": ("prompt", counts),
        "dataset": ("prompt", np.array(["made up"] * prompts, dtype=object)),
        **{name: ("prompt", np.asarray(values)) for name, values in (labels or {}).items()},
    }
    depth = blocks * (0.6 + (later + own)[:, 0])
    residual = {f"cos_{part}": (("prompt", "block"), cosine) for part in ("attn", "mlp", "block")}
    lens = {
        "kl_lens_final": (("prompt", "boundary"), kl),
        "overlap": (("prompt", "boundary"), overlap),
        "settle_depth": (("prompt",), depth),
        "prediction_depth": (("prompt",), depth + 1),
        "top1_kept": (("prompt", "boundary"), ramps(np.clip(depth + 1, 0, blocks - 0.5), blocks)),
    }
    dims = ("prompt", "part", "reduction", "skipped", "block")
    skip_at = {"part": ["block"], "reduction": ["max"], "skipped": at["block"], "block": at["block"]}
    groups = {
        "residual": xr.Dataset(residual, {**coords, "block": at["block"]}),
        "lens": xr.Dataset(lens, {**coords, "boundary": at["boundary"]}),
        "skip": xr.Dataset({"effect_future": (dims, effect[:, None, None])}, {**coords, **skip_at}),
    }
    fields = {
        "dataset": "stories.jsonl",
        "n_blocks": blocks,
        "measures": {name: {} for name in groups},
        "prompt_hash": f"{seed}",
        **changes,
    }
    manifest = {"schema": 1, "identity": identity(prompts, **fields), "record": {}}
    return Run(xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()}), manifest)


def without(run: Run, *measures: str) -> Run:
    """The same run without some of its measures."""
    kept = {f"/{name}": run[name] for name in run.measures if name not in measures}
    return Run(xr.DataTree.from_dict(kept), run.manifest)
