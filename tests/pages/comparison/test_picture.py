"""The head of a page of several runs: the sentence and the picture against the comparison's own numbers."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from support.compared import a_run

import bathyscope
from bathyscope.analysis.depths import Comparison
from bathyscope.analysis.depths.sentences import (
    ComparedDepth,
    decimals,
    percents,
    prompts_needed,
    rows_of_comparison,
    sentence,
    support,
    surviving,
)
from bathyscope.pages.comparison.next_step import comparison_facts
from bathyscope.pages.comparison.picture import comparison_html, draw_comparison, run_curves, state_blocks
from bathyscope.pages.head.layouts import NARROW, WIDE
from bathyscope.pages.head.svg import print_svg
from bathyscope.runs.run import Run

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def found() -> Comparison:
    return bathyscope.compare([a_run(model="own/one"), a_run(model="own/two", blocks=20)], resamples=200)


def with_values(comparison: Comparison, estimator: str, **values: float) -> Comparison:
    """The comparison with other numbers of one estimator, and no test of the others."""
    data = comparison.data.copy(deep=True)
    data["p_holm"].values[:] = math.nan
    for name, value in values.items():
        data[name].loc[{"estimator": estimator}] = value
    return replace(comparison, data=data)


def with_head(comparison: Comparison, **values: float) -> Comparison:
    """The comparison with other numbers of what heads it."""
    readings = comparison.readings.copy(deep=True)
    for name, value in values.items():
        readings[name].loc[{"reading": "half"}] = value
    return replace(comparison, readings=readings)


def changed_by(difference: float, reach: float = 0.05, **values: float) -> dict[str, float]:
    """Numbers of a head that differs from a reference of one half."""
    numbers = {"reference_ratio": 0.5, "other_ratio": 0.5 + difference, "difference": difference, "p_value": 0.01}
    return numbers | {"difference_low": difference - reach, "difference_high": difference + reach} | values


@pytest.mark.parametrize(("sign", "word"), [(-1, "smaller"), (1, "larger")])
def test_a_head_that_differs_is_stated(found: Comparison, sign: int, word: str) -> None:
    comparison = with_head(found, **changed_by(0.1 * sign))
    other, reference = (str(comparison.data[name].values[0]) for name in ("other", "reference"))
    assert sentence(comparison) == (
        f"Half of the tokens keep their prediction from a {word} share of the blocks on in {other} than in "
        f"{reference}: {50 + 10 * sign} % against 50 %"
    )
    assert support(comparison).startswith(f"{'+' if sign > 0 else '−'}10.0 points (")
    # it is asked first and alone
    assert ", p = 0.01. Of " in support(comparison)


def test_estimators_that_survive_are_counted_with_their_direction(found: Comparison) -> None:
    comparison = with_head(with_values(found, "prediction", difference=-0.1, p_holm=0.01), **changed_by(0.1))
    assert support(comparison).endswith(
        "Of 1 estimators one differs after correction for 1 test, one of them the other way."
    )
    alike = with_head(with_values(found, "prediction", difference=0.1, p_holm=0.01), **changed_by(0.1))
    assert support(alike).endswith("Of 1 estimators one differs after correction for 1 test, in the same direction.")


def test_depths_are_also_given_in_blocks_where_models_have_different_numbers_of_them(found: Comparison) -> None:
    """The deeper model is earlier by its share and later by its blocks: 8 of 20 against 5 of 10."""
    comparison = with_head(found, **changed_by(-0.1))
    assert state_blocks(comparison) == "In blocks: 8.0 of 20 against 5.0 of 10."
    assert "In blocks: 8.0 of 20 against 5.0 of 10." in comparison_html(comparison)
    assert state_blocks(with_head(found, **changed_by(-0.1, reach=0.2))) == ""
    alike = bathyscope.compare([a_run(model="own/one"), a_run(model="own/two", seed=1)], resamples=50)
    assert state_blocks(with_head(alike, **changed_by(-0.1))) == ""


@pytest.mark.parametrize("error", [0.05, 0.1, 0.5])
def test_what_would_be_needed_where_nothing_is_proved(found: Comparison, error: float) -> None:
    """One test at 5 % with a power of 80 % needs (1.96 + 0.84)² (error / difference)² as many prompts."""
    comparison = with_head(found, **changed_by(0.1, reach=0.2, standard_error=error))
    prompts = int(comparison.data["n_prompts"].max())
    text = sentence(comparison)
    other, reference = (str(comparison.data[name].values[0]) for name in ("other", "reference"))
    assert text.startswith(
        f"No difference of depth is proved on {prompts} prompts (half of the tokens keep their prediction from 60 % of "
        f"the blocks of {other} on, and 50 % of {reference})"
    )
    exact = prompts * 2.8016**2 * (error / 0.1) ** 2
    needed = float(re.search(r"about ([\d,]+) would be needed", text)[1].replace(",", ""))  # type: ignore[index]
    assert max(exact, prompts + 1) <= needed <= 1.11 * max(exact, prompts + 1) + 1


def test_a_difference_of_nothing_asks_for_no_number(found: Comparison) -> None:
    comparison = with_head(found, **changed_by(0.0, standard_error=0.1))
    assert "; no number of prompts proves a difference of 0" in sentence(comparison)
    assert "would need more than 100,000" in sentence(
        with_head(found, **changed_by(1e-6, reach=0.2, standard_error=0.1))
    )
    untested = with_head(found, **changed_by(0.1, reach=math.nan, p_value=math.nan))
    assert sentence(untested).startswith("No difference of depth can be tested: ")


def test_only_what_survives_is_stated(found: Comparison) -> None:
    alpha = 1 - found.level
    p = found.data["p_holm"].isel(comparison=0)
    expected = {str(name) for name in p["estimator"].values if float(p.sel(estimator=name)) < alpha}
    assert {row.estimator for row in surviving(found, 0)} == expected
    tested = [row.p for row in rows_of_comparison(found, 0) if not math.isnan(row.p)]
    assert tested == sorted(tested)


def test_marks_and_curves_are_the_comparisons(found: Comparison) -> None:
    curves = run_curves(found)
    for curve, side in zip(curves, found.sides):
        assert curve.ratio == side.run.verdict.half.ratio
        assert curve.n_blocks == side.n_blocks
    picture = ElementTree.fromstring(print_svg(draw_comparison(curves, WIDE), ""))
    dots = sorted(float(dot.get("cx", "")) for dot in picture.iter(f"{SVG}circle"))
    places = sorted(64 + 900 * curve.ratio for curve in curves if not math.isnan(curve.ratio))
    np.testing.assert_allclose(dots, places, atol=0.06)
    html = comparison_html(found)
    assert f'<h2 class="headline">{sentence(found)}.</h2>' in html.replace("&#39;", "'")


def test_long_and_hostile_names_stay_inert(found: Comparison) -> None:
    curves = [replace(curve, name="<script>\u202e" * 30) for curve in run_curves(found)]
    text = print_svg(draw_comparison(curves, NARROW), "")
    ElementTree.fromstring(text)
    assert "<script" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("reference", "other", "texts"),
    [
        (0.693, 0.656, ("69.3 %", "65.6 %")),  # 69 and 66 would not show 3.7
        (0.69, 0.66, ("69 %", "66 %")),
        (0.5004, 0.4996, ("50.04 %", "49.96 %")),
        (0.6921, 0.6556, ("69.21 %", "65.56 %")),  # 69.2 and 65.6 would show 3.6, and the difference is written as 3.7
        (0.5, math.nan, ("50.00 %", "nan %")),
    ],
)
def test_two_shares_show_their_difference(reference: float, other: float, texts: tuple[str, str]) -> None:
    row = ComparedDepth("prediction", reference, other, other - reference, np.nan, np.nan, 0.01, 0.01)
    assert percents(row) == texts


def test_any_two_shares_differ_by_the_difference_as_it_is_written() -> None:
    for reference, other in np.random.default_rng(0).random((2000, 2)):
        row = ComparedDepth("prediction", reference, other, other - reference, np.nan, np.nan, 0.01, 0.01)
        first, second = (float(text.removesuffix(" %")) for text in percents(row))
        # Two decimals each leave at most 0.01 of the 0.05 by which the difference is rounded.
        assert abs(second - first - round(100 * row.difference, 1)) <= (0.06 if decimals(row) == 2 else 1e-9)


def ended_at(run: Run, notes: dict[str, Any]) -> Run:
    """The run as of a file that it did not read to its end."""
    manifest = {**run.manifest, "identity": {**run.manifest["identity"], "dataset": "mine.jsonl"}}
    return replace(run, manifest={**manifest, "record": {**manifest["record"], **notes}})


def test_the_next_command_follows_from_what_is_known(found: Comparison) -> None:
    """More prompts where nothing is proved, controls where a difference of two models is, else other text."""
    unproved = with_head(found, **changed_by(0.1, reach=0.2, standard_error=0.1))
    meaning, step = comparison_facts(unproved, 0)
    assert meaning.text.startswith("Half of the tokens kept: from which share")
    assert f"on {prompts_needed(unproved)} prompts" in step.text
    assert prompts_needed(unproved) in sentence(unproved)
    two_samples = unproved.data.assign_coords(kind=("comparison", ["two-sample"]))
    (_, step) = comparison_facts(replace(unproved, data=two_samples), 0)
    assert f"survey {prompts_needed(unproved)} prompts, half of them with each:" in step.text
    (_, step) = comparison_facts(with_head(found, **changed_by(0.0, standard_error=0.1)), 0)
    assert step.command == "bathyscope compare RUN RUN --equivalence 0.1"
    single = bathyscope.compare([a_run(model="own/one", prompts=1), a_run(model="own/two", prompts=1)], resamples=50)
    assert [step.text for step in comparison_facts(single, 0)[1:]] == [
        "To test a difference, survey both on ten prompts or more:"
    ]
    until = {"notes": {"until": {"prompts": 1, "offered": 24}}}
    ended = replace(single, sides=tuple(replace(side, run=ended_at(side.run, until)) for side in single.sides))
    assert "--prompts mine.jsonl:10 " in str([step.command for step in comparison_facts(ended, 0)[1:]])
    first, second = found.sides
    altered = {**second.run.manifest["identity"], "weight_hash": "of other weights"}
    other = replace(second, run=replace(second.run, manifest={**second.run.manifest, "identity": altered}))
    two_models = replace(found, sides=(first, other))
    proved = with_values(two_models, "centre_of_mass", difference=0.1, ci_low=0.05, ci_high=0.15, p_holm=0.01)
    proved = with_head(proved, **changed_by(0.1))
    meaning, step = comparison_facts(proved, 0)
    assert "; centre of mass: the mean position" in meaning.text
    assert step.command.startswith("bathyscope survey own/")
    assert step.command.endswith("--control untrained:3")
    assert "bathyscope survey own/" in comparison_html(proved)
    # axe-core refuses a heading without words
    assert '<th scope="col">estimator</th>' in comparison_html(proved)
    assert '<th scope="col"></th>' not in comparison_html(proved)
    own = {**first.run.manifest["identity"], "model": second.run.identity.model}
    renamed = replace(second, run=replace(second.run, manifest={**second.run.manifest, "identity": own}))
    (_, step) = comparison_facts(replace(proved, sides=(first, renamed)), 0)
    assert "--prompts OTHERS.jsonl" in step.command
    one_run = replace(proved, sides=tuple(replace(side, run=proved.sides[0].run) for side in proved.sides))
    assert len(comparison_facts(one_run, 0)) == 1
