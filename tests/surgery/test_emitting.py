"""Schedules as other tools take them."""

from __future__ import annotations

import json

import pytest
import yaml

from bathyscope.schedule import Schedule
from bathyscope.surgery.exporting import emitted, runs


@pytest.mark.parametrize("text", ["drop:2,drop:5", "repeat:2+2", "swap:0", "standard", "order:3"])
def test_a_merge_of_slices_gives_the_order(text: str) -> None:
    schedule = Schedule.parse(text, 8)
    found = yaml.safe_load(emitted(schedule, "org/mo'del: x", "bfloat16", "mergekit"))
    slices = [one["sources"][0] for one in found["slices"]]
    assert [block for one in slices for block in range(*one["layer_range"])] == list(schedule)
    assert {one["model"] for one in slices} == {"org/mo'del: x"}
    assert (found["merge_method"], found["dtype"]) == ("passthrough", "bfloat16")
    assert all(b[0] != a[1] + 1 for a, b in zip(runs(schedule), runs(schedule)[1:]))


def test_lists_of_layers() -> None:
    schedule = Schedule.standard(4).drop(1)
    assert emitted(schedule, "m", "float32", "layers") == "0,2,3"
    wanted = {"model": "m", "n_blocks": 4, "layers": [0, 2, 3], "dropped": [1]}
    assert json.loads(emitted(schedule, "m", "float32", "json")) == wanted


def test_the_revision_of_the_model_is_kept() -> None:
    schedule = Schedule.standard(4).drop(1)
    found = yaml.safe_load(emitted(schedule, "org/model", "float32", "mergekit", "v1.0"))
    assert {one["sources"][0]["model"] for one in found["slices"]} == {"org/model@v1.0"}
    assert json.loads(emitted(schedule, "org/model", "float32", "json", "v1.0"))["revision"] == "v1.0"
