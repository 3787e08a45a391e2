"""Prompts to token ids, with every check that can be made before any compute.

The tokenizer is called on one text at a time and never asked to pad or cut, so a tokenizer set to pad on the
left, or one whose file asks for padding or truncation, gives the same ids as any other. Padding is the
wavefront's business, and always on the right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bathyscope.errors import PromptError, warn
from bathyscope.prompts.answer import AnswerError, Span, answer_token_count
from bathyscope.prompts.prompt import Prompt, PromptSet, TokenizedPrompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

RESERVED_LABELS = frozenset(
    {
        *("prompt", "prompt_id", "n_tokens", "dataset", "schedule", "measure"),
        *("boundary", "boundary_other", "block", "skipped", "part", "site"),
        *("dropped", "swapped", "start", "head", "neuron", "sample", "k", "distance", "offset"),
        *("token", "tokens", "piece", "estimator", "reduction", "norm"),
    }
)
"""Names that results use for dimensions and coordinates of their own.

``level`` is a label although a dimension has that name: results by level of difficulty have no prompts beside them.
"""


def tokenize(
    prompts: PromptSet,
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    max_tokens: int | None,
    vocab_size: int | None = None,
    beyond_context: bool | None = None,
) -> list[TokenizedPrompt]:
    """Token ids of every prompt, in order.

    Text gets the tokenizer's own special tokens; token ids are used as given. Where an answer is asked for,
    special tokens that the tokenizer puts after the text (EOS) are left out, so that the answer stands last.
    A prompt of a data set whose answer cannot be told from its question keeps no answer, and one warning counts
    such prompts: they are few, and nobody chose their texts. A prompt that was given is refused.

    Args:
        prompts: what ``bathyscope.prompts.source.resolve`` gave.
        tokenizer: the model's own; None where the model has none, which is enough for token ids.
        max_tokens: the model's context; None = unlimited.
        vocab_size: number of token ids the model knows; None = not checked.
        beyond_context: whether prompts may be longer than ``max_tokens``; None = those of data sets.

    Raises:
        PromptError: text without a tokenizer, an empty or one-token prompt, one longer than ``max_tokens``, a
            token id outside of the vocabulary, an id used twice, a label that is not allowed, or an answer
            whose tokens cannot be told from the question's.
    """
    names = _names(prompts)
    tokenized: list[TokenizedPrompt] = []
    unanswered: dict[str, AnswerError] = {}
    for part in prompts.parts or (prompts,):
        longer = part.is_data_set if beyond_context is None else beyond_context
        for prompt in part.prompts:
            name = names[len(tokenized)]
            try:
                one = _tokenize_one(name, prompt, tokenizer, part, unanswered)
                _check(one, None if longer else max_tokens, vocab_size)
            except PromptError as error:
                raise PromptError(f"Prompt {name!r}: {error}") from error
            tokenized.append(one)
    _warn_of(unanswered, prompts)
    return tokenized


def _names(prompts: PromptSet) -> list[str]:
    if not prompts.prompts:
        raise PromptError(f"{prompts.dataset} holds no prompts; give at least one.")
    names = [str(number) if prompt.id is None else prompt.id for number, prompt in enumerate(prompts.prompts)]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise PromptError(
            f"The prompt id {repeated[0]!r} is used {names.count(repeated[0])} times; ids must differ "
            "(a prompt without an id gets its number in the set)."
        )
    return names


def _warn_of(unanswered: Mapping[str, AnswerError], prompts: PromptSet) -> None:
    if unanswered:
        name, error = next(iter(unanswered.items()))
        warn(
            f"{len(unanswered)} of {len(prompts)} prompts of {prompts.dataset} are measured without their answer, "
            f"whose tokens cannot be told from the question's; the first is prompt {name!r}: {error}",
        )


def _tokenize_one(
    name: str,
    prompt: Prompt,
    tokenizer: PreTrainedTokenizerBase | None,
    part: PromptSet,
    unanswered: dict[str, AnswerError],
) -> TokenizedPrompt:
    labels = _checked_labels(prompt.labels)
    if prompt.ids is not None:
        return TokenizedPrompt(name, tuple(prompt.ids), prompt.answer_tokens, labels, part.dataset)
    text = prompt.text or ""
    if not text.strip():
        raise PromptError("the text is empty; give at least a few words.")
    if tokenizer is None:
        raise PromptError("it is text, and the model has no tokenizer; give token ids, or a tokenizer.")
    if prompt.answer is None:
        return TokenizedPrompt(name, tuple(tokenizer(text, verbose=False)["input_ids"]), None, labels, part.dataset)
    if not prompt.answer.strip():
        raise PromptError("its answer is empty; give the answer's text, or leave answer= out.")
    question = text.removesuffix(prompt.answer)
    ids, spans = _without_closing_tokens(question + prompt.answer, tokenizer)
    answer_tokens = None
    try:
        answer_tokens = _answer_tokens(question, prompt.answer, ids, spans, tokenizer)
    except AnswerError as error:
        if not part.is_data_set:
            raise
        unanswered[name] = error
    return TokenizedPrompt(name, ids, answer_tokens, labels, part.dataset)


def _without_closing_tokens(text: str, tokenizer: PreTrainedTokenizerBase) -> tuple[tuple[int, ...], list[Span]]:
    """Ids without special tokens after the text, and the characters that each covers, special tokens left out.

    Where the tokenizer tells no offsets, all ids and no characters.
    """
    if not tokenizer.is_fast:
        return tuple(tokenizer(text, verbose=False)["input_ids"]), []
    encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    ids, special = list(encoded["input_ids"]), list(encoded["special_tokens_mask"])
    while special and special[-1]:
        special.pop()
        ids.pop()
    return tuple(ids), [Span(*span) for span, mark in zip(encoded["offset_mapping"], special) if not mark]


def _answer_tokens(
    question: str, answer: str, ids: Sequence[int], spans: Sequence[Span], tokenizer: PreTrainedTokenizerBase
) -> int:
    if not tokenizer.is_fast:
        raise AnswerError(
            f"{type(tokenizer).__name__} gives no character offsets, so the answer's tokens cannot be found; "
            "give ids= with answer_tokens=, or leave answer= out."
        )
    answer_tokens = answer_token_count(question, answer, spans)
    if answer_tokens >= len(ids):
        raise PromptError("nothing stands before its answer; give a question too.")
    return answer_tokens


def _check(prompt: TokenizedPrompt, max_tokens: int | None, vocab_size: int | None) -> None:
    if len(prompt) < 2:
        what = "one token" if len(prompt) else "no tokens"
        raise PromptError(f"it has {what}; a measurement needs at least two. Give a longer prompt.")
    if max_tokens is not None and len(prompt) > max_tokens:
        raise PromptError(
            f"it has {len(prompt)} tokens, more than the {max_tokens} the model can take; shorten it, "
            f"leave it out, or give the text as a .txt file, cut into windows of at most that many "
            f"(?window={max_tokens})."
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
