"""Depth of what was written against being right: planted relations, none, and the null."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from support import waves
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

import bathyscope
from bathyscope.core.result import Result
from bathyscope.errors import OptionError

PROMPTS = 40
_RUN = complete_run(L=5, prompts=PROMPTS)
_IDENTITY = {**_RUN.manifest["identity"], "dataset": "mine (continued by up to 1 tokens, greedy)"}
_MEASURED = _IDENTITY["measures"]
_IDENTITY["measures"] = {**_MEASURED, "lens": {**(_MEASURED["lens"] or {}), "positions": "answer"}}
RUN = replace(_RUN, manifest={**_RUN.manifest, "identity": _IDENTITY})


def run_with(depth: np.ndarray, right: np.ndarray, ended: np.ndarray | None = None) -> bathyscope.Run:
    lens = RUN["lens"]
    values = {name: ("prompt", depth.astype(float)) for name in ("settle_depth", "prediction_depth")}
    labels = {"right": right, "written": np.ones(PROMPTS), "ended": np.ones(PROMPTS) if ended is None else ended}
    lens = lens.assign({**values, "deep_thinking_ratio": ("prompt", depth / 10)})
    return replaced(RUN, "lens", lens.assign_coords({name: ("prompt", label) for name, label in labels.items()}))


def test_texts_that_the_limit_ended_are_counted() -> None:
    rng = np.random.default_rng(0)
    right = rng.integers(2, size=PROMPTS)
    found = bathyscope.written(run_with(rng.normal(size=PROMPTS), right, (np.arange(PROMPTS) % 4 > 0).astype(float)))
    assert f" of {PROMPTS} prompts; the limit of tokens ended {PROMPTS // 4} of the texts." in found.text
    assert found.record()["cut_off"] == PROMPTS // 4
    assert "the limit" not in bathyscope.written(run_with(rng.normal(size=PROMPTS), right)).text


def test_a_planted_relation_is_found() -> None:
    rng = np.random.default_rng(0)
    right = rng.integers(2, size=PROMPTS)
    depth = right + rng.normal(scale=0.5, size=PROMPTS)
    found = bathyscope.written(run_with(depth, right))
    row = found.data.sel(quantity="settle_depth")
    assert float(row["correlation"]) == pytest.approx(stats.spearmanr(depth, right).statistic)
    assert float(row["correlation_low"]) > 0
    assert float(row["p"]) < 0.001
    assert float(row["right"]) == pytest.approx(depth[right == 1].mean())
    assert float(row["wrong"]) == pytest.approx(depth[right == 0].mean())
    assert found.text.startswith(
        f"The model wrote the right answer to {right.sum()} of 40 prompts. A larger share of tokens"
    )
    assert "goes with being right" in found.text
    assert "goes against being right" in bathyscope.written(run_with(-depth, right)).text
    assert isinstance(found, Result)


@pytest.mark.parametrize(
    ("p", "low", "level", "claimed"),
    [(0.01, 0.1, 0.95, True), (0.01, -0.1, 0.95, False), (0.2, 0.1, 0.95, False), (0.03, 0.1, 0.99, False)],
)
def test_a_relation_is_claimed_by_test_and_interval_together(p: float, low: float, level: float, claimed: bool) -> None:
    """No claim of a correlation whose interval holds 0, nor at a level that was not asked for."""
    rng = np.random.default_rng(0)
    right = rng.integers(2, size=PROMPTS)
    result = bathyscope.written(
        run_with(right + rng.normal(size=PROMPTS), right), resamples=20, permutations=99, level=level
    )
    result.data["p"].values[:], result.data["correlation_low"].values[:] = p, low
    result.data["correlation_high"].values[:] = 0.6
    assert ("is not shown to go with" not in result.text) is claimed


def test_without_a_relation_small_p_is_rare() -> None:
    rng = np.random.default_rng(1)
    small = []
    for _ in range(40):
        run = run_with(rng.normal(size=PROMPTS), rng.integers(2, size=PROMPTS))
        found = bathyscope.written(run, resamples=20, permutations=99)
        small.append(float(found.data["p"][0]) <= 0.1)
    assert np.mean(small) < 0.25


def test_prompts_without_an_answer_do_not_count() -> None:
    rng = np.random.default_rng(2)
    right = np.where(np.arange(PROMPTS) < 30, rng.integers(2, size=PROMPTS), np.nan)
    depth = rng.normal(size=PROMPTS)
    found = bathyscope.written(run_with(depth, right), resamples=20, permutations=99)
    assert found.prompts == 30
    expected = stats.spearmanr(depth[:30], right[:30]).statistic
    assert float(found.data["correlation"][1]) == pytest.approx(expected)


def test_answers_that_are_all_alike_tell_nothing() -> None:
    found = bathyscope.written(run_with(np.arange(PROMPTS), np.ones(PROMPTS)))
    assert np.isnan(found.data["correlation"]).all()
    assert found.text.endswith("No correlation with depth can be told: all answers are alike.")
    assert "nan" not in found.text
    alike = bathyscope.written(run_with(np.ones(PROMPTS), np.arange(PROMPTS) % 2))
    assert alike.text.endswith("No correlation with depth can be told: all depths are alike.")


@pytest.mark.parametrize("planted", [True, False])
@pytest.mark.parametrize("constant", [["deep_thinking_ratio"], ["deep_thinking_ratio", "settle_depth"]])
def test_a_quantity_that_is_alike_leaves_the_next_to_tell(constant: list[str], planted: bool) -> None:
    """No token of a short answer may settle late, and the answers differ in their settle depth all the same."""
    right = np.arange(PROMPTS) % 2
    noise = np.random.default_rng(3).normal(scale=0.5, size=PROMPTS)
    run = run_with(right + noise if planted else noise, right)
    found = bathyscope.written(
        replaced(run, "lens", run["lens"].assign({name: ("prompt", np.zeros(PROMPTS)) for name in constant}))
    )
    depth = "settle depth" if len(constant) == 1 else "prediction depth"
    alike = "is" if len(constant) == 1 else "and the settle depth are"
    assert f" The share of tokens that settle late {alike} the same in all prompts. A greater " in found.text
    assert f"A greater {depth} {'goes with' if planted else 'is not shown to go with'} being right" in found.text
    rho = float(found.data["correlation"].sel(quantity=depth.replace(" ", "_")))
    assert f"(rank correlation {rho:+.2f}, " in found.text
    assert "alike" not in found.text


def test_one_right_answer_has_no_interval_of_no_width() -> None:
    """The one right prompt is the latest: whatever is drawn, it stays so, and the bootstrap sees one value."""
    right = np.zeros(PROMPTS)
    right[3] = 1
    found = bathyscope.written(run_with(right, right))
    assert float(found.data["correlation"][0]) == pytest.approx(1)
    assert np.isnan(found.data["correlation_low"]).all()
    assert "is not shown to go with being right" in found.text
    assert "(rank correlation +1.00, p = 0.0" in found.text


@pytest.mark.parametrize("late_and_wrong", [0, 1, 2])
def test_a_ratio_that_hardly_varies_has_no_interval(late_and_wrong: int) -> None:
    """Four right prompts think late, and none or one of ten wrong ones: draws of the ten cannot show what others do."""
    right = (np.arange(PROMPTS) >= 10).astype(float)
    late = np.zeros(PROMPTS)
    late[-4:] = late[:late_and_wrong] = 1
    row = bathyscope.written(run_with(late, right)).data.sel(quantity="deep_thinking_ratio")
    assert np.isfinite([row["correlation"], row["p"]]).all()
    assert bool(np.isnan(row["correlation_low"])) == bool(np.isnan(row["correlation_high"])) == (late_and_wrong < 2)


def test_other_runs_are_refused() -> None:
    with pytest.raises(OptionError, match=r"needs a survey with lens and write=…, on prompts with answers"):
        bathyscope.written(RUN)
    few = complete_run(L=5, prompts=4)
    labels = {"right": [0, 1, 1, 0], "written": [1] * 4, "ended": [0] * 4}
    lens = few["lens"].assign_coords({name: ("prompt", label) for name, label in labels.items()})
    few = replace(replaced(few, "lens", lens), manifest=RUN.manifest)
    with pytest.raises(OptionError, match=r"needs at least 5 different prompts with answers; this run has 4"):
        bathyscope.written(few)


@pytest.mark.parametrize("positions", ["all", "inner", None])
def test_a_lens_of_the_question_says_nothing_of_what_was_written(positions: str | None) -> None:
    """Earlier versions' runs name no positions where they are all."""
    right = np.arange(PROMPTS) % 2
    run = run_with(right + 0.1 * np.arange(PROMPTS), right)
    lens = {name: value for name, value in run.identity.measures["lens"].items() if name != "positions"}
    lens |= {} if positions is None else {"positions": positions}
    identity = {**run.manifest["identity"], "measures": {**run.identity.measures, "lens": lens}}
    with pytest.raises(OptionError, match=rf"lens.positions={positions or 'all'}, which holds tokens of the question"):
        bathyscope.written(replace(run, manifest={**run.manifest, "identity": identity}))


