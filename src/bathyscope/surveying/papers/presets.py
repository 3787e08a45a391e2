"""Presets: the choices of a paper, as defaults that every explicit option overrides.

A preset computes what its paper says. The preset of the same name with ``-as-published`` also reproduces the faults
of the paper's published code (see ``bathyscope.surveying.papers.faults``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bathyscope.core.recipes import overlay
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.measures.registry import DEFAULT
from bathyscope.surveying.papers.faults import FAULTS, options_of

AS_PUBLISHED = "-as-published"


@dataclass(frozen=True)
class Preset:
    """What a paper measures and with which options.

    Args:
        measures: names of the measures that a survey takes where none are given; those that any prompts allow.
        seed: of sampled positions.
        options: measure → options that differ from the defaults, also of measures that are not among ``measures``.
        notes: how the preset differs from the canonical definitions, for documents and reports.
    """

    measures: tuple[str, ...]
    seed: int
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: str = ""


_PAPERS: Mapping[str, Preset] = {
    "csordas2025": Preset(
        measures=("residual", "lens", "skip", "direct", "effective_depth"),
        seed=123,
        options={"erasure": {"reference": "gsm8k:10"}, "integrated_gradients": {"mode": "exact", "steps": 256}},
        notes="Python's random seeded with 123 draws the positions, in the order of the prompts. Erasure puts the mean "
        "of the first ten GSM8K test prompts in place of a token; integrated gradients take the left sum of 256 steps.",
    ),
    "hu2025": Preset(
        measures=("residual", "lens", "skip", "effective_depth"),
        seed=123,
        options={
            "erasure": {"reference": "gsm8k:10"},
            "integrated_gradients": {"sites": ("block",), "mode": "exact", "steps": 256, "target": "logit"},
        },
        notes="Curves are token-weighted; thresholds 0.5 of the largest KL and 0.3 of the overlap. Positions, erasure "
        "and integrated gradients as csordas2025, the latter over block outputs alone and of logits.",
    ),
    "lad2024": Preset(
        measures=("residual", "lens", "drop", "swap", "repeat"),
        seed=0,
        options={"lens": {"positions": "inner"}, "repeat": {"length": 5}},
        notes="All tokens, the first included, run the changed schedule; positions with a next token count. The lens "
        "leaves out each prompt's first and last position.",
    ),
}


def _as_published(paper: str) -> Preset:
    """Return a paper's preset with the faults of its published code."""
    plain = _PAPERS[paper]
    notes = " ".join([plain.notes, *(fault.note() for fault in FAULTS if fault.paper == paper)])
    return replace(plain, options=overlay(plain.options, options_of(paper)), notes=notes)


PRESETS: Mapping[str, Preset] = {
    **_PAPERS,
    **{f"{paper}{AS_PUBLISHED}": _as_published(paper) for paper in dict.fromkeys(fault.paper for fault in FAULTS)},
}


def preset(name: str | None) -> Preset:
    """Return a preset by name, or what a survey does without one.

    Raises:
        OptionError: no preset of this name.
    """
    if name is None:
        return Preset(DEFAULT, seed=0)
    if name not in PRESETS:
        raise OptionError(f"Unknown preset {name!r}.{did_you_mean(name, PRESETS)} Allowed: {', '.join(PRESETS)}.")
    return PRESETS[name]
