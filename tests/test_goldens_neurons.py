"""Moments of neurons of the authors' own preprocessing on a tiny GPT-2, through the public call."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import bathyscope

SHARED = Path(__file__).resolve().parents[2] / "shared"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the shared reference material is not beside this checkout"),
]
CLOSE = 1e-4
"""Of an array's largest magnitude."""
NAMES = {"mean": "mean", "var": "variance", "skew": "skew", "kurt": "kurtosis"}


@cache
def golden() -> tuple[dict[str, np.ndarray], bathyscope.Run]:
    found = json.loads((SHARED / "goldens/lad2024_tiny-gpt2.json").read_text())
    run = bathyscope.survey(str(SHARED / "checkpoints/tiny-gpt2"), found["ids"], ["neurons"], progress=False)
    moments = found["neuron_moments"]
    return {key: np.array([block[key] for block in moments]) for key in moments[0]}, run


def test_every_key_is_covered() -> None:
    assert set(golden()[0]) == set(NAMES)


@pytest.mark.parametrize("key", NAMES)
def test_moments(key: str) -> None:
    expected, run = golden()
    found = run["neurons"][NAMES[key]].values
    assert found.shape == expected[key].shape
    gap = np.abs(found - expected[key]).max() / np.abs(expected[key]).max()
    assert gap <= CLOSE, f"{gap:.1e} of the largest magnitude"
