"""Windows spread over documents: the texts of a folder, or of one file that holds many with a line between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from io import StringIO
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from bathyscope.errors import PromptError, warn
from bathyscope.prompts.corpus import Cut, Text, TooShortError, taken
from bathyscope.prompts.files import open_text, require_folder
from bathyscope.prompts.prompt import Prompt

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
        found = [list(islice(_windows(document, cut, limit), turns)) for document in documents]
        sizes = [len(ids) for own in found for _, ids in own]
        over = tokens is not None and sum(sizes) > tokens
        if turns is None or over or (count is not None and len(sizes) >= count) or max(map(len, found)) < turns:
            return found
        turns *= 2


def _windows(document: Document, cut: Cut, limit: int | None) -> Iterator[Window]:
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
