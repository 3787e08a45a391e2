"""Prompts to token ids, as they stand or as turns of a chat, with every check that can be made before any compute.

The tokenizer is called on one text at a time and never asked to pad or cut, so a tokenizer set to pad on the
left, or one whose file asks for padding or truncation, gives the same ids as any other. Padding is the
wavefront's business, and always on the right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from bathyscope.core.common_options import ChatForm
from bathyscope.core.text import counted
from bathyscope.errors import PromptError, warn
from bathyscope.prompts.answers import AnswerError, answer_token_count, doubles_blank, makes_one_word, question_of
from bathyscope.prompts.chat import Turns
from bathyscope.prompts.encode import Encoded, Encoder
from bathyscope.prompts.label_checks import checked_labels, require_apart, require_exact
from bathyscope.prompts.notices import Notices
from bathyscope.prompts.prompt import Prompt, PromptSet, TokenizedPrompt, require_words
from bathyscope.prompts.tokenizer import unknown_token

_FEW_LETTERS: Final = 1 << 20
"""That a text may have whatever the context of the model."""
_LETTERS_OF_TOKEN: Final = 16
"""Letters that a text may have for each token of the context; texts have three to six."""
_MOST_LETTERS: Final = 1 << 24
"""Letters of one prompt where it may be longer than the context."""

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def tokenize(
    prompts: PromptSet,
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    max_tokens: int | None,
    vocab_size: int | None = None,
    head_size: int | None = None,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
) -> list[TokenizedPrompt]:
    """Token ids of every prompt, in order.

    Text gets the tokenizer's own special tokens; token ids are used as given. Where an answer is asked for,
    special tokens that the tokenizer puts after the text (EOS) are left out, so that the answer is last.
    A prompt of a data set whose answer cannot be told from its question keeps no answer, and one warning counts
    such prompts: they are few, and nobody chose their texts. A prompt that was given is refused.

    Args:
        prompts: what ``bathyscope.prompts.source.resolve`` gave.
        tokenizer: the model's own; None where the model has none, which is enough for token ids.
        max_tokens: the model's context; None = unlimited.
        vocab_size: number of token ids the model knows; None = not checked.
        head_size: number of token ids the model predicts; None = all that it knows.
        beyond_context: whether prompts may be longer than ``max_tokens``; None = those of data sets.
        add_special_tokens: put the tokenizer's special tokens around texts.
        chat: write texts as the user's turn in the tokenizer's chat template, answers as the assistant's; a dict has
            options of the template.
    """
    names = prompt_names(prompts)
    # no option is as good as True
    is_chat, chat_options = (True, chat) if isinstance(chat, Mapping) else (chat, {})
    encoder = None if tokenizer is None else Encoder(tokenizer, add_special_tokens, is_chat, chat_options)
    tokenized: list[TokenizedPrompt] = []
    notices = Notices(unknown=None if tokenizer is None else unknown_token(tokenizer))
    too_long: list[TokenizedPrompt] = []
    for part in prompts.parts or (prompts,):
        longer = part.is_data_set if beyond_context is None else beyond_context
        for prompt in part.prompts:
            name = names[len(tokenized)]
            try:
                _require_short(prompt, None if longer else max_tokens)
                tokenized_prompt = _tokenize_one(name, prompt, encoder, part, notices)
                _check(tokenized_prompt, vocab_size, tokenizer)
                _require_predicted(tokenized_prompt, vocab_size, head_size)
            except PromptError as error:
                raise PromptError(f"Prompt {name!r}: {error}") from error
            if max_tokens is not None and not longer and len(tokenized_prompt) > max_tokens:
                too_long.append(tokenized_prompt)
            tokenized.append(tokenized_prompt)
    if too_long and max_tokens is not None:
        raise _too_long_error(too_long, prompts, max_tokens, may_be_longer=beyond_context is None)
    if is_chat and not needs_words(prompts):
        warn(f"chat=True writes texts as turns of a chat; {prompts.dataset} gives token ids alone, which it leaves.")
    require_exact(tokenized)
    require_apart(tokenized)
    if encoder is not None:
        notices.warn_of(prompts.dataset, len(prompts), encoder.tokenizer, encoder.template)
    return tokenized


def _too_long_error(
    too_long: Sequence[TokenizedPrompt], prompts: PromptSet, max_tokens: int, *, may_be_longer: bool
) -> PromptError:
    """Return the error of prompts that are longer than the context, with how many of which set these are.

    Args:
        may_be_longer: a flag runs them all the same.
    """
    first = too_long[0]
    number, which = len(too_long), "it" if len(too_long) == 1 else "them"
    remedies = [f"shorten {which}", f"leave {which} out"]
    if may_be_longer:
        remedies.append(f"run {which} all the same (--beyond-context)")
    # turns of a chat have no windows
    if not any(prompt.messages for prompt in prompts.prompts):
        remedies.append(f"give the text as a .txt file, cut into windows of at most that many (?window={max_tokens})")
    others = "" if number == 1 else f", as are {number} of the {len(prompts)} prompts of {prompts.dataset}"
    return PromptError(
        f"Prompt {first.id!r}: it has {len(first)} tokens, more than the {max_tokens} the model can take{others}; "
        f"{', '.join(remedies[:-1])}, or {remedies[-1]}."
    )


def _require_short(prompt: Prompt, max_tokens: int | None) -> None:
    """Refuse a text that no model takes as one prompt, before it becomes tokens, which takes seconds a million letters.

    Args:
        max_tokens: the model's context; None = texts may be longer.
    """
    most = _MOST_LETTERS if max_tokens is None else max(_FEW_LETTERS, _LETTERS_OF_TOKEN * max_tokens)
    texts = [turn.text for turn in prompt.turns] if prompt.messages else [prompt.text or "", prompt.answer or ""]
    letters = sum(map(len, texts))
    if letters > most:
        raise PromptError(
            f"it has {letters:,} letters, and at most {most:,} are taken as one prompt; shorten it, leave it out, or "
            "give the text as a .txt file, which is cut into windows."
        )


def needs_words(prompts: PromptSet) -> bool:
    """Return whether any of the prompts is text."""
    return any(prompt.ids is None for prompt in prompts.prompts)


def prompt_names(prompts: PromptSet) -> list[str]:
    """Return each prompt's id, or its number in the set; a PromptError where two are the same."""
    names = [str(number) if prompt.id is None else prompt.id for number, prompt in enumerate(prompts.prompts)]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise PromptError(
            f"The prompt id {repeated[0]!r} is used {names.count(repeated[0])} times; ids must differ "
            "(a prompt without an id gets its number in the set)."
        )
    return names


