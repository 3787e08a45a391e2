"""What is done with the model is stored once, reloads with equal logits, and is told in tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support import any_machine, waves, zoo

import bathyscope
from bathyscope.errors import OptionError
from studies.real_model import acting
from studies.real_model.act_page import acting_markdown, load_acts, load_times
from studies.real_model.acting import RULES, Place, act, acts_on, task_differences
from studies.real_model.command import act_command, chosen_names, measure_command
from studies.real_model.models import GEMMA3, SMOLLM2
from studies.real_model.reloading import compare_reloaded
from studies.real_model.stored_plans import plan_conclusion
from studies.real_model.timing import OutermostTime, forwards_needed


@pytest.mark.thorough
@pytest.mark.skipif(any_machine.VARIABLE in os.environ, reason="the other process shuts out how this one rounds")
def test_an_exported_checkpoint_is_compared_without_this_package(tmp_path: Path) -> None:
    model = bathyscope.load(zoo.entry("llama").build())
    folder = tmp_path / "smaller"
    bathyscope.export(model, "drop:1", folder)
    with bathyscope.scheduled(model, "drop:1") as hf:
        assert compare_reloaded(hf, folder) == {"tokens": 24, "largest_difference": 0.0, "equal": True}
    with pytest.raises(AssertionError, match="gives logits that differ by up to"):
        compare_reloaded(model.hf, folder)


def test_differences_of_tasks_are_paired() -> None:
    """Of four documents of either task the first two are right; without blocks one of ``b`` is lost."""
    full = xr.DataArray([[1, 1, 0, 0.0], [1, 1, 0, np.nan]], dims=("task", "document"), coords={"task": ["a", "b"]})
    without = full.copy()
    without[1, 0] = 0.0
    rows = {row["task"]: row for row in task_differences(without, full)}
    assert rows["a"]["difference"] == 0
    assert (rows["b"]["documents"], rows["b"]["full"]) == (3, pytest.approx(2 / 3))
    assert rows["b"]["difference"] == pytest.approx(-1 / 3)
    assert rows["all"]["documents"] == 7
    assert rows["all"]["difference"] == pytest.approx(-1 / 7)
    assert rows["all"]["low"] < -1 / 7 < rows["all"]["high"]


def test_an_act_is_carried_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def first(place: Place) -> dict[str, Any]:
        done.append("first")
        return {"value": 1, "model": str(place.folder)}

    def second(place: Place) -> dict[str, Any]:
        done.append("second")
        return {"value": place.read("first")["value"] + 1}

    monkeypatch.setattr(acting, "acts_on", lambda real: {"first": first, "second": second})
    place = Place(tmp_path / "model", tmp_path / "data", tmp_path / "results", tmp_path / "work")
    for _ in range(2):
        act(place, ("first", "second"))
    assert done == ["first", "second"]
    record = json.loads((tmp_path / "results/act_second.json").read_text(encoding="utf-8"))
    assert record["value"] == 2
    assert place.read("first")["model"] == "model", "a place on this machine was stored"
    assert set(record["took"]) == {"cpu_seconds", "wall_seconds", "peak_bytes"}


def test_the_page_says_of_a_stored_plan_what_prune_says_today() -> None:
    ids = [zoo.prompts(zoo.build("llama"), (12, 9, 10) * 2, seed) for seed in (1, 2)]
    plan = bathyscope.prune(waves.loaded("llama"), *ids, drop=2, random=3, progress=False)
    record = json.loads(json.dumps(plan.record()))
    record["conclusion"] = "Proved, said an earlier version."
    assert plan_conclusion(record) == plan.text
    del record["blocks_again"]
    assert "bootstraps" in plan.text
    assert "bootstraps" not in plan_conclusion(record)


def plan_record(size: int) -> dict[str, Any]:
    candidate = {
        "calibration_cost": 0.1,
        "test_cost": 0.2,
        "test_cost_low": 0.15,
        "test_cost_high": 0.25,
        "test_kl": 0.2,
        "p_value": 0.5,
        "indistinguishable": True,
    }
    return {
        "conclusion": "Said an earlier version.",
        "model": {"n_blocks": 30},
        "data": {"test": {"prompts": 12}},
        "settings": {"parts": "block", "level": 0.95, "how": "all subsets were measured", "drop": size},
        "schedule": "drop:4",
        "candidates": [
            *({"candidate": rule, "subset": "drop:4,drop:7", "test_agreement": 0.8, **candidate} for rule in RULES),
            # a mean over subsets has no agreement
            {
                **{"candidate": "random", "subset": "8 subsets", "test_agreement": None, **candidate},
                **{
                    "test_cost": 0.5,
                    "test_cost_low": 0.45,
                    "test_cost_high": 0.55,
                    "p_value": 0.01,
                    "indistinguishable": False,
                },
            },
        ],
        "reloaded": {"equal": True},
        "took": {"cpu_seconds": 90.0, "wall_seconds": 120.0, "peak_bytes": 2e9},
    }


def test_tables_say_what_was_done_and_what_not(tmp_path: Path) -> None:
    assert acting_markdown({}, []).count("Not carried out yet.") == 6
    difference = {"documents": 25, "full": 0.5, "pruned": 0.4, "difference": -0.1, "low": -0.25, "high": 0.05}
    task_rows = [
        {"size": size, "rule": rule, "schedule": "drop:4", "task": task, **difference}
        for size in SMOLLM2.removed
        for rule in RULES
        for task in ("hellaswag", "all")
    ]
    rung = {"calibration_cost": 0.5, "cost": 0.4, "cost_low": 0.3, "cost_high": 0.5}
    took = plan_record(3)["took"]
    records: dict[str, dict[str, Any]] = {
        **{f"prune_{size}": plan_record(size) for size in SMOLLM2.removed},
        "tasks": {"documents": 25, "rows": task_rows, "took": took},
        "repair": {
            "conclusion": "Proved on 16 test prompts: heal.",
            "rungs": [
                {"name": "none", **rung},
                {"name": "heal", **rung, "gain": 0.1, "gain_low": 0.05, "gain_high": 0.2, "recovered": 0.4},
            ],
            "reloaded": {"equal": True},
            "took": took,
        },
    }
    for name, record in records.items():
        (tmp_path / f"act_{name}.json").write_text(json.dumps(record), encoding="utf-8")
    row = {
        "measures": ["residual", "lens"],
        "prompts": 10,
        "tokens": 2435,
        "threads": 1,
        "wall_seconds": 120.0,
        "cpu_seconds": 60.0,
        "predicted_seconds": 90.0,
        "predicted_over_measured": 0.75,
        "peak_bytes": 2e9,
        "loading_peak_bytes": 1e9,
        "predicted_peak_bytes": 3e9,
        "readout_share": 0.5,
        "forward_cpu_seconds": 30.0,
        "forwards": 4,
    }
    (tmp_path / "times.json").write_text(json.dumps([row]), encoding="utf-8")
    text = acting_markdown(load_acts(tmp_path), load_times(tmp_path))
    assert "**3 of 30 blocks.** Measured on 12 test prompts: leaving out drop:4,drop:7, 3 of 30 blocks, costs" in text
    assert "| 6 | greedy | 4, 7 | 0.100 | 0.200 (0.150 to 0.250) | 0.80 |" in text
    assert "| 3 | random | 8 subsets | 0.100 | 0.500 (0.450 to 0.550) | – |" in text
    assert "3 of 3 exported checkpoints give the logits of the scheduled model to the bit" in text
    assert "| 0 | whole model | 0.50 of 25 | 0.50 of 25 |" in text
    assert "| 10 | block influence | -0.10 (-0.25 to +0.05) | -0.10 (-0.25 to +0.05) |" in text
    assert "| heal | 0.500 | 0.400 (0.300 to 0.500) | +0.100 (+0.050 to +0.200) | 40% |" in text
    assert "| `residual`, `lens` | 2.0 | 1.0 | 0.75 | 2.0 | 3.0 | 50% | 2.00 |" in text
    assert "10 prompts of GSM8K, 2,435 tokens, one thread." in text
    assert text.count("Not carried out yet.") == 2


def test_a_stored_plan_whose_choice_is_not_the_best_is_told_from_random_subsets_by_its_intervals() -> None:
    """Records of earlier versions hold p of no difference from the best candidate, and no costs of single prompts."""
    record = plan_record(3)
    record["before_after"] = [{"quantity": "loss (nats)", "before": 4.0, "after": 4.2}]
    best = record["candidates"][1]
    best |= {"test_cost": 0.19, "test_cost_low": 0.14, "test_cost_high": 0.24}
    random = record["candidates"][-1]
    assert plan_conclusion(record).startswith("Measured on 12 test prompts: leaving out drop:4,drop:7, 3 of 30 blocks,")
    random |= {"test_cost_low": 0.24, "indistinguishable": True}
    unknown = plan_conclusion(record)
    assert unknown.startswith(
        "Not proved on 12 test prompts: the choice (drop:4,drop:7, 3 of 30 blocks) cannot be told"
    )
    assert "the same on every prompt" not in unknown
    record["candidates"][-1] |= {"p_against_choice": 0.01}
    for row in record["candidates"][:-1]:
        row["p_against_choice"] = 1.0
    assert plan_conclusion(record).startswith("Measured on 12 test prompts")


def test_names_that_a_model_does_not_have_are_refused_before_it_is_fetched() -> None:
    """Six of 30 blocks are left out of SmolLM2, and four of 18 of Gemma 3."""
    assert chosen_names(None, list(acts_on(GEMMA3)))[:3] == ["prune_2", "prune_4", "prune_6"]
    assert chosen_names("repair,prune_3", list(acts_on(SMOLLM2))) == ["repair", "prune_3"]
    with pytest.raises(OptionError) as caught:
        act_command(data=Path("none"), model="gemma3", folder=Path("none"), only="prune_2,prune_3")
    assert str(caught.value) == (
        "There is no 'prune_3'. Choose from: prune_2, prune_4, prune_6, repeats, exits, repair, repair_again, tasks "
        "(--only)."
    )
    with pytest.raises(OptionError, match=r"There is no 'streams'\. Choose from: attention, weights, "):
        measure_command(data=Path("none"), folder=Path("none"), only="streams")


def test_time_in_readers_that_call_each_other_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes on by a second whenever it is read: once on the way in, and once on the way out."""
    clock = iter(range(100))
    monkeypatch.setattr("studies.real_model.timing.time.process_time", lambda: float(next(clock)))

    class Reader:
        def read(self, times: int) -> None:
            if times:
                self.read(times - 1)

    class Comparison:
        def run(self) -> None:
            # through code that is no reader's
            (lambda: Reader().read(2))()

    read = Reader.read
    reading = OutermostTime()
    with reading.counting([(Reader, "read"), (Comparison, "run")]):
        Comparison().run()
        next(clock)
        Reader().read(0)
    assert reading.seconds == 2
    assert next(clock) == 5
    assert Reader.read is read


def test_forwards_are_counted_by_intervention() -> None:
    assert forwards_needed(("residual", "lens"), 30) == 1
    assert forwards_needed(("drop",), 30) == 31
    assert forwards_needed(("lens", "skip"), 30) == 151
