"""Two trainings and one folder: the same one goes on, another is refused before its first step, and none are mixed."""

from __future__ import annotations

import json
import random
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.trainings import PROMPTS, model, trained
from torch import nn
from torch.utils.data import Subset

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError, StoreError
from bathyscope.surveying.training import folder as folders
from bathyscope.surveying.training.trainer_options import data_options
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
    # one that begins behind it is the same only where the course has noted the checkpoint that it begins with
    same._model = moved(0.3)
    same.saved(100)
    unknown = bathyscope.watch(moved(0.3), PROMPTS, out=course, every=40, **OPTIONS)
    with pytest.warns(
        UserWarning, match=r"holds a course up to step 80, and nothing shows that .* the same at step 120"
    ):
        assert unknown(120) == {}
    with pytest.raises(StoreError, match=r"step 100 in .* was saved with other weights, by another training"):
        bathyscope.watch(moved(0.4), PROMPTS, out=course, every=40, step=100, **OPTIONS)
    assert steps_in(course) == [0, 40, 80]
    later = bathyscope.watch(moved(0.3), PROMPTS, out=course, every=40, step=100, **OPTIONS)
    assert later(100) == {}
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
    # options that agree are those of many trainings: what lies before the last step waits for equal weights there
    again = bathyscope.watch(model(), PROMPTS, out=course, every=10, training=told, **OPTIONS)
    assert again(0)
    with pytest.warns(
        UserWarning, match=r"course up to step 40, and nothing shows .* before its weights are equal there"
    ):
        assert again(10) == {}
    assert again(20) == {}
    assert again(40)
    assert again(50)
    assert steps_in(course) == [0, 40, 50]


class List(torch.utils.data.Dataset[dict[str, list[int]]]):
    def __init__(self, seed: int) -> None:
        generator = random.Random(seed)
        self.rows = [[generator.randrange(2, 60) for _ in range(10)] for _ in range(64)]
        self.readings = 0

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        self.readings += 1
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class Drawing(List):
    """Examples that are drawn when they are read, by a generator of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.generator = random.Random(seed)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        row = [self.generator.randrange(2, 60) for _ in range(10)]
        return {"input_ids": row, "labels": row}


def test_another_trainer_on_the_folder_is_refused_by_what_its_arguments_and_its_data_tell(tmp_path: Path) -> None:
    course = tmp_path / "course"
    trained(tmp_path / "t", callback(course, every=4), steps=4, learning_rate=1e-2, data=List(0))
    for name, changes in (
        ("data: the course has", {"data": List(1)}),
        ("batch_size: the course has 4, this training 8", {"per_device_train_batch_size": 8}),
        ("accumulation: the course has 1, this training 2", {"gradient_accumulation_steps": 2}),
        ("weight_decay: the course has 0.0, this training 0.5", {"weight_decay": 0.5}),
        ("schedule: the course has 'linear', this training 'constant'", {"lr_scheduler_type": "constant"}),
        ("steps: the course has 4, this training 6", {"steps": 6}),
    ):
        arguments: dict[str, Any] = {"steps": 4, "learning_rate": 1e-2, "data": List(0), **changes}
        with pytest.raises(StoreError, match=re.escape(name)):
            trained(tmp_path / "t", callback(course, every=3), **arguments)
        assert steps_in(course) == [0, 4]


def test_data_are_read_only_where_that_changes_nothing() -> None:
    plain = List(0)
    told = data_options(plain)
    assert told == data_options([plain[place] for place in range(64)]) == data_options(Subset(plain, range(64)))
    assert plain.readings == 64
    assert told["examples"] == 64
    assert told["data"] != data_options(List(1))["data"]
    drawing = Drawing(0)
    before = drawing.generator.getstate()
    assert data_options(drawing) == {"examples": 64}
    assert data_options(Subset(drawing, [1, 2])) == {"examples": 2}
    assert drawing.generator.getstate() == before
    assert data_options(iter([])) == data_options(None) == {}


def other_data(course: Path, tmp_path: Path, every: int, **arguments: Any) -> list[str]:
    """Train on data that tell nothing, which differ from those of the course; return the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(tmp_path / "t", callback(course, every), learning_rate=1e-2, data=Drawing(1), **arguments)
    return [str(warning.message) for warning in caught if "at step" in str(warning.message)]


