"""Plain text cut into prompts: windows of tokens, or pieces of characters; BOS first where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from bathyscope.errors import PromptError
from bathyscope.prompts.files import check_exists, open_text
from bathyscope.prompts.prompt import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHUNK = 65_536
"""Characters tokenised at a time, so that a corpus of any size is read in little memory."""
OVERLAP = 1_024
"""Characters shown on either side of a chunk, so that its edges are cut as in the whole text."""


def corpus_prompts(
    path: str,
    *,
    tokenizer: PreTrainedTokenizerBase | None,
    window: int | None = None,
    chars: int | None = None,
    limit: int | None = None,
    count: int | None = None,
) -> tuple[Prompt, ...]:
    """Cut a text file into prompts of token ids.

    The text is one contiguous stream; windows do not stop at paragraphs. What is left over at the end and
    fills no whole window (or piece) is dropped, unless it is all there is: a short text gives one short
    prompt.

    Args:
        path: UTF-8 text, gzipped where the name ends in ``.gz``.
        tokenizer: the model's own; its BOS, where it has one, starts every prompt.
        window: tokens per prompt, BOS included. One of ``window`` and ``chars`` is needed.
        chars: characters per prompt; each piece is tokenised for itself. Goes before ``window``.
        limit: only the first ``limit`` characters of the file.
        count: how many prompts; None = all there are.

    Raises:
        PromptError: no tokenizer, no size, a size too small, or fewer prompts in the text than asked for.
    """
    check_exists(Path(path))
    if tokenizer is None:
        raise PromptError(f"{path} is text, and the model has no tokenizer; give token ids, or a tokenizer.")
    if chars is None and window is None:
        raise PromptError(f"{path}: how long is a window? Write {path}?window=512 (tokens) or ?chars=1000.")
    start = () if tokenizer.bos_token_id is None else (int(tokenizer.bos_token_id),)
    with open_text(path) as file:
        if chars is not None:
            bodies = _pieces(file, tokenizer, chars, limit)
        else:
            assert window is not None
            if window < 2:
                raise PromptError(f"{path}: window={window} leaves nothing to predict; use at least 2 tokens.")
            bodies = _windows(file, tokenizer, window - len(start), limit)
        prompts = tuple(Prompt(ids=(*start, *body)) for body in islice(bodies, count))
    if not prompts or len(prompts[0].ids or ()) < 2:
        raise PromptError(f"{path} holds too little text: a prompt needs at least two tokens.")
    if count is not None and len(prompts) < count:
        raise PromptError(
            f"{path} gives {len(prompts)} prompts of this size, {count} asked for; ask for fewer or shorter ones."
        )
    return prompts


def _pieces(file: TextIO, tokenizer: PreTrainedTokenizerBase, chars: int, limit: int | None) -> Iterator[list[int]]:
    first = True
    for piece in _chunks(file, chars, limit):
        if len(piece) == chars or first:
            yield _encode(tokenizer, piece)
        first = False


def _windows(file: TextIO, tokenizer: PreTrainedTokenizerBase, size: int, limit: int | None) -> Iterator[list[int]]:
    stream = _token_stream(file, tokenizer, limit)
    body = list(islice(stream, size))
    yield body
    while len(body) == size:
        body = list(islice(stream, size))
        if len(body) == size:
            yield body


def _chunks(file: TextIO, size: int, limit: int | None) -> Iterator[str]:
    left = limit
    while text := file.read(size if left is None else min(size, left)):
        yield text
        left = None if left is None else left - len(text)


def _encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def _token_stream(file: TextIO, tokenizer: PreTrainedTokenizerBase, limit: int | None) -> Iterator[int]:
    """The text's tokens, as if it were tokenised as a whole.

    Chunk by chunk, each with some of its neighbours' text around it; a token belongs to the chunk in which it
    starts. Without character offsets (tokenizers not backed by a ``tokenizer.json``) that cannot be told, and
    the text is held in memory whole.
    """
    if not tokenizer.is_fast:
        yield from _encode(tokenizer, "".join(_chunks(file, CHUNK, limit)))
        return
    before, current = "", ""
    for following in _chunks(file, CHUNK, limit):
        yield from _tokens_of(tokenizer, before, current, following[:OVERLAP])
        before, current = (before + current)[-OVERLAP:], following
    yield from _tokens_of(tokenizer, before, current, "")


def _tokens_of(tokenizer: PreTrainedTokenizerBase, before: str, current: str, after: str) -> Iterator[int]:
    """Tokens that start in ``current``; where nothing comes after it, also those at its very end."""
    encoded = tokenizer(before + current + after, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    first = len(before)
    last = first + len(current) if after else float("inf")
    for token, (start, _) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        if first <= start < last:
            yield int(token)
