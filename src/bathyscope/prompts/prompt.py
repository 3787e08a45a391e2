"""A prompt: text or token ids, and optionally the part that counts as its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bathyscope.errors import PromptError


@dataclass(frozen=True)
class Prompt:
    """One text to measure a model on.

    Args:
        text: the text; exactly one of ``text`` and ``ids`` is given.
        ids: token ids, used as they are (nothing is prepended).
        answer: the part that is measured; it is the end of ``text``, or is appended to it where the text
            does not already end with it. Only with ``text``.
        answer_tokens: how many of the last tokens are the answer; only with ``ids``.
        id: a name for the prompt; where None, its number in the set is used.
        labels: grouping labels such as ``{"level": 3}`` or ``{"hops": 2}``.

    Raises:
        PromptError: neither or both of text and ids; an answer that does not fit.
    """

    text: str | None = None
    ids: Sequence[int] | None = None
    answer: str | None = None
    answer_tokens: int | None = None
    id: str | None = None
    labels: Mapping[str, str | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.text is None) == (self.ids is None):
            given = "both" if self.text is not None else "neither"
            raise PromptError(f"A prompt takes exactly one of text= and ids=; {given} given.")
        if self.answer is not None and self.text is None:
            raise PromptError("answer= goes with text=; with ids= give answer_tokens= (a number of tokens).")
        if self.answer_tokens is not None and self.ids is None:
            raise PromptError("answer_tokens= goes with ids=; with text= give answer= (a string).")
        if self.ids is not None:
            object.__setattr__(self, "ids", tuple(int(i) for i in self.ids))
            if self.answer_tokens is not None and not 0 < self.answer_tokens < len(self.ids):
                raise PromptError(
                    f"answer_tokens={self.answer_tokens} does not fit a prompt of {len(self.ids)} tokens; "
                    f"allowed: 1 to {len(self.ids) - 1}."
                )


@dataclass(frozen=True)
class TokenizedPrompt:
    """A prompt as the model sees it.

    Args:
        id: unique within the set.
        ids: token ids, at least two.
        answer_tokens: how many of the last tokens are the answer, or None.
        labels: grouping labels, carried to the ``prompt`` dimension of every result.
    """

    id: str
    ids: tuple[int, ...]
    answer_tokens: int | None = None
    labels: Mapping[str, str | int | float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class PromptSet:
    """Prompts in order, and where they came from (``dataset`` names them in results and captions).

    ``is_data_set``: they are a published data set's, not texts somebody chose one by one.
    """

    prompts: tuple[Prompt, ...]
    dataset: str
    is_data_set: bool = False

    def __len__(self) -> int:
        return len(self.prompts)
