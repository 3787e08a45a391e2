"""The depth family that the repository keeps: sizes, recipes, and losses that are those of the cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from bathyscope_lab.corpus import held_out_sources, pack
from bathyscope_lab.evaluate import text_loss
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe
from bathyscope_lab.tokenizer import special_ids
from transformers import AutoModelForCausalLM, AutoTokenizer

import bathyscope

FAMILY = Path(__file__).parents[3] / "checkpoints"
MEMBERS = ("depth_6", "depth_12", "depth_24")
MB = 10**6
FEWER = 4096
"""Tokens on which every member is tried; the shallowest, where there is time, on all that its card speaks of."""


def summary(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((FAMILY / name / "training.json").read_text(encoding="utf-8"))
    return told


def recipe_of(name: str) -> Recipe:
    return read_recipe(FAMILY / name / "recipe.yaml")


def generated_loss(name: str, tokens: int) -> float:
    model = AutoModelForCausalLM.from_pretrained(FAMILY / name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(FAMILY / name)
    mix = {"generated": 1.0}
    stream = pack(held_out_sources(None, mix), mix, tokenizer, tokens)
    return text_loss(model, stream, recipe_of(name).context, special_ids(tokenizer)[0])


def test_the_family_is_small() -> None:
    files = [path for name in MEMBERS for path in (FAMILY / name).iterdir()]
    assert sum(path.stat().st_size for path in files) < 32 * MB
    for name in MEMBERS:
        assert sum(path.stat().st_size for path in files if path.parent.name == name) < 16 * MB
    weights = [path for path in files if path.suffix == ".safetensors"]
    assert {path.parent.name for path in weights} == set(MEMBERS)
    assert max(path.stat().st_size for path in weights) <= 3 * MB
    assert not [path.name for path in files if path.suffix in (".bin", ".pt", ".pkl", ".npy")]


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_is_made_by_the_recipe_of_its_name(name: str) -> None:
    assert recipe_of(name) == read_recipe(name, ["compile=true"])
    loaded = bathyscope.load(FAMILY / name)
    assert f"depth_{loaded.n_blocks}" == name
    assert summary(name)["tokens"] >= 0.999 * recipe_of(name).budget.tokens


def test_members_read_the_same_tokens() -> None:
    tokenizers = [(FAMILY / name / "tokenizer.json").read_bytes() for name in MEMBERS]
    assert tokenizers[0] == tokenizers[1] == tokenizers[2]


@pytest.mark.thorough
def test_the_loss_on_the_card_is_the_models() -> None:
    told = summary("depth_6")["held_out"]["generated_loss"]
    assert generated_loss("depth_6", recipe_of("depth_6").evaluation.final_tokens) == pytest.approx(told, abs=1e-4)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_part_of_the_texts_has_nearly_the_loss_on_the_card(name: str) -> None:
    told = summary(name)["held_out"]["generated_loss"]
    assert generated_loss(name, FEWER) == pytest.approx(told, abs=0.1)


@pytest.mark.parametrize("name", MEMBERS[1:])
def test_deeper_members_have_learned_as_much(name: str) -> None:
    assert summary(name)["held_out"]["books_loss"] <= summary("depth_6")["held_out"]["books_loss"]
