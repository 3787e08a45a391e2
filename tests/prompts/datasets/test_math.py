from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets import REGISTRY
from bathyscope.prompts.datasets.published import math as to_prompt
from bathyscope.prompts.source import resolve


def row(number: int, level: int) -> dict[str, Any]:
    return {"problem": f"Find ${number}x$.", "level": f"Level {level}", "solution": f"It is $\\boxed{{{number}}}.$"}


ROWS = [row(number, 1 + number % 5) for number in range(40)]


def test_written_out() -> None:
    prompt = to_prompt({"problem": "Find $x$.", "level": "Level 3", "solution": "We have\n\n$x = \\boxed{2}$."})
    assert prompt.text == "Problem: Find $x$.\nAnswer: We have\n\n$x = \\boxed{2}$."
    assert (prompt.answer, prompt.labels) == (" We have\n\n$x = \\boxed{2}$.", {"level": 3})


def test_levels(write_jsonl: Callable[..., str]) -> None:
    path = write_jsonl(*ROWS)
    prompts = resolve(f"math?per_level=3@{path}").prompts
    assert [prompt.labels["level"] for prompt in prompts] == [1, 2, 3, 4, 5] * 3
    own = [one["solution"] for one in ROWS if one["level"] == "Level 4"]
    random.Random(42).shuffle(own)
    assert [(prompt.answer or "")[1:] for prompt in prompts[3::5]] == own[:3]
    assert resolve(f"math:3?level=4@{path}").prompts == prompts[3::5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": "Level ?"}, r"column 'level' must be a text such as 'Level 3', not 'Level \?'"),
        ({"level": 3}, "column 'level' must hold text, not int"),
        ({"solution": " \n"}, "column 'solution' is empty"),
        ({"problem": ""}, "column 'problem' is empty"),
    ],
)
def test_rows_that_do_not_fit(write_jsonl: Callable[..., str], change: dict[str, Any], message: str) -> None:
    with pytest.raises(PromptError, match=rf"math, row 2 of .*rows\.jsonl: {message}"):
        REGISTRY["math"].prompts(path=write_jsonl(row(1, 1), {**row(2, 1), **change}))


def test_levels_without_rows(write_jsonl: Callable[..., str]) -> None:
    path = write_jsonl(row(1, 1), row(2, 3))
    with pytest.raises(PromptError, match=r"has no rows of level 2; it has level 1 \(1 rows\), 3 \(1 rows\)"):
        resolve(f"math:3?level=1-3@{path}")
    assert [prompt.labels["level"] for prompt in resolve(f"math:2@{path}").prompts] == [1, 3]
