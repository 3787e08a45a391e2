"""Prompts that judge: each counts once, and copies of one prompt are one prompt."""

from __future__ import annotations

import pytest
from support import waves, zoo

import bathyscope
from bathyscope import PromptError
from bathyscope.model.reading import tokenized
from bathyscope.surgery.samples import judging

PROMPTS = zoo.prompts(zoo.build("llama"), (12, 9, 12, 10, 11))


def test_copies_are_left_out_and_counted() -> None:
    given = tokenized(waves.loaded("llama"), [PROMPTS[0], PROMPTS[1], PROMPTS[0], PROMPTS[2], PROMPTS[0]])
    with pytest.warns(UserWarning, match="2 of 5 test prompts have the tokens of others and are left out"):
        found = judging(given)
    assert [list(prompt.ids) for prompt in found] == PROMPTS[:3]
    assert judging(found) is found


def test_five_copies_of_one_prompt_have_no_interval() -> None:
    model = waves.loaded("llama")
    said = r"There is one test prompt \(5 copies of it were given\); an interval needs at least two"
    with pytest.raises(PromptError, match=said):
        bathyscope.prune(model, PROMPTS[1:], PROMPTS[:1] * 5, drop=1, progress=False)
    with pytest.raises(PromptError, match=said):
        bathyscope.repair(model, "drop:1", PROMPTS[1:], test=PROMPTS[:1] * 5, progress=False)
    with pytest.raises(PromptError, match=r"There is one prompt \(5 copies of it were given\)"):
        bathyscope.repeat_scan(model, PROMPTS[:1] * 5, progress=False)


def test_a_copy_changes_no_number_of_a_plan() -> None:
    model = waves.loaded("llama")
    options = {"drop": 1, "random": 1, "progress": False}
    whole = bathyscope.prune(model, PROMPTS[3:], PROMPTS[:3], **options)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="1 of 4 test prompts"):
        again = bathyscope.prune(model, PROMPTS[3:], [*PROMPTS[:3], PROMPTS[0]], **options)  # type: ignore[arg-type]
    assert again.table.equals(whole.table)