def test_a_training_that_nothing_tells_apart_adds_no_step_before_the_last_one(tmp_path: Path) -> None:
    """Steps 0 and 4 of one, and 0, 3 and 6 of another with other data, made one course of five steps."""
    course = tmp_path / "course"
    trained(tmp_path / "t", callback(course, every=4), learning_rate=1e-2, data=Drawing(0))
    kept = {path: path.read_bytes() for path in course.rglob("*") if path.is_file()}
    waiting, foreign = other_data(course, tmp_path, every=3)
    assert re.search(
        r"survey at step 3 failed.* up to step 4, and nothing shows .* before its weights are equal", waiting
    )
    assert re.search(
        r"survey at step 4 failed.* with other weights, by another training.* Give another folder", foreign
    )
    assert {path: path.read_bytes() for path in course.rglob("*") if path.is_file()} == kept


@pytest.mark.parametrize("every", [2, 5])
def test_a_training_resumed_from_its_own_checkpoint_is_not_the_course_s(every: int, tmp_path: Path) -> None:
    course, saving = tmp_path / "course", {"save_strategy": "steps", "save_steps": 3}
    trained(tmp_path / "t", callback(course), learning_rate=1e-2, data=Drawing(0))
    trained(tmp_path / "b", learning_rate=1e-2, data=Drawing(1), **saving)
    resumed = {"resume": tmp_path / "b" / "checkpoint-3", "steps": 10}
    messages = other_data(course, tmp_path, every, **resumed)
    assert "with other weights, by another training" in messages[-1]
    assert steps_in(course) == [0, 2, 4, 6]


def test_the_same_training_goes_on_from_a_checkpoint_with_another_interval(tmp_path: Path) -> None:
    """From before the last step, at one that is not due, and from behind it."""
    course, saving = tmp_path / "course", {"save_strategy": "steps", "save_steps": 3}
    data: dict[str, Any] = {"learning_rate": 1e-2, "data": List(0), "lr_scheduler_type": "constant"}
    trained(tmp_path / "t", callback(course), **data, **saving)
    assert steps_in(course) == [0, 2, 4, 6]
    trained(tmp_path / "t", callback(course, 5), resume=tmp_path / "t" / "checkpoint-3", steps=11, **data, **saving)
    assert steps_in(course) == [0, 2, 4, 6, 10]
    trained(tmp_path / "t", callback(course, 6), resume=tmp_path / "t" / "checkpoint-9", steps=14, **data, **saving)
    assert steps_in(course) == [0, 2, 4, 6, 10, 12]


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


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"log_history": 3}', b'{"log_history": [], "log_history": []}'])
def test_a_log_that_cannot_be_read_says_nothing_of_a_training(content: bytes, tmp_path: Path) -> None:
    for step in (1, 2):
        place = tmp_path / "out" / f"checkpoint-{step}"
        moved(step / 10).save_pretrained(place)
        (place / "trainer_state.json").write_bytes(content)
    found = bathyscope.course(tmp_path / "out", PROMPTS, tmp_path / "c", measures=("lens",), progress=False)
    assert found.step.values.tolist() == [1, 2]


