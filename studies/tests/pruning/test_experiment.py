"""The study of pruning, on a few problems: its table, its answers, and that it goes on where it was."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from support.artists import axes_titled

from bathyscope import Schedule, load, scheduled
from bathyscope.errors import StoreError
from bathyscope.extend.prompts import tokenized
from studies.common.losses import mean_losses
from studies.pruning.experiment import EXHAUSTIVE, SEARCH, Pruning, answers, pruning
from studies.pruning.figure import draw
from studies.pruning.kept import Kept

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
    monkeypatch.setattr(Kept, "put", None)  # whatever is computed again is kept, which fails
    assert pruning(OPTIONS, tmp_path, progress=False).equals(found)
    with pytest.raises(StoreError, match="permutations_8 holds work with another calibration, test; give the same"):
        pruning(replace(OPTIONS, tokens=200), tmp_path, progress=False)


def test_work_of_another_configuration_is_refused_and_what_is_not_known_is_not(tmp_path: Path) -> None:
    Kept(tmp_path, {"weights": "a", "test": "b"}).put("costs/one.nc", b"1")
    again = Kept(tmp_path, {"weights": "a", "test": "b", "settings": "c"})
    assert (again.find("costs/one.nc"), again.find("costs/two.nc")) == (b"1", None)
    with pytest.raises(StoreError, match="holds work with another weights; give the same models, texts and options"):
        Kept(tmp_path, {"weights": "x", "test": "b"})


@pytest.mark.thorough
def test_all_subsets_of_text_are_measured_on_all_of_it(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for file, weather in (("books_valid", "rain"), ("books_test", "snow")):
        lines = [f"On day {day} the {weather} fell over house number {day * 7 % 41}." for day in range(60)]
        (texts / f"{file}.txt").write_text(" ".join(lines), encoding="utf-8")
    options = replace(OPTIONS, models=("depth_6",), shares=(50,), texts=str(texts), window=48, tokens=200)
    found = pruning(options, tmp_path / "found", progress=False).set_index("candidate")
    model = load(str(ROOT / "checkpoints" / "depth_6"), dtype="float32")
    ids = [list(prompt.ids) for prompt in tokenized(model, f"{texts / 'books_valid.txt'}:5?window=48")]
    costs = {}
    for own in combinations(range(6), 3):
        kept = Schedule(tuple(block for block in range(6) if block not in own), 6)
        with scheduled(model, kept) as hf:
            costs[own] = mean_losses(hf, ids).mean()
    assert len(costs) == 20
    cheapest = min(costs, key=costs.__getitem__)
    assert found["subset"][EXHAUSTIVE] == ",".join(f"drop:{block}" for block in cheapest)