def require_chat(prompt: Prompt) -> None:
    """Refuse turns of a chat, where no template is asked for."""
    if prompt.messages is not None:
        raise PromptError(
            f"it is a chat of {counted(len(prompt.turns), 'turn')}, which the tokenizer's chat template writes: give "
            "chat=True (--chat). To measure texts without a template, name their columns (rows.jsonl?text=question)."
        )


class _Reading(NamedTuple):
    """A prompt as the text that is measured.

    Args:
        words: its text as it was given, with its answer.
        is_appended: the answer was put behind a text that did not end in it.
    """

    turns: Turns
    words: str
    is_appended: bool = False


def _tokenize_one(
    name: str, prompt: Prompt, encoder: Encoder | None, part: PromptSet, notices: Notices
) -> TokenizedPrompt:
    labels = checked_labels(prompt.labels)
    if prompt.ids is not None:
        return TokenizedPrompt(name, tuple(prompt.ids), prompt.answer_tokens, labels, part.dataset)
    require_words(prompt)
    if encoder is None:
        raise PromptError("it is text, and the model has no tokenizer; give token ids, or a tokenizer.")
    reading = _read_chat(prompt, encoder) if prompt.messages else _read_text(name, prompt, encoder, part, notices)
    question, answer = reading.turns.question, reading.turns.answer
    encoded = encoder.encode(question + (answer or ""), until_answer=answer is not None)
    _notice(name, reading, encoded, encoder, notices)
    answer_tokens = None
    try:
        if answer is not None:
            answer_tokens = _answer_tokens(question, answer, encoded, encoder.tokenizer)
    except AnswerError as error:
        if not part.is_data_set:
            raise
        notices.unanswered[name] = error
    return TokenizedPrompt(name, encoded.ids, answer_tokens, labels, part.dataset)


