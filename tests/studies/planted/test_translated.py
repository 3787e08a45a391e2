"""The translated lens on models whose depth is known: where can the answer be decoded, used or not?"""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
import xarray as xr

from bathyscope.prompts.prompt import Prompt
from bathyscope.surveying import survey
from studies.planted import CONSTRUCTIONS
from studies.planted.rotated import ROTATION, STEPS
from studies.planted.surveyed import TOKENS
from studies.planted.wiring import FIRST, VOCABULARY

PROMPTS = 40
NEARLY_ALL = 0.97
UNUSED = {"detour": NEARLY_ALL, "backup": NEARLY_ALL, "shared_weights": 0.9}
"""Where a map finds the answer, of this share of the tokens, before the model uses what it is found in."""


@cache
def found(name: str) -> xr.Dataset:
    """The prompts that are read."""
    draw = random.Random(0)
    others = [token for token in range(VOCABULARY) if token != FIRST]
    prompts = [Prompt(ids=[FIRST, *draw.choices(others, k=TOKENS - 1)]) for _ in range(PROMPTS)]
    run = survey(CONSTRUCTIONS[name].build(), prompts, ["translated_lens"], progress=False)
    return run["translated_lens"].dropna("prompt", subset=["prediction_depth"])


def agreement(name: str, reader: str = "translated") -> np.ndarray:
    """[prompt, boundary]."""
    return found(name)["top1_agreement"].sel(reader=reader).values


@pytest.mark.parametrize("name", [name for name in CONSTRUCTIONS if name not in UNUSED])
def test_the_answer_is_first_decodable_where_it_is_known(name: str) -> None:
    everywhere, depth = agreement(name).mean(0), CONSTRUCTIONS[name].truth.depth
    assert (everywhere[:depth] < NEARLY_ALL).all()
    assert (everywhere[depth:] > NEARLY_ALL).all()
    assert depth - 2 < float(found(name)["decodable"]) <= depth


@pytest.mark.parametrize("name", UNUSED)
def test_what_is_not_used_yet_is_decodable_too(name: str) -> None:
    first = int(np.argmax(agreement(name).mean(0) > UNUSED[name]))
    assert 0 < first <= CONSTRUCTIONS[name].truth.depth - 2


def test_an_answer_in_other_directions_is_read_perfectly_from_the_boundary_where_it_is_known() -> None:
    assert (agreement("rotated")[:, STEPS:] == 1).all()
    assert agreement("rotated")[:, :STEPS].mean(0).max() < 0.5
    assert found("rotated")["kl"].sel(reader="translated").values[:, STEPS:].max() < 1e-6


def test_the_lens_waits_for_the_block_that_turns_it() -> None:
    read = agreement("rotated", "lens")
    assert (read[:, ROTATION + 1 :] == 1).all()
    assert read[:, : ROTATION + 1].mean(0).max() < 0.5
    assert float(found("rotated")["readable"]) == pytest.approx(ROTATION + 1, abs=0.1)
