from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bathyscope.errors import OptionError
from bathyscope.pages.figures.kit.summary import describe, summarise
from bathyscope.pages.figures.options import FigureOptions, options_of
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling

CURVES = np.array([[1.0, 2.0], [3.0, 10.0], [5.0, 0.0]])
TOKENS = np.array([10, 20, 70])


def test_token_weighted_mean_counts_each_token() -> None:
    summary = summarise(CURVES, TOKENS, FigureOptions(weighting="tokens"))
    np.testing.assert_allclose(summary.mean, [(10 + 60 + 350) / 100, (20 + 200) / 100])


def test_prompt_weighted_mean_counts_each_prompt() -> None:
    summary = summarise(CURVES, TOKENS, FigureOptions())
    np.testing.assert_allclose(summary.mean, [3.0, 4.0])


def test_missing_value_takes_its_weight_along() -> None:
    curves = CURVES.copy()
    curves[2, 0] = np.nan
    summary = summarise(curves, TOKENS, FigureOptions(weighting="tokens"))
    np.testing.assert_allclose(summary.mean, [(10 + 60) / 30, 2.2])


def test_place_without_any_value_is_a_gap() -> None:
    curves = CURVES.copy()
    curves[:, 1] = np.nan
    summary = summarise(curves, TOKENS, FigureOptions(band="quartiles"))
    assert summary.low is not None
    assert np.isnan([summary.mean[1], summary.low[1]]).all()
    assert np.isfinite([summary.mean[0], summary.low[0]]).all()


def test_prompt_without_tokens_does_not_count() -> None:
    for weighting in ("tokens", "prompts"):
        summary = summarise([[1.0], [99.0], [3.0]], [5, 0, 5], FigureOptions(weighting=weighting))
        np.testing.assert_allclose(summary.mean, [2.0])


def test_quartiles_of_the_prompts() -> None:
    curves = np.arange(5.0)[:, None]
    summary = summarise(curves, np.ones(5), FigureOptions(band="quartiles"))
    assert (summary.low, summary.high) == ([1.0], [3.0])


def test_bootstrap_band_is_as_wide_as_the_normal_interval() -> None:
    rng = np.random.default_rng(1)
    curves = rng.normal(5.0, 2.0, (400, 3))
    summary = summarise(curves, np.ones(400), FigureOptions())
    assert summary.low is not None
    assert summary.high is not None
    expected = 2 * 1.96 * curves.std(0, ddof=1) / np.sqrt(400)
    np.testing.assert_allclose(summary.high - summary.low, expected, rtol=0.12)
    assert ((summary.low < summary.mean) & (summary.mean < summary.high)).all()


def test_copies_in_clusters_have_the_band_of_one_prompt_each() -> None:
    once = summarise(CURVES, TOKENS, FigureOptions())
    copied = [np.repeat(one, 5, axis=0) for one in (CURVES, TOKENS)]
    clustered = summarise(*copied, FigureOptions(), np.repeat(np.arange(3), 5))
    for name in ("mean", "low", "high"):
        np.testing.assert_allclose(getattr(clustered, name), getattr(once, name))
    apart = summarise(*copied, FigureOptions())
    assert (apart.high - apart.low < 0.7 * (clustered.high - clustered.low)).all()  # type: ignore[operator]
    assert summarise(CURVES, TOKENS, FigureOptions(), np.zeros(3, dtype=np.intp)).low is None


@pytest.mark.parametrize("prompts", [2, 3, 5, 10])
def test_a_band_of_few_prompts_holds_the_truth_as_often_as_it_says(prompts: int) -> None:
    """Drawn again and again: a place is a draw of its own."""
    drawn = np.random.default_rng(prompts).normal(size=(prompts, 3000))
    summary = summarise(drawn, np.ones(prompts), FigureOptions())
    assert summary.low is not None
    assert summary.high is not None
    covered = float(((summary.low <= 0) & (summary.high >= 0)).mean())
    assert covered == pytest.approx(0.95, abs=0.02)


def test_the_band_is_students_interval_with_the_runs_seed() -> None:
    """Student's interval of the weighted mean, by its formula; the seed decides the last digits alone."""
    values = np.random.default_rng(3).normal(5, 2, (12, 1))
    ends = []
    for seed in (0, 123):
        summary = summarise(values, np.ones(12), options_of(None, seed))
        assert summary.low is not None
        assert summary.high is not None
        ends.append((summary.low[0], summary.high[0]))
        assert ends[-1] == pytest.approx(mean_interval(values[:, 0], Sampling(seed=seed)))
    assert ends[0] != ends[1]
    reach = stats.t.ppf(0.975, 11) * values.std(ddof=1) / np.sqrt(12)
    assert (ends[0][1] - ends[0][0]) / 2 == pytest.approx(reach, rel=0.15)


def test_a_band_is_cut_to_what_there_can_be() -> None:
    summary = summarise([[0.9], [1.0], [0.2]], np.ones(3), FigureOptions(), limits=(0.0, 1.0))
    assert (summary.low, summary.high) == ([0.0], [1.0])


def test_equal_prompts_have_a_band_of_no_width() -> None:
    summary = summarise(np.full((4, 2), 7.0), np.ones(4), FigureOptions())
    np.testing.assert_allclose([summary.low, summary.high], 7.0)


@pytest.mark.parametrize(
    ("curves", "options"),
    [(CURVES[:1], FigureOptions()), (CURVES, FigureOptions(band="none"))],
    ids=["one prompt", "none asked for"],
)
def test_no_band(curves: np.ndarray, options: FigureOptions) -> None:
    assert summarise(curves, TOKENS[: len(curves)], options).low is None


@pytest.mark.parametrize(
    ("options", "prompts", "said"),
    [
        (FigureOptions(weighting="tokens"), 5, ["each token counts the same", "95% bootstrap interval of the mean"]),
        (FigureOptions(), 5, ["each prompt counts the same", "resampling prompts."]),
        (FigureOptions(cluster="book"), 5, ["resampling clusters of prompts by book."]),
        (FigureOptions(band="quartiles"), 5, ["quartiles of the prompts"]),
        (FigureOptions(), 1, ["one prompt, so no band"]),
    ],
)
def test_caption_says_what_line_and_band_are(options: FigureOptions, prompts: int, said: list[str]) -> None:
    assert all(part in describe(options, prompts) for part in said)


@pytest.mark.parametrize("name", ["weighting", "band", "reduction", "scale"])
def test_unknown_option_names_what_is_allowed(name: str) -> None:
    with pytest.raises(OptionError, match=rf"{name}='nonsense' is unknown\..*Allowed: \w+, \w+"):
        FigureOptions(**{name: "nonsense"})


@pytest.mark.parametrize("given", [-1, 21, 2.5, True, "3"])
def test_number_of_prompts_shown_is_limited(given: object) -> None:
    said = f"={given} is out of range; allowed: 0 to 20" if type(given) is int else f" takes a whole number; {given!r}"
    with pytest.raises(OptionError, match=f"prompts_shown{said}"):
        FigureOptions(prompts_shown=given)  # type: ignore[arg-type]


def test_near_miss_is_suggested() -> None:
    with pytest.raises(OptionError, match="Did you mean 'quartiles'"):
        FigureOptions(band="quartile")  # type: ignore[arg-type]
