"""MQuAKE-CF-3k: questions whose answer takes a chain of two to four facts."""

from __future__ import annotations

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets.dataset import DataSet, filled_text_of, list_of
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt


def to_prompt(row: Row) -> Prompt:
    """The first wording of the question; the answer before any edit is the answer span.

    Label: ``hops``, the number of facts in the unedited chain.
    """
    questions = list_of(row, "questions")
    if not questions or not isinstance(questions[0], str) or not questions[0].strip():
        raise PromptError("column 'questions' must be a list of texts with at least one question.")
    hops = len(list_of(row, "orig_triples"))
    if not hops:
        raise PromptError("column 'orig_triples' is empty, so that the number of hops is not known.")
    answer = f" {filled_text_of(row, 'answer')}"
    return Prompt(text=f"Question: {questions[0]}\nAnswer:{answer}", answer=answer, labels={"hops": hops})


DATA_SET = DataSet(
    name="mquake",
    hub="henryzhongsc/MQuAKE-Remastered",
    config=None,
    split="CF3k",
    columns=("questions", "answer", "orig_triples"),
    to_prompt=to_prompt,
    source="csordas2025, depth score",
    level="hops",
)
