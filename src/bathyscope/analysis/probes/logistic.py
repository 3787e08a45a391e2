"""Logistic probes with scikit-learn, and how sure their accuracy is."""

import importlib.util
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bathyscope.errors import OptionError, PromptError
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.shares import share_interval

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Values of C among which cross-validation chooses."""
FOLDS = 5
_STEPS = 5000
ACCURACY = ("accuracy", "ci_low", "ci_high")
"""Variables of an accuracy with its interval."""

Array = NDArray[np.floating]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """How probes are fitted and their accuracy is judged.

    Args:
        C: inverse strength of the L2 penalty on standardised features; None = the best of ``STRENGTHS`` by
            cross-validation within the training rows.
        sampling: of the rows that accuracy is measured on; its seed is that of the folds too.
    """

    C: float | None
    sampling: Sampling

    def __post_init__(self) -> None:
        if self.C is not None and not (self.C > 0 and math.isfinite(self.C)):
            raise OptionError(f"C={self.C!r} is not allowed; give a number above 0, or leave it out.")
        if importlib.util.find_spec("sklearn") is None:
            raise OptionError("Probes need scikit-learn, which is not installed: pip install 'bathyscope[probes]'.")

    def require_rows(self, labels: Labels, what: str, least: int | None = None) -> None:
        """Refuses labels that a probe cannot be fitted to, or judged by.

        Args:
            least: rows of each label that are needed; None = as many as fitting takes.
        """
        fewest = (2 if self.C is not None else FOLDS) if least is None else least
        counts = {int(label): int((labels == label).sum()) for label in (0, 1)}
        if min(counts.values()) < fewest:
            lacking = "all are labelled alike" if 0 in counts.values() else "that is too few"
            raise PromptError(
                f"{what}: {counts[0]} rows are labelled 0 and {counts[1]} are labelled 1; {lacking}. At least {fewest} "
                "of each are needed; give more rows."
            )


class Accuracy(NamedTuple):
    """Share of rows that are classified correctly, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """A fitted probe: accuracy on its own rows, which held-out rows it classifies correctly, and the C it used."""

    train_accuracy: float
    correct: NDArray[np.bool_]
    C: float


def fit(train: Array, labels: Labels, held_out: Array, held_out_labels: Labels, settings: Settings) -> Fit:
    """A logistic probe on standardised features [rows, features]; held-out rows enter neither scale nor C."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # single precision is too coarse for the solver's stopping rule
    train, held_out = train.astype(np.float64), held_out.astype(np.float64)
    chosen = 1.0 if settings.C is None else settings.C
    model = make_pipeline(StandardScaler(), LogisticRegression(C=chosen, max_iter=_STEPS))
    with warnings.catch_warnings():
        # a probe that has not converged is a fault of the features, and not one to hide
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            if settings.C is None:
                folds = StratifiedKFold(FOLDS, shuffle=True, random_state=settings.sampling.seed)
                # of equal strengths the first, the strongest penalty, is taken
                search = GridSearchCV(model, {"logisticregression__C": STRENGTHS}, cv=folds, error_score="raise")
                search.fit(train, labels)
                model, chosen = search.best_estimator_, search.best_params_["logisticregression__C"]
            else:
                model.fit(train, labels)
        except ConvergenceWarning as error:
            raise OptionError(
                f"A probe has not converged after {_STEPS} steps; give a C below {chosen:g}, a stronger penalty."
            ) from error
    return Fit(
        float((model.predict(train) == labels).mean()), np.asarray(model.predict(held_out) == held_out_labels), chosen
    )


def accuracy(correct: NDArray[np.bool_], settings: Settings) -> Accuracy:
    """Return the share of held-out rows that are classified correctly, with a bootstrap interval over these rows.

    Where all rows are right, or all are wrong, every resample is too, so the interval is Wilson's.
    """
    right = correct.astype(np.float64)
    # A bootstrap of equal rows has no width, and would call ten right answers of ten certain.
    if right.size > 1 and np.ptp(right) == 0:
        return Accuracy(float(right.mean()), *share_interval(right, level=settings.sampling.level))
    return Accuracy(float(right.mean()), *mean_interval(right, settings.sampling, limits=(0.0, 1.0)))


def judge(fits: Sequence[Sequence[Fit]], settings: Settings) -> dict[str, list[list[float]]]:
    """Return accuracy with its interval, and train_accuracy, each as nested as the probes are."""
    accuracies = [[accuracy(probe.correct, settings) for probe in row] for row in fits]
    columns = {name: [[cell[place] for cell in row] for row in accuracies] for place, name in enumerate(ACCURACY)}
    return columns | {"train_accuracy": [[probe.train_accuracy for probe in row] for row in fits]}
