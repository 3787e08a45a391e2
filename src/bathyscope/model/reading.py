"""Prompts read by a model: the one way from whatever the user gives to token ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bathyscope.errors import PromptError, warn
from bathyscope.model.model import Model
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import Source, needs_tokenizer, resolve
from bathyscope.prompts.tokenize import tokenize
from bathyscope.prompts.tokenizer import tokenizer_hash

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def tokenized(
    model: Model,
    prompts: Source | Prompts,
    *,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: bool = False,
) -> Prompts:
    """Prompts as token ids of a model, with every check that can be made before any compute.

    The tokenizer is loaded only where text is given.

    Args:
        model: what ``bathyscope.load`` returns.
        prompts: as for ``survey``; those of a run (``run.prompts``) keep their ids.
        seed: of generated problems.
        beyond_context, add_special_tokens, chat: as for ``survey``.

    Raises:
        PromptError: no such source, nothing in it, or a prompt that cannot be measured.
        ModelError: text, and the model's tokenizer cannot be loaded.
    """
    if isinstance(prompts, Prompts):
        tokenizer, chat = _same_tokenizer(model, prompts), False
        resolved = prompts.as_given()
    else:
        given: Source = list(prompts) if isinstance(prompts, Iterator) else prompts  # it is looked at more than once
        tokenizer = model.tokenizer if needs_tokenizer(given) else None
        resolved = resolve(
            given, seed=seed, tokenizer=tokenizer, window=model.max_tokens, add_special_tokens=add_special_tokens
        )
    found = tokenize(
        resolved,
        tokenizer,
        max_tokens=model.max_tokens,
        vocab_size=model.vocabulary,
        beyond_context=False if model.has_position_table else beyond_context,
        add_special_tokens=add_special_tokens,
        chat=chat,
    )
    longer = sum(len(prompt) > (model.max_tokens or len(prompt)) for prompt in found)
    if longer:
        warn(
            f"{longer} of {len(found)} prompts are longer than the {model.max_tokens} tokens of context that "
            f"{model.name} declares; it may not have been trained on such positions.",
        )
    dataset = prompts.dataset if isinstance(prompts, Prompts) else resolved.dataset
    return Prompts(tuple(found), dataset, tokenizer)


def _same_tokenizer(model: Model, prompts: Prompts) -> PreTrainedTokenizerBase | None:
    """The model's tokenizer where one made the ids; it must be the same."""
    if prompts.tokenizer_hash is None:
        return None
    if model.tokenizer is None or tokenizer_hash(model.tokenizer) != prompts.tokenizer_hash:
        raise PromptError(
            f"The prompts of {prompts.dataset} were read with another tokenizer than that of {model.name}, to which "
            "their token ids mean something else. Give their source or their texts, which each model reads with its "
            "own tokenizer."
        )
    tokenizer: PreTrainedTokenizerBase = model.tokenizer
    return tokenizer
