"""Prompts to token ids, with every check that can be made before any compute.

The tokenizer is called on one text at a time and never asked to pad or cut, so a tokenizer set to pad on the
left, or one whose file asks for padding or truncation, gives the same ids as any other. Padding is the
wavefront's business, and always on the right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bathyscope.errors import PromptError
from bathyscope.prompts.answer import Span, answer_token_count
from bathyscope.prompts.prompt import Prompt, PromptSet, TokenizedPrompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

RESERVED_LABELS = frozenset(
    {
        *(
            "prompt",
            "prompt_id",
            "n_tokens",
            "dataset",
            "boundary",
            "boundary_other",
            "block",
            "skipped",
            "part",
        ),
        *(
            "dropped",
            "swapped",
            "start",
            "token",
            "tokens",
            "offset",
            "head",
            "neuron",
            "sample",
            "k",
            "distance",
        ),
        *("site", "estimator", "reduction", "schedule", "norm"),
    }
)
"""Names that results use for dimensions and coordinates of their own."""


def tokenize(
    prompts: PromptSet,
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    max_tokens: int | None,
    vocab_size: int | None = None,
) -> list[TokenizedPrompt]:
    """Token ids of every prompt, in order.

    Text gets the tokenizer's own special tokens; token ids are used as given. Where an answer is asked for,
    special tokens that the tokenizer puts after the text (EOS) are left out, so that the answer stands last.

    Args:
        prompts: what ``bathyscope.prompts.source.resolve`` gave.
        tokenizer: the model's own; None where the model has none, which is enough for token ids.
        max_tokens: the model's context; None = unlimited.
        vocab_size: number of token ids the model knows; None = not checked.

    Raises:
        PromptError: text without a tokenizer, an empty or one-token prompt, one longer than ``max_tokens``, a
            token id outside of the vocabulary, an id used twice, a label that is not allowed, or an answer
            whose tokens cannot be told from the question's.
    """
    if not prompts.prompts:
        raise PromptError(f"{prompts.dataset} holds no prompts; give at least one.")
    names = [str(number) if prompt.id is None else prompt.id for number, prompt in enumerate(prompts.prompts)]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise PromptError(
            f"The prompt id {repeated[0]!r} is used {names.count(repeated[0])} times; ids must differ "
            "(a prompt without an id gets its number in the set)."
        )
    tokenized = []
    for name, prompt in zip(names, prompts.prompts, strict=True):
        try:
            one = _tokenize_one(name, prompt, tokenizer)
            _check(one, max_tokens, vocab_size)
        except PromptError as error:
            raise PromptError(f"Prompt {name!r}: {error}") from error
        tokenized.append(one)
    return tokenized


def _tokenize_one(name: str, prompt: Prompt, tokenizer: PreTrainedTokenizerBase | None) -> TokenizedPrompt:
    labels = _checked_labels(prompt.labels)
    if prompt.ids is not None:
        return TokenizedPrompt(name, tuple(prompt.ids), prompt.answer_tokens, labels)
    text = prompt.text or ""
    if not text.strip():
        raise PromptError("the text is empty; give at least a few words.")
    if tokenizer is None:
        raise PromptError("it is text, and the model has no tokenizer; give token ids, or a tokenizer.")
    if prompt.answer is None:
        return TokenizedPrompt(name, tuple(tokenizer(text, verbose=False)["input_ids"]), None, labels)
    ids, answer_tokens = _with_answer(text, prompt.answer, tokenizer)
    return TokenizedPrompt(name, ids, answer_tokens, labels)


def _with_answer(text: str, answer: str, tokenizer: PreTrainedTokenizerBase) -> tuple[tuple[int, ...], int]:
    if not answer.strip():
        raise PromptError("its answer is empty; give the answer's text, or leave answer= out.")
    if not tokenizer.is_fast:
        raise PromptError(
            f"{type(tokenizer).__name__} gives no character offsets, so the answer's tokens cannot be found; "
            "give ids= with answer_tokens=, or leave answer= out."
        )
    question = text.removesuffix(answer)
    encoded = tokenizer(question + answer, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    ids, special = list(encoded["input_ids"]), list(encoded["special_tokens_mask"])
    while special and special[-1]:
        special.pop()
        ids.pop()
    spans = [Span(*span) for span, mark in zip(encoded["offset_mapping"], special) if not mark]
    answer_tokens = answer_token_count(question, answer, spans)
    if answer_tokens >= len(ids):
        raise PromptError("nothing stands before its answer; give a question too.")
    return tuple(ids), answer_tokens


def _check(prompt: TokenizedPrompt, max_tokens: int | None, vocab_size: int | None) -> None:
    if len(prompt) < 2:
        what = "one token" if len(prompt) else "no tokens"
        raise PromptError(f"it has {what}; a measurement needs at least two. Give a longer prompt.")
    if max_tokens is not None and len(prompt) > max_tokens:
        raise PromptError(
            f"it has {len(prompt)} tokens, more than the {max_tokens} the model can take; shorten it, "
            "leave it out, or give the text as a .txt file, which is cut into windows."
        )
    wrong = [i for i in prompt.ids if i < 0 or (vocab_size is not None and i >= vocab_size)]
    if wrong:
        allowed = "0 and more" if vocab_size is None else f"0 to {vocab_size - 1}"
        raise PromptError(
            f"token id {wrong[0]} is outside of the model's vocabulary ({allowed}); were the ids made with "
            "another model's tokenizer?"
        )


def _checked_labels(labels: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    checked = {}
    for key, value in labels.items():
        plain = value.item() if hasattr(value, "item") else value
        if not isinstance(plain, (str, int, float)):
            raise PromptError(f"the label {key!r} must be a text or a number, not {type(value).__name__}.")
        if key in RESERVED_LABELS:
            raise PromptError(f"a label cannot be called {key!r}, which results use themselves; rename it.")
        checked[key] = plain
    return checked
