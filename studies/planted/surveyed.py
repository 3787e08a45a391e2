"""One survey of a planted model, from which everything is read."""

from __future__ import annotations

import dataclasses
import random

from bathyscope.model import load
from bathyscope.prompts.prompt import Prompt
from bathyscope.store.run import Run
from bathyscope.surveying import survey
from studies.planted.construction import Construction
from studies.planted.wiring import FIRST, VOCABULARY

PROMPTS, TOKENS = 3, 24
MEASURES = ("residual", "lens", "skip", "direct", "depth_score", "erasure", "drop", "swap", "effective_depth")


def prompts(seed: int = 0) -> list[Prompt]:
    """Random tokens behind the same first one; the last is the answer."""
    draw = random.Random(seed)
    others = [token for token in range(VOCABULARY) if token != FIRST]
    return [Prompt(ids=[FIRST, *draw.choices(others, k=TOKENS - 1)], answer_tokens=1) for _ in range(PROMPTS)]


def surveyed(construction: Construction) -> Run:
    """All measures of depth on the model, from one survey."""
    model = dataclasses.replace(load(construction.build()), name=construction.name)
    return survey(
        model,
        prompts(),
        MEASURES,
        progress=False,
        lens={"norm": ("recompute", "frozen")},
        # intervals are not looked at
        effective_depth={"resamples": 1},
        depth_score={"resamples": 1, "permutations": 1},
    )
