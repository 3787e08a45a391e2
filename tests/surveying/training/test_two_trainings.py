"""Two trainings and one folder: the same one goes on, another is refused before its first step, and none are mixed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.trainings import PROMPTS, model, trained
from torch import nn

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError, StoreError
from bathyscope.surveying.training import folder as folders
from bathyscope.training import DepthCallback

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
OPTIONS: dict[str, Any] = {"measures": ["lens"], "progress": False}


def callback(out: Path, every: int = 2) -> DepthCallback:
    return DepthCallback(PROMPTS, every=every, out=out, **OPTIONS)


def moved(amount: float) -> nn.Module:
    hf = model()
    with torch.no_grad():
        next(hf.parameters()).mul_(1 + amount)
    return hf


def steps_in(folder: Path) -> list[int]:
    return list(folders.finished_runs(folder))


def test_a_training_with_another_rate_is_refused_before_its_first_step(tmp_path: Path) -> None:
    course = tmp_path / "course"
    trained(tmp_path / "t", callback(course), steps=4)
    about = json.loads((course / "course.json").read_text(encoding="utf-8"))["training"]
    assert (about["learning_rate"], about["steps"], about["seed"]) == (5e-5, 4, 3)
    assert len(about["first_weights"]) == 64

    def refused(message: str, hf: nn.Module | None = None, **arguments: Any) -> None:
        steps = arguments.pop("steps", 4)
        with pytest.raises(StoreError, match=message):
            trained(tmp_path / "t", callback(course, every=3), hf=hf, steps=steps, **arguments)
        assert steps_in(course) == [0, 2, 4]

    both = r"\)\. Give this one another folder \(out=…\), or resume that training with its own options"
    refused(rf"another training \(learning_rate: the course has 5e-05, this training 0\.01{both}", learning_rate=0.01)
    refused(rf"steps: the course has 4, this training 6{both}", steps=6)
    refused(rf"first_weights: the course has \w{{8}}, this training \w{{8}}{both}", hf=moved(0.5))
    # the very same training, begun again, finds its own steps
    trained(tmp_path / "t", callback(course), steps=4)
    assert steps_in(course) == [0, 2, 4]


def test_a_loop_without_options_adds_nothing_to_a_course_that_may_be_anothers(tmp_path: Path) -> None:
    course = tmp_path / "course"
    first = bathyscope.watch(model(), PROMPTS, out=course, every=40, **OPTIONS)
    assert first(0)
    first._model = moved(0.1)
    assert first(40)
    # equal at step 0, and nothing says that it is the same one afterwards
    second = bathyscope.watch(model(), PROMPTS, out=course, every=10, **OPTIONS)
    assert second(0)
    with pytest.warns(UserWarning, match=r"holds a course up to step 40, and nothing shows that this training is the"):
        assert second(10) == {}
    assert second(50) == {}
    assert steps_in(course) == [0, 40]
    # one that has had the same weights at the last step is the same one
    same = bathyscope.watch(model(), PROMPTS, out=course, every=40, **OPTIONS)
    assert same(0)
    same._model = moved(0.1)
    assert same(40)
    same._model = moved(0.2)
    assert same(80)
    # as is one that begins behind it
    later = bathyscope.watch(moved(0.3), PROMPTS, out=course, every=40, **OPTIONS)
    assert later(120)
    assert steps_in(course) == [0, 40, 80, 120]
    other = bathyscope.watch(moved(0.7), PROMPTS, out=course, every=40, **OPTIONS)
    with pytest.warns(UserWarning, match=r"step 120 in .* was surveyed with other weights.*weights: the course has"):
        assert other(120) == {}
    assert other(160) == {}
    assert steps_in(course) == [0, 40, 80, 120]


def test_a_loop_that_tells_its_options_goes_on_with_them_alone(tmp_path: Path) -> None:
    course, told = tmp_path / "course", {"learning_rate": 0.1}
    first = bathyscope.watch(model(), PROMPTS, out=course, every=40, training=told, **OPTIONS)
    assert first(0)
    assert first(40)
    with pytest.raises(StoreError, match=r"learning_rate: the course has 0\.1, this training 0\.2"):
        bathyscope.watch(model(), PROMPTS, out=course, training={"learning_rate": 0.2}, **OPTIONS)
    again = bathyscope.watch(model(), PROMPTS, out=course, every=10, training=told, **OPTIONS)
    assert again(0)
    assert again(10)
    assert steps_in(course) == [0, 10, 40]


def test_a_course_of_an_earlier_version_goes_on_where_it_ended(tmp_path: Path) -> None:
    course = tmp_path / "course"
    trained(tmp_path / "t", callback(course), steps=4)
    about = json.loads((course / "course.json").read_text(encoding="utf-8"))
    del about["training"]
    (course / "course.json").write_text(json.dumps(about), encoding="utf-8")
    trained(tmp_path / "t", callback(course), steps=4)
    assert "training" in json.loads((course / "course.json").read_text(encoding="utf-8"))


def test_another_token_of_padding_is_the_same_training(tmp_path: Path) -> None:
    first = bathyscope.watch(model(), PROMPTS, out=tmp_path / "c", every=1, **OPTIONS)
    kept = first(0)
    padded = model()
    padded.config.pad_token_id = 3
    again = bathyscope.watch(padded, PROMPTS, out=tmp_path / "c", every=1, **OPTIONS)
    assert again(0)["depth/readable"] == kept["depth/readable"]


def test_checkpoints_of_two_trainings_make_no_course(tmp_path: Path) -> None:
    for step, loss in ((1, 3.0), (2, 3.0), (3, 2.5)):
        place = tmp_path / "out" / f"checkpoint-{step}"
        moved(step / 10).save_pretrained(place)
        log = [{"step": 0, "depth/own": 1.0}, {"step": 1, "loss": loss, "learning_rate": 1e-3}]
        (place / "trainer_state.json").write_text(json.dumps({"log_history": log}), encoding="utf-8")
    with pytest.warns(UserWarning, match=r"Step 3 is left out: its training began otherwise than the first's"):
        found = bathyscope.course(tmp_path / "out", PROMPTS, tmp_path / "c", measures=("lens",), progress=False)
    assert found.step.values.tolist() == [1, 2]
    with pytest.raises(StoreError, match=r"another training \(first_log: the course has"):
        bathyscope.course([tmp_path / "out" / "checkpoint-3"], PROMPTS, tmp_path / "c", measures=("lens",))


def test_a_course_is_shown_and_named_where_a_run_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch = bathyscope.watch(model(), PROMPTS, out=tmp_path / "c", every=1, **OPTIONS)
    assert watch(0)
    assert main(["show", str(tmp_path / "c")]) == 0
    assert bathyscope.open(tmp_path / "c").text.partition(".")[0] in capsys.readouterr().out
    with pytest.raises(StoreError, match=r"It holds a course, which bathyscope\.open"):
        bathyscope.report([tmp_path / "c"], tmp_path / "page.html")
    assert main(["show", str(tmp_path / "c"), "--measure", "lens"]) == OptionError.exit_code
    assert "is the folder of a course, with a survey of each step" in " ".join(capsys.readouterr().err.split())
