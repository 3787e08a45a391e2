"""Untrained models whose blocks write less: how they are drawn, and what the page says of the stored results."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import torch

from studies.nulls.writes import (
    LENGTH,
    PROMPTS,
    SEEDS,
    SHAPE,
    STORED,
    page_sentence,
    random_tokens,
    readings,
    untrained,
)
from studies.real_model.measuring import results_folder
from studies.real_model.models import SMOLLM2
from studies.real_model.profile import STORED as PROFILE

DOCS = Path(__file__).resolve().parents[3] / "docs"
TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
}


def test_what_blocks_write_is_smaller_and_nothing_else() -> None:
    plain, scaled = (untrained(1, scaled=scaled, **TINY).state_dict() for scaled in (False, True))
    assert plain.keys() == scaled.keys()
    writes = {name for name in plain if name.endswith(("self_attn.o_proj.weight", "mlp.down_proj.weight"))}
    assert len(writes) == 2 * TINY["num_hidden_layers"]
    for name, weight in plain.items():
        factor = 1 / math.sqrt(2 * TINY["num_hidden_layers"]) if name in writes else 1.0
        torch.testing.assert_close(scaled[name], weight * factor)


def test_a_seed_is_a_model() -> None:
    first, again, other = (untrained(seed, scaled=False, **TINY).lm_head.weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.filterwarnings("ignore:skip. 2 of 2 prompts are too short")
def test_readings_are_blocks_done() -> None:
    found = readings(untrained(0, scaled=True, **TINY), [[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])
    assert found.keys() == {"readable", "own"}
    assert all(0 <= value <= TINY["num_hidden_layers"] for value in found.values())


def test_stored_results_are_of_this_shape_and_these_prompts() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert (stored["seeds"], stored["prompts"], stored["tokens"]) == (list(SEEDS), PROMPTS, LENGTH)
    assert stored["shape"] == SHAPE
    assert {name: len(rows) for name, rows in stored["blocks_done"].items()} == {"configuration": 3, "scaled": 3}
    assert [len(ids) for ids in random_tokens(SHAPE["vocab_size"])] == [LENGTH] * PROMPTS


def test_the_page_says_what_is_stored() -> None:
    page = (DOCS / "experiments" / "untrained.md").read_text(encoding="utf-8")
    assert page_sentence(json.loads(STORED.read_text(encoding="utf-8"))) in page
    [(readable, own)] = re.findall(r"SmolLM2 itself reads ([0-9.]+) and ([0-9.]+) on", page)
    profile = json.loads((results_folder(SMOLLM2) / PROFILE).read_text(encoding="utf-8"))
    assert [f"{profile[name]['value']:.1f}" for name in ("readable", "own")] == [readable, own]
