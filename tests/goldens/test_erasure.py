"""Erasure maps of the authors' own code on a tiny model, through the public call (shared/goldens)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bathyscope
from bathyscope import Prompt

pytestmark = pytest.mark.shared
CLOSE = 2e-5
"""Of an array's largest magnitude."""


@cache
def csordas2025(golden_file: Path, checkpoint: Path) -> tuple[dict[str, Any], bathyscope.Run]:
    golden = json.loads(golden_file.read_text())
    prompts = [
        Prompt(ids=pair["ids"], answer_tokens=pair["alen"], id=name) for name, pair in golden["token_skip"].items()
    ]
    options = {"reference": golden["tokens"], "future": True}
    return golden, bathyscope.survey(str(checkpoint), prompts, "erasure", erasure=options, progress=False)


@pytest.fixture
def measured(shared: Callable[[str], Path]) -> tuple[dict[str, Any], bathyscope.Run]:
    return csordas2025(shared("goldens/csordas2025_tiny-qwen2.json"), shared("checkpoints/tiny-qwen2"))


def assert_close(got: np.ndarray, expected: object) -> None:
    wanted = np.asarray(expected, dtype=np.float64)
    assert got.shape == wanted.shape
    gap = np.abs(got - wanted).max() / np.abs(wanted).max()
    assert gap <= CLOSE, f"{gap:.1e} of the largest magnitude"


@pytest.mark.parametrize(("index", "name"), [(0, "math"), (1, "question")])
def test_effect_on_the_answer(index: int, name: str, measured: tuple[dict[str, Any], bathyscope.Run]) -> None:
    golden, run = measured
    pair, erasure = golden["token_skip"][name], run["erasure"]
    tokens = len(pair["ids"])
    assert_close(erasure.effect.values[index, :, :tokens], pair["map"])
    assert int(erasure.answer_start[index]) == tokens - pair["alen"]


@pytest.mark.parametrize("index", [0, 1])
def test_effect_on_later_tokens(index: int, measured: tuple[dict[str, Any], bathyscope.Run]) -> None:
    """The published map ends before the last block's input and before the last token."""
    golden, run = measured
    boundaries, tokens = np.shape(golden["erasure_future"][index])
    found = run["erasure"].effect_future
    assert boundaries == found.sizes["boundary"] - 2
    assert tokens == int(found.n_tokens[index]) - 1
    assert_close(found.values[index, :boundaries, :tokens], golden["erasure_future"][index])
