"""Folders and files that stand for checkpoints and data sets: tiny models with a tokenizer of words, few rows."""

from __future__ import annotations

import json
from pathlib import Path

from support import zoo
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = (
    *("the", "a", "old", "house", "stood", "at", "edge", "of", "village", "where", "road", "turned", "to"),
    *("hills", "and", "light", "was", "seen", "in", "it", "Problem", "final", "answer", "is", "1", "2", "3"),
)


def checkpoint(folder: Path, name: str = "llama", seed: int = 0) -> Path:
    """A random zoo model and a tokenizer of few words, saved as a user has them."""
    zoo.entry(name).build(seed=seed).save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>").save_pretrained(folder)
    return folder


def data(folder: Path) -> Path:
    """A folder with three rows of GSM8K and of HellaSwag in the hub's columns."""
    folder.mkdir(parents=True, exist_ok=True)
    questions = [
        {"question": f"the old house {text} where the road turned ?", "answer": f"it was {n} and {n} .\n#### {n}"}
        for n, text in ((1, "stood at the edge of the village"), (2, "of the hills"), (3, "in a light was seen"))
    ]
    scenes = [
        {"ctx": f"a {first} stood at the edge of the", "endings": ["road and the hills", "light"], "label": "0"}
        for first in ("house", "village", "light")
    ]
    for name, rows in (("gsm8k", questions), ("hellaswag", scenes)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return folder
