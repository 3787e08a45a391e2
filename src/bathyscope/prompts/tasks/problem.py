"""A problem with its answer, and the text that is made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

Split = Literal["train", "interpolate", "extrapolate"]
SPLITS: tuple[Split, ...] = get_args(Split)
"""To train on; held out, but like the training problems; harder than any of them."""

Labels = Mapping[str, str | int | float]


class Example(NamedTuple):
    """A problem as one text, of which everything from character ``start`` on is the answer."""

    text: str
    start: int

    @property
    def answer(self) -> str:
        """The answer with the blank before it."""
        return self.text[self.start :]


@dataclass(frozen=True)
class Problem:
    """A question with its answer.

    Args:
        question: everything before the steps or the answer.
        answer: what is to be predicted.
        steps: the written way from one to the other, without the answer; None where there is nothing to write.
        labels: of a task's problem ``task``, ``split``, ``k`` (operations one after another in the direct solution) and
            the task's own; of an arithmetic problem ``steps``, ``kind`` and ``digits``.

    Example:
        >>> from bathyscope.extend.prompts import Problem
        >>> Problem("1 + 2 =", "3").example()
        Example(text='1 + 2 = 3', start=7)
    """

    question: str
    answer: str
    steps: str | None = None
    labels: Labels = field(default_factory=dict)

    def example(self, written: bool = False) -> Example:
        """Question and answer, a blank between them; with the steps in the middle where they are to be ``written``.

        The blank is the answer's. A tokenizer may make one token of blank and minus sign, and two of blank and digit;
        were the blank the question's, the question would tell the sign.
        """
        before = f"{self.question} {self.steps}" if written and self.steps is not None else self.question
        return Example(f"{before} {self.answer}", len(before))