def test_checkpoints_of_another_place_are_added_only_where_something_shows_one_training(tmp_path: Path) -> None:
    def saved(place: str, step: int, scale: float) -> Path:
        moved(scale).save_pretrained(tmp_path / place / f"checkpoint-{step}")
        return tmp_path / place / f"checkpoint-{step}"

    def course_of(*folders: Path) -> list[int]:
        out = tmp_path / "c"
        return bathyscope.course(folders, PROMPTS, out, measures=("lens",), progress=False).step.values.tolist()

    assert course_of(saved("one", 1, 0.1), saved("one", 2, 0.2)) == [1, 2]
    other = saved("two", 3, 0.7)
    with pytest.raises(StoreError, match=r"up to step 2, and nothing shows that these checkpoints are of the same"):
        course_of(other)
    # another one under a step that the course has is told before its later ones are added, and its earlier ones too
    with pytest.raises(StoreError):
        course_of(saved("two", 0, 0.5), saved("two", 2, 0.6), other)
    assert bathyscope.open(tmp_path / "c").step.values.tolist() == [1, 2]
    assert course_of(saved("one", 4, 0.4)) == [1, 2, 4]
    assert course_of(saved("copied", 2, 0.2), saved("copied", 5, 0.5)) == [1, 2, 4, 5]


def test_a_course_is_shown_and_named_where_a_run_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch = bathyscope.watch(model(), PROMPTS, out=tmp_path / "c", every=1, **OPTIONS)
    assert watch(0)
    assert watch(1)
    assert main(["show", str(tmp_path / "c")]) == 0
    assert bathyscope.open(tmp_path / "c").text.partition(".")[0] in capsys.readouterr().out
    way_on = (
        f"{str(tmp_path / 'c')!r} is the folder of a course, with a survey of each step; give one of these, such as "
        f"{tmp_path / 'c' / 'step-00000001'}"
    )
    for wants_runs in (
        lambda: bathyscope.report([tmp_path / "c"], tmp_path / "page.html"),
        lambda: bathyscope.compare([tmp_path / "c", tmp_path / "c" / "step-00000000"]),
    ):
        with pytest.raises(StoreError) as caught:
            wants_runs()
        assert str(caught.value) == f"{way_on}."
    for command in (
        ["compare", str(tmp_path / "c"), str(tmp_path / "c" / "step-00000000")],
        ["show", "--format", "badge", str(tmp_path / "c")],
    ):
        assert main(command) == StoreError.exit_code
        assert way_on.replace(" ", "") in "".join(capsys.readouterr().err.split())
    assert main(["show", str(tmp_path / "c"), "--measure", "lens"]) == OptionError.exit_code
    assert "is the folder of a course, with a survey of each step" in " ".join(capsys.readouterr().err.split())


def test_two_steps_of_a_course_are_compared_where_they_hold_what_depths_are_read_off(tmp_path: Path) -> None:
    def two_steps(measures: list[str]) -> list[bathyscope.Run]:
        out = tmp_path / "-".join(measures)
        hf = model()
        watch = bathyscope.watch(hf, PROMPTS, out=out, every=1, measures=measures, progress=False)
        assert watch(0)
        with torch.no_grad():
            for parameter in hf.parameters():
                parameter.mul_(1.05)
        assert watch(1)
        return [bathyscope.open(out / f"step-{step:08d}") for step in (0, 1)]

    comparison = bathyscope.compare(two_steps(["residual", "lens", "skip"]), resamples=100)
    assert {"step-00000001" in row["other"] for row in comparison.record()} == {True}
    steps = two_steps(["lens", "skip"])
    with pytest.raises(
        OptionError, match=r"lacks residual \(it holds: lens, skip.*\[\.\.\., 'effective_depth'\]"
    ) as caught:
        bathyscope.compare(steps, resamples=100)
    # the estimators that it offers are compared as the steps are
    [offered] = re.findall(r"\(estimators=, --estimators\): ([a-z_, ]+);", str(caught.value))
    assert "cosine" not in offered
    rows = bathyscope.compare(steps, resamples=100, estimators=offered.split(", ")).record()
    assert {"step-00000001" in row["other"] for row in rows} == {True}
    with pytest.raises(OptionError, match=r"it holds: drop.*Survey again with") as caught:
        bathyscope.compare(two_steps(["drop"]), resamples=100)
    assert "--estimators" not in str(caught.value)


