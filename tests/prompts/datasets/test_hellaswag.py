from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets import REGISTRY
from bathyscope.prompts.datasets.published import hellaswag as to_prompt

ENDINGS = ["falls.", ", then stands."]


@pytest.mark.parametrize(
    ("label", "text", "answer"),
    [
        ("0", "A man sits. he falls.", "falls."),
        (0, "A man sits. he falls.", "falls."),
        ("1", "A man sits. he, then stands.", ", then stands."),
    ],
)
def test_written_out(label: str | int, text: str, answer: str) -> None:
    prompt = to_prompt({"ctx": "A man sits. he", "endings": ENDINGS, "label": label})
    assert (prompt.text, prompt.answer) == (text, answer)


@pytest.mark.parametrize("label", ["", "2", 2, -1, None, "x"])
def test_no_such_ending(label: object) -> None:
    with pytest.raises(PromptError, match=r"'label' must be the number of the right ending, 0 to 1, not .*test split"):
        to_prompt({"ctx": "a", "endings": ENDINGS, "label": label})


@pytest.mark.parametrize("endings", ["['a' 'b']", '"a"', {"0": "a"}, [1, 2], None])
def test_endings_that_are_no_list(endings: object) -> None:
    with pytest.raises(PromptError, match="'endings' must be a list"):
        to_prompt({"ctx": "a", "endings": endings, "label": 0})


@pytest.mark.shared
def test_real_rows(shared: Callable[[str], Path]) -> None:
    prompts = REGISTRY["hellaswag"].prompts(path=str(shared("data/hellaswag/validation_first2000.jsonl")))
    assert len(prompts) == 2000
    assert prompts[0].text == "A man is sitting on a roof. he starts pulling up roofing on a roof."
    assert not any(" ," in (prompt.text or "")[-len(prompt.answer or "") - 1 :][:2] for prompt in prompts)
