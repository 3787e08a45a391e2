"""Training text: documents of each source, mixed and packed into one stream of token ids."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
import re
import reprlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from bathyscope.errors import OptionError, PromptError
from bathyscope.prompts.problems import Problem, generate, to_prompt
from bathyscope_lab.tokenizer import special_ids

BOOKS_TRAIN = Path("text/books_train.txt.gz")
BOOKS_VALID = Path("text/books_valid.txt")
GSM8K_TRAIN = Path("gsm8k/train.jsonl")
GSM8K_VALID = Path("gsm8k/test_first600.jsonl")

NAMED = ("books", "gsm8k", "generated")
TEXT_FILES = (".txt", ".txt.gz")

PIECE_CHARACTERS = 2000
"""Texts are cut at paragraphs into documents of about this length, near the longest context in tokens."""

HELD_OUT_EVERY = 20
"""Of a text file without a part of its own for it, every twentieth document is held out."""

GENERATED_SEED = 1
HELD_OUT_SEED = 2

_GSM8K_LINE = 'a line is {"question": "…", "answer": "… #### 42"}, the number after ####; mend it or take it out.'

Documents = Iterator[str]
Sources = Mapping[str, Callable[[], Documents]]
"""The documents of one split by source; each call gives a fresh pass over them."""


def training_sources(root: Path | None, mix: Mapping[str, float], seed: int) -> Sources:
    """Endless training documents of the sources of a mix, in an order fixed by ``seed``.

    Args:
        root: the data folder; None where every document is generated.
        mix: source → share.
        seed: of the order.

    Raises:
        OptionError: an unknown source.
        PromptError: a file is missing, empty or damaged, or too short for a part to be held out.
    """

    def source(name: str) -> Callable[[], Documents]:
        if name == "generated":
            return lambda: generated_documents(GENERATED_SEED)
        return lambda: _endless(_file_documents(root, name, held_out=False), seed)

    return {name: source(name) for name in _checked(mix)}


def held_out_sources(root: Path | None, mix: Mapping[str, float]) -> Sources:
    """Documents of books, questions and seeds that training never sees, in file order.

    Raises:
        OptionError, PromptError: as for `training_sources`.
    """

    def source(name: str) -> Callable[[], Documents]:
        if name == "generated":
            return lambda: generated_documents(HELD_OUT_SEED)
        return lambda: iter(_file_documents(root, name, held_out=True))

    return {name: source(name) for name in _checked(mix)}


def _checked(mix: Mapping[str, float]) -> Mapping[str, float]:
    for name in mix:
        if name not in NAMED and not name.endswith(TEXT_FILES):
            raise OptionError(
                f"data: {name!r} is no source; allowed: {', '.join(NAMED)}, or a text file of the data folder "
                f"({' or '.join(TEXT_FILES)})."
            )
    return mix


def _file_documents(root: Path | None, name: str, held_out: bool) -> list[str]:
    """Documents of a source to train on, or those held out."""
    if name == "books":
        path = _found(root, BOOKS_VALID if held_out else BOOKS_TRAIN)
        return _some(_pieces(_read(path)), path)
    if name == "gsm8k":
        path = _found(root, GSM8K_VALID if held_out else GSM8K_TRAIN)
        return _some(_gsm8k_documents(_read(path), path), path)
    pieces = _pieces(_read(_found(root, Path(name))))
    if len(pieces) < HELD_OUT_EVERY:
        raise PromptError(
            f"{name} gives {len(pieces)} documents of about {PIECE_CHARACTERS} characters; at least {HELD_OUT_EVERY} "
            "are needed, so that one in twenty can be held out. Give more text, with blank lines between paragraphs."
        )
    return [piece for i, piece in enumerate(pieces) if (i % HELD_OUT_EVERY == 0) == held_out]


def _found(root: Path | None, file: Path) -> Path:
    path = None if root is None else root / file
    if path is None or not path.is_file():
        where = "no data folder was given" if path is None else f"there is no {path}"
        raise PromptError(f"The recipe trains on {file}, but {where}; point --data at the folder that holds it.")
    return path


def _some(documents: list[str], path: Path) -> list[str]:
    """The documents; without any, training would look for the next one for ever."""
    if not documents:
        raise PromptError(f"{path} holds no text; fill it, or leave its source out of the recipe's data.")
    return documents


def _read(path: Path) -> str:
    """A file's text, unpacked; a damaged one is refused by name and line."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except gzip.BadGzipFile as error:
        raise PromptError(f"{path} is no gzip file ({error}); pack it with gzip, or name it without .gz.") from error
    except (EOFError, zlib.error) as error:
        raise PromptError(f"{path} is damaged ({error}); copy or pack it again.") from error
    except OSError as error:
        raise PromptError(f"{path} cannot be read: {error.strerror}; let it be read, or give another file.") from error
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PromptError(
            f"{path}, line {line}: not UTF-8 (byte 0x{content[error.start]:02x}); save the file as UTF-8."
        ) from error
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8").read()  # every kind of line end is \n then


