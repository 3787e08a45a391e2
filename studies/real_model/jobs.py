"""The measurements that the claims are read off: which data, which measures, and what is stored of each.

Numbers of prompts and lengths are small: all of it is meant for one core. They are written on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from studies.real_model import computed
from studies.real_model.models import RealModel
from studies.real_model.sources import problems_by_steps, text_windows

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope import Model

UNTRAINED: Final = ("untrained_0", "untrained_1", "untrained_2")
SHUFFLED: Final = "shuffled"


@dataclass(frozen=True)
class Job:
    """One measurement, of a model and of its controls.

    Args:
        name: as claims name it.
        data: what is measured on, in words.
        prompts: how many the model is measured on, and its controls, whose curves differ little between prompts.
        source: prompts for ``survey``, of the folder with the data and how many; None = ``compute`` has its own.
        measures: of the survey.
        variables: measure → variables that are stored, with one choice along other dimensions.
        compute: measures a model instead of a survey, from the folder with the data and how many.
        options: of the measures.
        controls: which are measured too.
        choice: one value along dimensions that are not stored.
    """

    name: str
    data: str
    prompts: tuple[int, int]
    source: Callable[[Path, int], Any] | None = None
    measures: tuple[str, ...] = ()
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compute: Callable[[Model, Path, int], xr.Dataset] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    controls: tuple[str, ...] = UNTRAINED
    choice: Mapping[str, Any] = field(default_factory=dict)

    def names(self, real: RealModel) -> tuple[str, ...]:
        """The model and its controls, as files of results name them."""
        return (real.key, *self.controls)

    def count(self, real: RealModel, name: str) -> int:
        """How many prompts the model or a control of it is measured on."""
        return real.prompts.get(self.name, self.prompts[name != real.key])


def _file(path: str, name: str) -> Callable[[Path, int], str]:
    return lambda data, count: f"{name}:{count}@{data / path}"


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
        (12, 12),
        text_windows(200),
        ("attention_locality",),
        {"attention_locality": ("total_prev5", "first_key")},
    ),
    Job(
        "weights",
        "no text",
        (1, 1),
        _nothing,
        ("neurons",),
        {"neurons": ("prediction_fraction", "suppression_fraction")},
    ),
    Job(
        "patching",
        "pairs of questions for a capital, each patched from the other",
        (8, 8),
        compute=computed.capitals,
    ),
    Job(
        "two_hop",
        "pairs of a two-hop question and its first hop",
        (16, 2),
        compute=computed.two_hops,
    ),
    Job(
        "hops",
        "MQuAKE, questions of 2, 3 and 4 hops in turn",
        (12, 3),
        lambda data, count: f"mquake:{count}?hops=2-4@{data / 'mquake/cf3k_200_per_hop.jsonl'}",
        ("depth_score",),
        {"depth_score": ("prompt_score_layer",)},
        options={"depth_score": {"positions": "answer"}},
        choice={"reduction": "mean"},
    ),
    Job(
        "subjoiners",
        "words of WikiText-2 of four tokens and of one",
        (40, 40),
        compute=computed.subjoiner_words,
    ),
    Job(
        "steps",
        "GSM8K, the shortest problems of 2, 3 and 4 steps in turn, with their solutions",
        (9, 2),
        problems_by_steps,
        ("depth_score",),
        {"depth_score": ("prompt_score_layer",)},
        options={"depth_score": {"positions": "answer"}},
        choice={"reduction": "mean"},
    ),
    Job(
        "commonsense",
        "HellaSwag, first of validation, with the right ending",
        (10, 2),
        _file("hellaswag/validation_first2000.jsonl", "hellaswag"),
        ("residual", "lens"),
        _STREAM,
    ),
    Job(
        "drop",
        "WikiText-2, windows of 160 letters",
        (4, 1),
        text_windows(160),
        ("drop", "swap"),
        {"drop": ("kl", "top1_agreement"), "swap": ("kl", "top1_agreement")},
    ),
    Job(
        "repeat",
        "WikiText-2, windows of 160 letters",
        (3, 1),
        text_windows(160),
        ("drop", "repeat"),
        {"drop": ("kl",), "repeat": ("kl",)},
        options={"repeat": {"length": 1}},
    ),
    Job(
        "skip",
        "WikiText-2, windows of 160 letters; a block is skipped at the positions before sampled ones",
        (3, 1),
        text_windows(160),
        ("skip",),
        {"skip": ("given_all", "given_future", "output_all", "output_future")},
        choice={"part": "block", "reduction": "mean"},
    ),
    Job(
        "gradients",
        "sums of two numbers of one digit; 12 nodes of the quadrature",
        (2, 1),
        compute=computed.gradients,
    ),
    Job(
        "wic",
        "WiC; as many rows train a probe as judge it",
        (200, 200),
        compute=computed.word_senses,
    ),
    Job(
        "stream",
        "GSM8K, first of test, with rationale and answer",
        (5, 1),
        _file("gsm8k/test_first600.jsonl", "gsm8k"),
        ("residual", "lens"),
        _STREAM,
        controls=(*UNTRAINED, SHUFFLED),
    ),
    Job(
        "erasure",
        "sums of two numbers of three digits",
        (6, 2),
        compute=computed.erased_sums,
    ),
    Job(
        "benchmarks",
        "first documents of HellaSwag, ARC-easy and LAMBADA",
        (10, 0),
        compute=computed.benchmark_answers,
        controls=(),
    ),
)
"""Cheap ones first."""


def job(name: str) -> Job | None:
    """Return the measurement of a name; None = it is not implemented yet."""
    return next((chosen for chosen in JOBS if chosen.name == name), None)
