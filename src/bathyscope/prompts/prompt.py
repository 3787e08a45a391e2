"""A prompt: text or token ids, and optionally the part that counts as its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from bathyscope.core.text import require_text
from bathyscope.errors import OptionError, PromptError, describe_value
from bathyscope.prompts.messages import Message, read_messages, warn_of_other_keys

Label = str | int | float


@dataclass(frozen=True)
class Prompt:
    """One text to measure a model on.

    Args:
        text: the text; exactly one of ``text``, ``ids`` and ``messages`` is given.
        ids: token ids, used as they are (nothing is prepended).
        answer: the part that is measured; it is the end of ``text``, or is appended to it where the text
            does not already end with it. Only with ``text``.
        answer_tokens: how many of the last tokens are the answer; only with ``ids``.
        id: a name for the prompt; where None, its number in the set is used.
        labels: grouping labels such as ``{"level": 3}`` or ``{"hops": 2}``.
        messages: turns of a chat, ``{"role": "user", "content": "…"}`` each, which ``chat=True`` writes by the
            tokenizer's template. Contents are texts or lists of parts. A last turn of the assistant is the answer.

    Raises:
        PromptError: none or several of text, ids and messages; an answer that does not fit; a value of another type.

    Example:
        >>> question = bathyscope.Prompt("The capital of France is Paris", answer=" Paris", labels={"hops": 1})
        >>> question.answer, question.labels["hops"]
        (' Paris', 1)
        >>> bathyscope.Prompt(ids=[1, 17, 4], answer_tokens=1).ids
        (1, 17, 4)
    """

    text: str | None = None
    ids: Sequence[int] | None = None
    answer: str | None = None
    answer_tokens: int | None = None
    id: str | None = None
    labels: Mapping[str, Label] = field(default_factory=dict)
    messages: Sequence[Message | Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        self._require_one_form()
        for name, value in (("text", self.text), ("answer", self.answer), ("id", self.id)):
            if value is not None and not isinstance(value, str):
                raise PromptError(f"{name}= must be a string, not {describe_value(value)}.")
            if value is not None:
                require_text(value, f"{name}=", PromptError)
        if self.id is not None and not self.id.strip():
            raise PromptError("id= is empty; give the prompt a name, or leave it out for its number in the set.")
        if not isinstance(self.labels, Mapping):
            raise PromptError(f'labels= must be a dict such as {{"level": 3}}, not {describe_value(self.labels)}.')
        for label, label_value in self.labels.items():
            for text, where in ((label, "the name of a label"), (label_value, f"the label {label!r}")):
                if isinstance(text, str):
                    require_text(text, where, PromptError)
            _require_label(label, label_value)
        # Token ids of any kind of sequence become a tuple, so that prompts compare and hash.
        if self.ids is not None:
            self._check_ids(self.ids)
        if self.messages is not None:
            warn_of_other_keys([self.messages])
            object.__setattr__(self, "messages", read_messages(self.messages))

    def _require_one_form(self) -> None:
        if self.messages is not None:
            other = next(
                (name for name in ("text", "ids", "answer", "answer_tokens") if getattr(self, name) is not None), None
            )
            if other is not None:
                raise PromptError(
                    f"messages= and {other}= do not go together: a chat is all turns, and the assistant's last one is "
                    "the answer."
                )
            return
        if (self.text is None) == (self.ids is None):
            how_many = "both" if self.text is not None else "neither"
            raise PromptError(f"A prompt takes exactly one of text=, ids= and messages=; {how_many} given.")
        if self.answer is not None and self.text is None:
            raise PromptError("answer= goes with text=; with ids= give answer_tokens= (a number of tokens).")
        if self.answer_tokens is not None and self.ids is None:
            raise PromptError("answer_tokens= goes with ids=; with text= give answer= (a string).")

    @property
    def turns(self) -> tuple[Message, ...]:
        """The turns of a chat; none of a text or token ids."""
        return () if self.messages is None else read_messages(self.messages)

    def _check_ids(self, token_ids: Sequence[int]) -> None:
        ids = _token_ids(token_ids)
        object.__setattr__(self, "ids", ids)
        if self.answer_tokens is None:
            return
        answer_tokens = whole_number(self.answer_tokens)
        if answer_tokens is None:
            raise PromptError(f"answer_tokens={self.answer_tokens!r} must be a whole number.")
        if not 0 < answer_tokens < len(ids):
            raise PromptError(
                f"answer_tokens={answer_tokens} does not fit a prompt of {len(ids)} tokens; "
                f"allowed: 1 to {len(ids) - 1}."
            )
        object.__setattr__(self, "answer_tokens", answer_tokens)


def _require_label(name: str, value: Any) -> None:
    """Refuse what results cannot keep; NaN stands for no value, as where a prompt lacks the label."""
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    if not isinstance(plain, str | int | float):
        raise PromptError(f"the label {name!r} must be a text or a number, not {type(value).__name__}.")


def require_words(prompt: Prompt) -> None:
    """Refuse a text or an answer without any words; prompts of token ids pass.

    Raises:
        PromptError: one of them is empty, or white space alone.
    """
    if prompt.text is not None and not prompt.text.strip():
        raise PromptError("the text is empty; give at least a few words.")
    if prompt.answer is not None and not prompt.answer.strip():
        raise PromptError("its answer is empty; give the answer's text, or leave answer= out.")


def whole_number(value: Any) -> int | None:
    """A whole number of Python, NumPy or torch as Python's; None for anything else, truth values included."""
    # Numbers of NumPy and torch are arrays without dimensions; True is an int to Python, and no token id.
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    return int(plain) if isinstance(plain, Integral) and not isinstance(plain, bool) else None


