"""Plain text cut into prompts: windows of tokens, or pieces of characters; BOS first where there is one.

Of many documents, those of a folder or of one file with a line between them, each gives windows of its own in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from io import StringIO
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from bathyscope.errors import PromptError, warn
from bathyscope.prompts.files import check_exists, open_text, require_folder
from bathyscope.prompts.prompt import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHUNK = 65_536
"""Characters tokenised at a time, so that a corpus of any size is read in little memory."""
OVERLAP = 1_024
"""Characters shown on either side of a chunk, so that its edges are cut as in the whole text."""
_TOO_LITTLE = "{} holds too little text: a prompt needs at least two tokens. Give a file that holds more."


def corpus_prompts(
    path: str,
    *,
    tokenizer: PreTrainedTokenizerBase | None,
    window: int | None = None,
    context: int | None = None,
    chars: int | None = None,
    limit: int | None = None,
    tokens: int | None = None,
    count: int | None = None,
    add_special_tokens: bool = True,
) -> tuple[Prompt, ...]:
    """Cut a text file into prompts of token ids.

    The text is one contiguous stream; windows do not stop at paragraphs. What is left over at the end and fills no
    whole window (or piece) is dropped. No more of the file is read than the prompts need.

    Args:
        path: UTF-8 text, gzipped where the name ends in ``.gz``.
        tokenizer: the model's own; its BOS, where it has one, starts every prompt.
        window: tokens per prompt, BOS included.
        context: the window where neither ``window`` nor ``chars`` is given; only then a shorter text is one short
            prompt. One of the three is needed.
        chars: characters per prompt; each piece is tokenised for itself. Goes before ``window``.
        limit: only the first ``limit`` characters of the file.
        tokens: as many prompts as have at most this many tokens altogether, BOS included; all prompts of a text that
            has fewer, with a warning.
        count: how many prompts; None = all there are.
        add_special_tokens: begin every prompt with BOS.

    Raises:
        PromptError: no tokenizer, no size, a size too small, a text or a limit shorter than one prompt, fewer prompts
            in the text than asked for, or a file that is no text.
    """
    check_exists(Path(path))
    cut = Cut.of(path, tokenizer, window, context, chars, add_special_tokens)
    with open_text(path) as file:
        made = (Prompt(ids=ids) for ids in cut.prompts(Text(path, file, limit)))
        return taken(path, made, tokens, count)


class TooShortError(PromptError):
    """A text fills no prompt of the size that was asked for."""


@dataclass(frozen=True)
class Cut:
    """How texts are cut into prompts.

    Args:
        tokenizer: the model's own.
        start: what every prompt begins with: BOS, or nothing.
        window, context, chars: as for ``corpus_prompts``.
    """

    tokenizer: PreTrainedTokenizerBase
    start: tuple[int, ...]
    window: int | None
    context: int | None
    chars: int | None

    @classmethod
    def of(
        cls,
        path: str,
        tokenizer: PreTrainedTokenizerBase | None,
        window: int | None,
        context: int | None,
        chars: int | None,
        add_special_tokens: bool,
    ) -> Cut:
        """The cut of the text at ``path``; a PromptError where there is no tokenizer or no size."""
        if tokenizer is None:
            raise PromptError(f"{path} is text, and the model has no tokenizer; give token ids, or a tokenizer.")
        if chars is None and window is None and context is None:
            raise PromptError(f"{path}: how long is a window? Write {path}?window=512 (tokens) or ?chars=1000.")
        bos = tokenizer.bos_token_id if add_special_tokens else None
        return cls(tokenizer, () if bos is None else (int(bos),), window, context, chars)

    def prompts(self, text: Text) -> Iterator[tuple[int, ...]]:
        """Token ids of every prompt that the text fills; TooShortError where it fills none, or says nothing."""
        if text.is_blank():
            raise TooShortError(f"{text.path} holds blanks alone. Give a file that holds text.")
        if self.chars is not None:
            bodies = _pieces(text, self.tokenizer, self.start, self.chars)
        else:
            bodies = _windows(text, self.tokenizer, self.start, self.window, self.context)
        known: dict[int, int] = {}  # a corpus holds each id many times: once as an object is enough
        some = False
        for body in bodies:
            ids = tuple(known.setdefault(token, token) for token in (*self.start, *body))
            if len(ids) < 2:
                raise TooShortError(_TOO_LITTLE.format(text.path))
            some = True
            yield ids
        if not some:
            raise TooShortError(_TOO_LITTLE.format(text.path))


def taken(path: str, prompts: Iterable[Prompt], tokens: int | None, count: int | None) -> tuple[Prompt, ...]:
    """The first ``count`` prompts, of at most ``tokens`` tokens altogether; errors are those of ``corpus_prompts``."""
    found = tuple(islice(_within(path, prompts, tokens), count))
    if count is not None and len(found) < count:
        raise PromptError(
            f"{path} gives {len(found)} prompts of this size, {count} asked for; ask for fewer or shorter ones."
        )
    return found


@dataclass(frozen=True)
class Text:
    """A text file, of which at most the first ``limit`` characters are read."""

    path: str
    file: TextIO
    limit: int | None

    def chunks(self, size: int) -> Iterator[str]:
        """The text, ``size`` characters at a time."""
        left = self.limit
        while text := self.file.read(size if left is None else min(size, left)):
            if "\0" in text:
                raise PromptError(f"{self.path} is a binary file (it holds NUL characters); give plain text.")
            yield text
            left = None if left is None else left - len(text)

    def is_blank(self) -> bool:
        """Whether the file holds something, and nothing but blanks. It is as if unread afterwards."""
        chunk = first = self.file.read(CHUNK)
        while chunk and not chunk.strip():
            chunk = self.file.read(CHUNK)
        self.file.seek(0)
        return bool(first) and not chunk

    def too_short(self, what: str, unit: str, example: str) -> PromptError:
        """What is said where the text fills no prompt of the size that was asked for."""
        where = "" if self.limit is None else f" in its first {self.limit} characters"
        return TooShortError(f"{self.path} holds {what}{where}, less than one {unit}; ask for less ({example}).")


def _within(path: str, prompts: Iterable[Prompt], tokens: int | None) -> Iterator[Prompt]:
    """Prompts as long as they have at most ``tokens`` tokens altogether."""
    total, size = 0, 0
    for prompt in prompts:
        size = len(prompt.ids or ())
        if tokens is not None and total + size > tokens:
            if not total:
                raise PromptError(
                    f"{path}: tokens={tokens} is less than one prompt, which has {size} tokens; ask for more "
                    "tokens, or for a shorter window."
                )
            return
        total += size
        yield prompt
    if tokens is not None and total + size <= tokens:
        warn(
            f"{path} fills prompts of {total} tokens altogether, fewer than tokens={tokens}; all of them are taken. "
            "Give a longer text for more.",
        )


def _pieces(text: Text, tokenizer: PreTrainedTokenizerBase, start: tuple[int, ...], chars: int) -> Iterator[list[int]]:
    for number, piece in enumerate(text.chunks(chars)):
        if len(piece) < chars and number:
            return
        body = _encode(tokenizer, piece)
        enough = len(start) + len(body) >= 2
        if len(piece) < chars and enough:
            raise text.too_short(f"{len(piece)} characters", f"piece of {chars}", f"chars={len(piece)}")
        if len(piece) == chars and not enough:
            raise PromptError(
                f"{text.path}: chars={chars} cuts off a piece of a single token ({piece!r:.40}), and a prompt needs at "
                "least two tokens; ask for longer pieces."
            )
        yield body


def _windows(
    text: Text,
    tokenizer: PreTrainedTokenizerBase,
    start: tuple[int, ...],
    window: int | None,
    context: int | None,
) -> Iterator[list[int]]:
    length = window or context
    assert length is not None
    if length < 2:
        raise PromptError(f"{text.path}: window={length} leaves nothing to predict; use at least 2 tokens.")
    size, stream = length - len(start), _token_stream(text, tokenizer)
    body = list(islice(stream, size))
    found = len(start) + len(body)
    if window is not None and 2 <= found < window:
        raise text.too_short(f"{found} tokens", f"window of {window}", f"window={min(found, context or found)}")
    yield body
    while len(body) == size:
        body = list(islice(stream, size))
        if len(body) == size:
            yield body


def _encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def _token_stream(text: Text, tokenizer: PreTrainedTokenizerBase) -> Iterator[int]:
    """The text's tokens, as if it were tokenised as a whole.

    Chunk by chunk, each with some of its neighbours' text around it; a token belongs to the chunk in which it
    starts. Without character offsets (tokenizers not backed by a ``tokenizer.json``) that cannot be told, and
    the text is held in memory whole.
    """
    if not tokenizer.is_fast:
        yield from _encode(tokenizer, "".join(text.chunks(CHUNK)))
        return
    before, current = "", ""
    for following in text.chunks(CHUNK):
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


DOCUMENT: Final = "document"
"""The label that names a prompt's document."""
SUFFIXES: Final = (".txt", ".txt.gz")

