from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets import REGISTRY
from bathyscope.prompts.datasets.published import gsm8k as to_prompt


def test_written_out() -> None:
    prompt = to_prompt({"question": "How many?", "answer": "2*3=<<2*3=6>>6\nSo 6.\n#### 6,000 "})
    assert prompt.text == (
        "Given the following problem, reason and give a final answer to the problem.\nProblem: How many?\n"
        'Your response should end with "The final answer is [answer]" where [answer] is the response to the '
        "problem.\n\n2*3=<<2*3=6>>6\nSo 6.\nThe final answer is 6,000"
    )
    assert prompt.answer == "6,000"


@pytest.mark.parametrize("answer", ["6", "So 6.\n####", "So 6.\n#### "])
def test_without_final_answer(answer: str) -> None:
    with pytest.raises(PromptError, match=r"must end with '#### ANSWER'"):
        to_prompt({"question": "How many?", "answer": answer})


@pytest.mark.shared
def test_text_of_the_authors_code(shared: Callable[[str], Path]) -> None:
    golden = json.loads(shared("goldens/csordas2025_tiny-qwen2.json").read_text(encoding="utf-8"))
    prompts = REGISTRY["gsm8k"].prompts(count=4, path=str(shared("data/gsm8k/test_first600.jsonl")))
    assert [prompt.text for prompt in prompts] == golden["prompts"]
    assert [prompt.answer for prompt in prompts] == ["18", "3", "70000", "540"]


@pytest.mark.shared
def test_every_real_row_fits(shared: Callable[[str], Path]) -> None:
    prompts = REGISTRY["gsm8k"].prompts(path=str(shared("data/gsm8k/test_first600.jsonl")))
    assert len(prompts) == 600
    assert all((prompt.text or "").endswith(f"\nThe final answer is {prompt.answer}") for prompt in prompts)
