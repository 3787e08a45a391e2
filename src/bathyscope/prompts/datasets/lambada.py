"""LAMBADA (OpenAI's version): passages whose last word needs the whole passage."""

from __future__ import annotations

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets.dataset import DataSet, text_of
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt


def to_prompt(row: Row) -> Prompt:
    """The passage verbatim; its last word is the answer span."""
    text = text_of(row, "text")
    words = text.split()
    if len(words) < 2:
        raise PromptError("column 'text' must hold at least two words: a passage and its last word.")
    return Prompt(text=text.rstrip(), answer=words[-1])


DATA_SET = DataSet(
    name="lambada",
    hub="EleutherAI/lambada_openai",
    config=None,
    split="test",
    columns=("text",),
    to_prompt=to_prompt,
    source="lad2024, benchmarks",
)