def test_what_is_no_step_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    watch = bathyscope.watch(model(), PROMPTS, out=tmp_path / "c", every=2.0, **OPTIONS)
    assert watch(np.int64(0)).keys() == watch(0.0).keys() == watch(torch.tensor(0)).keys() != set()
    for step in ("3", 2.5, None, float("nan"), float("inf"), True, [1], 1j):
        for call in (watch, watch.saved):
            with pytest.raises(
                OptionError, match=r"step=.* is no step of a training; give a whole number, 0 or more\."
            ):
                call(step)
    with pytest.raises(OptionError, match=r"step=-1 is out of range; allowed: 0 or more"):
        watch(-1)
    for every in (1.5, "2", None):
        with pytest.raises(OptionError, match=r"every=.* is no step of a training; give a whole number, 1 or more"):
            bathyscope.watch(model(), PROMPTS, out=tmp_path / "d", every=every, **OPTIONS)
    with pytest.raises(OptionError, match="max_share='a' is out of range"):
        bathyscope.watch(model(), PROMPTS, out=tmp_path / "d", max_share="a", **OPTIONS)
    assert steps_in(tmp_path / "c") == [0]
    assert not (tmp_path / "d").exists()


NUMBERS = st.one_of(
    st.floats(width=32).map(np.float32),
    st.floats(),
    st.integers(-9, 9).map(np.int64),
    st.lists(st.floats(width=32), max_size=2).map(np.array),
    st.lists(st.integers(0, 9), max_size=2).map(tuple),
    st.booleans().map(np.bool_),
    st.floats(width=32).map(torch.tensor),
)

ABOUT = {"model": {"type": "llama"}}


@given(training=st.dictionaries(st.sampled_from(["lr", "decay"]), NUMBERS, max_size=2))
def test_options_of_any_number_are_their_own_again(training: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        folders.claim_course(Path(folder) / "c", ABOUT, training)
        written = (Path(folder) / "c" / "course.json").read_text(encoding="utf-8")
        folders.claim_course(Path(folder) / "c", ABOUT, training)
        assert "NaN" not in written
        assert "Infinity" not in written
        folders.claim_course(Path(folder) / "d", ABOUT, {"lr": 0.123, **training})
        with pytest.raises(StoreError, match=r"holds the course of another training \(lr: "):
            folders.claim_course(Path(folder) / "d", ABOUT, {"lr": 0.124e9})


def test_an_option_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"training= has lr=<object .*, a object that cannot be stored with the course"
    ):
        bathyscope.watch(model(), PROMPTS, out=tmp_path / "c", training={"lr": object()}, **OPTIONS)
    with pytest.raises(OptionError, match=r"training=3 must be a dict"):
        bathyscope.watch(model(), PROMPTS, out=tmp_path / "c", training=3, **OPTIONS)
    assert not (tmp_path / "c").exists()


def test_a_step_that_comes_after_a_later_one_is_said_to_stand_before_it(tmp_path: Path) -> None:
    """Once; what goes on in the order of its steps, and a step that is surveyed already, say nothing."""
    inner = model()
    watch = bathyscope.watch(inner, PROMPTS, out=tmp_path / "course", every=5, **OPTIONS)

    def said(step: int) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert watch(step)
        return [str(warning.message) for warning in caught if "is surveyed after step" in str(warning.message)]

    assert said(5) == said(10) == said(20) == []
    assert said(10) == []
    with torch.no_grad():
        next(inner.parameters()).mul_(1.1)
    [line] = said(15)
    assert line.startswith("Step 15 is surveyed after step 20, and stands before it in the course")
    assert said(0) == []
    assert steps_in(tmp_path / "course") == [0, 5, 10, 15, 20]
