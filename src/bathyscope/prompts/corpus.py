"""Plain text cut into prompts: windows of tokens, or pieces of characters; BOS first where there is one.

Of many documents, those of a folder or of one file with a line between them, each gives windows of its own in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from bathyscope.core.text import capitalised, counted
from bathyscope.errors import PromptError, warn
from bathyscope.prompts.files import check_exists, open_text, require_folder, saved_data_set
from bathyscope.prompts.levels import in_turn
from bathyscope.prompts.lost_letters import LOST, warn_of_lost
from bathyscope.prompts.parsed_source import CORPUS_SUFFIXES
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.tokenizer import ask

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
    documents: str | None = None,
    add_special_tokens: bool = True,
) -> tuple[Prompt, ...]:
    """Cut texts into prompts of token ids, by the options of a corpus (``bathyscope.prompts.spec``).

    A text is one contiguous stream; windows do not stop at paragraphs. What is left over at the end and fills no
    whole window (or piece) is dropped. No more of a file is read than the prompts need.

    Documents take turns, the first window of each and then the second, and each has its name as the label
    ``document``. One that fills no window is left out, and one warning counts these.

    Args:
        path: UTF-8 text, gzipped where the name ends in ``.gz``; or a folder with a slash behind it, whose .txt and
            .txt.gz files are documents in the order of their names.
        tokenizer: the model's own; its BOS, where it has one, starts every prompt.
        window: tokens per prompt, BOS included; ``chars``, characters of pieces tokenised each for itself, go before.
        context: the window where neither is given; only then a shorter text is one short prompt.
        tokens: all prompts of a text that has fewer are taken, with a warning.
    """
    is_folder = path.endswith("/")
    (require_folder if is_folder else check_exists)(Path(path))
    if is_folder and (saved := saved_data_set(path)) and not _texts_in(Path(path)):
        raise PromptError(capitalised(saved))
    if tokenizer is None:
        raise PromptError(f"{path} is text, and the model has no tokenizer; give token ids, or a tokenizer.")
    if chars is None and window is None and context is None:
        raise PromptError(f"{path}: how long is a window? Write {path}?window=512 (tokens) or ?chars=1000.")
    bos = tokenizer.bos_token_id if add_special_tokens else None
    cut = WindowCutter(tokenizer, () if bos is None else (int(bos),), window, context, chars, limit)
    if is_folder or documents is not None:
        sources = _in_folder(Path(path)) if documents is None else _in_file(Path(path), documents)
        return _taken(path, _in_turn(path, sources, cut, tokens, count), tokens, count, limit)
    with open_text(path) as file:
        return _taken(path, (Prompt(ids=ids) for ids in cut.prompts(path, file)), tokens, count, limit)


class TooShortError(PromptError):
    """A text fills no prompt of the size that was asked for."""


@dataclass(frozen=True)
class WindowCutter:
    """How texts are cut into prompts, as arguments of ``corpus_prompts`` say; ``start`` is BOS, or nothing."""

    tokenizer: PreTrainedTokenizerBase
    start: tuple[int, ...]
    window: int | None
    context: int | None
    chars: int | None
    limit: int | None

    def prompts(self, path: str, file: TextIO) -> Iterator[tuple[int, ...]]:
        """Token ids of every prompt that the text fills; TooShortError where it fills none, or says nothing."""
        text = Text(path, file, self.limit)
        if text.is_blank():
            raise TooShortError(f"{text.path} holds blanks alone. Give a file that holds text.")
        bodies = self._windows(text) if self.chars is None else self._pieces(text, self.chars)
        shared_ids: dict[int, int] = {}  # a corpus holds each id many times: once as an object is enough
        some = False
        for body in bodies:
            ids = tuple(shared_ids.setdefault(token, token) for token in (*self.start, *body))
            if len(ids) < 2:
                raise TooShortError(_TOO_LITTLE.format(text.path))
            some = True
            yield ids
        if not some:
            raise TooShortError(_TOO_LITTLE.format(text.path))

    def _pieces(self, text: Text, chars: int) -> Iterator[list[int]]:
        for number, piece in enumerate(text.chunks(chars)):
            if len(piece) < chars and number:
                return
            body = _encode(self.tokenizer, piece)
            enough = len(self.start) + len(body) >= 2
            if len(piece) < chars and enough:
                raise text.too_short(f"{len(piece)} characters", f"piece of {chars}", f"chars={len(piece)}")
            if len(piece) == chars and not enough:
                raise PromptError(
                    f"{text.path}: chars={chars} cuts off a piece of a single token ({piece!r:.40}), and a prompt "
                    "needs at least two tokens; ask for longer pieces."
                )
            yield body

    def _windows(self, text: Text) -> Iterator[list[int]]:
        window, length = self.window, self.window or self.context
        assert length is not None
        if length < 2:
            raise PromptError(f"{text.path}: window={length} leaves nothing to predict; use at least 2 tokens.")
        size, stream = length - len(self.start), _token_stream(text, self.tokenizer)
        body = list(islice(stream, size))
        n_tokens = len(self.start) + len(body)
        if window is not None and 2 <= n_tokens < window:
            raise text.too_short(
                f"{n_tokens} tokens", f"window of {window}", f"window={min(n_tokens, self.context or n_tokens)}"
            )
        yield body
        while len(body) == size:
            body = list(islice(stream, size))
            if len(body) == size:
                yield body


def _taken(
    path: str, prompts: Iterable[Prompt], tokens: int | None, count: int | None, limit: int | None
) -> tuple[Prompt, ...]:
    """The first ``count`` prompts, of at most ``tokens`` tokens altogether; errors are those of ``corpus_prompts``."""
    taken = tuple(islice(_within(path, prompts, tokens), count))
    if count is not None and len(taken) < count:
        cause = "" if limit is None else f" of its first {limit} characters (limit=)"
        remedy = "fewer or shorter ones" if limit is None else "fewer or shorter ones, or for more of the text"
        raise PromptError(
            f"{path} gives {counted(len(taken), 'prompt')} of this size, {count} asked for{cause}; ask for {remedy}."
        )
    return taken


@dataclass(frozen=True)
class Text:
    """A text file, of which at most the first ``limit`` characters are read."""

    path: str
    file: TextIO
    limit: int | None

    def chunks(self, size: int) -> Iterator[str]:
        """The text, ``size`` characters at a time."""
        left, is_whole = self.limit, True
        while text := self.file.read(size if left is None else min(size, left)):
            if "\0" in text:
                raise PromptError(f"{self.path} is a binary file (it holds NUL characters); give plain text.")
            if is_whole and LOST in text:
                is_whole = False
                warn_of_lost(f"{self.path} holds")
            yield text
            left = None if left is None else left - len(text)

    def is_blank(self) -> bool:
        """Whether the file holds something, and nothing but blanks. It is as if unread afterwards."""
        # Read until something shows: a book may begin with pages of blanks.
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


def _encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return list(ask(tokenizer, text, add_special_tokens=False, verbose=False)["input_ids"])


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
        # As much text around a chunk as a tokenizer's longest merge or pre-token could reach over its edge.
        before, current = (before + current)[-OVERLAP:], following
    yield from _tokens_of(tokenizer, before, current, "")


def _tokens_of(tokenizer: PreTrainedTokenizerBase, before: str, current: str, after: str) -> Iterator[int]:
    """Tokens that start in ``current``; where nothing comes after it, also those at its very end."""
    text = before + current + after
    encoded = ask(tokenizer, text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    first = len(before)
    last = first + len(current) if after else float("inf")
    for token, (start, _) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        if first <= start < last:
            yield int(token)


DOCUMENT: Final = "document"
"""The label that names a prompt's document."""


