"""The study of pruning, on a few problems: its table, its answers, and that it goes on where it was."""

from __future__ import annotations

from pathlib import Path

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
    assert axes_titled(draw(found), "permutations_8").get_xlabel() == "blocks left out of 8"
    monkeypatch.setattr(ledger, "tree_costs", None)  # whatever is computed again fails
    assert pruning(OPTIONS, tmp_path, progress=False).equals(found)
