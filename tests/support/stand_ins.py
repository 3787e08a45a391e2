"""Folders and files that stand for checkpoints and data sets: tiny models with a tokenizer of words, few rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from support import zoo
from support.piece_tokenizer import BEGINNINGS, ENDS, MIDDLES, WHOLES, split_words
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = (
    *("the", "a", "old", "house", "stood", "at", "edge", "of", "village", "where", "road", "turned", "to"),
    *("hills", "and", "light", "was", "seen", "in", "it", "Problem", "final", "answer", "is", "1", "2", "3"),
)

GERUNDS = tuple(
    f"{first}{last}ing" for first in ("st", "tr", "s", "l", "h") for last in ("and", "end", "ill", "old", "urn")
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


def pieces_checkpoint(folder: Path, name: str = "llama", seed: int = 0) -> Path:
    """As ``checkpoint``, with a tokenizer that splits some words, for whatever is asked of words and of their ends."""
    model = zoo.entry(name).build(seed=seed)
    model.config.max_position_embeddings = 512  # rotary positions have no table
    model.save_pretrained(folder)
    vocabulary = ["<pad>", "<s>", "</s>", "<unk>", *WORDS, *GERUNDS, *WHOLES[:12], *BEGINNINGS, *MIDDLES, *ENDS]
    backend = Tokenizer(models.WordPiece({word: n for n, word in enumerate(vocabulary)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.WordPiece()
    named = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **named).save_pretrained(folder)
    return folder


def everything(folder: Path) -> Path:
    """A folder with a few rows of all that the papers' figures are drawn from, named as ``reproduce`` looks for it."""
    data(folder)
    draw = np.random.default_rng(0)

    def sentence(count: int, words: Sequence[str] = WORDS[:20]) -> str:
        return " ".join(draw.choice(words, count).tolist())

    def written(name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    text = sentence(6000, [*WORDS[:20], *GERUNDS, *WHOLES[:12], *split_words(4)])
    for name in ("pile", "c4"):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    scenes = [
        {"activity_label": "house", "ctx": sentence(14), "endings": [sentence(3) for _ in range(4)], "label": "1"}
        for _ in range(4)
    ]
    written("hellaswag", scenes)
    sums = [{"question": f"{sentence(12)} ?", "answer": f"{sentence(9)} .\n#### {n % 3 + 1}"} for n in range(10)]
    written("gsm8k", sums)
    written("aime2024", [{"Problem": sentence(12), "Solution": sentence(14)} for _ in range(4)])
    levels = [1, 2, 3, 4, 5] * 4
    written("math", [{"problem": sentence(12), "level": f"Level {n}", "solution": sentence(18)} for n in levels])
    hops = [
        {"questions": [sentence(14)], "answer": sentence(2), "orig_triples": [["a", "b", "c"]] * n}
        for n in [2, 3, 4] * 4
    ]
    written("mquake", hops)
    written("helm", [{"text": sentence(20)} for _ in range(4)])
    choices = {"label": ["A", "B"], "text": ["hills", "old house"]}
    written("arc_easy", [{"question": sentence(6), "choices": choices, "answerKey": "B"} for _ in range(3)])
    written("lambada_openai", [{"text": sentence(12)} for _ in range(3)])
    meanings = [
        {"word": "road", "sentence1": f"{first} road", "sentence2": f"road {last}", "label": n % 2}
        | {"start1": len(first) + 1, "end1": len(first) + 5, "start2": 0, "end2": 4}
        for n, (first, last) in enumerate((sentence(4), sentence(3)) for _ in range(24))
    ]
    for name in ("wic", "wic_validation"):
        written(name, meanings)
    sizes = [(family, layers) for family in ("one", "other") for layers in (6, 12, 24, 36)]
    lines = [
        f"{family}-{layers},{family},{layers},{width},{4 * width + 100 * (n % 3)},{0.5 * layers + n % 4}"
        for n, ((family, layers), width) in enumerate(zip(sizes, (512, 2048, 1024, 768, 640, 896, 512, 1536)))
    ]
    header = "name,family,layers,d_model,d_ff,score\n"
    (folder / "scores.csv").write_text(header + "\n".join(lines) + "\n", encoding="utf-8")
    return folder
