"""What workers have planned is compared before they compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import waves, zoo

from bathyscope import ModelError
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.distributed.worker import Call, Planned, Worker

IDENTITY = {"weight_hash": "a", "device": "NVIDIA H200", "measures": {"lens": {"k": 5}}}
FIRST = Planned(IDENTITY, {}, {"torch": "2.13.0", "numpy": "2.4.6"}, b"", [1.0], False, "left (NVIDIA H200)")


def test_equal_plans_agree() -> None:
    replace(FIRST, place="right (NVIDIA H200)").require_like(FIRST)


def test_another_kind_of_device_other_weights_and_other_libraries_are_all_named() -> None:
    identity = {**IDENTITY, "weight_hash": "b", "device": "NVIDIA A100"}
    other = replace(FIRST, identity=identity, versions={"torch": "2.12.0", "numpy": "2.4.6"}, place="right (A100)")
    with pytest.raises(ModelError) as caught:
        other.require_like(FIRST)
    assert str(caught.value) == (
        "Workers on left (NVIDIA H200) and on right (A100) would not compute the same:\n"
        "  weight_hash: left (NVIDIA H200) has 'a', right (A100) 'b'\n"
        "  device: left (NVIDIA H200) has 'NVIDIA H200', right (A100) 'NVIDIA A100'\n"
        "  torch: left (NVIDIA H200) has 2.13.0, right (A100) 2.12.0\n"
        "Give all machines the same model, libraries and kind of device; shards that are finished are kept."
    )


def test_other_weights_than_those_that_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path.cwd())  # a worker enters the folder of its call, as its process is its own
    model = waves.loaded("llama")
    model.hf.save_pretrained(tmp_path)
    ids = zoo.prompts(model.hf, (12, 9))
    call = Call(str(tmp_path), {}, "another", Survey(["lens"]), ids, (), str(tmp_path))
    with pytest.raises(
        ModelError, match=r"The weights of .* are not those of the model that was given: it was changed"
    ):
        Worker(call).plan("")
    planned = Worker(replace(call, weight_hash=model.weight_hash)).plan("")
    assert planned.identity["weight_hash"] == model.weight_hash
    assert planned.notes["threads"] == 1
