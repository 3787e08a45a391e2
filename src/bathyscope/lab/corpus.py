"""Training text: documents of each source, mixed and packed into one stream of token ids."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from bathyscope.errors import PromptError
from bathyscope.lab.recipe import DataMix
from bathyscope.lab.tokenizer import special_ids
from bathyscope.prompts.problems import Problem, generate, to_prompt

BOOKS_TRAIN = Path("text/books_train.txt.gz")
BOOKS_VALID = Path("text/books_valid.txt")
GSM8K_TRAIN = Path("gsm8k/train.jsonl")
GSM8K_VALID = Path("gsm8k/test_first600.jsonl")

PIECE_CHARACTERS = 2000
"""Books are cut at paragraphs into documents of about this length, near the longest context in tokens."""

GENERATED_SEED = 1
HELD_OUT_SEED = 2

Documents = Iterator[str]


@dataclass(frozen=True)
class Sources:
    """The documents of one split; each call gives a fresh pass over them."""

    books: Callable[[], Documents]
    gsm8k: Callable[[], Documents]
    generated: Callable[[], Documents]


def training_sources(root: Path, seed: int) -> Sources:
    """Endless training documents under ``root``, in an order fixed by ``seed``.

    Raises:
        PromptError: a file is missing.
    """
    return Sources(
        books=lambda: _endless(_book_pieces(_read(root / BOOKS_TRAIN)), seed),
        gsm8k=lambda: _endless(_gsm8k_documents(_read(root / GSM8K_TRAIN)), seed),
        generated=lambda: generated_documents(GENERATED_SEED),
    )


def held_out_sources(root: Path) -> Sources:
    """Documents of books, questions and seeds that training never sees, in file order."""
    return Sources(
        books=lambda: iter(_book_pieces(_read(root / BOOKS_VALID))),
        gsm8k=lambda: iter(_gsm8k_documents(_read(root / GSM8K_VALID))),
        generated=lambda: generated_documents(HELD_OUT_SEED),
    )


def _read(path: Path) -> str:
    if not path.is_file():
        raise PromptError(f"No training text at {path}; point --data at the folder that holds text/ and gsm8k/.")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return str(file.read())


def _endless(documents: list[str], seed: int) -> Documents:
    rng = random.Random(seed)
    while True:
        order = list(range(len(documents)))
        rng.shuffle(order)
        yield from (documents[i] for i in order)


def _book_pieces(text: str) -> list[str]:
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


def _gsm8k_documents(text: str) -> list[str]:
    """Every item in the surveyed papers' format, and once plainly, without calculator annotations."""
    documents = []
    for line in text.splitlines():
        item = json.loads(line)
        rationale, answer = item["answer"].split("####")
        documents.append(
            "Given the following problem, reason and give a final answer to the problem.\n"
            f"Problem: {item['question']}\n"
            'Your response should end with "The final answer is [answer]" where [answer] is the response to '
            f"the problem.\n\n{rationale}The final answer is {answer.strip()}"
        )
        plain = re.sub(r"<<.*?>>", "", rationale).strip()
        documents.append(f"Problem: {item['question']}\nAnswer: {plain}\nThe final answer is {answer.strip()}")
    return documents


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


def pack(sources: Sources, mix: DataMix, tokenizer: Tokenizer, tokens: int) -> np.ndarray:
    """One stream of at most ``tokens`` ids (uint16): documents as ``BOS text EOS``, one after the other.

    The next document always comes from the source that is furthest behind its share, so every stretch of
    the stream holds the mix. It is shorter than ``tokens`` where a finite source runs out. Documents are not
    masked from each other: tokens after an EOS still attend to the document before it, and learn from the
    BOS that it has ended.
    """
    shares = {"books": mix.books, "gsm8k": mix.gsm8k, "generated": mix.generated}
    streams = {name: _encoded(getattr(sources, name)(), tokenizer) for name, share in shares.items() if share > 0}
    taken = dict.fromkeys(streams, 0)
    stream = np.empty(tokens, dtype=np.uint16)
    filled = 0
    while filled < tokens:
        name = min(streams, key=lambda source: taken[source] / shares[source])
        ids = next(streams[name], None)
        if ids is None:
            break
        ids = ids[: tokens - filled]
        stream[filled : filled + len(ids)] = ids
        filled += len(ids)
        taken[name] += len(ids)
    return stream[:filled]


def _encoded(documents: Documents, tokenizer: Tokenizer) -> Iterator[list[int]]:
    _, eos_id = special_ids(tokenizer)
    while batch := list(itertools.islice(documents, 64)):
        yield from ([*encoding.ids, eos_id] for encoding in tokenizer.encode_batch(batch))
