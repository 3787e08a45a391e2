"""Logistic probes: what they find, what they must not see, and how sure they are."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.stats.proportion import proportion_confint

from bathyscope.analysis.probes.logistic import FOLDS, STRENGTHS, Settings, accuracy, fit
from bathyscope.errors import OptionError, PromptError
from bathyscope.statistics.sampling import Sampling

SETTINGS = Settings(C=1.0, sampling=Sampling(400))


def rows(n: int, seed: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Ten features, of which the first tells the label, in any unit."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(n, 10))
    labels = (features[:, 0] > 0).astype(int)
    features[:, 0] = features[:, 0] * scale + 1000 * scale
    return features.astype(np.float32), labels


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_linear_label_is_found_in_any_unit(scale: float) -> None:
    (train, labels), (held_out, held_out_labels) = rows(300, 0, scale), rows(300, 1, scale)
    found = fit(train, labels, held_out, held_out_labels, SETTINGS)
    assert found.correct.mean() > 0.95
    assert found.train_accuracy > 0.95


def test_labels_of_held_out_rows_enter_nothing_but_their_own_verdict() -> None:
    (train, labels), (held_out, held_out_labels) = rows(100, 0), rows(40, 1)
    chosen = Settings(C=None, sampling=Sampling(10))
    one = fit(train, labels, held_out, held_out_labels, chosen)
    other = fit(train, labels, held_out, 1 - held_out_labels, chosen)
    assert (one.correct == ~other.correct).all()
    assert (one.C, one.train_accuracy) == (other.C, other.train_accuracy)
    alone = fit(train, labels, held_out[:1], held_out_labels[:1], chosen)
    assert alone.correct[0] == one.correct[0]


def test_the_penalty_is_the_best_by_cross_validation_within_the_training_rows() -> None:
    """Many weak features: the strongest penalty is best, and a weak one a good deal worse."""
    draw = np.random.default_rng(0)
    labels = np.tile([0, 1], 60)
    features = draw.normal(size=(120, 200)) + 0.15 * (2 * labels[:, None] - 1)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    scores = {
        C: cross_val_score(make_pipeline(StandardScaler(), LogisticRegression(C=C)), features, labels, cv=folds).mean()
        for C in STRENGTHS
    }
    found = fit(features, labels, features, labels, Settings(C=None, sampling=Sampling(10)))
    assert max(scores, key=scores.__getitem__) == found.C
    assert scores[found.C] > min(scores.values())


def test_accuracy_has_a_bootstrap_interval() -> None:
    correct = np.arange(400) < 300
    found = accuracy(correct, SETTINGS)
    assert found.value == 0.75
    spread = 1.96 * np.sqrt(0.75 * 0.25 / 400)
    assert found.low == pytest.approx(0.75 - spread, abs=0.01)
    assert found.high == pytest.approx(0.75 + spread, abs=0.01)
    assert accuracy(correct, SETTINGS) == found
    whole = accuracy(np.ones(50, dtype=bool), SETTINGS)
    assert (whole.value, whole.high) == (1, 1)
    assert whole.low == pytest.approx(50 / (50 + 1.96**2), abs=1e-4)


def test_rows_that_are_all_right_are_no_proof() -> None:
    for right, share in ((True, 1.0), (False, 0.0)):
        found = accuracy(np.full(20, right), SETTINGS)
        assert found.value == share
        assert (found.low, found.high) == pytest.approx(proportion_confint(20 * share, 20, 0.05, "wilson"))
        assert found.high - found.low > 0.1
    assert np.isnan(accuracy(np.array([True]), SETTINGS).low)


def test_intervals_of_good_probes_hold_the_truth() -> None:
    """97 of 100 rows are told right: often all of fifty are."""
    draws = np.random.default_rng(0).random((200, 50)) < 0.97
    held = [found.low <= 0.97 <= found.high for found in (accuracy(row, SETTINGS) for row in draws)]
    assert np.mean(held) > 0.9


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1] * 20, "0 rows are labelled 0 and 20 are labelled 1; all are labelled alike. At least 5 of each"),
        ([1] * 20 + [0] * 4, "4 rows are labelled 0 and 20 are labelled 1; that is too few. At least 5 of each"),
    ],
)
def test_too_few_rows_are_refused(labels: list[int], message: str) -> None:
    with pytest.raises(PromptError) as caught:
        Settings(C=None, sampling=Sampling(10)).require_rows(np.array(labels), "Training rows")
    assert message in str(caught.value)
    assert str(caught.value).startswith("Training rows: ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"C": 0.0}, "C=0.0 is not allowed; give a number above 0"),
        ({"C": float("inf")}, "C=inf is not allowed"),
    ],
)
def test_settings_out_of_range(given: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Settings(**{"C": 1.0, "sampling": Sampling(10), **given})
    assert message in str(caught.value)


def test_without_scikit_learn_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sklearn" else find(name))
    with pytest.raises(
        OptionError, match=r"need scikit-learn, which is not installed: pip install 'bathyscope\[probes\]'"
    ):
        Settings(C=1.0, sampling=Sampling(10))


def test_a_probe_that_does_not_converge_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bathyscope.analysis.probes.logistic._STEPS", 1)
    train, labels = rows(100, 0)
    with pytest.raises(OptionError, match="has not converged after 1 steps; give a C below 1, a stronger"):
        fit(train, labels, train, labels, SETTINGS)
