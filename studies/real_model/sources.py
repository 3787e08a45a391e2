"""The prompts that the study makes itself: windows of a text, paired questions, facts that can be exchanged."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bathyscope import Prompt

Source = Callable[[Path, int], list[Prompt]]

CAPITALS: Final = {
    "France": "Paris",
    "Italy": "Rome",
    "Germany": "Berlin",
    "Spain": "Madrid",
    "Japan": "Tokyo",
    "Russia": "Moscow",
    "England": "London",
    "Greece": "Athens",
    "China": "Beijing",
    "Egypt": "Cairo",
    "Austria": "Vienna",
    "Ireland": "Dublin",
    "Cuba": "Havana",
    "Norway": "Oslo",
    "Portugal": "Lisbon",
    "Iraq": "Baghdad",
}
STEPS: Final = (2, 3, 4)
_SHORT_ANSWER: Final = 24
"""Letters of an answer at most: longer names are mostly copied from the question."""


def text_windows(letters: int, first: float = 0.0, last: float = 1.0) -> Source:
    """Return a source of pieces of WikiText-2 that are as far apart as they can be, so that few are of one article.

    Args:
        letters: of each piece, cut at the last space.
        first, last: the part of the text that pieces are taken from, as shares.
    """

    def source(data: Path, count: int) -> list[Prompt]:
        text = (data / "text/wikitext2_valid.txt").read_text(encoding="utf-8")
        begin, size = int(first * len(text)), int((last - first) * len(text))
        starts = [text.index("\n", begin + number * size // count) for number in range(count)]
        pieces = [text[start : start + 4 * letters].strip() for start in starts]
        return [Prompt(piece[:letters].rsplit(" ", 1)[0]) for piece in pieces]

    return source


def two_hop_pairs(data: Path, count: int) -> list[Prompt]:
    """Return two-hop questions, each followed by its first hop alone; the label ``hops`` tells which is which."""
    with (data / "two_hop/two_hop_1000.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if _has_short_answers(row)]
    chosen = rows[:: max(1, len(rows) // count)][:count]
    prompts = []
    for row in chosen:
        first_hop = row["r1_template"].format(row["e1_label"])
        both = ((2, row["source_prompt"], row["e3_label"]), (1, f"{first_hop} is", row["e2_label"]))
        prompts += [Prompt(question, answer=f" {answer}", labels={"hops": hops}) for hops, question, answer in both]
    return prompts


def _has_short_answers(row: dict[str, str]) -> bool:
    return all(0 < len(row[name]) <= _SHORT_ANSWER for name in ("e2_label", "e3_label"))


def problems_by_steps(data: Path, count: int) -> list[Prompt]:
    """Return GSM8K problems of 2, 3 and 4 steps in turn, the shortest of each, with the written solution as answer.

    A step is a line of the solution. The form is that of C's mathematical problems.
    """
    lines = (data / "gsm8k/test_first600.jsonl").read_text(encoding="utf-8").splitlines()
    by_steps: dict[int, list[Prompt]] = {steps: [] for steps in STEPS}
    for row in map(json.loads, lines):
        solution = row["answer"].partition("####")[0].strip()
        steps = len(solution.splitlines())
        if steps in by_steps:
            question = f"Problem: {row['question']}\nAnswer:"
            by_steps[steps].append(Prompt(question, answer=f" {solution}", labels={"steps": steps}))
    shortest = [sorted(prompts, key=_letters) for prompts in by_steps.values()]
    return [prompt for level in zip(*shortest) for prompt in level][:count]


def _letters(prompt: Prompt) -> int:
    return len(prompt.text or "") + len(prompt.answer or "")


def exchanged_capitals(tokenizer: object, count: int) -> list[Prompt]:
    """Return pairs of questions for a capital, all of one number of tokens, as ``patching`` takes them.

    Raises:
        ValueError: fewer than two countries have names of one token and capitals of one token.
    """
    assert callable(tokenizer)

    def is_single(word: str) -> bool:
        return len(tokenizer(f" {word}", add_special_tokens=False).input_ids) == 1

    facts = [(country, city) for country, city in CAPITALS.items() if is_single(country) and is_single(city)]
    if len(facts) < 2:
        raise ValueError("Fewer than two countries and capitals are single tokens of this tokenizer.")
    prompts = []
    for pair in range(min(count, len(facts) // 2)):
        prompts += [
            Prompt(f"The capital of {country} is", answer=f" {city}", labels={"pair": f"pair {pair}"})
            for country, city in facts[2 * pair : 2 * pair + 2]
        ]
    return prompts


def benchmark_files(data: Path) -> dict[str, Path]:
    """Return the files of the three benchmarks, by the harness's names of the tasks."""
    return {
        "hellaswag": data / "hellaswag/validation_first2000.jsonl",
        "arc_easy": data / "arc_easy/validation.jsonl",
        "lambada_openai": data / "lambada/test_first2500.jsonl",
    }
