"""A text as token ids: a tokenizer, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from bathyscope.prompts.answers import Span
from bathyscope.prompts.chat import ChatTemplate, Turns
from bathyscope.prompts.tokenizer import ask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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
    """A tokenizer, and how it is asked (as ``tokenize`` says).

    Special tokens are never put around turns of a chat, whose template writes them itself.
    """

    tokenizer: PreTrainedTokenizerBase
    add_special_tokens: bool = True
    chat: bool = False
    chat_options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def template(self) -> ChatTemplate:
        """The chat template of the tokenizer."""
        return ChatTemplate(self.tokenizer, self.chat_options)

    @cached_property
    def special_texts(self) -> tuple[str, ...]:
        """The special tokens as they are in texts, such as the marks of turns."""
        added = (token.content for token in self.tokenizer.added_tokens_decoder.values() if token.special)
        return tuple(dict.fromkeys((*map(str, self.tokenizer.all_special_tokens), *added)))

    @cached_property
    def first_mark(self) -> int | None:
        """The BOS or CLS that the tokenizer puts before texts; None where it puts neither."""
        ids = ask(self.tokenizer, "a", verbose=False)["input_ids"]
        edges = (self.tokenizer.bos_token_id, self.tokenizer.cls_token_id)
        return int(ids[0]) if len(ids) > 1 and ids[0] in edges else None

    def written(self, question: str, answer: str | None) -> Turns:
        """Question and answer as they are in the text that is measured; a PromptError without a template for them."""
        return self.template.write(question, answer) if self.chat else Turns(question, answer)

    def encode(self, text: str, *, until_answer: bool = False) -> Encoded:
        """Token ids of a text.

        Args:
            until_answer: leave out special tokens that the tokenizer puts after the text (EOS), so that an answer
                is last, and give the characters of each token.
        """
        special = self.add_special_tokens and not self.chat
        with_spans = until_answer and self.tokenizer.is_fast
        encoding_options: dict[str, Any] = {} if special else {"add_special_tokens": False}
        if with_spans:
            encoding_options |= {"return_offsets_mapping": True, "return_special_tokens_mask": True}
        encoded = ask(self.tokenizer, text, verbose=False, **encoding_options)
        ids = list(encoded["input_ids"])
        begins_twice = (special or self.chat) and self._begins_twice(text, ids)
        spans: tuple[Span, ...] = ()
        if with_spans:
            mask = list(encoded["special_tokens_mask"])
            # An EOS behind the answer would be its last token, and its prediction would be measured.
            while mask and mask[-1]:
                mask.pop()
                ids.pop()
            spans = tuple(Span(*span) for span, mark in zip(encoded["offset_mapping"], mask) if not mark)
        return Encoded(tuple(ids[begins_twice:]), spans, begins_twice)

    def _begins_twice(self, text: str, ids: list[int]) -> bool:
        if len(ids) < 2 or ids[0] != ids[1] or ids[0] not in (self.tokenizer.bos_token_id, self.tokenizer.cls_token_id):
            return False
        if self.chat:
            # one of them is the template's, and the other one too, or the tokenizer's against its orders
            return True
        # The text itself begins with BOS (a chat written out); a text of two BOS means both.
        plain = ask(self.tokenizer, text, add_special_tokens=False, verbose=False)["input_ids"]
        return list(plain[:2]) != ids[:2]
