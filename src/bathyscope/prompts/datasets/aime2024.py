"""AIME 2024: olympiad qualification problems with worked solutions."""

from __future__ import annotations

from bathyscope.prompts.datasets.dataset import DataSet, TokenLimit, filled_text_of
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt


def to_prompt(row: Row) -> Prompt:
    """Instruction, problem, and the worked solution verbatim, which is the answer span.

    A solution need not end with its result, nor hold it only once, so that no shorter span can be told.
    """
    solution = filled_text_of(row, "Solution")
    text = (
        "Given the following problem, reason and give a final answer to the problem.\n"
        f"Problem: {filled_text_of(row, 'Problem')}\n"
        'Your response should end with "\\boxed{[answer]}" where [answer] is the response to the '
        f"problem.\n\n{solution}"
    )
    return Prompt(text=text, answer=solution)


DATA_SET = DataSet(
    name="aime2024",
    hub="Maxwell-Jia/AIME_2024",
    config=None,
    split="train",
    columns=("Problem", "Solution"),
    to_prompt=to_prompt,
    source="hu2025, prompts",
    limit=TokenLimit(400, "Qwen/Qwen2.5-1.5B-Instruct"),
)
