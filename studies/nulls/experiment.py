"""What of a model's depth is due to its training?

Each model is surveyed beside several models of its own architecture that were never trained, on the same prompts. The
verdict's three readings stand with their difference, paired by prompt; every estimator of effective depth stands with
what the untrained models give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope import Run, load, survey
from bathyscope.errors import OptionError
from bathyscope.extend import variable
from studies.common.checks import require_each_once
from studies.common.names import model_names

PROBLEMS: Final = "problems:60?steps=1-6"
PERMUTATIONS: Final = "task:permutations:200?factors=1-8&beyond=9-9&elements=generators&answer=image"
KEPT: Final = (
    *(f"checkpoints/depth_{blocks}={PROBLEMS}" for blocks in (6, 12, 24)),
    *(f"checkpoints/permutations_{blocks}={PERMUTATIONS}" for blocks in (8, 12)),
)
"""The trained models of the repository, each on prompts like those it learned from."""
MEASURES: Final = ("lens", "skip", "effective_depth")
FEWEST: Final = 3
"""Untrained models without which nothing can be said of training."""
_READING: Final = ("model", "reading")
_SOURCE: Final = "docs/verdict.md"


class Pair(NamedTuple):
    """A model and what it reads."""

    model: str
    prompts: str


@dataclass(frozen=True)
class Nulls:
    """What is measured.

    Args:
        models: each as MODEL=PROMPTS; the first = separates them. None = the checkpoints of the repository.
        controls: untrained models of each, 3 or more.
        seed: of generated prompts and resampling.
    """

    models: tuple[str, ...] | None = None
    controls: int = FEWEST
    seed: int = 0

    def __post_init__(self) -> None:
        if self.controls < FEWEST:
            raise OptionError(
                f"controls={self.controls} says nothing of training: how far untrained models lie apart is not seen "
                f"from fewer than {FEWEST}; give {FEWEST} or more."
            )
        if self.seed < 0:
            raise OptionError(f"seed={self.seed} is out of range; give a whole number of at least 0.")
        if self.models is not None:
            if not self.models:
                raise OptionError("models is empty; give at least one MODEL=PROMPTS.")
            object.__setattr__(self, "models", tuple(self.models))
            require_each_once(self, "models")
        _ = self.pairs

    @property
    def pairs(self) -> list[Pair]:
        """What is measured on what."""
        found = []
        for text in self.models if self.models is not None else KEPT:
            model, equals, prompts = text.partition("=")
            if not (model and equals and prompts):
                raise OptionError(f"models: {text!r} names no prompts; write MODEL=PROMPTS, such as {KEPT[0]}.")
            found.append(Pair(model, prompts))
        return found


def nulls(
    options: Nulls,
    out: str | Path,
    device: str | None = None,
    progress: bool = True,
) -> xr.Dataset:
    """Surveys every model beside its untrained ones; what is finished under ``out`` is not done again.

    Args:
        options: what is measured.
        out: folder of the runs.
        device: ``cpu`` or ``cuda``; None = the first accelerator, else the CPU.
        progress: show progress bars on standard error.

    Returns:
        By ``model`` and ``reading``, in blocks done: ``value``, ``low``, ``high`` of the trained model, ``untrained``
        (also by ``control``), and ``moved``, ``moved_low``, ``moved_high``, the trained model less untrained ones. By
        ``model`` and ``estimator``: ``depth``, and ``depth_untrained`` (also by ``control``). By ``model``: ``blocks``,
        ``prompts`` and ``verdict``, in words.

    Raises:
        PromptError, ModelError, StoreError: as ``survey``.
    """
    pairs = options.pairs
    names = model_names([one.model for one in pairs])
    runs = []
    for pair, name in zip(pairs, names):
        model = load(pair.model, dtype="float32", device=device)
        control = f"untrained:{options.controls}"
        folder = Path(out) / "runs" / name
        runs.append(
            survey(model, pair.prompts, list(MEASURES), folder, options.seed, control=control, progress=progress)
        )
    return table(names, runs)


def table(names: Sequence[str], runs: Sequence[Run]) -> xr.Dataset:
    """All readings of runs that have untrained controls."""
    verdicts = [run.verdict for run in runs]
    readings = [(one.readable, one.own, one.later) for one in verdicts]
    rows = [[_with_null(reading) for reading in own] for own in readings]
    titles = {
        "value": "depth of the trained model",
        "low": "lower end of its interval over prompts",
        "high": "upper end of its interval",
        "moved": "trained less untrained",
        "moved_low": "lower end of its interval",
        "moved_high": "upper end of its interval",
    }
    data = {
        name: variable(_READING, np.array([[row[name] for row in own] for own in rows]), title, "block", source=_SOURCE)
        for name, title in titles.items()
    }
    seeds = [[_of_seeds(reading) for reading in own] for own in readings]
    data["untrained"] = variable((*_READING, "control"), np.array(seeds), "depth, untrained", "block", source=_SOURCE)
    depths = [run["effective_depth"]["depth"] for run in runs]
    beside = [np.stack([c["effective_depth"]["depth"].values for c in run.controls.values()], -1) for run in runs]
    of = ("model", "estimator")
    data["depth"] = variable(of, np.stack([one.values for one in depths]), "effective depth", "block", source=_SOURCE)
    title = "effective depth, untrained"
    data["depth_untrained"] = variable((*of, "control"), np.stack(beside), title, "block", source=_SOURCE)
    return xr.Dataset(
        data,
        {
            "model": list(names),
            "reading": [one.name for one in readings[0]],
            "control": list(runs[0].controls),
            "estimator": depths[0]["estimator"].values,
            "blocks": ("model", [one.n_blocks for one in verdicts]),
            "prompts": ("model", [f"{run.identity.dataset}, {run.identity.prompts} prompts" for run in runs]),
            "verdict": ("model", [one.text for one in verdicts]),
        },
    )


def _with_null(reading: Any) -> dict[str, float]:
    """A reading of a verdict beside that of its untrained models."""
    null = reading.null
    found = {"value": reading.value, "low": reading.low, "high": reading.high}
    return found | {"moved": null.moved, "moved_low": null.interval.low, "moved_high": null.interval.high}


def _of_seeds(reading: Any) -> NDArray[np.float64]:
    """What each untrained model reads, a mean over prompts; NaN where no prompt has a depth."""
    known = np.ma.masked_invalid(reading.null.by_control)
    return np.asarray(known.mean(1).filled(np.nan))
