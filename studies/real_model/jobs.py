"""The surveys that the claims are read off: which data, which measures, and what is kept of each.

Numbers of prompts and lengths are small: all of it is meant for one core. They are written on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

MODELS: Final = ("smollm2", "untrained_0", "untrained_1", "untrained_2", "shuffled")
WITHOUT_SHUFFLED: Final = MODELS[:-1]


@dataclass(frozen=True)
class Job:
    """One survey, of each of some models.

    Args:
        name: as claims name it.
        data: what is measured on, in words.
        source: prompts for ``survey``, of the folder with the data and how many.
        prompts: how many the model is surveyed on, and its controls, whose curves differ little between prompts.
        measures: of the survey.
        kept: measure → variables that are stored, with one choice along other dimensions.
        options: of the measures.
        models: which are surveyed.
    """

    name: str
    data: str
    source: Callable[[Path, int], Any]
    prompts: tuple[int, int]
    measures: tuple[str, ...]
    kept: Mapping[str, tuple[str, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = WITHOUT_SHUFFLED
    choice: Mapping[str, Any] = field(default_factory=dict)


def _file(path: str, name: str) -> Callable[[Path, int], str]:
    return lambda data, count: f"{name}:{count}@{data / path}"


def _windows(letters: int) -> Callable[[Path, int], list[str]]:
    """Pieces of WikiText-2 that are as far apart as they can be, so that no two are of one article."""

    def source(data: Path, count: int) -> list[str]:
        text = (data / "text/wikitext2_valid.txt").read_text(encoding="utf-8")
        starts = [number * len(text) // count for number in range(count)]
        pieces = [text[text.index("\n", start) : start + 4 * letters].strip() for start in starts]
        return [piece[:letters].rsplit(" ", 1)[0] for piece in pieces]

    return source


def _nothing(_: Path, __: int) -> list[str]:
    return ["The weights alone are looked at."]


_STREAM: Final = {
    "residual": ("ratio_block", "cos_block", "cos_attn", "cos_mlp", "norm_mlp_rest", "norm_block_max", "largest"),
    "lens": ("kl_lens_final", "overlap", "entropy"),
}

JOBS: Final = (
    Job(
        "attention",
        "WikiText-2, windows of 200 letters",
        _windows(200),
        (12, 12),
        ("attention_locality",),
        {"attention_locality": ("total_prev5", "first_key")},
    ),
    Job(
        "stream",
        "GSM8K, first of test, with rationale and answer",
        _file("gsm8k/test_first600.jsonl", "gsm8k"),
        (5, 1),
        ("residual", "lens"),
        _STREAM,
        models=MODELS,
    ),
    Job(
        "commonsense",
        "HellaSwag, first of validation, with the right ending",
        _file("hellaswag/validation_first2000.jsonl", "hellaswag"),
        (6, 2),
        ("residual", "lens"),
        _STREAM,
    ),
    Job(
        "weights",
        "no text",
        _nothing,
        (1, 1),
        ("neurons",),
        {"neurons": ("prediction_fraction", "suppression_fraction")},
    ),
    Job(
        "drop",
        "WikiText-2, windows of 160 letters",
        _windows(160),
        (4, 1),
        ("drop", "swap"),
        {"drop": ("kl", "top1_agreement"), "swap": ("kl", "top1_agreement")},
    ),
    Job(
        "skip",
        "WikiText-2, windows of 160 letters; a block is skipped at the positions before sampled ones",
        _windows(160),
        (3, 1),
        ("skip",),
        {"skip": ("given_all", "given_future", "output_all", "output_future")},
        choice={"part": "block", "reduction": "mean"},
    ),
    Job(
        "repeat",
        "WikiText-2, windows of 160 letters",
        _windows(160),
        (3, 1),
        ("drop", "repeat"),
        {"drop": ("kl",), "repeat": ("kl",)},
        options={"repeat": {"length": 1}},
    ),
    Job(
        "hops",
        "MQuAKE, questions of 2, 3 and 4 hops in turn",
        lambda data, count: f"mquake:{count}?hops=2-4@{data / 'mquake/cf3k_200_per_hop.jsonl'}",
        (12, 3),
        ("depth_score",),
        {"depth_score": ("prompt_score_layer",)},
        options={"depth_score": {"positions": "answer"}},
        models=("smollm2",),
        choice={"reduction": "mean"},
    ),
    Job(
        "erasure",
        "sums of two numbers of three digits",
        lambda _, count: f"addition:{count}?digits=3",
        (6, 2),
        ("erasure",),
        {"erasure": ("effect", "answer_start")},
        models=("smollm2",),
    ),
)


def job(name: str) -> Job | None:
    """The survey of a name; None = it is not implemented yet."""
    return next((chosen for chosen in JOBS if chosen.name == name), None)
