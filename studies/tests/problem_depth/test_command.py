"""``python -m studies.problem_depth``: models, figure, results and the printed rows agree."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import xarray as xr

from studies.common.program import main
from studies.problem_depth.command import app

TINY = [
    *("--set", "model.hidden_size=16", "--set", "model.intermediate_size=32"),
    *("--set", "model.num_attention_heads=2", "--set", "model.num_key_value_heads=2"),
    *("--set", "task.options.factors=[1, 2]", "--set", "task.options.beyond=[3, 3]"),
    *("--set", "stages.0.batch=8", "--set", "budget.steps=40", "--set", "optimisation.warmup_steps=5"),
    *("--set", "evaluation.problems=4", "--set", "evaluation.final_problems=4"),
]


@pytest.mark.thorough
def test_rows_are_the_results_on_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--blocks", "1,2", "--seeds", "3", "--asked", "10", "--measured", "4"]
    asked += ["--out", str(tmp_path), "--quiet", "--device", "cpu", *TINY]
    assert main([*asked, "--format", "json"], app, "python -m studies.problem_depth") == 0
    out, err = capsys.readouterr()
    every = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    rows = [row for row in every if "blocks" in row]
    classes = [row for row in every if "solved_by" in row]
    # of so few problems one is drawn twice
    (said,) = set(err.splitlines())
    assert said.startswith("warning: 1 of 8 prompts have the tokens of others: ")
    assert [(row["blocks"], row["seed"]) for row in rows] == [(1, 3), (2, 3)]
    with xr.open_dataset(tmp_path / "problem-depth.nc", engine="h5netcdf") as found:
        assert [row["accuracy_2"] for row in rows] == found["accuracy"].sel(seed=3, steps=2).values.tolist()
        assert rows[0]["erasure_slope"] is None
        assert found.attrs["recipe"] == "permutations"
        assert len(classes) == 2 * 5 * (4 + 2)
        for row in classes:
            own = found.sel({key: row[key] for key in ("pair", "seed", "read_in", "reading")})
            if row["solved_by"] == "only deep − both at equal steps":
                mean = own["same_steps"]
            elif row["solved_by"] == "only deep − both at equal steps and moves":
                mean = own["same_moves"]
            else:
                mean = own["class_mean"].sel(solved_by=row["solved_by"])
                assert row["problems"] == int(own["class_values"].sel(solved_by=row["solved_by"]))
            assert row["mean"] == (None if mean.isnull() else float(mean))
        # one of the four problems of a single step is drawn twice
        assert sum(row.get("problems") or 0 for row in classes if row["reading"] == "lens_settle") == 2 * 7
    assert (tmp_path / "problem-depth.png").read_bytes().startswith(b"\x89PNG")
    # finished: read again, in other formats
    assert main([*asked, "--format", "csv"], app, "python -m studies.problem_depth") == 0
    again = [row for row in csv.DictReader(io.StringIO(capsys.readouterr().out)) if row["blocks"]]
    assert [float(row["accuracy_1"]) for row in again] == [row["accuracy_1"] for row in rows]
    assert main(asked, app, "python -m studies.problem_depth") == 0
    shown = capsys.readouterr().out
    assert "k=1" in shown
    assert "all right answers" in shown
    assert "Depth in 2 blocks by who solves a problem" in shown


def test_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--recipe", "depth_12", "--out", str(tmp_path)], app, "python -m studies.problem_depth") != 0
    assert "trains on texts; depth by steps needs one with a task" in capsys.readouterr().err
    assert main(["--measured", "0", "--out", str(tmp_path)], app, "python -m studies.problem_depth") != 0
    assert "measured=0 is out of range; give at least 1" in capsys.readouterr().err
