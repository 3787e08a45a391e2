"""Prompts of two runs that are one draw: the same prompts under other names, some of them, and copies of one."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import waves
from support.compared import a_run

import bathyscope
from bathyscope import Run
from bathyscope.analysis.depths.draws import draw_as_one
from bathyscope.analysis.depths.side import sides_of
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import PromptRecord, Prompts, prompts_hash

pytestmark = pytest.mark.filterwarnings("ignore")
IDS = np.random.default_rng(0).integers(2, 60, (6, 14)).tolist()
HEAD = ("difference", "difference_low", "difference_high", "p_value", "n_units")


@functools.cache
def listed(family: str) -> Run:
    return bathyscope.survey(waves.loaded(family), IDS, ["residual", "lens", "skip"], progress=False)


def filed(family: str, folder: Path, numbers: list[int]) -> Run:
    """A run on some of the prompts of a file of its own, in whichever order, under no names."""
    file = folder / f"{family}.jsonl"
    file.write_text("".join(json.dumps({"ids": IDS[number]}) + "\n" for number in numbers))
    return bathyscope.survey(waves.loaded(family), str(file), ["residual", "lens", "skip"], progress=False)


def test_prompts_in_another_order_and_file_are_the_same_draws(tmp_path: Path) -> None:
    expected = bathyscope.compare([listed("llama"), listed("mistral")])
    found = bathyscope.compare([listed("llama"), filed("mistral", tmp_path, [5, 3, 1, 0, 2, 4])])
    assert found.data["kind"].item() == "two-sample"
    for name in HEAD:
        values, paired = (result.readings[name].sel(reading="half").item() for result in (found, expected))
        assert values == pytest.approx(paired, rel=1e-3, abs=1e-6), name
    assert "on 6 different prompts" in found.text or "12 prompts" not in found.text
    assert "12 prompts" not in found.text


def test_prompts_that_stand_in_both_runs_are_counted_once(tmp_path: Path) -> None:
    found = bathyscope.compare([listed("llama"), filed("mistral", tmp_path, [4, 0])])
    assert found.readings["n_prompts"].sel(reading="half").item() == 8
    assert found.readings["n_units"].sel(reading="half").item() == 6
    apart = bathyscope.compare([listed("llama"), filed("mistral", tmp_path, [4, 0])], paired=False)
    assert apart.readings["n_units"].sel(reading="half").item() == 8


def test_copies_are_paired_under_two_tokenizers() -> None:
    """Prompts of one id are the same texts, and what is a copy under one tokenizer is a copy under the other."""
    tokens = [(3, 4), (3, 4), (5, 6), (7, 8), (9, 2)]
    others = [tuple(number + 10 for number in ids) for ids in tokens]
    runs = [told(tokens, "own/one", "t", shift=0.0), told(others, "own/two", "u", shift=0.1)]
    found = bathyscope.compare(runs, resamples=100)
    assert found.data["kind"].item() == "paired"
    assert found.readings["n_units"].sel(reading="half").item() == 4
    first, second = draw_as_one(sides_of(runs))
    np.testing.assert_array_equal(first.curves.cluster, second.curves.cluster)


def test_equal_tokens_of_two_tokenizers_are_not_the_same_text() -> None:
    runs = [told([(3, 4), (5, 6)], "own/one", "t", "a.jsonl"), told([(5, 6), (8, 9)], "own/two", "u", "b.jsonl")]
    assert [side.curves.cluster for side in draw_as_one(sides_of(runs))] == [None, None]
    runs = [told([(3, 4), (5, 6)], "own/one", "t", "a.jsonl"), told([(5, 6), (8, 9)], "own/two", None, "b.jsonl")]
    first, second = (side.curves.cluster for side in draw_as_one(sides_of(runs)))
    assert first is not None
    assert second is not None
    assert np.intersect1d(first, second).tolist() == [first[1]] == [second[0]]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4), min_size=2, max_size=3))
def test_prompts_are_one_draw_exactly_where_they_are_equal(texts: list[list[str]]) -> None:
    """Of one tokenizer and files of other names, whatever the order and however often."""
    runs = [
        told([(ord(text), 1) for text in of_run], f"own/{number}", "t", f"{number}.jsonl")
        for number, of_run in enumerate(texts)
    ]
    numbers = [side.curves.cluster for side in draw_as_one(sides_of(runs))]
    flat = [text for of_run in texts for text in of_run]
    if numbers[0] is None:
        # nothing stands twice but for lists that are equal altogether, which are paired
        assert all(len(set(of_run)) == len(of_run) for of_run in texts)
        assert all(a == b or not set(a) & set(b) for a in texts for b in texts)
        return
    together = np.concatenate([part for part in numbers if part is not None])
    for text, number in zip(flat, together):
        assert [other == number for other in together] == [other == text for other in flat]


def told(
    tokens: list[tuple[int, ...]], model: str, tokenizer: str | None, data: str = "mine.jsonl", **changes: Any
) -> Run:
    """A run that stores its prompts' tokens, as every survey does, and no text."""
    items = tuple(TokenizedPrompt(str(number), ids, None, {}, data) for number, ids in enumerate(tokens))
    about = {"dataset": data, "model": model, "tokenizer_hash": tokenizer, "prompt_hash": prompts_hash(items)}
    run = a_run(prompts=len(items), n_tokens=[len(item) for item in items], **about, **changes)
    prompts = Prompts(items, data, record=PromptRecord(prompts_hash(items), tokenizer, None))
    run.__dict__["prompts"] = prompts
    run.__dict__["_copy_of"] = prompts.copy_of
    return run
