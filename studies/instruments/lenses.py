"""What the Jacobian lens reads that the plain and the translated lens do not, beside models that were never trained.

Every model has a lens of its own fitted to windows of one text; all readers then read the same windows of another part
of it. The question is where, and how far, reading behind the Jacobian comes nearer to the final prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope import Run, fit_lens, load, survey
from bathyscope.extend import bundled_model, untrained
from bathyscope.extend.statistics import Sampling, mean_interval
from studies.common.stored import stored_smollm2
from studies.instruments.texts import token_windows

METRICS: Final = ("kl", "top1_agreement", "mrr")
OF_THE_LENS: Final = ("half_agreement", "half_agreement_rest", "identity_share", "sampling_error")
BAND: Final = (
    "band_first",
    "band_first_low",
    "band_first_high",
    "band_last",
    "band_last_low",
    "band_last_high",
    "band_gain",
    "band_gain_low",
    "band_gain_high",
    "band_p",
)


@dataclass(frozen=True)
class LensCase:
    """How one model is read.

    Args:
        text: file below the folder of data; its first part is fitted to, its last part is read.
        fitted, read: windows of each part.
        tokens, read_tokens: of each window.
        directions: random ones of each fitted window; None = all, exact.
        control_directions: the same for untrained models, whose matrices lie near the identity, which is not sampled.
        controls: untrained models.
    """

    text: str
    fitted: int
    tokens: int
    read: int
    read_tokens: int
    directions: int | None = None
    control_directions: int | None = None
    controls: int = 3

    @property
    def labels(self) -> tuple[str, ...]:
        """The trained model and its controls."""
        return (TRAINED, *(f"untrained-{seed}" for seed in range(self.controls)))


TRAINED: Final = "trained"
CASES: Final[Mapping[str, LensCase]] = {
    "bundled": LensCase("text/books_valid.txt", fitted=24, tokens=48, read=24, read_tokens=48),
    "smollm2": LensCase(
        "text/wikitext2_valid.txt",
        fitted=84,
        tokens=32,
        read=16,
        read_tokens=32,
        directions=48,
        control_directions=8,
    ),
}
FIT_SHARE: Final = 0.7
"""Of the text, that lenses are fitted to; the rest is read."""


def read_with_lens(name: str, label: str, data: Path, out: Path) -> dict[str, Any]:
    """Fit the lens of one model, and read with it; what is finished under ``out`` is not done again.

    Args:
        name: of ``CASES``.
        label: ``trained``, or a control such as ``untrained-0``.
        data: folder of the texts.

    Raises:
        OptionError, PromptError, ModelError, StoreError: as ``survey``.
    """
    case = CASES[name]
    model = load(bundled_model() if name == "bundled" else stored_smollm2(), device="cpu", dtype="float32")
    fitted = token_windows(model, data / case.text, case.fitted, case.tokens, (0.0, FIT_SHARE))
    read = token_windows(model, data / case.text, case.read, case.read_tokens, (FIT_SHARE, 1.0))
    if label != TRAINED:
        model = untrained(model, int(label.removeprefix("untrained-")))
    directions = case.directions if label == TRAINED else case.control_directions
    options = {"prompts": fitted, "directions": directions}
    folder = out / "runs" / f"lenses-{name}" / label
    run = survey(model, read, ["jacobian_lens"], folder, jacobian_lens=options, progress=False)
    return {**summary_of(run), "n_blocks": model.n_blocks, "width": int(model.anatomy.width)}


def sampling_errors(data: Path, directions: Sequence[int] = (4, 16, 64), windows: int = 16) -> dict[str, Any]:
    """Return how far sampled lenses of the bundled model are from the exact one, next to the errors that they state.

    Args:
        data: folder of the texts.
        directions: numbers of random directions.
        windows: of 48 tokens that each lens is fitted to.
    """
    model = load(bundled_model(), device="cpu", dtype="float32")
    fitted = token_windows(model, data / CASES["bundled"].text, windows, 48)
    exact = fit_lens(model, fitted, progress=False)
    rows: dict[str, Any] = {}
    for count in directions:
        lens = fit_lens(model, fitted, directions=count, progress=False)
        distances = [
            float((lens.matrix(b) - exact.matrix(b)).norm() / exact.matrix(b).norm()) for b in exact.boundaries
        ]
        rows[str(count)] = {"measured": rounded(distances), "stated": rounded(lens.data["sampling_error"].values)}
    return {"width": exact.width, "windows": windows, "directions": rows}


def summary_of(run: Run) -> dict[str, Any]:
    """Return the means of every reader by boundary with intervals, the paired gains, and what is known of the lens."""
    data = run["jacobian_lens"]
    readers = data["reader"].values.tolist()
    summary: dict[str, Any] = {
        metric: {reader: means_by_boundary(data[metric].sel(reader=reader)) for reader in readers} for metric in METRICS
    }
    kl = data["kl"]
    for reader in readers:
        if reader != "jacobian":
            gain = kl.sel(reader=reader) - kl.sel(reader="jacobian")
            summary[f"kl_{reader}_less_jacobian"] = means_by_boundary(gain)
    summary |= {name: rounded(data[name].values) for name in OF_THE_LENS}
    return summary | {name: rounded([float(data[name])])[0] for name in BAND}


def means_by_boundary(values: xr.DataArray) -> list[list[float | None]]:
    """Return mean, low and high over prompts at each boundary."""
    rows = []
    for by_prompt in values.transpose("boundary", "prompt").values:
        interval = mean_interval(by_prompt, Sampling())
        rows.append(rounded([float(np.mean(by_prompt)), interval.low, interval.high]))
    return rows


def rounded(values: Sequence[float] | np.ndarray) -> list[float | None]:
    """Return numbers for JSON, with six digits; None for NaN."""
    return [None if np.isnan(value) else float(f"{value:.6g}") for value in np.asarray(values, dtype=np.float64)]
