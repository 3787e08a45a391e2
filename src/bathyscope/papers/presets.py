"""Presets: the choices of a paper, as defaults that every explicit option overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bathyscope.errors import OptionError, did_you_mean


@dataclass(frozen=True)
class Preset:
    """What a paper measures and with which options.

    Args:
        measures: names of the measures.
        seed: of sampled positions.
        options: measure → options that differ from the defaults.
        notes: how the preset differs from the canonical definitions, for documents and reports.
    """

    measures: tuple[str, ...]
    seed: int
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: str = ""


PRESETS: Mapping[str, Preset] = {
    "csordas2025": Preset(
        measures=("residual", "lens", "skip", "effective_depth"),
        seed=123,
        notes="Python's random seeded with 123 draws the positions; 20 prompts for 3.1, 10 for 3.2.",
    ),
    "hu2025": Preset(
        measures=("residual", "lens", "skip", "effective_depth"),
        seed=123,
        notes="Curves are token-weighted; thresholds 0.5 of the largest KL and 0.3 of the overlap.",
    ),
    "lad2024": Preset(
        measures=("residual", "lens", "drop", "swap", "repeat"),
        seed=0,
        options={"repeat": {"length": 5}},
        notes="All tokens, the first included, run the changed schedule; positions with a next token count.",
    ),
}


def preset(name: str) -> Preset:
    """A preset by name.

    Raises:
        OptionError: unknown name.
    """
    if name not in PRESETS:
        raise OptionError(f"Unknown preset {name!r}.{did_you_mean(name, PRESETS)} Allowed: {', '.join(PRESETS)}.")
    return PRESETS[name]
