"""At which depth the meaning of a word in its sentence can be read: a linear probe at every boundary.

The hidden states of a word's last token in two sentences tell a logistic probe whether the word means the same in
both (Words in Context; Pilehvar and Camacho-Collados 2019). Source: lad2024, probes.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bathyscope.analysis.options import WicOptions
from bathyscope.analysis.probes.logistic import Fit, Settings, fit, judge
from bathyscope.analysis.probes.skeleton import Finding, lent, token_states
from bathyscope.analysis.probes.wic_rows import Rows, WordPair, read_pairs
from bathyscope.core.calls import takes
from bathyscope.core.common_options import Progress
from bathyscope.core.estimates import Estimate
from bathyscope.core.result import LabelledResult, tabulate_over
from bathyscope.errors import warn
from bathyscope.labels import Label, Table, interval
from bathyscope.model import Model, ModelArgument
from bathyscope.statistics.sampling import Sampling

_SOURCE = "lad2024, probes"
_WHAT = "a word's meaning in two sentences"
_by_boundary = partial(Label, "features boundary", source=_SOURCE)
_TABLE: Final[Table] = {
    "accuracy": _by_boundary(f"accuracy of a linear probe of {_WHAT}"),
    **interval("ci", _by_boundary, "the {percent=95 %} interval"),
    "train_accuracy": _by_boundary("accuracy on the rows that the probe was fitted to"),
    "C": _by_boundary("inverse strength of the L2 penalty"),
    "majority": Label("", "accuracy of always giving the label that most training rows have", source=_SOURCE),
    "correct": Label("features boundary row", "whether a validation row is classified correctly", source=_SOURCE),
}

Array = NDArray[np.float32]


@takes(WicOptions)
def wic_probe(
    model: ModelArgument,
    train: Rows = None,
    validation: Rows = None,
    *,
    features: tuple[Literal["concatenation", "difference"], ...] = ("concatenation",),
    train_rows: int | None = None,
    C: float | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = True,
) -> LabelledResult:
    """Accuracy of a linear probe of word meaning at every boundary.

    Args:
        train: rows that probes are fitted to: a JSONL, CSV or parquet file with the columns of SuperGLUE's WiC, or
            such rows; None = the data set on the hub.
        validation: rows that accuracy is measured on; None = the data set on the hub.
        ...: the options of ``WicOptions``.

    Returns:
        A result; its ``data`` holds the following.
        By ``features`` and ``boundary`` (0 … L): accuracy, ci_low, ci_high, train_accuracy and C; majority, the
        accuracy of always giving the label that most rows of ``train`` have; and by ``row`` of ``validation`` too
        correct, from which boundaries can be compared on the same rows.

    Raises:
        OptionError: an option out of range, or scikit-learn is not installed.
        PromptError: rows that do not fit, too few of them, or of one label only.
        ModelError: the model cannot be ready, or has no tokenizer.
    """
    settings = Settings(C, Sampling(resamples, level, seed))
    with lent(model, "WiC rows are") as ready:
        limit = ready.max_tokens
        fitted = read_pairs(train, "train", ready.tokenizer, count=train_rows, max_tokens=limit)
        judged = read_pairs(validation, "validation", ready.tokenizer, max_tokens=limit)
        _warn_of_shared(fitted, judged)
        labels, held_out_labels = _labels(fitted), _labels(judged)
        settings.require_rows(labels, "Training rows")
        settings.require_rows(held_out_labels, "Validation rows", least=1)
        states = _states(ready, [*fitted, *judged], progress)
        fits: dict[str, list[Fit]] = {
            name: [
                fit(x[: len(fitted)], labels, x[len(fitted) :], held_out_labels, settings)
                for x in (_features(states[:, :, boundary], name) for boundary in range(states.shape[2]))
            ]
            for name in features
        }
        majority = float((held_out_labels == (2 * labels.sum() > len(labels))).mean())
        return _FINDING.result(
            *_read_off(fits, settings, majority),
            ready,
            settings.sampling,
            train_rows=len(fitted),
            validation_rows=len(judged),
            seed=seed,
        )


def _tabulate(data: xr.Dataset) -> pd.DataFrame:
    columns = ("features", "boundary", "accuracy", "ci_low", "ci_high", "train_accuracy", "C")
    return tabulate_over(data, columns, ("features", "boundary"))


def _conclude(data: xr.Dataset) -> str:
    """Return where word meaning is read best."""
    best = data.stack(place=("features", "boundary")).isel(place=int(data["accuracy"].values.argmax()))
    return (
        f"Word meaning is read best at boundary {int(best['boundary'])}, by {best['features'].item()}: accuracy "
        f"{Estimate.of(best, 'accuracy', 'ci'):.3f}. Majority label: {float(data['majority']):.3f}."
    )


_FINDING: Final = Finding(_TABLE, _conclude, _tabulate, "wic")


def _warn_of_shared(fitted: Sequence[WordPair], judged: Sequence[WordPair]) -> None:
    """Warn of rows that a probe is fitted to and judged by."""
    seen = {pair.uses for pair in fitted}
    shared = [number for number, pair in enumerate(judged, start=1) if pair.uses in seen]
    if shared:
        warn(
            f"{len(shared)} of {len(judged)} validation rows are training rows too (first: row {shared[0]}), which a "
            "probe may know by heart. Give other rows to judge by (validation=, --validation)."
        )


def _labels(pairs: Sequence[WordPair]) -> NDArray[np.int64]:
    return np.array([pair.label for pair in pairs])


def _states(model: Model, pairs: Sequence[WordPair], progress: bool) -> Array:
    """The word's hidden states, [pairs, 2, boundaries, width]."""
    uses = [use for pair in pairs for use in pair.uses]
    states = token_states(model, [use.ids for use in uses], [use.token for use in uses], progress)
    return np.asarray(states.unflatten(0, (len(pairs), 2)).numpy())


def _features(states_P2D: Array, name: str) -> Array:
    if name == "concatenation":
        return states_P2D.reshape(len(states_P2D), -1)
    return np.abs(states_P2D[:, 0] - states_P2D[:, 1])


def _read_off(fits: dict[str, list[Fit]], settings: Settings, majority: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables of the result, and its coordinates."""
    values: dict[str, Any] = {**judge(list(fits.values()), settings)}
    values["C"] = [[probe_fit.C for probe_fit in row] for row in fits.values()]
    # What a probe must beat: always telling the more frequent label.
    values["majority"] = majority
    values["correct"] = np.array([[probe_fit.correct for probe_fit in row] for row in fits.values()])
    coords = {
        "features": list(fits),
        "boundary": np.arange(values["correct"].shape[1]),
        "row": np.arange(values["correct"].shape[2]),
    }
    return values, coords
