"""Integrated gradients of the authors' own code on a tiny model, through the public call (shared/goldens)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bathyscope
from bathyscope import Prompt

pytestmark = pytest.mark.shared
CLOSE = 2e-5
"""Of an array's largest magnitude."""
SITES = {"igrad_layer": "block", "igrad_attention": "attention", "igrad_mlp": "mlp"}


def test_integrated_gradients(shared: Callable[[str], Path]) -> None:
    golden = json.loads(shared("goldens/csordas2025_tiny-qwen2.json").read_text())
    prompts = [Prompt(ids=pair["ids"], answer_tokens=pair["alen"]) for pair in golden["token_skip"].values()]
    run = bathyscope.survey(
        str(shared("checkpoints/tiny-qwen2")),
        prompts,
        ["integrated_gradients"],
        integrated_gradients={"mode": "exact"},
        progress=False,
    )
    found = run["integrated_gradients"].attribution
    for key, site in SITES.items():
        for number, (pair, prompt) in enumerate(zip(golden[key], prompts)):
            wanted, length = np.array(pair["map"]), len(prompt.ids or ())
            values = found.sel(site=site)[number].values
            assert wanted.shape == (6, length)
            assert np.abs(values[:, :length] - wanted).max() <= CLOSE * np.abs(wanted).max(), (key, number)
            assert np.isnan(values[:, length:]).all()
