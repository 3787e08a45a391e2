from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets import REGISTRY
from bathyscope.prompts.datasets.published import lambada as to_prompt


def test_written_out() -> None:
    prompt = to_prompt({"text": '"On my own,  Shane"\n\nShe turned to Shane \n'})
    assert prompt.text == '"On my own,  Shane"\n\nShe turned to Shane'
    assert prompt.answer == "Shane"


@pytest.mark.parametrize("text", ["", "word", "  word "])
def test_too_short(text: str) -> None:
    with pytest.raises(PromptError, match="at least two words"):
        to_prompt({"text": text})


@pytest.mark.shared
def test_real_rows(shared: Callable[[str], Path]) -> None:
    prompts = REGISTRY["lambada"].prompts(path=str(shared("data/lambada/test_first2500.jsonl")))
    assert len(prompts) == 2500
    assert [prompt.answer for prompt in prompts[:4]] == ["signs", "Shane", "insurance", "Helen"]
    assert all((prompt.text or "").endswith(f" {prompt.answer}") for prompt in prompts[:4])
