"""What a folder of a repair says of itself before another repair is written there."""

import json
from pathlib import Path

import pytest

from bathyscope.cli import main
from bathyscope.errors import StoreError
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.card import RECORD
from bathyscope.surgery.repairing.repaired import REPAIR, Provenance, Repaired, Rung, require_same_repair

PROMPTS = {"name": "mine.jsonl", "prompts": 3, "tokens": 30}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rungs = (
        Rung("none", 0.3, 0.25, 0.35, calibration_cost=0.3),
        Rung("scale", 0.2, 0.1, 0.25, 0.33, 0.2, 0.4, calibration_cost=0.2, gain=0.1, gain_low=0.05, gain_high=0.15),
    )
    model = {"name": "m", "n_blocks": 12}
    about = Provenance(model, {"calibration": PROMPTS, "test": PROMPTS}, {"level": 0.95}, "prompts")
    out = tmp_path / "repaired"
    out.mkdir()
    (out / REPAIR).write_text(json.dumps(Repaired(Schedule.parse("drop:3", 12), rungs, about).record()))
    (out / RECORD).write_text("{}")
    return out


@pytest.mark.parametrize("schedule", ["drop:3", " drop:3"])
def test_the_same_repair_may_be_made_again(schedule: str, folder: Path) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    require_same_repair(folder, schedule)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize("schedule", ["drop:4", "drop:3,drop:5", "drop:40"])
def test_the_repair_of_another_schedule_is_refused_before_anything_is_loaded(
    schedule: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match=f"holds the repair of drop:3, not of {schedule}; give a folder that does not"):
        require_same_repair(folder, schedule)
    monkeypatch.setattr("bathyscope.load", lambda *_, **__: pytest.fail("the model was loaded"))
    monkeypatch.setattr("bathyscope.repair", lambda *_, **__: pytest.fail("the ladder was begun"))
    data = ["--calibration", "sums:20", "--test", "sums:20?seed=1"]
    assert main(["repair", "any/model", "--schedule", schedule, *data, "--out", str(folder)]) == 5
    assert f"holds the repair of drop:3, not of {schedule}" in " ".join(capsys.readouterr().err.split())


def test_an_export_that_is_no_repair_is_refused(folder: Path) -> None:
    (folder / REPAIR).unlink()
    with pytest.raises(StoreError, match="exists and holds an export that is no repair; give a folder that does not"):
        require_same_repair(folder, "drop:3")