def is_token_ids(value: Any) -> bool:
    """Whether this is a list of whole numbers."""
    return isinstance(value, list | tuple) and all(whole_number(item) is not None for item in value)


def _token_ids(source: Any) -> tuple[int, ...]:
    items = source.tolist() if hasattr(source, "tolist") else source
    # Python takes bytes for numbers, and a text for a list of letters
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | bytearray | Mapping | Set):
        raise PromptError(f"ids= must be a list of whole numbers, not {describe_value(source)}.")
    # Python's own numbers by the million, as of a long document, are looked at in one pass
    items = tuple(items)
    if {*map(type, items)} <= {int}:
        return items
    ids = []
    for number, item in enumerate(items):
        token = whole_number(item)
        if token is None:
            raise PromptError(f"ids= must be whole numbers; token {number} is {item!r:.60}.")
        ids.append(token)
    return tuple(ids)


@dataclass(frozen=True)
class TokenizedPrompt:
    """A prompt as the model sees it.

    Args:
        id: unique within the set.
        ids: token ids, at least two.
        answer_tokens: how many of the last tokens are the answer, or None.
        labels: grouping labels, carried to the ``prompt`` dimension of every result.
        dataset: where the prompt came from; the ``dataset`` coordinate of every result.
    """

    id: str
    ids: tuple[int, ...]
    answer_tokens: int | None = None
    labels: Mapping[str, Label] = field(default_factory=dict)
    dataset: str = ""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class PromptSet:
    """Prompts in order, and where they came from (``dataset`` names them in results and captions).

    Args:
        prompts: in the order in which results hold them.
        dataset: a name, such as ``gsm8k:10``.
        is_data_set: they are a data set's or generated, not texts that somebody chose one by one.
        parts: the sets that a union is made of, each with a name of its own; empty for a single set.

    Example:
        >>> easy = bathyscope.PromptSet((bathyscope.Prompt("1 + 1 = 2"),), "easy")
        >>> hard = bathyscope.PromptSet((bathyscope.Prompt("12 + 9 = 21"),), "hard")
        >>> bathyscope.PromptSet.union([easy, hard]).dataset
        'easy + hard'
    """

    prompts: tuple[Prompt, ...]
    dataset: str
    is_data_set: bool = False
    parts: tuple[PromptSet, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.prompts, tuple | list) or not all(isinstance(prompt, Prompt) for prompt in self.prompts):
            raise PromptError("prompts= must be a tuple of Prompt objects; write a text as Prompt('…').")
        if not isinstance(self.dataset, str):
            raise PromptError(f"dataset= must be a text that names the prompts, not {describe_value(self.dataset)}.")
        require_text(self.dataset, "dataset=", PromptError)
        if not self.prompts:
            raise PromptError(f"{self.dataset} holds no prompts; give at least one.")
        if self.parts and self.prompts != tuple(prompt for part in self.parts for prompt in part.prompts):
            raise PromptError("prompts= must be those of parts=, in order; make unions with PromptSet.union.")

    @classmethod
    def union(cls, sets: Sequence[PromptSet]) -> PromptSet:
        """All prompts of several sets, one set after the other; ``dataset`` stays known for each prompt."""
        if not isinstance(sets, Sequence) or not sets or not all(isinstance(each, cls) for each in sets):
            raise OptionError(f"PromptSet.union() takes a list of prompt sets; {describe_value(sets)} given.")
        if len(sets) == 1:
            return sets[0]
        return cls(
            tuple(prompt for prompt_set in sets for prompt in prompt_set.prompts),
            " + ".join(prompt_set.dataset for prompt_set in sets),
            all(prompt_set.is_data_set for prompt_set in sets),
            tuple(part for prompt_set in sets for part in prompt_set.parts or (prompt_set,)),
        )

    def __len__(self) -> int:
        return len(self.prompts)
