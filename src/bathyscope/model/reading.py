"""Prompts read by a model: the one way from whatever the user gives to token ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.calls import checked
from bathyscope.core.common_options import ChatForm
from bathyscope.errors import ModelError, OptionError, PromptError, describe_value, warn
from bathyscope.model.model import Model
from bathyscope.options import Seed
from bathyscope.prompts.in_memory import Source, sources
from bathyscope.prompts.lost_letters import warn_of_lost_letters
from bathyscope.prompts.padding import EdgeTokens
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.reading import READING, is_chat_form, reading_record
from bathyscope.prompts.source import needs_tokenizer, resolve
from bathyscope.prompts.tokenize import tokenize
from bathyscope.prompts.tokenizer import tokenizer_hash, unknown_token

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from bathyscope.prompts.prompt import TokenizedPrompt

MOST_UNKNOWN: Final = 0.02
"""Share of unknown tokens up to which a text counts as read."""


@checked
def tokenized(
    model: Model,
    prompts: Source | Prompts,
    *,
    seed: Seed = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
) -> Prompts:
    """Return prompts as token ids of a model, after every check that can be made before any compute.

    The tokenizer is loaded only where text is given.

    Args:
        model: what ``bathyscope.load`` returns.
        prompts: as for ``survey``; those of a run (``run.prompts``) keep their ids.
        seed: of generated problems.
        beyond_context, add_special_tokens, chat: as for ``survey``.

    Raises:
        OptionError: no model that was loaded, or an option that is not allowed.
        PromptError: no such source, nothing in it, or a prompt that cannot be measured.
        ModelError: text, and the model's tokenizer cannot be loaded.

    Example:
        >>> from bathyscope.extend.prompts import tokenized
        >>> tokenized(model, ["Once upon a time"]).pieces(0)[-1]
        ' time'
    """
    if not hasattr(model, "max_tokens"):  # a path, or a model of transformers
        raise OptionError(
            f"tokenized() takes a model that was loaded; {describe_value(model)} given. Give bathyscope.load(FOLDER)."
        )
    _require_chat_form(chat)
    if isinstance(prompts, Prompts):
        reading: Mapping[str, Any] = prompts.reading
        tokenizer, chat = _same_tokenizer(model, prompts), False
        resolved = prompts.as_given()
    else:
        reading = reading_record(add_special_tokens, chat)
        # an iterator would be empty at the second look
        source_list = sources(prompts)
        tokenizer = model.tokenizer if needs_tokenizer(source_list) else None
        resolved = resolve(
            source_list,
            seed=seed,
            tokenizer=tokenizer,
            window=model.max_tokens,
            add_special_tokens=add_special_tokens,
            edges=model.edges | EdgeTokens.of(tokenizer),
        )
        warn_of_lost_letters(resolved.prompts)
    tokenized_prompts = tokenize(
        resolved,
        tokenizer,
        max_tokens=model.max_tokens,
        vocab_size=model.vocabulary,
        head_size=model.predictable,
        beyond_context=False if model.has_position_table else beyond_context,
        add_special_tokens=add_special_tokens,
        chat=chat,
    )
    longer = sum(len(prompt) > (model.max_tokens or len(prompt)) for prompt in tokenized_prompts)
    if longer:
        warn(
            f"{longer} of {len(tokenized_prompts)} prompts are longer than the {model.max_tokens} tokens of context "
            f"that {model.name} declares; it may not have been trained on such positions.",
        )
    if tokenizer is not None:
        _warn_of_unknown_tokens(tokenized_prompts, tokenizer, model.name)
    dataset = prompts.dataset if isinstance(prompts, Prompts) else resolved.dataset
    return Prompts(tuple(tokenized_prompts), dataset, tokenizer, reading=reading)


def _require_chat_form(chat: object) -> None:
    if not is_chat_form(chat):
        raise OptionError(
            f"chat={describe_value(chat)} must be True, False, or a dict of options of the chat template, "
            'such as {"enable_thinking": False}.'
        )


@dataclass(frozen=True)
class PromptReading:
    """How prompts are read; the arguments are those of ``tokenized``.

    Raises:
        OptionError: ``chat`` is neither a truth value nor a dict of a template's options.
    """

    beyond_context: bool | None = None
    add_special_tokens: bool = True
    chat: ChatForm = False

    def __post_init__(self) -> None:
        _require_chat_form(self.chat)

    @property
    def record(self) -> dict[str, str]:
        """Return what a stored result says of it, to read its prompts again; empty for texts as they stand."""
        record = reading_record(self.add_special_tokens, self.chat)
        return {READING: json.dumps(record)} if record else {}

    def read(self, model: Model, prompts: Source | Prompts, *, seed: int = 0) -> Prompts:
        """Return prompts as token ids of a model (see ``tokenized``)."""
        return tokenized(
            model,
            prompts,
            seed=seed,
            beyond_context=self.beyond_context,
            add_special_tokens=self.add_special_tokens,
            chat=self.chat,
        )


AS_IT_STANDS: Final = PromptReading()
"""Texts with their special tokens, and no template."""


def _warn_of_unknown_tokens(prompts: Sequence[TokenizedPrompt], tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Warn where a tokenizer has no word for much of a text: the model then reads another text, or none."""
    # some tokenizers give the end of a text this part too, which is in every prompt
    unknown = unknown_token(tokenizer)
    if unknown is None:
        return
    total = sum(map(len, prompts))
    count = sum(prompt.ids.count(unknown) for prompt in prompts)
    word = tokenizer.convert_ids_to_tokens(unknown)
    if count > MOST_UNKNOWN * total:
        warn(
            f"{count} of {total} tokens ({count / total:.0%}) are unknown to the tokenizer of {name} "
            f"({word!r}). Give text in its vocabulary; of a generated task, compare its options with "
            "those that the model was trained on."
        )


