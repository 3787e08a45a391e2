"""Results of two models on one page: never one headline over the other's plan."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from support.synthetic import synthetic_run

import bathyscope
from bathyscope.pages.acts.models import tell_apart
from bathyscope.pages.head.answer import plan_for
from bathyscope.runs.run import Run
from bathyscope.schedule import Schedule
from bathyscope.surgery.plan.arrays import result
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.repairing.repaired import Provenance, Repaired, Rung

SAME = {"model": "example/model-12", "weight_hash": "ab" * 32, "config_hash": "cd" * 32, "precision": "float32"}


def run_of(**changes: Any) -> Run:
    run = synthetic_run(12, prompts=6)
    identity = {**run.manifest["identity"], "config_hash": "cd" * 32, "n_blocks": 12, **changes}
    return replace(run, manifest={**run.manifest, "identity": identity})


def plan_of(**changes: Any) -> Plan:
    values: dict[str, Any] = {
        "subset": np.array(["drop:3,drop:4", "drop:2,drop:7"], dtype=object),
        **{name: [0.2, 0.5] for name in ("calibration_cost", "test_cost", "test_cost_low", "test_cost_high")},
        **{name: [0.5, 0.5] for name in ("p_value", "test_kl", "test_agreement")},
        "indistinguishable": [True, False],
        "cost": np.zeros((2, 3)),
    }
    attrs = {"n_units": 12, "size": 2, "parts": "block", "level": 0.95, "how": "all pairs tried", "n_blocks": 12}
    told = {name: value for name, value in {**SAME, **changes}.items() if value is not None}
    return Plan(result(["search", "random"], values, {}, {**attrs, **told}))


def repair_of(**changes: Any) -> Repaired:
    model = {"name": SAME["model"], "n_blocks": 12, **SAME, **changes}
    rungs = (Rung("none", 0.3, calibration_cost=0.3), Rung("scale", 0.2, calibration_cost=0.2, gain=0.1))
    return Repaired(Schedule.parse("drop:3", 12), rungs, Provenance(model, {}, {"level": 0.95}, "prompts"))


CHANGES: dict[str, dict[str, Any]] = {
    "weights": {"weight_hash": "ef" * 32},
    "configuration": {"config_hash": "ef" * 32},
    "adapters": {"config_hash": "ef" * 32, "adapters": "default active"},
    "blocks": {"n_blocks": 6, "weight_hash": "ef" * 32, "config_hash": "ef" * 32},
}


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("aspect", CHANGES)
def test_a_plan_of_another_model_decides_nothing_of_a_run(aspect: str, tmp_path: Path) -> None:
    run, plan = run_of(), plan_of(**CHANGES[aspect])
    assert plan_for(run, [plan]) is None
    with pytest.warns(
        UserWarning, match=rf"The plan of .* are not shown to be of one model \(.*{aspect}: the plan has"
    ):
        page = bathyscope.report([run, plan], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>Results of different models</title>" in page
    assert page.index("are not shown to be of one model") < page.index('class="headline"')
    # each headline stands under the name of its own result
    body = page[page.index("<main") :]
    tags = re.findall(r"<h\d([^>]*)>(.*?)</h\d>", body)
    order = [f"headline: {text}" if "headline" in about else text for about, text in tags]
    places = [number for number, text in enumerate(order) if text.startswith("headline")]
    assert order[places[0] - 1].startswith("What leaving out costs: ")
    assert order[places[1] - 1].startswith("model-12 on ")
    assert "By bathyscope prune" not in body


@pytest.mark.usefixtures("blank_pictures")
def test_results_of_one_model_are_one_page(tmp_path: Path) -> None:
    run = run_of()
    assert tell_apart([run], [plan_of(), repair_of()]) == []
    # moved or renamed, it is the same model
    assert tell_apart([run], [plan_of(model="elsewhere/model")]) == []
    page = bathyscope.report([run, plan_of()], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "different models" not in page
    assert "By bathyscope prune" in page
    # an earlier version tells no configuration, which is no contradiction
    assert tell_apart([run_of(config_hash=None)], [plan_of(), repair_of()]) == []
    assert tell_apart([run], [plan_of(config_hash=None)]) == []


def test_what_is_unknown_is_no_agreement() -> None:
    nothing = plan_of(weight_hash=None, config_hash=None, precision=None, n_blocks=None)
    assert tell_apart([run_of()], [nothing]) == []
    unnamed = plan_of(model="other", weight_hash=None, config_hash=None, precision=None, n_blocks=None)
    (sentence,) = tell_apart([run_of()], [unnamed])
    assert "one of them does not tell its weights, and their names differ" in sentence
    assert plan_for(run_of(), [unnamed]) is None


@given(st.lists(st.sampled_from([None, *CHANGES]), min_size=2, max_size=4))
@settings(deadline=None, max_examples=40)
def test_every_result_of_another_model_than_the_first_is_told(aspects: list[str | None]) -> None:
    kinds = (plan_of, repair_of)
    acts = [kinds[place % 2](**(CHANGES[aspect] if aspect else {})) for place, aspect in enumerate(aspects)]
    sentences = tell_apart([run_of()], acts)
    assert len(sentences) == sum(aspect != aspects[0] for aspect in [*aspects[1:], None])
    # and the order of what a caller gives changes nothing of whether there is one model
    assert bool(tell_apart([run_of()], acts[::-1])) == bool(sentences)
