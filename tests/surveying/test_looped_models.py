"""Looped models from a checkpoint: streamed, estimated, in parts that are joined, pruned, and not exported."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import xarray as xr
from support import looped

import bathyscope
from bathyscope.errors import ModelError

PROMPTS = torch.randint(4, looped.VOCABULARY, (6, 12), generator=torch.Generator().manual_seed(0)).tolist()
MEASURES = ["residual", "lens", "skip", "drop", "swap"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of HRM: four blocks in two lists, twelve steps."""
    place = tmp_path_factory.mktemp("models") / "hrm"
    looped.hrm().save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def run(folder: Path) -> bathyscope.Run:
    """All measures of the model in memory."""
    return bathyscope.survey(folder, PROMPTS[:3], MEASURES, loading={"dtype": "float32"}, progress=False)


def test_streamed_steps_borrow_the_weights_of_their_blocks(folder: Path, run: bathyscope.Run) -> None:
    model = bathyscope.load(folder, placement="stream", dtype="float32")
    streamed = bathyscope.survey(model, PROMPTS[:3], MEASURES, progress=False)
    assert streamed.identity.weight_hash == run.identity.weight_hash
    for measure in MEASURES:
        xr.testing.assert_equal(streamed[measure], run[measure])
    # the weights of a step are those that its block has at the moment: none, while they are on the disk
    step, block = model.anatomy.blocks[4], model.anatomy.sources[2]
    assert step.mlp.up_proj.weight.device.type == block.mlp.up_proj.weight.device.type
    assert all(p.device.type == "meta" for p in model.anatomy.blocks[-1].parameters()) or model.blocks is not None


def test_parts_of_a_survey_are_joined(folder: Path, run: bathyscope.Run, tmp_path: Path) -> None:
    parts = [tmp_path / f"part-{number}" for number in (1, 2)]
    options = {"loading": {"dtype": "float32"}, "progress": False, "batch_tokens": 12}
    for number, part in enumerate(parts, start=1):
        bathyscope.survey(folder, PROMPTS[:3], MEASURES, out=part, part=f"{number}/2", **options)
    joined = bathyscope.join(parts, tmp_path / "whole")
    assert joined.cycle == run.cycle
    for measure in ("residual", "drop"):
        xr.testing.assert_allclose(joined[measure], run[measure], rtol=1e-5)


def test_an_estimate_counts_weights_once_and_work_by_step(folder: Path) -> None:
    estimate = bathyscope.estimate(folder, PROMPTS, measures=["residual", "lens"])
    hf = looped.hrm()
    assert estimate.blocks == 12
    assert estimate.parameters == sum(p.numel() for p in hf.parameters())
    block = sum(p.numel() for p in hf.model.L_module.layers[0].parameters())
    assert estimate.parameters_per_block == (block,) * 12
    outside = estimate.parameters - 4 * block
    assert estimate.streamed_weight_bytes == 4 * (outside + 3 * block)
    whole = bathyscope.load(hf).anatomy
    assert sum(p.numel() for source in whole.sources for p in source.parameters()) == 4 * block


def test_pruning_runs_saves_no_weights_that_other_runs_need() -> None:
    hf = looped.make(looped.Looped)
    options = {"drop": 2, "budget": 200, "measured": 2, "random": 2, "progress": False}
    plan = bathyscope.prune(hf, PROMPTS[:3], PROMPTS[3:], **options)
    assert len(plan.schedule) == 4
    dropped = set(range(6)) - set(plan.schedule)
    gone = [block for block in (0, 1) if {step for step in range(6) if step % 2 == block} <= dropped]
    assert not gone
    assert plan.data.attrs["parameters_after"] == plan.data.attrs["parameters"]


def test_steps_are_not_exported(folder: Path, tmp_path: Path) -> None:
    message = (
        "hrm_text cannot be exported or copied in another order: it loops, and its configuration has no entry for a "
        "single run of a block. Run the schedule with bathyscope.scheduled instead."
    )
    model = bathyscope.load(folder, dtype="float32")
    with pytest.raises(ModelError) as caught:
        bathyscope.export(model, "drop:3", tmp_path / "out")
    assert str(caught.value) == message
    with pytest.raises(ModelError) as caught, bathyscope.scheduled(model, "drop:3") as hf:
        hf.save_pretrained(tmp_path / "out")
    assert str(caught.value) == message
    with pytest.raises(ModelError, match="it loops, and its configuration has no entry"):
        bathyscope.export(folder, "drop:3", tmp_path / "out")
    for named in ("dropruns:0", "drop:1.0"):
        with pytest.raises(
            ModelError, match=f"'{named}' names runs of a looped model, and no configuration leaves out"
        ):
            bathyscope.export(folder, named, tmp_path / "out")
    assert not (tmp_path / "out").exists()
