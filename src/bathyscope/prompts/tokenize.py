"""Prompts to token ids, as they stand or as turns of a chat, with every check that can be made before any compute.

The tokenizer is called on one text at a time and never asked to pad or cut, so a tokenizer set to pad on the
left, or one whose file asks for padding or truncation, gives the same ids as any other. Padding is the
wavefront's business, and always on the right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bathyscope.errors import PromptError, warn
from bathyscope.prompts.label_checks import checked_labels, require_exact
from bathyscope.prompts.prompt import Prompt, PromptSet, TokenizedPrompt

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
    # A token may begin with the blank before the answer (" 28"): it is the answer's, wherever the seam was put.
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
    """A tokenizer, and how it is asked (as ``tokenize`` says).

    Special tokens are never put around turns of a chat, whose template writes them itself.
    """

    tokenizer: PreTrainedTokenizerBase
    add_special_tokens: bool = True
    chat: bool = False

    def written(self, question: str, answer: str | None) -> tuple[str, str | None]:
        """Question and answer as they stand in the text that is measured; a PromptError without a template for them."""
        if not self.chat:
            return question, answer
        # The template is asked with a marker in the answer's place: what stands before it is the question's.
        turns = [{"role": "user", "content": question.strip()}]
        if answer is None:
            return self._rendered(turns), None
        # what follows the answer (the end of its turn) is not measured
        text = self._rendered([*turns, {"role": "assistant", "content": _PLACE}])
        before, marker, _ = text.partition(_PLACE)
        if not marker:
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
        encoding_options: dict[str, Any] = {} if special else {"add_special_tokens": False}
        if with_spans:
            encoding_options |= {"return_offsets_mapping": True, "return_special_tokens_mask": True}
        try:
            encoded = self.tokenizer(text, verbose=False, **encoding_options)
        # the library of tokenizers raises plain Exceptions
        except Exception as error:
            raise PromptError(f"its tokenizer refuses the text ({error}); give another text, or token ids.") from error
        ids = list(encoded["input_ids"])
        begins_twice = special and self._begins_twice(text, ids)
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
        # The text itself begins with BOS (a chat written out); a text of two BOS means both.
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


def tokenize(
    prompts: PromptSet,
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    max_tokens: int | None,
    vocab_size: int | None = None,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: bool = False,
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
        add_special_tokens: put the tokenizer's special tokens around texts.
        chat: write texts as the user's turn in the tokenizer's chat template, answers as the assistant's.
    """
    names = _names(prompts)
    encoder = None if tokenizer is None else Encoder(tokenizer, add_special_tokens, chat)
    tokenized: list[TokenizedPrompt] = []
    notices = _Notices()
    for part in prompts.parts or (prompts,):
        longer = part.is_data_set if beyond_context is None else beyond_context
        for prompt in part.prompts:
            name = names[len(tokenized)]
            try:
                tokenized_prompt = _tokenize_one(name, prompt, encoder, part, notices)
                _check(tokenized_prompt, None if longer else max_tokens, vocab_size, tokenizer)
            except PromptError as error:
                raise PromptError(f"Prompt {name!r}: {error}") from error
            tokenized.append(tokenized_prompt)
    if chat and all(prompt.ids is not None for prompt in prompts.prompts):
        warn(f"chat=True writes texts as turns of a chat; {prompts.dataset} gives token ids alone, which it leaves.")
    require_exact(tokenized)
    notices.warn_of(prompts, tokenizer)
    return tokenized


@dataclass(frozen=True)
class _Notices:
    """What one warning each says of all prompts."""

    unanswered: dict[str, AnswerError] = field(default_factory=dict)
    begins_twice: list[str] = field(default_factory=list)

    def warn_of(self, prompts: PromptSet, tokenizer: PreTrainedTokenizerBase | None) -> None:
        if self.unanswered:
            name, error = next(iter(self.unanswered.items()))
            warn(
                f"{len(self.unanswered)} of {len(prompts)} prompts of {prompts.dataset} are measured without their "
                f"answer, whose tokens cannot be told from the question's; the first is prompt {name!r}: {error}",
            )
        if self.begins_twice and tokenizer is not None:
            warn(
                f"{len(self.begins_twice)} of {len(prompts)} prompts of {prompts.dataset} begin with "
                f"{tokenizer.bos_token or tokenizer.cls_token}, which the tokenizer puts before every text; it is "
                f"taken once. The first is prompt {self.begins_twice[0]!r}. (With add_special_tokens=False "
                "(--no-add-special-tokens) texts are taken as they stand.)",
            )


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


def _tokenize_one(
    name: str, prompt: Prompt, encoder: Encoder | None, part: PromptSet, notices: _Notices
) -> TokenizedPrompt:
    labels = checked_labels(prompt.labels)
    if prompt.ids is not None:
        return TokenizedPrompt(name, tuple(prompt.ids), prompt.answer_tokens, labels, part.dataset)
    text = prompt.text or ""
    if not text.strip():
        raise PromptError("the text is empty; give at least a few words.")
    if encoder is None:
        raise PromptError("it is text, and the model has no tokenizer; give token ids, or a tokenizer.")
    if prompt.answer is not None and not prompt.answer.strip():
        raise PromptError("its answer is empty; give the answer's text, or leave answer= out.")
    question, answer = encoder.written(text.removesuffix(prompt.answer or ""), prompt.answer)
    encoded = encoder.encode(question + (answer or ""), until_answer=answer is not None)
    if encoded.begins_twice:
        notices.begins_twice.append(name)
    # In a data set a few answers without clear tokens lose their answer; a prompt written by hand is refused.
    answer_tokens = None
    try:
        if answer is not None:
            answer_tokens = _answer_tokens(question, answer, encoded, encoder.tokenizer)
    except AnswerError as error:
        if not part.is_data_set:
            raise
        notices.unanswered[name] = error
    return TokenizedPrompt(name, encoded.ids, answer_tokens, labels, part.dataset)


def _answer_tokens(question: str, answer: str, encoded: Encoded, tokenizer: PreTrainedTokenizerBase) -> int:
    if not tokenizer.is_fast:
        raise AnswerError(
            f"{type(tokenizer).__name__} gives no character offsets, so the answer's tokens cannot be found; "
            "give ids= with answer_tokens=, or leave answer= out."
        )
    answer_tokens = answer_token_count(question, answer, encoded.spans)
    if answer_tokens >= len(encoded.ids):
        raise PromptError("nothing stands before its answer; give a question too.")
    return answer_tokens


def _check(
    prompt: TokenizedPrompt,
    max_tokens: int | None,
    vocab_size: int | None,
    tokenizer: PreTrainedTokenizerBase | None,
) -> None:
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
        cause = "were the ids made with another model's tokenizer?"
        if tokenizer is not None and vocab_size is not None and len(tokenizer) > vocab_size:
            cause = (
                f"the tokenizer has {len(tokenizer)} tokens: is it another model's tokenizer, or did it get tokens "
                "that the model did not? Load the model with its own (load(model, tokenizer=…))."
            )
        raise PromptError(f"token id {wrong[0]} is outside of the model's vocabulary ({allowed}); {cause}")
