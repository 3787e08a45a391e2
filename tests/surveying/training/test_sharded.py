"""Trainings whose weights FSDP scatters over processes: their course, and that it changes nothing of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.on_ranks import launch, require_done
from support.rounding import assert_same_bits
from support.trainings import PROMPTS, model

import bathyscope
from bathyscope.surveying.training.watch import MEASURES

pytest.importorskip("torch.distributed.fsdp")


def results(folder: Path, name: str) -> list[Any]:
    """Return the losses, random states and weights of both processes."""
    return [
        [json.loads((folder / f"{name}-{rank}.json").read_text()), load_file(folder / f"{name}-{rank}.safetensors")]
        for rank in (0, 1)
    ]


def require_same_training(folder: Path) -> None:
    """Fail unless losses, random states and weights of the watched training are those of the other to the bit."""
    for (told, weights), (plain_told, plain_weights) in zip(results(folder, "watched"), results(folder, "plain")):
        assert told == plain_told
        assert weights.keys() == plain_weights.keys()
        assert all(torch.equal(weights[name], plain_weights[name]) for name in weights)


def require_same_numbers(watched: bathyscope.Run, alone: bathyscope.Run) -> None:
    """Fail unless two surveys of the same weights, which make the same calls, have the same bits."""
    assert watched.identity.weight_hash == alone.identity.weight_hash
    for name in MEASURES:
        for variable, values in alone[name].data_vars.items():
            if values.dtype.kind == "f":
                assert_same_bits(watched[name][variable], values, f"{name}.{variable}")


def require_survey_of_the_last_weights(folder: Path) -> None:
    """Fail unless the last survey has the numbers of a survey of the checkpoint that the training left."""
    hf = model("llama_tied")
    hf.load_state_dict(results(folder, "watched")[0][1], strict=False)
    hf.tie_weights()
    hf.save_pretrained(folder / "checkpoint")
    alone = bathyscope.survey(str(folder / "checkpoint"), PROMPTS, MEASURES, seed=0, progress=False)
    require_same_numbers(bathyscope.open(folder / "course" / "step-00000006"), alone)


@pytest.mark.parametrize(("family", "is_mixed"), [("llama_tied", False), ("mixtral", True)])
def test_a_loop_with_scattered_weights_is_watched_and_stays_as_it_is(
    family: str, is_mixed: bool, tmp_path: Path
) -> None:
    course = str(tmp_path / "course")
    require_done(launch(2, "sharded_training:train", "plain", "", family, is_mixed, folder=tmp_path))
    require_done(launch(2, "sharded_training:train", "watched", course, family, is_mixed, folder=tmp_path))
    require_same_training(tmp_path)
    opened = bathyscope.open(course)
    assert opened.step.values.tolist() == [0, 2, 4, 6]
    # the first survey is of the model as it was made, surveyed here from its own weights in the same calls
    alone = bathyscope.survey(bathyscope.load(model(family)), PROMPTS, MEASURES, seed=0, progress=False)
    first = bathyscope.open(Path(course) / "step-00000000")
    require_same_numbers(first, alone)
    runs = [bathyscope.open(Path(course) / f"step-{step:08d}") for step in (0, 2, 4, 6)]
    assert {run.identity.dtype for run in runs} == {"float32"}
    assert len({run.identity.weight_hash for run in runs}) == 4


def test_a_trainer_with_scattered_weights_is_watched_and_stays_as_it_is(tmp_path: Path) -> None:
    course = str(tmp_path / "course")
    require_done(launch(2, "sharded_training:train_with_trainer", "plain", "", folder=tmp_path))
    require_done(launch(2, "sharded_training:train_with_trainer", "watched", course, folder=tmp_path))
    require_same_training(tmp_path)
    assert bathyscope.open(course).step.values.tolist() == [0, 2, 4, 6]
    require_survey_of_the_last_weights(tmp_path)


def test_a_loop_of_accelerates_fsdp_is_watched_and_stays_as_it_is(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    require_done(launch(2, "sharded_training:train_with_accelerate", "plain", "", folder=tmp_path))
    course = str(tmp_path / "course")
    require_done(launch(2, "sharded_training:train_with_accelerate", "watched", course, folder=tmp_path))
    require_same_training(tmp_path)
    assert bathyscope.open(course).step.values.tolist() == [0, 2, 4, 6]


def test_what_the_first_process_refuses_all_of_them_refuse(tmp_path: Path) -> None:
    ended = launch(2, "sharded_training:refused", str(tmp_path / "taken"), folder=tmp_path)
    require_done(ended)
    assert ended[0].out == ended[1].out
    assert ended[0].out.startswith("StoreError")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["notes.txt"]