def _same_tokenizer(model: Model, prompts: Prompts) -> PreTrainedTokenizerBase | None:
    """Return the model's tokenizer where one made the ids; it must be the same."""
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


def vocabularies_differ(first: Model, second: Model, ids: Iterable[int]) -> str | None:
    """Say how token ids mean something else to two models; None where nothing shows it.

    Where both tokenizers are known, each id must be the same token in both; ids that no prompt uses do not count, so
    that a model with further special tokens can be compared with the one it was made from. Where they are not both
    known, only the sizes of the vocabularies can tell: equal ones are taken for the same vocabulary.

    Args:
        ids: those that prompts use.

    Returns:
        A clause for an error message, such as ``token id 7 is 'the' for A and 'old' for B``.
    """
    first_tokens, second_tokens = _tokens_by_id(first), _tokens_by_id(second)
    if first_tokens is None or second_tokens is None:
        return _sizes_differ(first, second)
    differs = next((token for token in sorted(set(ids)) if first_tokens.get(token) != second_tokens.get(token)), None)
    if differs is None:
        return None
    meant = [
        f"{_token_text(tokens.get(differs))} for {model.name}"
        for tokens, model in ((first_tokens, first), (second_tokens, second))
    ]
    return f"token id {differs} is {meant[0]} and {meant[1]}"


def tokens_in_common(first: Model, second: Model) -> list[int]:
    """Return the ids that both models can predict, without those that one of the tokenizers alone has.

    Whether such an id is the same token in both is another question (``vocabularies_differ``).
    """
    first_tokens, second_tokens = _tokens_by_id(first) or {}, _tokens_by_id(second) or {}
    return [
        token
        for token in range(min(first.vocabulary, second.vocabulary))
        if (token in first_tokens) == (token in second_tokens)
    ]


def _tokens_by_id(model: Model) -> dict[int, str] | None:
    try:
        tokenizer = model.tokenizer
    # token ids alone need no tokenizer, so that a broken one is like none
    except ModelError:
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


def _token_text(token: str | None) -> str:
    return "no token" if token is None else repr(token)