@pytest.mark.parametrize("order", [1, -1])
def test_a_relation_without_exception_is_shown(order: int) -> None:
    """Depths of two values that tell right from wrong: no order but one is drawn, so that there is no interval."""
    right = np.arange(PROMPTS) % 2
    found = bathyscope.written(run_with(order * right, right))
    assert np.isnan(found.data["correlation_low"].sel(quantity="settle_depth"))
    assert (
        f"goes {'with' if order > 0 else 'against'} being right (rank correlation {order:+.2f}, p = 0.0001)"
        in found.text
    )
    # one prompt that is right, and the deepest, is one observation
    alone = np.arange(PROMPTS) == 3
    assert "is not shown to go with" in bathyscope.written(run_with(1.0 * alone, 1 * alone)).text


@pytest.mark.parametrize("labels", [{"right": 3}, {"right": "yes"}, {"right": 1, "written": 1, "ended": 1}])
def test_labels_of_given_texts_are_no_answers(labels: dict[str, int | str]) -> None:
    prompts = [bathyscope.Prompt(ids=[number + 2, 5, 7], labels=labels) for number in range(8)]
    run = bathyscope.survey(waves.loaded("llama"), prompts, ["lens"], progress=False)
    with pytest.raises(OptionError, match="needs a survey with lens and write="):
        bathyscope.written(run)
