"""HellaSwag: a scene and its right ending."""

from __future__ import annotations

from typing import Any

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets.dataset import DataSet, list_of, text_of
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt


def to_prompt(row: Row) -> Prompt:
    """Context, one space (none before a comma), and the right ending, which is the answer span."""
    ending = _right_ending(list_of(row, "endings"), row["label"])
    space = "" if ending.startswith(",") else " "
    return Prompt(text=f"{text_of(row, 'ctx')}{space}{ending}", answer=ending)


def _right_ending(endings: list[Any], label: Any) -> str:
    if not all(isinstance(ending, str) for ending in endings):
        raise PromptError("column 'endings' must be a list of texts.")
    if not str(label).isdecimal() or int(label) >= len(endings):
        raise PromptError(
            f"column 'label' must be the number of the right ending, 0 to {len(endings) - 1}, not {label!r} "
            "(the test split has no labels)."
        )
    ending: str = endings[int(label)]
    if not ending.strip():
        raise PromptError(f"ending {label} of column 'endings', the right one, is empty.")
    return ending


DATA_SET = DataSet(
    name="hellaswag",
    hub="Rowan/hellaswag",
    config=None,
    split="validation",
    columns=("ctx", "endings", "label"),
    to_prompt=to_prompt,
    source="hu2025, prompts",
)
