"""MATH, intermediate algebra: competition problems with worked solutions, at five levels of difficulty."""

from __future__ import annotations

import re

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets.dataset import DataSet, filled_text_of, text_of
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt


def to_prompt(row: Row) -> Prompt:
    """The problem; the whole worked solution is the answer span. Label: ``level``, 1 to 5."""
    level = re.fullmatch(r"Level (\d+)", text_of(row, "level").strip())
    if level is None:
        raise PromptError(f"column 'level' must be a text such as 'Level 3', not {row['level']!r}.")
    answer = f" {filled_text_of(row, 'solution')}"
    text = f"Problem: {filled_text_of(row, 'problem')}\nAnswer:{answer}"
    return Prompt(text=text, answer=answer, labels={"level": int(level[1])})


DATA_SET = DataSet(
    name="math",
    hub="EleutherAI/hendrycks_math",
    config="intermediate_algebra",
    split="test",
    columns=("problem", "level", "solution"),
    to_prompt=to_prompt,
    source="csordas2025, depth score",
    level="level",
)