class Document(NamedTuple):
    """One text: its name, where it stands, and how it is opened."""

    name: str
    path: str
    open: Callable[[], AbstractContextManager[TextIO]]


def _in_turn(
    path: str, documents: list[Document], cut: WindowCutter, tokens: int | None, count: int | None
) -> list[Prompt]:
    """The first window of each document, then the second."""
    windows = _enough(documents, cut, tokens, count) if documents else []
    short = [document.name for document, cut_prompts in zip(documents, windows) if not cut_prompts]
    if len(short) == len(documents):
        raise PromptError(f"{path}: none of the {len(short)} documents fills a prompt; ask for shorter ones.")
    if short:
        warn(
            f"{path}: {len(short)} of {len(documents)} documents fill no prompt and are left out, the first of them "
            f"{short[0]!r}.",
        )
    return in_turn(windows)


def _enough(documents: list[Document], cut: WindowCutter, tokens: int | None, count: int | None) -> list[list[Prompt]]:
    """Each document's first windows: as many turns as are needed, or all there are."""
    # As many windows of each document as the count needs on average; more only where some documents are short.
    turns = None if tokens is None and count is None else max(1, -(-(count or 1) // len(documents)))
    while True:
        windows = [list(islice(_of_document(document, cut), turns)) for document in documents]
        sizes = [len(prompt.ids or ()) for document_windows in windows for prompt in document_windows]
        over = tokens is not None and sum(sizes) > tokens
        # Ended also where no document has another window to give.
        if turns is None or over or (count is not None and len(sizes) >= count) or max(map(len, windows)) < turns:
            return windows
        turns *= 2


def _of_document(document: Document, cut: WindowCutter) -> Iterator[Prompt]:
    with document.open() as file:
        try:
            for ids in cut.prompts(document.path, file):
                yield Prompt(ids=ids, labels={DOCUMENT: document.name})
        except TooShortError:
            return


def _texts_in(folder: Path) -> list[Path]:
    """Return the files of a folder that are documents, in order."""
    return sorted(
        file for file in folder.iterdir() if file.name.endswith(CORPUS_SUFFIXES) and not file.name.startswith(".")
    )


def _in_folder(folder: Path) -> list[Document]:
    files = _texts_in(folder)
    if not files:
        endings = " or ".join(CORPUS_SUFFIXES)
        raise PromptError(f"The folder {str(folder)!r} holds no text; its documents are files ending in {endings}.")
    return [Document(_stem(file), str(file), partial(open_text, file, folder)) for file in files]


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
    bodies = [text for text in map("".join, texts) if text.strip()]
    return [
        Document(f"{_stem(file)} {number}", str(file), partial(StringIO, text)) for number, text in enumerate(bodies, 1)
    ]


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".txt")
