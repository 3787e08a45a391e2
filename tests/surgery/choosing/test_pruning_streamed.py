"""Blocks of a model whose weights lie elsewhere are chosen as those of the same model in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import xarray as xr
from support import streamed, zoo

import bathyscope
from bathyscope.model import load

LENGTHS = (9, 12, 8, 11, 10, 7)
OF_PLACEMENT = ("placement",)


def chosen(model: bathyscope.Model, **options: object) -> bathyscope.Plan:
    prompts = zoo.prompts(zoo.build("llama"), LENGTHS)
    return bathyscope.prune(
        model,
        prompts[:3],
        prompts[3:],
        drop=1,
        random=2,
        resamples=20,
        progress=False,
        **options,  # type: ignore[arg-type]
    )


def comparable(data: xr.Dataset) -> xr.Dataset:
    return data.drop_attrs(deep=False).assign_attrs(
        {name: value for name, value in data.attrs.items() if name not in OF_PLACEMENT}
    )


@pytest.mark.parametrize("parts", ["block", "attention,mlp"])
def test_a_streamed_model_is_pruned_to_the_end(parts: str, tmp_path: Path) -> None:
    """All costs were measured, and then the sizes of a model that cannot be copied ended the search."""
    folder = streamed.saved("llama", tmp_path / "model")
    whole = chosen(load(folder, placement="resident"), parts=parts)
    plan = chosen(streamed.streamed(folder), parts=parts, out=tmp_path / "plan")
    xr.testing.assert_identical(comparable(plan.data), comparable(whole.data))
    assert plan.text == whole.text
    assert json.dumps(plan.before_after.loc[:3].to_dict()) == json.dumps(whole.before_after.loc[:3].to_dict())
    assert bathyscope.open(tmp_path / "plan").text == plan.text


def test_an_offloaded_model_is_pruned_too(tmp_path: Path) -> None:
    folder = streamed.saved("llama", tmp_path / "model")
    plan = chosen(load(streamed.offloaded(folder, tmp_path / "elsewhere")))
    assert plan.text == chosen(load(folder, placement="resident")).text