Window = tuple[str, tuple[int, ...]]
"""A document's name, and the token ids of one of its windows."""


class Document(NamedTuple):
    """One text: its name, where it stands, and how it is opened."""

    name: str
    path: str
    open: Callable[[], AbstractContextManager[TextIO]]


def spread_prompts(
    path: str,
    cut: Cut,
    *,
    separator: str | None = None,
    limit: int | None = None,
    tokens: int | None = None,
    count: int | None = None,
) -> tuple[Prompt, ...]:
    """Prompts of the documents of a folder or file, which take turns: the first window of each, then the second.

    A document's windows are those that ``corpus_prompts`` cuts from it alone, in their order; none reaches over its
    end, and each has its name as the label ``document``. A document that fills no window is left out, and one warning
    counts these.

    Args:
        path: a folder, whose .txt and .txt.gz files are documents in the order of their names, or a text file.
        cut: how long prompts are.
        separator: the line that stands between the documents of a file, such as ``<|endoftext|>``; None = a folder.
        limit: only the first ``limit`` characters of each document.
        tokens: as many prompts as have at most this many tokens altogether.
        count: how many prompts; None = all there are.

    Raises:
        PromptError: as ``corpus_prompts``; no text in the folder; a file in which the line does not occur.
    """
    documents = _in_folder(Path(path)) if separator is None else _in_file(Path(path), separator)
    windows = _enough(documents, cut, limit, tokens, count)
    short = [document.name for document, own in zip(documents, windows) if not own]
    if len(short) == len(documents):
        raise PromptError(f"{path}: none of the {len(short)} documents fills a prompt; ask for shorter ones.")
    if short:
        warn(
            f"{path}: {len(short)} of {len(documents)} documents fill no prompt and are left out, the first of them "
            f"{short[0]!r}.",
        )
    turns = chain.from_iterable(zip_longest(*windows))
    made = (Prompt(ids=one[1], labels={DOCUMENT: one[0]}) for one in turns if one is not None)
    return taken(path, made, tokens, count)


