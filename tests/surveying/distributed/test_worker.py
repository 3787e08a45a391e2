"""What workers have planned is compared before they compute."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import waves, zoo

from bathyscope import ModelError
from bathyscope.model.identity import ModelIdentity, identity_of
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.distributed.worker import Planned, Worker, WorkOrder

IDENTITY = {"weight_hash": "a", "device": "NVIDIA H200", "measures": {"lens": {"k": 5}}}
FIRST = Planned(IDENTITY, {}, {"torch": "2.13.0", "numpy": "2.4.6"}, b"", [1.0], False, "left (NVIDIA H200)")


@pytest.mark.parametrize(
    ("change", "agrees"),
    [
        ({"place": "right (NVIDIA H200)"}, True),
        ({"work": [2.0], "prompts": b"other words", "notes": {"threads": 2}}, True),
        ({"identity": {**IDENTITY, "measures": {"lens": {"k": 6}}}}, False),
        ({"versions": {"torch": "2.13.0", "numpy": "2.4.7"}}, False),
    ],
)
def test_plans_agree_where_nothing_that_changes_a_number_differs(change: dict[str, Any], agrees: bool) -> None:
    """What only one machine knows may differ; each change of the other kind is refused alone."""
    with nullcontext() if agrees else pytest.raises(ModelError, match="would not compute the same") as refusal:
        replace(FIRST, **change).require_like(FIRST)
    assert (refusal is None) == agrees


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
    call = WorkOrder(str(tmp_path), {}, ModelIdentity("m", "another"), Survey(["lens"]), ids, (), str(tmp_path))
    with pytest.raises(
        ModelError, match=r"The weights of .* are not those of the model that was given: it was changed"
    ):
        Worker(call).plan("")
    planned = Worker(replace(call, identity=identity_of(model))).plan("")
    assert planned.identity["weight_hash"] == model.weight_hash
    assert planned.notes["threads"] == 1
