"""Decodable beside readable depth: against the models' own states, on trained models of the repository."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive

import bathyscope
from bathyscope import load
from bathyscope.errors import OptionError
from studies.problem_depth.decodable import decodable, rows_of, seed_rows
from studies.problem_depth.decodable_figure import draw

MODEL = "checkpoints/permutations_2"
PROBLEMS = "task:permutations:560?factors=1-4&beyond=9-9&elements=generators&answer=image"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("decodable")


@pytest.fixture(scope="module")
def found(folder: Path) -> xr.Dataset:
    return decodable([MODEL], folder, PROBLEMS, controls=1, progress=False)


def test_the_lens_is_read_where_solved_problems_are_answered(found: xr.Dataset, folder: Path) -> None:
    run = bathyscope.open(next((folder / "runs").iterdir()))
    model = load(MODEL, device="cpu", dtype="float32")
    read = np.flatnonzero(run["translated_lens"]["n_averaged"].values)
    asked = [tuple(prompt.ids) for prompt in run.prompts]
    tested = {asked[number] for number in read}
    assert len(tested) == round(0.4 * len(set(asked)))
    # of a problem that is asked several times all are read, or none
    assert len(read) == sum(one in tested for one in asked)
    depths, moves, seen = [], [], set()
    for number in read:
        ids = list(run.prompts[int(number)].ids)
        hidden = naive.boundaries(model.hf, naive.blocks_of(model.hf), ids)[:, len(ids) - 2]
        with torch.no_grad():
            logits = model.hf.lm_head(model.hf.model.norm(hidden))
        best = logits.argmax(-1).tolist()
        if best[-1] == ids[-1] and tuple(ids) not in seen:
            seen.add(tuple(ids))
            depths.append(max([0, *(b + 1 for b in range(3) if best[b] != best[-1])]))
            moves.append(int(run["translated_lens"]["moves"].values[number]))
    one = found.sel(reader="lens").isel(model=0)
    assert int(found["prompts"].isel(model=0)) == len(depths) < len(read)
    assert float(one["depth"]) == pytest.approx(np.mean(depths))
    assert float(one["by_moves"].sel(moves=2)) == pytest.approx(np.mean(np.array(depths)[np.array(moves) == 2]))


def test_depth_goes_with_moves_in_the_trained_model_alone(found: xr.Dataset) -> None:
    own = found.isel(model=0)
    assert float(own["moves_low"].sel(reader="lens")) > 0
    null = found["untrained_moves_slope"].isel(model=0, control=0)
    assert bool((abs(null) < own["moves_slope"]).all())


def test_rows_hold_both_readings_and_the_range_of_untrained_models(found: xr.Dataset) -> None:
    rows = rows_of(found)
    assert [row["reading"] for row in rows] == ["readable", "decodable"]
    assert rows[0]["moves_slope"] == float(found["moves_slope"].sel(reader="lens").isel(model=0))
    assert rows[1]["untrained_depth_least"] == float(found["untrained_depth"].sel(reader="translated").min())
    assert seed_rows(found) == []


def test_models_of_equal_depth_are_seeds(found: xr.Dataset) -> None:
    other = found.assign_coords(model=["other"])
    other["depth"] = other["depth"] + xr.DataArray([1.0, 4.0], dims="reader")
    rows = {row["reading"]: row for row in seed_rows(xr.concat([found, other], "model")) if row["what"] == "depth"}
    own = found["depth"].isel(model=0)
    assert rows["readable"]["mean"] == pytest.approx(float(own.sel(reader="lens")) + 0.5)
    gap = float(own.sel(reader="translated") - own.sel(reader="lens"))
    assert rows["decodable − readable"]["mean"] == pytest.approx(gap + 1.5)
    assert rows["decodable − readable"]["seeds"] == 2


def test_the_figure_draws_depth_by_moves(found: xr.Dataset) -> None:
    axes = draw(found).axes
    line = next(line for line in axes[0].lines if line.get_label() == "decodable")
    np.testing.assert_allclose(line.get_ydata(), found["by_moves"].sel(reader="translated").isel(model=0))


def test_no_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No model is given; give folders"):
        decodable([], tmp_path)