def _endless(documents: list[str], seed: int) -> Documents:
    rng = random.Random(seed)
    while True:
        order = list(range(len(documents)))
        rng.shuffle(order)
        yield from (documents[i] for i in order)


def _pieces(text: str) -> list[str]:
    """Runs of whole paragraphs of about `PIECE_CHARACTERS`; a longer paragraph is a piece of its own."""
    pieces: list[str] = []
    run: list[str] = []
    length = 0
    for paragraph in re.split(r"\n\s*\n", text):
        if run and length + len(paragraph) > PIECE_CHARACTERS:
            pieces.append("\n\n".join(run))
            run, length = [], 0
        if paragraph.strip():
            run.append(paragraph.strip())
            length += len(paragraph)
    if run:
        pieces.append("\n\n".join(run))
    return pieces


def _gsm8k_documents(text: str, path: Path) -> list[str]:
    """Every item in the surveyed papers' format, and once plainly, without calculator annotations."""
    documents = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        question, rationale, answer = _gsm8k_item(line, f"{path}, line {number}")
        documents.append(
            "Given the following problem, reason and give a final answer to the problem.\n"
            f"Problem: {question}\n"
            'Your response should end with "The final answer is [answer]" where [answer] is the response to '
            f"the problem.\n\n{rationale}The final answer is {answer}"
        )
        plain = re.sub(r"<<.*?>>", "", rationale).strip()
        documents.append(f"Problem: {question}\nAnswer: {plain}\nThe final answer is {answer}")
    return documents


def _gsm8k_item(line: str, where: str) -> tuple[str, str, str]:
    """Question, rationale and answer of a line."""
    try:
        item = json.loads(line)
    except json.JSONDecodeError as error:
        raise PromptError(f"{where}: no JSON ({error}); {_GSM8K_LINE}") from error
    question, solution = (item.get("question"), item.get("answer")) if isinstance(item, dict) else (None, None)
    if not isinstance(question, str) or not isinstance(solution, str):
        raise PromptError(f"{where}: {reprlib.repr(item)} has no texts question and answer; {_GSM8K_LINE}")
    parts = solution.split("####")
    if len(parts) != 2:
        raise PromptError(f"{where}: the answer holds #### {len(parts) - 1} times; {_GSM8K_LINE}")
    return question, parts[0], parts[1].strip()


def generated_documents(seed: int) -> Documents:
    """Endless generated problems: three quarters word problems, the rest sums of 1 to 4 digits.

    Several single sums stand in one document, since one alone is a dozen tokens long.
    """
    rng = random.Random(seed)
    for number in itertools.count():
        part = f"{seed}{number:08d}"
        if rng.random() < 0.75:
            yield from (_text(problem) for problem in generate("word", 16, int(part)))
            continue
        digits = rng.choice([1, 2, 2, 2, 3, 4])
        singles = generate("sum", 24, int(part), steps=1, digits=digits)
        yield from ("\n".join(map(_text, singles[i : i + 6])) for i in range(0, 24, 6))
        yield from (_text(problem) for problem in generate("sum", 6, int(part), digits=min(digits, 2)))


def _text(problem: Problem) -> str:
    return to_prompt(problem).text or ""


def sample(sources: Sources, mix: Mapping[str, float], characters: int) -> list[str]:
    """Documents of every source, together about ``characters`` long and shared out by the mix."""
    texts: list[str] = []
    for name, share in mix.items():
        left = share / sum(mix.values()) * characters
        documents = sources[name]()
        while left > 0:
            texts.append(next(documents))
            left -= len(texts[-1])
    return texts


def pack(
    sources: Sources, mix: Mapping[str, float], tokenizer: PreTrainedTokenizerBase, tokens: int
) -> np.ndarray[Any, Any]:
    """One stream of at most ``tokens`` ids (uint16, or uint32 for large vocabularies): documents, one after the other.

    A document is its text as the tokenizer encodes it and the end token. The next document always comes from
    the source that is furthest behind its share, so every stretch of the stream holds the mix. It is shorter
    than ``tokens`` where a finite source runs out. Documents are not masked from each other: tokens after an
    end token still attend to the document before it, and learn that it has ended.
    """
    streams = {name: _encoded(sources[name](), tokenizer) for name in mix}
    taken = dict.fromkeys(streams, 0)
    stream = np.empty(tokens, dtype=np.uint16 if len(tokenizer) <= 2**16 else np.uint32)
    filled = 0
    while filled < tokens:
        name = min(streams, key=lambda source: taken[source] / mix[source])
        ids = next(streams[name], None)
        if ids is None:
            break
        ids = ids[: tokens - filled]
        stream[filled : filled + len(ids)] = ids
        filled += len(ids)
        taken[name] += len(ids)
    return stream[:filled]


def _encoded(documents: Documents, tokenizer: PreTrainedTokenizerBase) -> Iterator[list[int]]:
    _, end = special_ids(tokenizer)
    while batch := list(itertools.islice(documents, 64)):
        yield from ([*ids, end] for ids in tokenizer(batch, verbose=False)["input_ids"])