def _enough(
    documents: list[Document], cut: Cut, limit: int | None, tokens: int | None, count: int | None
) -> list[list[Window]]:
    """Each document's first windows: as many turns as are needed, or all there are."""
    turns = None if tokens is None and count is None else max(1, -(-(count or 1) // len(documents)))
    while True:
        found = [list(islice(_of_document(document, cut, limit), turns)) for document in documents]
        sizes = [len(ids) for own in found for _, ids in own]
        over = tokens is not None and sum(sizes) > tokens
        if turns is None or over or (count is not None and len(sizes) >= count) or max(map(len, found)) < turns:
            return found
        turns *= 2


def _of_document(document: Document, cut: Cut, limit: int | None) -> Iterator[Window]:
    with document.open() as file:
        try:
            for ids in cut.prompts(Text(document.path, file, limit)):
                yield document.name, ids
        except TooShortError:
            return


def _in_folder(folder: Path) -> list[Document]:
    require_folder(folder)
    files = sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES) and not file.name.startswith("."))
    if not files:
        raise PromptError(
            f"The folder {str(folder)!r} holds no text; its documents are files ending in {' or '.join(SUFFIXES)}."
        )
    return [Document(_stem(file), str(file), partial(open_text, file)) for file in files]


def _in_file(file: Path, separator: str) -> list[Document]:
    texts: list[list[str]] = [[]]
    with open_text(file) as lines:
        for line in lines:
            if line.strip() == separator.strip():
                texts.append([])
            else:
                texts[-1].append(line)
    if len(texts) < 2:
        raise PromptError(
            f"{file}: no line is {separator!r}, so that the file is one document; leave out documents=, or give the "
            "line that stands between its documents."
        )
    there = [text for text in map("".join, texts) if text.strip()]
    return [
        Document(f"{_stem(file)} {number}", str(file), partial(StringIO, text)) for number, text in enumerate(there, 1)
    ]


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".txt")
