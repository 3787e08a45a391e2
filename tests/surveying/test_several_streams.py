"""Models of several streams from a checkpoint: streamed from disk, in parts that are joined, and estimated."""

from __future__ import annotations

from pathlib import Path

import pytest
import xarray as xr
from support import zoo

import bathyscope

MEASURES = ["residual", "lens", "skip", "drop"]
NAMES = ("deepseek_v4", "gemma3n", "hy_v4", "inkling2", "qwen4_exp", "zaya")


def test_streams_in_front_of_the_rows_are_found_in_a_streamed_model(tmp_path: Path) -> None:
    zoo.entry("gemma3n").build().save_pretrained(tmp_path)
    anatomy = bathyscope.load(tmp_path, placement="stream", dtype="float32").anatomy
    assert (anatomy.n_streams, anatomy.width) == (2, 128)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:skip. ", "ignore:drop.1 cannot", "ignore:drop.0 cannot")
@pytest.mark.parametrize("name", NAMES)
def test_streamed_and_joined_surveys_are_those_of_the_model_in_memory(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    hf = zoo.entry(name).build()
    hf.save_pretrained(folder)
    prompts = zoo.prompts(hf, (9, 7, 8))
    options = {"loading": {"dtype": "float32"}, "batch_tokens": 9, "progress": False}
    whole = bathyscope.survey(folder, prompts, MEASURES, **options)
    if name != "zaya":
        assert whole["residual"].sizes["stream"] == bathyscope.load(folder, dtype="float32").anatomy.n_streams
    streamed = bathyscope.load(folder, placement="stream", dtype="float32")
    assert streamed.blocks is not None
    run = bathyscope.survey(streamed, prompts, MEASURES, batch_tokens=9, progress=False)
    assert run.identity.weight_hash == whole.identity.weight_hash
    parts = [tmp_path / f"part-{number}" for number in (1, 2)]
    for number, part in enumerate(parts, start=1):
        bathyscope.survey(folder, prompts, MEASURES, out=part, part=f"{number}/2", **options)
    joined = bathyscope.join(parts, tmp_path / "whole")
    for measure in MEASURES:
        xr.testing.assert_allclose(run[measure], whole[measure], rtol=1e-5, atol=1e-6)
        xr.testing.assert_allclose(joined[measure], whole[measure], rtol=1e-5, atol=1e-6)
        assert joined[measure].attrs == whole[measure].attrs