def _read_chat(prompt: Prompt, encoder: Encoder) -> _Reading:
    if not encoder.chat:
        require_chat(prompt)
    turns = prompt.turns
    return _Reading(encoder.template.write_chat(turns), "\n".join(turn.text for turn in turns))


def _read_text(name: str, prompt: Prompt, encoder: Encoder, part: PromptSet, notices: Notices) -> _Reading:
    text = prompt.text or ""
    stem, answer = text, prompt.answer
    # In a data set a few answers without clear tokens lose their answer; a prompt written by hand is refused.
    try:
        if answer is not None:
            stem = question_of(text, answer)
    except AnswerError as error:
        if not part.is_data_set:
            raise
        notices.unanswered[name] = error
        answer = None
    if answer is not None and not stem.strip():
        raise PromptError("its text is the answer alone; give a question before it.")
    return _Reading(encoder.written(stem, answer), stem + (answer or ""), answer is not None and stem == text)


def _notice(
    name: str,
    reading: _Reading,
    encoded: Encoded,
    encoder: Encoder,
    notices: Notices,
) -> None:
    """Remember what is unusual about how a text was read."""
    turns = reading.turns
    notices.add_text(reading.words, encoded.ids)
    notices.look_for_unknown(name, encoded.ids)
    remarks = list(turns.remarks)
    if encoded.begins_twice and encoder.chat:
        mark = str(encoder.tokenizer.bos_token or encoder.tokenizer.cls_token)
        remarks.append(encoder.template.cause_of_two(mark, turns))
    elif encoded.begins_twice:
        notices.begins_twice.append(name)
    elif encoder.chat and encoder.first_mark not in (None, encoded.ids[0]):
        mark = str(encoder.tokenizer.convert_ids_to_tokens(encoder.first_mark))
        remarks.append(
            f"the chat template writes no {mark} at its beginning, and the tokenizer puts it before every other text; "
            "where the model was trained with it, write it into the template ({{ bos_token }})"
        )
    for remark in remarks:
        notices.remarks.setdefault(remark, []).append(name)
    if encoder.chat:
        special = next((special for special in encoder.special_texts if special in reading.words), None)
        if special is not None:
            notices.marked[name] = special
    elif turns.answer is not None and makes_one_word(turns.question, turns.answer):
        notices.look_at_seam(name, turns.question, turns.answer)
    elif turns.answer is not None and reading.is_appended and doubles_blank(turns.question, turns.answer):
        notices.blanks.append(name)


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
    vocab_size: int | None,
    tokenizer: PreTrainedTokenizerBase | None,
) -> None:
    if len(prompt) < 2:
        what = "one token" if len(prompt) else "no tokens"
        raise PromptError(f"it has {what}; a measurement needs at least two. Give a longer prompt.")
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


def _require_predicted(prompt: TokenizedPrompt, vocab_size: int | None, head_size: int | None) -> None:
    """Refuse tokens that a model can read and not predict, as where its embedding alone was enlarged.

    A prompt's first token is predicted by nothing. Ids of images and of padding may be read alone.
    """
    if head_size is None:
        return
    place = next((place for place, token in enumerate(prompt.ids) if place and token >= head_size), None)
    if place is not None:
        embedded = "" if vocab_size is None else f", and its embedding {vocab_size}"
        raise PromptError(
            f"token id {prompt.ids[place]} (token {place}) cannot be predicted: the model's head has {head_size} "
            f"rows{embedded}. Enlarge both (model.resize_token_embeddings(n)), or leave the token out."
        )
