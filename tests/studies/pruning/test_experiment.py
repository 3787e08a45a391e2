"""The study of pruning, on a few problems: its table, its answers, and that it goes on where it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.artists import axes_titled

from bathyscope.surgery import ledger
from studies.pruning.experiment import EXHAUSTIVE, SEARCH, Pruning, answers, pruning
from studies.pruning.figure import draw

ROOT = Path(__file__).parents[3]
OPTIONS = Pruning(
    models=("permutations_8",), checkpoints=str(ROOT / "checkpoints"), shares=(25,), tokens=300, random=2, resamples=200
)


def test_a_row_for_every_candidate_and_nothing_is_computed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pruning(OPTIONS, tmp_path, progress=False)
    rows = found.set_index("candidate")
    assert list(rows.index[[0, -1]]) == [SEARCH, EXHAUSTIVE]
    assert set(rows["dropped"]) == {2}
    assert set(rows["calibration_tokens"]) == set(rows["test_tokens"]) == {300}
    gap = rows["calibration_cost"][SEARCH] - rows["calibration_cost"][EXHAUSTIVE]
    assert rows["regret"][SEARCH] == gap >= 0
    assert rows["p_search"][SEARCH] == 1.0
    assert answers(found)["largest regret on calibration"] == f"{gap:.4f} nats of 1"
    axes = axes_titled(draw(found), "permutations_8")
    assert axes.get_xlabel() == "blocks left out of 8"
    assert [label.get_text() for label in axes.get_yticklabels()][:4] == ["0", "0.02", "0.05", "0.1"]
    monkeypatch.setattr(ledger, "tree_costs", None)  # whatever is computed again fails
    assert pruning(OPTIONS, tmp_path, progress=False).equals(found)


def test_screened_subsets_find_the_same_one(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for file, weather in (("books_valid", "rain"), ("books_test", "snow")):
        lines = [f"On day {day} the {weather} fell over house number {day * 7 % 41}." for day in range(60)]
        (texts / f"{file}.txt").write_text(" ".join(lines), encoding="utf-8")
    options = replace(OPTIONS, models=("depth_6",), shares=(50,), texts=str(texts), window=48, tokens=200)
    whole, screened = (
        pruning(replace(options, screened=few, kept=19), tmp_path / str(few), progress=False).set_index("candidate")
        for few in (0, 2)
    )
    assert np.isnan(whole["screened_place"]).all()
    assert screened["subset"][EXHAUSTIVE] == whole["subset"][EXHAUSTIVE]
    assert screened["regret"][SEARCH] == whole["regret"][SEARCH]
    # of all 20, and 19 were measured on all prompts
    assert 1 <= screened["screened_place"][EXHAUSTIVE] < 20
    few = pruning(replace(options, screened=2, kept=1), tmp_path / "few", progress=False).set_index("candidate")
    assert few["regret"][SEARCH] >= 0
