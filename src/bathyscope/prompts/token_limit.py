"""A data set's limit on the length of its prompts, in tokens of the tokenizer that the papers counted with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bathyscope.errors import ModelError, PromptError, warn
from bathyscope.prompts.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class TokenLimit:
    """At most ``tokens`` tokens of the tokenizer called ``tokenizer`` on the hub."""

    tokens: int
    tokenizer: str

    def fits(self, data_set: str, asked: int | None, own: PreTrainedTokenizerBase | None) -> Callable[[str], bool]:
        """Whether a text is short enough.

        Args:
            data_set: its name, for messages.
            asked: another limit, in tokens of ``own``; None = the papers'.
            own: the surveyed model's tokenizer. It also counts, with a warning, where the papers' tokenizer can
                be had neither from the cache nor from the hub.

        Raises:
            PromptError: ``own`` is needed and there is none.
        """
        if asked is not None:
            return _counted_by(self._required(own, data_set), asked)
        try:
            papers = load_tokenizer(self.tokenizer)
        except ModelError:
            papers = None
        if papers is not None:
            return _counted_by(papers, self.tokens)
        counting = self._required(own, data_set)
        warn(
            f"{data_set}: prompts of at most {self.tokens} tokens are taken, and the papers counted with "
            f"{self.tokenizer}, which cannot be loaded here. Counted with the model's own tokenizer instead, so "
            f"the choice of prompts may differ; max_tokens={self.tokens} asks for that without this warning.",
        )
        return _counted_by(counting, self.tokens)

    def _required(self, own: PreTrainedTokenizerBase | None, data_set: str) -> PreTrainedTokenizerBase:
        if own is None:
            raise PromptError(
                f"{data_set}: its prompts are limited in tokens, and there is neither {self.tokenizer}, which the "
                "papers counted with, nor a tokenizer of the model; give a model with a tokenizer."
            )
        return own


def _counted_by(tokenizer: PreTrainedTokenizerBase, limit: int) -> Callable[[str], bool]:
    return lambda text: len(tokenizer(text, verbose=False)["input_ids"]) <= limit
