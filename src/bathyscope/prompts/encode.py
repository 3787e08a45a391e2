"""Texts as token ids, as they stand or as turns of a chat, and how many of the last tokens are an answer's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bathyscope.errors import PromptError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class AnswerError(PromptError):
    """An answer's tokens cannot be told from the question's; the text itself can be measured."""


class Span(NamedTuple):
    """Characters ``start`` (included) to ``end`` (excluded) of the text that one token covers."""

    start: int
    end: int


def answer_token_count(question: str, answer: str, spans: Sequence[Span]) -> int:
    """Count the tokens of ``answer`` at the end of ``question + answer``, tokenised once as a whole.

    Tokenising the two apart and adding up would miscount wherever a token reaches over the seam. White space
    at the seam does not count: a token ``" 28"`` after a question that ends in a space is the answer's.
    Source: csordas2025, erasure and depth score.

    Args:
        question: the text before the answer.
        answer: the rest of the text; not blank.
        spans: the characters that each token covers, in order, without special tokens.

    Raises:
        AnswerError: a token holds letters of both, or the spans do not reach the end of the text.
    """
    text = question + answer
    if not spans or spans[-1].end < len(text.rstrip()):
        raise AnswerError(
            "the tokenizer's character offsets do not cover the text, so the answer's tokens cannot be "
            "found; give ids= with answer_tokens= instead."
        )
    question_end = len(question.rstrip())
    answer_start = len(question) + len(answer) - len(answer.lstrip())
    for span in spans:
        if span.start < question_end and span.end > answer_start:
            raise AnswerError(
                f"question and answer share the token {text[span.start : span.end]!r}, so the answer "
                f"{answer!r} cannot be measured apart; move the seam to white space or punctuation, "
                "or give ids= with answer_tokens=."
            )
    return sum(span.end > len(question) and span.start >= question_end for span in spans)


_PLACE: Final = "PlaceOfTheAnswer"


class Encoded(NamedTuple):
    """A text as token ids.

    Args:
        ids: with special tokens.
        spans: the characters that each token covers, special tokens left out; empty where the tokenizer tells no
            offsets, or where nobody asked.
        begins_twice: the text begins with the token that the tokenizer puts before every text; it is taken once.
    """

    ids: tuple[int, ...]
    spans: tuple[Span, ...] = ()
    begins_twice: bool = False


@dataclass(frozen=True)
class Encoder:
    """A tokenizer, and how it is asked.

    Args:
        tokenizer: the model's own.
        add_special_tokens: put the tokenizer's special tokens around texts; never around turns of a chat, whose
            template writes them itself.
        chat: write texts as the user's turn in the tokenizer's chat template, answers as the assistant's.
    """

    tokenizer: PreTrainedTokenizerBase
    add_special_tokens: bool = True
    chat: bool = False

    def written(self, question: str, answer: str | None) -> tuple[str, str | None]:
        """Question and answer as they stand in the text that is measured.

        Raises:
            PromptError: a chat is asked for, and there is no template that takes it.
        """
        if not self.chat:
            return question, answer
        turns = [{"role": "user", "content": question.strip()}]
        if answer is None:
            return self._rendered(turns), None
        # what follows the answer (the end of its turn) is not measured
        text = self._rendered([*turns, {"role": "assistant", "content": _PLACE}])
        before, found, _ = text.partition(_PLACE)
        if not found:
            raise PromptError("the chat template leaves out the assistant's turn, which the answer would be.")
        return before, answer.strip()

    def encode(self, text: str, *, until_answer: bool = False) -> Encoded:
        """Token ids of a text.

        Args:
            until_answer: leave out special tokens that the tokenizer puts after the text (EOS), so that an answer
                stands last, and give the characters of each token.
        """
        special = self.add_special_tokens and not self.chat
        with_spans = until_answer and self.tokenizer.is_fast
        asked: dict[str, Any] = {} if special else {"add_special_tokens": False}
        if with_spans:
            asked |= {"return_offsets_mapping": True, "return_special_tokens_mask": True}
        encoded = self.tokenizer(text, verbose=False, **asked)
        ids = list(encoded["input_ids"])
        begins_twice = special and self._begins_twice(text, ids)
        spans: tuple[Span, ...] = ()
        if with_spans:
            mask = list(encoded["special_tokens_mask"])
            while mask and mask[-1]:
                mask.pop()
                ids.pop()
            spans = tuple(Span(*span) for span, mark in zip(encoded["offset_mapping"], mask) if not mark)
        return Encoded(tuple(ids[begins_twice:]), spans, begins_twice)

    def _begins_twice(self, text: str, ids: list[int]) -> bool:
        if len(ids) < 2 or ids[0] != ids[1] or ids[0] not in (self.tokenizer.bos_token_id, self.tokenizer.cls_token_id):
            return False
        plain = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return list(plain[:2]) != ids[:2]

    def _rendered(self, turns: list[dict[str, str]]) -> str:
        """The chat as text; after the user's turn with whatever begins the assistant's."""
        if not self.tokenizer.chat_template:
            raise PromptError(
                f"chat=True, and {type(self.tokenizer).__name__} has no chat template; leave it out, or give the "
                "tokenizer of a model that was trained on chats (load(model, tokenizer=…))."
            )
        try:
            is_open = turns[-1]["role"] == "user"
            return str(self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=is_open))
        # a template is a program of its author's, which raises whatever it likes
        except Exception as error:
            reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
            raise PromptError(f"the tokenizer's chat template does not take it: {reason}.") from error
