"""Shards of a plan, computed in several calls: nothing that holds for all of them is done for each."""

from __future__ import annotations

from typing import Any

import pytest
from support import waves, zoo

import bathyscope.surveying.work
from bathyscope import Prompt
from bathyscope.runs.shards import Datasets
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.computing import Computation
from bathyscope.surveying.plan import SurveyPlan

LENGTHS = (12, 9, 14, 10)


def planned(*measures: str) -> SurveyPlan:
    """The tiny Llama on four prompts, two of them in each shard."""
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    options = {"erasure": {"reference": [ids[0]]}} if "erasure" in measures else {}
    prompts = [Prompt(ids=prompt, answer_tokens=2) for prompt in ids]
    return Survey(list(measures), batch_tokens=26, options=options).plan(waves.loaded("llama"), prompts)


def test_a_measure_looks_at_its_reference_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker computes shard after shard, and a reference costs forward passes."""
    plan = planned("erasure", "lens")
    begun: list[str] = []
    for measure in plan.measures:

        def noted(*arguments: Any, _name: str = measure.name, _read: Any = measure.read_reference) -> None:
            begun.append(_name)
            _read(*arguments)

        monkeypatch.setattr(measure, "read_reference", noted)
    computation = Computation(plan)
    results: dict[int, Datasets] = {}
    for index in (0, 1):
        computation.compute([index], results.__setitem__, progress=False)
    assert len(plan.shards) == 2
    assert results.keys() == {0, 1}
    assert sorted(begun) == ["erasure", "lens"]


def test_weights_are_counted_once_for_each_set_of_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is asked for several times for every batch, and a model has thousands of weights."""
    counted: list[int] = []
    count = bathyscope.surveying.work.weight_flops
    monkeypatch.setattr(bathyscope.surveying.work, "weight_flops", lambda anatomy: counted.append(1) or count(anatomy))
    plan = planned("drop", "lens")
    counted.clear()
    first = plan.work
    assert plan.work == first
    assert plan.work_of(range(4), plan.measures[:1]) == plan.work_of(range(4), plan.measures[:1])
    assert len(counted) == 2, "of both measures, and of one"
