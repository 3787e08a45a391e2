"""Depths of named places by group: the last boundary at which a place matters, prompt by prompt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import waves, zoo

import bathyscope
from bathyscope import Prompt
from bathyscope.analysis.depths.named_places import place_estimators
from bathyscope.errors import OptionError
from bathyscope.pages.figures.panels import panel_rows
from bathyscope.runs.run import Run
from bathyscope.statistics.operand_depth import arrived_at

QUICK = {"resamples": 100, "permutations": 99}
KINDS = ["repeat"] * 5 + ["free"] * 5


def surveyed(positions: object) -> Run:
    ids = zoo.prompts(zoo.build("llama"), [8] * len(KINDS), 3)
    prompts = [Prompt(ids=each, answer_tokens=1, labels={"kind": kind}) for each, kind in zip(ids, KINDS)]
    options = {"positions": positions}
    return bathyscope.survey(waves.loaded("llama"), prompts, ["erasure"], erasure=options, progress=False)


def left_one_by_one(effect_B: np.ndarray) -> float:
    """The first boundary behind which less than a tenth of the largest effect is left, by looking at each."""
    boundaries = [b for b in range(1, len(effect_B)) if (effect_B[b:] < 0.1 * effect_B.max()).all()]
    return float(boundaries[0]) if boundaries else float("nan")


def test_a_group_has_the_mean_boundary_at_which_its_place_is_left() -> None:
    run = surveyed({"at": 2})
    effect = run["erasure"]["effect_at"].transpose("prompt", "boundary", "place").values[:, :, 0]
    left = np.array([left_one_by_one(each) for each in effect])
    result = bathyscope.group(run, "kind", **QUICK)  # type: ignore[arg-type]
    assert result["estimator"].values.tolist() == ["erasure_left"]
    for kind in ("repeat", "free"):
        cell = result.data.sel(group=kind, estimator="erasure_left")
        assert cell["depth"].item() == pytest.approx(np.nanmean(left[np.array(KINDS) == kind]))
        assert cell["n"].item() == np.isfinite(left[np.array(KINDS) == kind]).sum()
    means = [np.nanmean(left[np.array(KINDS) == kind]) / run.n_blocks for kind in ("free", "repeat")]
    reference, other = result["reference"].item(), result["other"].item()
    by_kind = dict(zip(("free", "repeat"), means))
    assert result["difference"].item() == pytest.approx(by_kind[other] - by_kind[reference])


def test_several_places_have_a_depth_each_and_all_tokens_have_none() -> None:
    run = surveyed({"at": [2, -3]})
    estimator_of = place_estimators(run)
    assert list(estimator_of) == ["erasure_left_0", "erasure_left_1"]
    effect = run["erasure"]["effect_at"].transpose("prompt", "boundary", "place").values
    for place, estimator in enumerate(estimator_of.values()):
        expected = [left_one_by_one(each) for each in effect[:, :, place]]
        np.testing.assert_array_equal(estimator.values[:, 0], expected)
    with pytest.raises(
        OptionError,
        match=r"This run holds erasure, noise; .*residual, lens or skip, off .* off named places of erasure",
    ):
        bathyscope.group(surveyed(None), "kind", **QUICK)  # type: ignore[arg-type]


def arrived_one_by_one(recovered_B: np.ndarray) -> float:
    """The first boundary from which on at least half of the way is recovered, by looking at each."""
    boundaries = [b for b in range(len(recovered_B)) if (recovered_B[b:] >= 0.5).all()]
    return float(boundaries[0]) if boundaries else float("nan")


def test_a_place_that_predicts_has_the_boundary_at_which_the_other_answer_arrives() -> None:
    ids = zoo.prompts(zoo.build("llama"), [8] * len(KINDS), 3)
    pairs = [f"{kind} {place % 5 // 2}" for place, kind in enumerate(KINDS)]
    prompts = [
        Prompt(ids=each, answer_tokens=1, labels={"kind": kind, "pair": pair})
        for each, kind, pair in zip(ids, KINDS, pairs)
        if pairs.count(pair) == 2
    ]
    kinds = np.array([prompt.labels["kind"] for prompt in prompts])
    options = {"positions": {"at": [2, -2]}}
    run = bathyscope.survey(waves.loaded("llama"), prompts, ["patching"], patching=options, progress=False)
    recovered = run["patching"]["recovered_at"].sel(part="block").transpose("prompt", "boundary", "place").values
    expected = np.array([arrived_one_by_one(each) for each in recovered[:, :, 1]])
    assert np.isfinite(expected).all()  # at the last boundary all of the answer is in the token that predicts it
    result = bathyscope.group(run, "kind", **QUICK)  # type: ignore[arg-type]
    # the token before it holds nothing of the answer at the last boundary, and has no such depth
    assert result["estimator"].values.tolist() == ["patching_left_0", "patching_arrived_1"]
    for kind in ("repeat", "free"):
        cell = result.data.sel(group=kind, estimator="patching_arrived_1")
        assert cell["depth"].item() == pytest.approx(expected[kinds == kind].mean())
    np.testing.assert_array_equal(place_estimators(run)["patching_arrived_1"].values[:, 0], expected)


def test_an_answer_arrives_where_it_stays() -> None:
    shares = [[0.0, 0.6, 0.4, 0.5, 1.2], [1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 0.9, 0.9, 0.9, 0.1], [0.0, 0.9, np.nan, 1, 1]]
    np.testing.assert_array_equal(arrived_at([*shares, [np.nan] * 5]), [3.0, 0.0, np.nan, 3.0, np.nan])


def test_panels_of_named_places_are_listed_and_the_caption_says_which_mean(tmp_path: Path) -> None:
    names = [row["name"] for row in panel_rows()]
    assert {"erasure.effect_at", "erasure.effect_future_at", "patching.kl_at", "patching.recovered_at"} <= set(names)
    run = surveyed({"at": 2})
    figure = bathyscope.plot(run, "erasure.effect_at")
    assert figure is not None
    page = Path(bathyscope.report([run], tmp_path / "page.html")).read_text(encoding="utf-8")
    assert "its mean over all tokens of the reference prompts (these prompts, unless others are given)" in page
