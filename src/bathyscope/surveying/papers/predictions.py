"""What runs of the papers' models are expected to print, written before anyone has run them with this package.

Each prediction is a quantity along the depth of one model on one data set, and the bounds inside which it should lie.
The quantities are curves reduced to one number, so that a record of a run can be scored without its files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray

Datasets = Mapping[str, xr.Dataset]


@dataclass(frozen=True)
class Quantity:
    """One number of a run.

    Args:
        measure: what it is read off.
        text: what it is, in words.
        value: reduces the measure's dataset.
    """

    measure: str
    text: str
    value: Callable[[xr.Dataset], float]


@dataclass(frozen=True)
class Prediction:
    """A quantity and its bounds.

    Args:
        paper, figure: whose claim it is.
        models: name or end of a name on the hub; an empty one stands for every model of the figure.
        works: data sets as the reproduction names them.
        quantity: a key of ``QUANTITIES``.
        low, high: both included.
    """

    paper: str
    figure: str
    models: tuple[str, ...]
    works: tuple[str, ...]
    quantity: str
    low: float
    high: float

    def covers(self, paper: str, model: str, work: str, quantity: str) -> bool:
        """Whether it speaks of this number."""
        named = any(model == name.rpartition("/")[2] for name in self.models)
        return paper == self.paper and named and work in self.works and quantity == self.quantity


def _mean(dataset: xr.Dataset, name: str, **choice: str) -> FloatArray:
    """Return the mean of a variable over prompts."""
    array = dataset[name].sel({dim: value for dim, value in choice.items() if dim in dataset[name].dims})
    curve: FloatArray = np.asarray(array.mean("prompt").values, np.float64)
    return curve


def _halves(curve: FloatArray, first: int = 1) -> float:
    """Divide the mean over the second half of a curve by that over its first half without the first blocks."""
    half = curve.size // 2
    return float(np.nanmean(curve[half:]) / np.nanmean(curve[first:half]))


def _turn(dataset: xr.Dataset) -> float:
    """Return the fraction of the depth at which the mean cosine of contribution and stream last turns positive."""
    curve = _mean(dataset, "cos_block")
    places = np.flatnonzero((curve[:-1] < 0) & (curve[1:] >= 0))
    return (float(places[-1]) + 1) / curve.size if places.size else np.nan


def _kl_at_half(dataset: xr.Dataset) -> float:
    """Return the KL of the lens at half the depth over its largest."""
    curve = _mean(dataset, "kl_lens_final")
    return float(curve[(curve.size - 1) // 2] / curve.max())


def _overlap_at_half(dataset: xr.Dataset) -> float:
    """Return the top-5 overlap of the lens at half the depth."""
    curve = _mean(dataset, "overlap")
    return float(curve[(curve.size - 1) // 2])


def _output_late(dataset: xr.Dataset) -> float:
    """Return the effect on the output at later tokens, second half of the skipped blocks over the first."""
    return _halves(_mean(dataset, "output_future", part="block", reduction="max"))


def _given_late(dataset: xr.Dataset) -> float:
    """Return the effect on later blocks at later tokens, second half of the skipped blocks over the first."""
    curve = _mean(dataset, "given_future", part="block", reduction="max")
    half = curve.size // 2
    # the last block gives nothing to later ones and is left out
    return float(np.nanmean(curve[half:-1]) / np.nanmean(curve[1:half]))


def _middle(curve: FloatArray) -> FloatArray:
    edge = max(1, round(curve.size / 10))
    return curve[edge : curve.size - edge]


QUANTITIES: Final[Mapping[str, Quantity]] = {
    "contribution_halves": Quantity(
        "residual",
        "relative contribution of blocks, second half over first",
        lambda dataset: _halves(_mean(dataset, "ratio_block")),
    ),
    "cosine_turn": Quantity(
        "residual", "where the cosine with the stream turns positive, fraction of the depth", _turn
    ),
    "lens_kl_half": Quantity("lens", "KL of the lens at half the depth over its largest", _kl_at_half),
    "lens_overlap_half": Quantity("lens", "top-5 overlap of the lens at half the depth", _overlap_at_half),
    "skip_given_halves": Quantity(
        "skip", "effect on later blocks at later tokens, second half of skipped blocks over first", _given_late
    ),
    "skip_output_halves": Quantity(
        "skip", "effect on the output at later tokens, second half of skipped blocks over first", _output_late
    ),
    "drop_agreement": Quantity(
        "drop",
        "top-1 agreement without one block, mean over the middle 80 %",
        lambda dataset: float(_middle(_mean(dataset, "top1_agreement")).mean()),
    ),
    "swap_against_drop": Quantity(
        "swap",
        "top-1 agreement with two neighbours exchanged, mean over the middle 80 %",
        lambda dataset: float(_middle(_mean(dataset, "top1_agreement")).mean()),
    ),
}

_LLAMA: Final = ("meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B")
_QWEN: Final = ("Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-14B", "Qwen/Qwen3-8B")
_C: Final = "csordas2025"
_L: Final = "lad2024"
_GSM: Final = ("gsm8k-20", "gsm8k-10")
_PYTHIA: Final = tuple(f"EleutherAI/pythia-{size}-deduped" for size in ("410m", "1.4b", "2.8b", "6.9b"))
_GPT2: Final = ("openai-community/gpt2", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")

PREDICTIONS: Final = (
    Prediction(_C, "2a", _LLAMA, _GSM, "contribution_halves", 0.2, 0.7),
    Prediction(_C, "2a", _QWEN, _GSM, "contribution_halves", 0.2, 0.8),
    Prediction(_C, "2b", _LLAMA, _GSM, "cosine_turn", 0.4, 0.7),
    Prediction(_C, "2b", _QWEN, _GSM, "cosine_turn", 0.4, 0.8),
    Prediction(_C, "3b", _LLAMA, _GSM, "skip_given_halves", 0.05, 0.6),
    Prediction(_C, "3b", _QWEN, _GSM, "skip_given_halves", 0.05, 0.7),
    Prediction(_C, "17b", (*_LLAMA, *_QWEN), _GSM, "skip_output_halves", 0.02, 0.6),
    Prediction(_C, "4a", _LLAMA, _GSM, "lens_kl_half", 0.6, 1.0),
    Prediction(_C, "4a", _QWEN, _GSM, "lens_kl_half", 0.5, 1.0),
    Prediction(_C, "4b", (*_LLAMA, *_QWEN), _GSM, "lens_overlap_half", 0.0, 0.15),
    Prediction(_L, "5a", _PYTHIA, ("corpus",), "drop_agreement", 0.65, 0.97),
    Prediction(_L, "5a", _GPT2, ("corpus",), "drop_agreement", 0.7, 0.97),
    Prediction(_L, "5a", _PYTHIA, ("corpus",), "swap_against_drop", 0.7, 0.98),
    Prediction(_L, "5a", _GPT2, ("corpus",), "swap_against_drop", 0.75, 0.98),
)

TABLE_MARGIN: Final = {"cosine": 2, "kl": 1, "overlap": 1}
"""Blocks by which the depths of hu2025's Table 1 are expected to differ at most from what is printed here."""


def prediction(paper: str, model: str, work: str, quantity: str) -> Prediction | None:
    """Return the prediction of a number; None without one."""
    return next((entry for entry in PREDICTIONS if entry.covers(paper, model, work, quantity)), None)


def numbers(datasets: Datasets) -> dict[str, float]:
    """Return every quantity that a run's measures give."""
    values = {}
    for key, quantity in QUANTITIES.items():
        if quantity.measure in datasets:
            try:
                values[key] = quantity.value(datasets[quantity.measure])
            # a run without some of the measure's parts
            except (KeyError, IndexError):
                continue
    return values
