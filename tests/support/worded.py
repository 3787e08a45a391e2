"""Made-up runs of texts that a test writes piece by piece, with values of single tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from support.synthetic import made_up, synthetic_run, without

from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import prompts_hash
from bathyscope.runs.prompts import PROMPTS
from bathyscope.runs.run import Run

Array = np.ndarray


def worded_run(
    texts: Sequence[Sequence[str]],
    *,
    L: int = 5,
    specials: Sequence[Sequence[int]] | None = None,
    length: int | None = None,
    seed: int = 0,
    drop: bool = True,
) -> Run:
    """A run of these prompts, whose final guess is the text in about half of all cases.

    Args:
        texts: the pieces of each prompt.
        specials: places of special tokens by prompt; None = none.
        length: how many tokens of each are kept; None = all.
        drop: with costs of left-out blocks.
    """
    rng = np.random.default_rng(seed)
    vocabulary = sorted({piece for text in texts for piece in text})
    ids = [[vocabulary.index(piece) for piece in text] for text in texts]
    widths = np.array([len(text) for text in texts])
    width = min(int(widths.max()), length or int(widths.max()))
    base = without(synthetic_run(L, len(texts)), "repeat", "swap", "skip", "residual", "effective_depth", "noise")
    base = base if drop else without(base, "drop")
    groups = {name: base[name].assign_coords(n_tokens=("prompt", widths)) for name in base.measures}
    groups["tokens"] = _tokens(ids, widths, width, L, vocabulary, rng, drop=drop)
    lines = [
        {
            "id": f"p{number}",
            "dataset": "made up",
            "labels": {},
            "answer_tokens": None,
            "ids": ids[number],
            "specials": list(specials[number]) if specials else [],
            "pieces": list(text),
        }
        for number, text in enumerate(texts)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    tree = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
    read = (
        TokenizedPrompt(line["id"], tuple(line["ids"]), line["answer_tokens"], line["labels"], line["dataset"])
        for line in lines
    )
    identity = {**base.manifest["identity"], "prompt_hash": prompts_hash(read)}
    return Run(tree, {**base.manifest, "identity": identity}, files={PROMPTS: content})


def _tokens(
    ids: Sequence[Sequence[int]],
    widths: Array,
    width: int,
    L: int,
    vocabulary: Sequence[str],
    rng: np.random.Generator,
    *,
    drop: bool,
) -> xr.Dataset:
    """Guesses that settle at a boundary of each position's own; what is beyond a prompt's end is missing."""
    prompts, top = len(ids), min(5, len(vocabulary))
    guess = rng.random((prompts, L + 1, width, len(vocabulary))).argsort(-1)[..., :top]
    following = np.full((prompts, width), -1)
    for prompt, own in enumerate(ids):
        rest = own[1 : width + 1]
        following[prompt, : len(rest)] = rest
    final = np.where((rng.random((prompts, width)) < 0.5) & (following >= 0), following, guess[:, -1, :, 0])
    settled = np.arange(L + 1)[:, None] >= rng.integers(0, L + 1, (prompts, 1, width))
    first = np.where(settled, final[:, None], guess[..., 0])
    # Each token stands once among the likeliest: what is exchanged takes the other's place.
    guess = np.where(guess == first[..., None], guess[..., :1], guess)
    guess[..., 0] = first
    probability = np.sort(rng.dirichlet(np.ones(top + 1), (prompts, L + 1, width)), -1)[..., :0:-1]
    is_next = guess[..., 0] == following[:, None]
    after = np.where(is_next, probability[..., 0], probability[..., -1] / 2)
    after[np.broadcast_to(following[:, None] < 0, after.shape)] = np.nan
    beyond = np.arange(width) >= widths[:, None]
    final_match = guess[..., 0] == guess[:, -1:, :, 0]
    # The first boundary after which no top-1 token differs from the final one.
    from_top = np.cumprod(final_match[:, ::-1], axis=1).sum(1)
    data: dict[str, Any] = {
        "top_id": np.where(beyond[:, None, :, None], -1, guess).transpose(0, 1, 3, 2),
        "top_probability": np.where(beyond[:, None, :, None], np.nan, probability).transpose(0, 1, 3, 2),
        "kl_final_lens": _blank(rng.uniform(0, 3, (prompts, L + 1, width)), beyond),
        "entropy": _blank(rng.uniform(0, 8, (prompts, L + 1, width)), beyond),
        "next_probability": _blank(after, beyond),
        "settle_depth": np.where(beyond, np.nan, rng.uniform(0, L, (prompts, width))),
        "prediction_depth": np.where(beyond, np.nan, L + 1 - from_top),
        "piece": np.array(vocabulary, dtype=object),
    }
    coords: dict[str, Any] = {
        "prompt": np.arange(prompts),
        "n_tokens": ("prompt", widths),
        "boundary": np.arange(L + 1),
        "id": np.arange(len(vocabulary)),
    }
    if drop:
        added = _blank(rng.normal(0, 0.3, (prompts, L, width)), beyond)
        added[np.broadcast_to(following[:, None] < 0, added.shape)] = np.nan
        data["added_loss"] = added
        coords["dropped"] = np.arange(L)
    return made_up("tokens", data, coords)


def _blank(values: Array, beyond: Array) -> Array:
    return np.where(beyond[:, None], np.nan, values)
