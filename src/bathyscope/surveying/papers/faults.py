"""Faults of the papers' published code that options of a measure reproduce, so that their marks can be recognised.

Each is off by default. The presets ``…-as-published`` are made of this list, and a run's manifest, which holds the
options, tells by it which faults the run reproduces.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fault:
    """One fault of a paper's code, and the options of a measure that reproduce it, all together.

    Args:
        what: what the published code does.
        mark: how it is recognised in results.
    """

    paper: str
    measure: str
    options: Mapping[str, Any]
    what: str
    mark: str

    @property
    def options_text(self) -> str:
        """Return the options as they are written in documents, such as ``skip.axis=channels``."""
        return ", ".join(f"{self.measure}.{name}={_text(value)}" for name, value in self.options.items())

    def note(self) -> str:
        """Return a sentence for captions."""
        verb = "reproduces" if len(self.options) == 1 else "reproduce"
        return f"{self.options_text} {verb} a fault of {self.paper}'s published code: {self.what}"

    def holds(self, options: Mapping[str, Any]) -> bool:
        """Whether options of its measure, in the types of a call or of a manifest, reproduce it."""
        return all(_text(options.get(name)) == _text(value) for name, value in self.options.items())


def _text(value: Any) -> str:
    """Return a value as it is typed; a tuple, and the list that a manifest makes of it, alike."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


FAULTS = (
    Fault(
        "csordas2025",
        "residual",
        {"mean_norms": "last_prompt"},
        "mean norms are the last prompt's sum over the tokens of all prompts.",
        "Mean norms are too small by the ratio of all tokens to the last prompt's, about the number of prompts; the "
        "maxima, ratios and cosines are right, and so is the shape of each curve.",
    ),
    Fault(
        "csordas2025",
        "depth_score",
        {"first_answer_token": False},
        "the prediction of the answer's first token is left out.",
        "Answers of one token are measured at no position that predicts any of them.",
    ),
    Fault(
        "hu2025",
        "residual",
        {"mean_contributions": "width"},
        "mean ratios and cosines are sums over tokens divided by the width of the stream.",
        "All means are scaled by the same factor, mean prompt length over width; signs, and with them the effective "
        "depth, survive.",
    ),
    Fault(
        "hu2025",
        "skip",
        {"axis": "channels"},
        "future effects skip the channels 1 … t−1 of every token in place of the tokens 1 … t−1.",
        "The diagonal of the future effects is about √((t−1)/d) and slightly above, where it must be 0.",
    ),
    Fault(
        "hu2025",
        "erasure",
        {"reference_scale": "width"},
        "the reference residual stream is a sum over tokens divided by the width of the stream.",
        "What is put in place of an erased token is the mean times mean prompt length over width, hence shorter "
        "where prompts are shorter than the stream is wide.",
    ),
    Fault(
        "hu2025",
        "integrated_gradients",
        {"baseline": "channels"},
        "the baseline is each token's mean over channels in place of the prompt's mean over tokens.",
        "The baseline is a constant vector per token, so that the attributions also count what all tokens share.",
    ),
    Fault(
        "lad2024",
        "lens",
        {"norm": ("frozen",), "bias": False},
        "the stream is divided by the final boundary's scale, and the final norm's bias is left out.",
        "Early boundaries look near-uniform, and the entropy starts near log₂ V: growth of the norm alone gives that "
        "curve.",
    ),
    *(
        Fault(
            "lad2024",
            measure,
            {"positions": "published"},
            "KL, agreement and entropy are means over the positions 1 … T−1, the loss over 0 … T−2.",
            "Means differ by what the first and the last position add: most where prompts are short, and where a block "
            "is changed that treats the first token in a way of its own.",
        )
        for measure in ("drop", "swap", "repeat")
    ),
)


def options_of(paper: str) -> dict[str, dict[str, Any]]:
    """Return the options that reproduce the faults of a paper, by measure."""
    options: dict[str, dict[str, Any]] = {}
    for fault in FAULTS:
        if fault.paper == paper:
            options.setdefault(fault.measure, {}).update(fault.options)
    return options


def faults_in(measures: Mapping[str, Mapping[str, Any]]) -> tuple[Fault, ...]:
    """Return the faults that a run reproduces, by its measures' options as a manifest's identity holds them."""
    return tuple(fault for fault in FAULTS if fault.holds(measures.get(fault.measure, {})))
