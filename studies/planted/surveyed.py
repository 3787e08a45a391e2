"""The surveys of a planted model from which everything is read."""

from __future__ import annotations

import dataclasses
import random
from functools import partial

import xarray as xr

from bathyscope import Prompt, Run, load, survey
from studies.planted.construction import Construction
from studies.planted.wiring import FIRST, VOCABULARY

PROMPTS, TOKENS = 3, 24
MEASURES = ("residual", "lens", "skip", "direct", "depth_score", "erasure", "drop", "swap", "effective_depth")
WITH_MORE, MORE_PROMPTS = ("translated_lens", "patching"), 40
"""Measures that need more prompts than the others: the same, and some more."""
_PATCHED = 6
# each of the first from the next: one symbol in the place of another may by chance change nothing
_PAIRS = tuple((target, (target + 1) % _PATCHED) for target in range(_PATCHED))


def prompts(seed: int = 0, count: int = PROMPTS) -> list[Prompt]:
    """Random tokens behind the same first one; the last is the answer."""
    draw = random.Random(seed)
    others = [token for token in range(VOCABULARY) if token != FIRST]
    return [Prompt(ids=[FIRST, *draw.choices(others, k=TOKENS - 1)], answer_tokens=1) for _ in range(count)]


def surveyed(construction: Construction) -> Run:
    """All measures of depth on the model."""
    model = dataclasses.replace(load(construction.build()), name=construction.name)
    draw_prompts = construction.prompts or partial(prompts, 0)
    more = survey(model, draw_prompts(MORE_PROMPTS), WITH_MORE, patching={"pairs": _PAIRS}, progress=False)
    run = survey(
        model,
        draw_prompts(PROMPTS),
        MEASURES,
        progress=False,
        lens={"norm": ("recompute", "frozen")},
        # intervals are not looked at
        effective_depth={"resamples": 20},
        depth_score={"resamples": 20, "permutations": 1},
    )
    datasets = {name: run[name] for name in run.measures} | {name: more[name] for name in WITH_MORE}
    return dataclasses.replace(run, tree=xr.DataTree.from_dict({f"/{name}": one for name, one in datasets.items()}))
