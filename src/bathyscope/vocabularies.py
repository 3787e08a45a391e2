"""Whether token ids mean the same to two models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bathyscope.errors import ModelError

if TYPE_CHECKING:
    from bathyscope.model import Model


def vocabularies_differ(first: Model, second: Model, ids: Iterable[int]) -> str | None:
    """By what it is seen that token ids mean something else to two models; None where nothing says so.

    Where both tokenizers are known, each id must be the same token in both; ids that no prompt uses do not count, so
    that a model with further special tokens can stand beside the one it was made from. Where they are not both known,
    only the sizes of the vocabularies can tell: equal ones are taken for the same vocabulary.

    Args:
        ids: those that prompts use.

    Returns:
        A clause for an error message, such as ``token id 7 is 'the' for A and 'old' for B``.
    """
    one, other = _tokens_by_id(first), _tokens_by_id(second)
    if one is None or other is None:
        return _sizes_differ(first, second)
    differs = next((token for token in sorted(set(ids)) if one.get(token) != other.get(token)), None)
    if differs is None:
        return None
    meant = [f"{_shown(own.get(differs))} for {model.name}" for own, model in ((one, first), (other, second))]
    return f"token id {differs} is {meant[0]} and {meant[1]}"


def _tokens_by_id(model: Model) -> dict[int, str] | None:
    try:
        tokenizer = model.tokenizer
    except ModelError:  # token ids alone need no tokenizer, so that a broken one is like none
        return None
    return None if tokenizer is None else {number: token for token, number in tokenizer.get_vocab().items()}


def _sizes_differ(first: Model, second: Model) -> str | None:
    if first.vocabulary == second.vocabulary:
        return None
    return (
        f"{first.name} has a vocabulary of {first.vocabulary:,} token ids and {second.name} one of "
        f"{second.vocabulary:,}, and their tokenizers, which could tell whether the ids used mean the same, are not "
        "both known"
    )


def _shown(token: str | None) -> str:
    return "no token" if token is None else repr(token)
