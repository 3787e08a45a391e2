"""Sources give the prompts that they gave when the hashes here were recorded, token for token."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from bathyscope.model.bundled import model_path
from bathyscope.prompts.prompts import prompts_hash
from bathyscope.prompts.source import resolve
from bathyscope.prompts.tokenize import tokenize
from bathyscope.prompts.tokenizer import load_tokenizer

STORY = "The ducks lay 16 eggs per day, and she sells 9 of them for $2 each. " * 40

ROWS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "gsm8k": [{"question": f"{n} + {n + 1}?", "answer": f"Add.\n#### {2 * n + 1}"} for n in range(12)],
    "mquake": [
        {
            "questions": [f"Who wrote book {n}?"],
            "answer": f"author {n}",
            "orig_triples": [["a", "b", "c"]] * (2 + n % 3),
        }
        for n in range(24)
    ],
    "math": [{"problem": f"{n}?", "level": f"Level {1 + n % 5}", "solution": f"It is {n}."} for n in range(20)],
    "hellaswag": [{"ctx": f"Man {n} runs", "endings": ["away.", ", fast."], "label": n % 2} for n in range(4)],
    "lambada": [{"text": f"The cat number {n} sat on the mat"} for n in range(4)],
    "two_hop": [{"source_prompt": f"the wife of actor {n} is", "e3_label": f"person {n}"} for n in range(4)],
    "aime2024": [{"Problem": f"What is {n}?", "Solution": f"It is {n}, since {n} is."} for n in range(4)],
}
"""Local copies of data sets."""

MINE: Sequence[Mapping[str, Any]] = [
    {"text": "2 + 2 = 4", "answer": "4", "labels": {"level": 1}, "kind": "easy", "weight": 0.5},
    {"text": "What is five?", "answer": " five", "id": "five"},
    {"ids": [1, 5, 6, 7], "answer_tokens": 2, "level": 2},
]

RECORDED: Mapping[str, str] = {
    "problems:12": "200f8ed5f8bc4e67",
    "problems:60?steps=1-6": "bf1d2406bff5c9bb",
    "problems?per_level=3": "3547820de2ccfc16",
    "problems?per_level=2&steps=2-4": "d6433ba1c5dc133f",
    "problems:5?steps=4": "4d0c82111d5fcd32",
    "sums:20": "ab328bfce1b51c3c",
    "sums:9?steps=2-4&digits=3": "11c94ba18ab910bd",
    "sums?per_level=4&steps=1-2&digits=1-3": "5eaf4c18f94a86bf",
    "addition:20?digits=2-4": "9ede367840425f18",
    "addition?digits=3&per_level=5": "c20e515d60fb8b0c",
    "multiplication:6": "d3847e328ae2b5ba",
    "multiplication:9?digits=1-9": "ae451a8eb8b98d99",
    "task:arithmetic:30": "9d1b536451c91e67",
    "task:arithmetic:8?modules=mul,div&written=no": "58cbaad756651bb5",
    "task:arithmetic:12?split=extrapolate&entropy=3-8": "783b571a27c1e785",
    "task:arithmetic:9?modules=mixed&written=yes&split=train": "f739498fd8af2d83",
    "task:nested_arithmetic:12": "d3ef47a2ee65b47b",
    "task:nested_arithmetic:6?depth=4-6&written=yes": "f32ff12c032149fd",
    "task:nested_arithmetic:9?operators=+,-&held_out=--&split=extrapolate": "b7dc10191faca859",
    "task:permutations:12": "5586a528f278b557",
    "task:permutations?count=7&factors=2-3": "160df7f0592b79b7",
    "task:permutations:6?split=train&written=yes": "f2c42c08ff33a76c",
    "task:pointer_chasing:16?hops=1-4&split=interpolate": "0393272e4b5d3690",
    "task:pointer_chasing?hops=1-4&count=20&split=extrapolate&nodes=20": "96dfa73f5c4a0c83",
    "gsm8k:10@gsm8k.jsonl": "8fc11b08b2863ad0",
    "gsm8k@gsm8k.jsonl": "e9b5afffc727570e",
    "mquake?per_level=4&hops=2-3@mquake.jsonl": "5ca7f95b2f457576",
    "mquake:10@mquake.jsonl": "7244253aee60a262",
    "math:10@math.jsonl": "7f09d42ae6e472de",
    "math:4?level=2-5@math.jsonl": "ab8027284e99fa0b",
    "hellaswag:3@hellaswag.jsonl": "b7d224f7a5c86745",
    "lambada@lambada.jsonl": "a2afb940585d928a",
    "two_hop:4@two_hop.jsonl": "608ac484efab0bc5",
    "aime2024:3?max_tokens=400@aime2024.jsonl": "a5dcfb963a2331ac",
    "mine.jsonl": "34faf7dc0edc5542",
    "mine.jsonl:2": "4df16b687f1ec9f6",
    "story.txt": "006034430a1d11a0",
    "story.txt:5?window=32": "05a154d34a038f38",
    "story.txt?chars=100&limit=1000": "22b8eddee4a12cab",
    "story.txt?tokens=300": "6848d8b0605b0432",
}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    found = load_tokenizer(model_path())
    assert found is not None
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sources")
    (made / "story.txt").write_text(STORY, encoding="utf-8")
    for name, rows in {**ROWS, "mine": MINE}.items():
        (made / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return made


def fingerprint(source: Any, tokenizer: PreTrainedTokenizerBase) -> str:
    """Of the prompts as given and as token ids, with their order and the names of their data sets."""
    prompts = resolve(source, seed=7, tokenizer=tokenizer, window=64)
    given = [[p.text, p.ids, p.answer, p.answer_tokens, p.id, dict(p.labels)] for p in prompts.prompts]
    tokens = tokenize(prompts, tokenizer, max_tokens=None)
    parts = [prompts.dataset, prompts.is_data_set, [p.dataset for p in tokens], given, prompts_hash(tokens)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@pytest.mark.parametrize("source", RECORDED)
def test_a_source_gives_the_recorded_prompts(
    source: str, folder: Path, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert fingerprint(source, tokenizer) == RECORDED[source]


def test_a_union_gives_the_recorded_prompts(
    folder: Path, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    named = ("problems:6", "task:permutations:4?factors=2-3", "mine.jsonl", "mquake:6@mquake.jsonl", "story.txt:2")
    union = [*({"source": one} for one in named), "a text of its own", [1, 2, 3]]
    assert fingerprint(union, tokenizer) == "5cc14a7593a2849b"
