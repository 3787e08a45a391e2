"""Arrival of an answer by hand, and on a model with idle blocks, which must move it by their number and no more."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from support.idle import with_idle_blocks

from bathyscope import Run, load
from bathyscope.errors import OptionError
from studies.problem_depth import arrival as module
from studies.problem_depth.arrival import arrival, judged, main, pairs_of_others, patched

PROBLEMS = "task:permutations:24?factors=1-2&beyond=9-9&elements=generators&answer=image"


def patched_with(order: list[int | None]) -> Run:
    model = load("checkpoints/permutations_2", device="cpu", dtype="float32")
    made = load(with_idle_blocks(model.hf, order), tokenizer=model.tokenizer)
    return patched(made, PROBLEMS)


@pytest.fixture(scope="module")
def plain() -> Run:
    return patched_with([0, 1])


def test_the_first_boundary_behind_which_the_other_answer_stays() -> None:
    recovered = np.zeros((4, 1, 4, 2))
    recovered[0, 0, :, 1] = [0.2, 0.95, 0.5, 1.0]  # carried at 1 and lost again
    recovered[1, 0, :, 0] = [0.9, 1.1, 0.95, 1.0]  # read at token 0
    recovered[2, 0, :, 1] = [0, 0, 0, 0.8]
    data = xr.Dataset(
        {
            "recovered": (("prompt", "part", "boundary", "token"), recovered),
            "read_at": ("prompt", [1, 0, 1, -1]),
        },
        {"part": ["block"]},
    )
    np.testing.assert_array_equal(arrival(data), [3, 0, np.nan, np.nan])


def test_problems_are_patched_from_the_next_with_another_answer() -> None:
    assert pairs_of_others(["a", "a", "b", "a"]) == [(0, 2), (1, 2), (2, 3), (3, 2)]
    assert pairs_of_others(["a", "a"]) == []


def test_answers_arrive_in_blocks_that_can_bring_them(plain: Run) -> None:
    found = arrival(plain["patching"])
    known = found[np.isfinite(found)]
    assert known.size > 10
    # the token before the answer is a colon that every problem has: before the first block it carries nothing over
    assert set(known.tolist()) <= {1.0, 2.0}
    assert 2.0 in known


@pytest.mark.parametrize(("order", "moved"), [([None, None, 0, 1], 2), ([0, 1, None], 0)])
def test_idle_blocks_move_it_by_their_number_before_and_not_behind(
    plain: Run, order: list[int | None], moved: int
) -> None:
    np.testing.assert_array_equal(arrival(patched_with(order)["patching"]), arrival(plain["patching"]) + moved)


def test_a_reading_is_judged_by_the_larger_one_of_a_pair(plain: Run) -> None:
    truth, source = arrival(plain["patching"]), plain["patching"]["source"].values
    own = plain.verdict.own.by_prompt
    wanted = [max(own[n], own[source[n]]) - truth[n] for n in range(len(own)) if np.isfinite(truth[n])]
    found = judged(plain)["verdict, own"]
    assert found.missed[0] == pytest.approx(np.mean(wanted))
    assert found.off == pytest.approx(np.mean(np.abs(wanted)))
    assert found.missed[1] <= found.missed[0] <= found.missed[2]


def test_intervals_hold_though_problems_stand_in_two_pairs() -> None:
    draw, n = np.random.default_rng(0), 60
    pairs = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    expected = float(np.maximum(*draw.normal(size=(2, 1_000_000))).mean())
    found = [module._interval(draw.normal(size=n)[pairs].max(1), pairs) for _ in range(1000)]
    # as if pairs had no problem in common it is 0.86
    assert 0.92 < np.mean([low <= expected <= high for low, high in found]) < 0.98


def test_models_of_equally_many_blocks_are_told_together(
    plain: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "patched", lambda model: plain)
    main(["checkpoints/permutations_2"])
    assert "Means over models" not in capsys.readouterr().out
    main(["checkpoints/permutations_2", "checkpoints/permutations_2"])
    means = capsys.readouterr().out.partition("Means over models of equally many blocks")[2]
    own = judged(plain)["verdict, own"].missed[0]
    assert f"{own:+.2f} ({own:+.2f} to {own:+.2f})" in means.partition("verdict, own")[2]


def test_a_model_that_solves_nothing_is_not_asked() -> None:
    model = load("checkpoints/permutations_2", device="cpu", dtype="float32")
    with pytest.raises(OptionError, match="solves 0 of the problems; 10 are needed to say anything"):
        patched(model, "task:permutations:4?factors=8-8&beyond=9-9&elements=generators&answer=product")
