"""``--model bathyscope``: the harness's own calls and command give what ``evaluate`` gives, to the bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from support import warm

from bathyscope.errors import OptionError
from bathyscope.extend import ScheduledLM, bundled_model
from bathyscope.model import Model
from bathyscope.prompts.harness.loading import load_benchmarks
from bathyscope.surgery.benchmarks import evaluate
from bathyscope.surgery.benchmarks.harness_model import NAME

ARGUMENTS = f"pretrained={bundled_model()},dtype=float32"
SIZES = ["--batch_size", "8", "--device", "cpu"]


def asked(schedule: str, task: Any) -> dict[str, Any]:
    """What the harness measures of a model that it makes by its name.

    One task at a time: the harness puts requests of several into the same batches, which have other shapes then.
    """
    found = lm_eval.simple_evaluate(
        model=NAME,
        model_args=f"{ARGUMENTS},schedule={schedule}",
        tasks=[task.task],
        batch_size=4,
        bootstrap_iters=0,
    )
    assert found is not None
    assert found["config"]["schedule"] == schedule
    return dict(found)


@pytest.mark.parametrize("schedule", ["standard", "drop:5", "repeat:4+3"])
def test_scores_are_those_of_evaluate(schedule: str, bundled: Model, files: dict[str, Path], own_task: Path) -> None:
    tasks = load_benchmarks(
        ["arc_easy", "lambada_openai", str(own_task)], {n: files[n] for n in ("arc_easy", "lambada_openai")}
    )
    ours = evaluate(bundled, tasks, [schedule], batch_size=4)
    for task in tasks:
        theirs = asked(schedule, task)
        (score,) = [one for one in ours.scores if (one["schedule"], one["task"]) == (schedule, task.name)]
        samples = [one for one in theirs["samples"][task.name] if one["filter"] in ("none", "whole")]
        assert len(samples) == len(score["documents"]) == 5
        for sample, document in zip(samples, score["documents"]):
            if task.written:
                assert sample["resps"][0][0] == document["answer"]
            else:
                assert [answer[0][0] for answer in sample["resps"]] == document["loglikelihoods"]
        for name, metric in score["metrics"].items():
            own_name, _, reading = name.partition(",")
            if own_name != "loglikelihood":
                assert theirs["results"][task.name][f"{own_name},{reading or 'none'}"] == metric["value"], name


def test_the_command_of_the_harness_knows_the_model(own_task: Path, bundled: Model, tmp_path: Path) -> None:
    typed = ["run", "--model", NAME, "--model_args", f"{ARGUMENTS},schedule=drop:5", "--tasks", "counting"]
    typed += ["--include_path", str(own_task.parent), "--output_path", str(tmp_path / "out"), *SIZES]
    code = "from bathyscope.surgery.benchmarks.harness_command import main; main()"
    warm.run(["-c", code, *typed], folder=own_task.parent).check_returncode()
    (stored,) = (tmp_path / "out").rglob("results_*.json")
    results = json.loads(stored.read_text(encoding="utf-8"))["results"]["counting"]
    (score,) = [one for one in evaluate(bundled, [str(own_task)], ["drop:5"]).scores if one["schedule"] == "drop:5"]
    assert {name: results[name] for name in score["metrics"]} == {n: m["value"] for n, m in score["metrics"].items()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"shedule": "drop:5"},
            r"model_args: shedule='drop:5' is unknown\. Did you mean 'schedule'\? Allowed: pretrained",
        ),
        ({"batch_size": "auto"}, "batch_size='auto' is not allowed; give a number of 1 or more"),
        ({"schedule": "dorp:5"}, "Unknown schedule 'dorp:5'"),
        ({"schedule": "drop:99"}, "99"),
        ({"trust_remote_code": True}, "model_args: trust_remote_code=True is unknown"),
    ],
)
def test_what_is_asked_wrongly_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        ScheduledLM(str(bundled_model()), device="cpu", **arguments)


def test_a_model_is_as_before_when_it_is_closed() -> None:
    lm = ScheduledLM(str(bundled_model()), "drop:5", device="cpu")
    assert lm.get_model_info()["schedule"] == "drop:5"
    ids = torch.tensor([[5, 9, 30]])
    with torch.no_grad():
        under = lm.model(ids).logits
        lm.close()
        assert (lm.model(ids).logits - under).abs().max() > 1e-2
