"""A course of checkpoints: the dataset against its runs, and what is left out, refused or not done again."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from support import quantised, waves, zoo
from support.letter_tokenizer import letter_tokenizer, letters
from transformers import AutoModelForCausalLM

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError, StoreError
from bathyscope.pages.acts.models import tell_apart
from bathyscope.pages.figures.of.course import drawing
from bathyscope.runs.by_place import cost_of_leaving_out
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.surveying.training import concluding
from bathyscope.surveying.training import steps as courses
from bathyscope.surveying.training.course import _checkpoints as checkpoints_of
from bathyscope.surveying.training.folder import finished_runs
from bathyscope.surveying.training.gains import is_guessing, surely_matters
from bathyscope.surveying.training.idle_blocks import idle_blocks
from bathyscope.surveying.training.steps import open_course

PROMPTS = [[5, 9, 7, 30, 44, 12, 8], [3, 8, 1, 22, 40, 2], [9, 9, 2, 31, 5]]
STEPS = (100, 20, 3)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    for step in STEPS:
        hf = zoo.entry("llama").build()
        with torch.no_grad():
            for parameter in hf.parameters():
                parameter.mul_(1 + step / 1000)
        hf.save_pretrained(folder / f"checkpoint-{step}")
    (folder / "logs").mkdir()
    return folder


@pytest.fixture(scope="module")
def found(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[xr.Dataset, Path]:
    out = tmp_path_factory.mktemp("runs") / "course"
    return bathyscope.course(checkpoints, PROMPTS, out, progress=False).data, out


def test_every_number_is_that_of_the_steps_run(found: tuple[xr.Dataset, Path]) -> None:
    dataset, out = found
    assert dataset.step.values.tolist() == sorted(STEPS)
    for step in STEPS:
        run = bathyscope.open(out / f"step-{step:08d}")
        row = dataset.sel(step=step)
        for name in ("readable", "own", "later"):
            reading = getattr(run.verdict, name)
            values = [float(row[f"{name}{end}"]) for end in ("", "_low", "_high")]
            np.testing.assert_array_equal(values, [reading.value, reading.low, reading.high])
        added = (run["drop"].loss - run["drop"].baseline_loss).mean("prompt")
        np.testing.assert_allclose(row["added_loss"], added)
        assert float(row["loss"]) == pytest.approx(float(run["drop"].baseline_loss.mean()))
        [ends] = mean_intervals(run["drop"].baseline_loss.values[:, None])
        assert [float(row["loss_low"]), float(row["loss_high"])] == pytest.approx([ends.low, ends.high])
        assert ends.low < float(row["loss"]) < ends.high
        skip = run["skip"].output_all.sel(part="block", reduction="mean").mean("prompt")
        np.testing.assert_allclose(row["skip_effect"], skip)


def test_finished_steps_are_not_surveyed_again(
    found: tuple[xr.Dataset, Path], checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, out = found
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.nc")}
    again = bathyscope.course(checkpoints, PROMPTS, out, progress=False)
    xr.testing.assert_identical(again.data, dataset)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.nc")} == times


def test_a_checkpoint_that_cannot_be_read_is_left_out(checkpoints: Path, tmp_path: Path) -> None:
    good, damaged = checkpoints / "checkpoint-20", tmp_path / "checkpoint-500"
    damaged.mkdir()
    (damaged / "config.json").write_text((good / "config.json").read_text())
    (damaged / "model.safetensors").write_bytes((good / "model.safetensors").read_bytes()[:100])
    with pytest.warns(UserWarning, match=r"Step 500 is left out: "):
        found = bathyscope.course([good, damaged], PROMPTS, tmp_path / "course", progress=False)
    assert found.step.values.tolist() == [20]


def test_steps_of_several_precisions_are_said_to_be(checkpoints: Path, tmp_path: Path) -> None:
    hf = zoo.entry("llama").build().to(torch.bfloat16)
    hf.save_pretrained(tmp_path / "checkpoint-1")
    places = [tmp_path / "checkpoint-1", *(checkpoints / f"checkpoint-{step}" for step in (3, 20))]
    course = bathyscope.course(places, PROMPTS[:2], tmp_path / "course", measures=["drop"], progress=False)
    assert course.attrs["step_precisions"] == ["bfloat16", "float32", "float32"]
    assert course.text.startswith(
        "3 steps were surveyed, 1 to 20, in several precisions (bfloat16 at 1; float32 at 3, 20), so that rounding is "
        "part of what changed (load all in one dtype)."
    )
    # each of its steps is of its model, whatever the precision of the last one
    for step in (1, 3, 20):
        assert tell_apart([bathyscope.open(tmp_path / "course" / f"step-{step:08d}")], [course]) == []
    one = bathyscope.course(
        places[:2],
        PROMPTS[:2],
        tmp_path / "one",
        measures=["drop"],
        loading={"dtype": "float32"},
        progress=False,
    )
    assert one.text.startswith("2 steps were surveyed, 1 to 3. ")


def test_steps_whose_weights_were_rounded_otherwise_are_said_to_be(tmp_path: Path) -> None:
    """A copy in fewer bits next to its original: nothing was trained."""
    written = quantised.write(quantised.bits8(), tmp_path)
    for step, folder in ((1, written.plain), (2, written.packed), (3, written.packed)):
        shutil.copytree(folder, tmp_path / "training" / f"checkpoint-{step}")
    options: dict[str, Any] = {"measures": ["drop"], "progress": False}
    course = bathyscope.course(tmp_path / "training", PROMPTS[:2], tmp_path / "course", **options)
    assert course.attrs["step_packings"] == ["plain numbers", *[quantised.bits8().said] * 2]
    assert course.text.startswith(
        "3 steps were surveyed, 1 to 3, with weights stored in several ways (plain numbers at 1; bitsandbytes 8-bit, "
        "per channel (activations are not rounded) at 2, 3), so that rounding is part of what changed."
    )
    places = [tmp_path / "training" / f"checkpoint-{step}" for step in (2, 3)]
    alike = bathyscope.course(places, PROMPTS[:2], tmp_path / "alike", **options)
    assert alike.text.startswith("2 steps were surveyed, 2 to 3. ")


@given(st.lists(st.sampled_from(["", "float32", "bfloat16", "float16"]), min_size=1, max_size=9))
def test_each_precision_is_said_with_its_steps(precisions: list[str]) -> None:
    """What a run of an earlier version does not tell is no other precision."""
    told = {name for name in precisions if name}
    data = xr.Dataset(coords={"step": [10 * place for place in range(len(precisions))]})
    text = concluding._tell_precisions(data.assign_attrs(step_precisions=precisions))
    assert bool(text) == (len(told) > 1)
    for name in told if text else ():
        steps = [10 * place for place, of_step in enumerate(precisions) if of_step == name]
        listed = ", ".join(map(str, steps)) if len(steps) < 4 else f"{len(steps)} steps from {steps[0]} to {steps[-1]}"
        assert f"{name} at {listed}" in text
    assert concluding._tell_precisions(data) == ""


def test_a_checkpoint_that_was_copied_is_told_by_its_weights(checkpoints: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "t" / f"checkpoint-{step}" for step in (100, 200, 300)]
    for folder, step in zip(folders, (3, 3, 20)):
        shutil.copytree(checkpoints / f"checkpoint-{step}", folder)
    options: dict[str, Any] = {"measures": ["drop"], "progress": False}
    with pytest.warns(UserWarning, match=r"Equal weights at steps 100 and 200, .*says nothing of training\. Leave the"):
        bathyscope.course(folders, PROMPTS[:2], tmp_path / "course", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        course = bathyscope.course(folders[1:], PROMPTS[:2], tmp_path / "other", **options)
    assert course.data.step.values.tolist() == [200, 300]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"global_step": 300},
            r"checkpoint-200' is taken for step 200, .* global_step 300\. .*checkpoint-300",
        ),
        ({"global_step": 200}, None),
        ({"log_history": []}, None),
        ([], None),
    ],
)
def test_a_name_that_contradicts_the_trainers_step_is_said(
    state: Any, message: str | None, checkpoints: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoint-200"
    shutil.copytree(checkpoints / "checkpoint-3", folder)
    (folder / "trainer_state.json").write_text(json.dumps(state))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        course = bathyscope.course([folder], PROMPTS[:2], tmp_path / "course", measures=["drop"], progress=False)
    assert course.data.step.values.tolist() == [200]
    messages = [str(warning.message) for warning in caught if "global_step" in str(warning.message)]
    assert len(messages) == (message is not None)
    assert message is None or re.search(message, messages[0])


def test_folders_of_checkpoints_are_no_checkpoints(tmp_path: Path) -> None:
    for training in ("one", "two"):
        (tmp_path / training / "checkpoint-100").mkdir(parents=True)
    with pytest.raises(OptionError, match=r"one' is no checkpoint; it holds checkpoint-100\. Give that folder alone"):
        bathyscope.course([tmp_path / "one", tmp_path / "two"], PROMPTS, tmp_path / "course", progress=False)
    assert list(checkpoints_of([tmp_path / "one/checkpoint-100"], ())) == [100]


def test_idle_blocks_are_shown_to_be_idle() -> None:
    """Not those that merely lack a difference: a wide interval around 0 is no evidence."""
    base = np.full(24, 3.0)
    noise = np.random.default_rng(0).normal(size=24)
    added = np.stack([1e-4 * noise, noise, np.full(24, 0.5)], axis=1)
    drop = xr.Dataset({"loss": (("prompt", "dropped"), base[:, None] + added), "baseline_loss": (("prompt",), base)})
    assert idle_blocks(drop).tolist() == [True, False, False]


@pytest.mark.parametrize("options", [{"replace": "mean"}, {"protect_first": 1}])
def test_no_block_is_idle_where_none_was_left_out(options: dict[str, Any]) -> None:
    model = zoo.build("llama")
    prompts = zoo.prompts(model, (6,) * 24)
    plain, other = (
        bathyscope.survey(model, prompts, ["drop"], progress=False, drop=chosen) for chosen in ({}, options)
    )
    assert {"added_loss", "idle_blocks", "loss"} <= courses._row(plain).keys()
    assert "depth/idle_blocks" in courses.depths_of(plain)
    losses = {name: pytest.approx(courses._row(plain)[name]) for name in ("loss", "loss_low", "loss_high")}
    assert courses._row(other) == losses
    assert courses.depths_of(other) == {}


def test_few_prompts_leave_open_which_blocks_are_idle(found: tuple[xr.Dataset, Path]) -> None:
    """Three prompts have intervals of sums of costs, and of no single one, which few prompts may make up."""
    course = bathyscope.open(found[1])
    assert np.isfinite(course.data["late_blocks_loss_low"].values).all()
    assert course.data["added_loss_low"].isnull().all()
    assert course.data["idle_blocks"].isnull().all()
    assert course.text.endswith(
        " Which blocks are idle is open: few prompts miss rare costs, and 24 different ones are needed."
    )
    assert "shown to be idle" not in course.text
    run = bathyscope.survey(zoo.build("llama"), zoo.prompts(zoo.build("llama"), (6,) * 23), ["drop"], progress=False)
    assert "depth/idle_blocks" not in courses.depths_of(run)


def test_one_prompt_leaves_open_what_needs_an_interval(checkpoints: Path, tmp_path: Path) -> None:
    places = [checkpoints / "checkpoint-3", checkpoints / "checkpoint-20"]
    course = bathyscope.course(places, PROMPTS[:1], tmp_path / "course", progress=False)
    assert course.data["idle_blocks"].isnull().all()
    assert "shown to be idle" not in course.text
    open_question = (
        "There is no interval, which needs two different prompts: whether depth changed and which blocks are idle"
    )
    assert open_question in course.text
    page = bathyscope.report(course, tmp_path / "course.html").read_text(encoding="utf-8")
    assert "unknown" in page
    assert "never" not in re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    values = courses.depths_of(bathyscope.open(tmp_path / "course" / "step-00000003"))
    assert "depth/readable" in values
    assert "depth/idle_blocks" not in values


@pytest.mark.parametrize("times", [2, 5])
def test_copies_of_prompts_show_no_more_than_the_prompts_given_once(
    times: int, found: tuple[xr.Dataset, Path], checkpoints: Path, tmp_path: Path
) -> None:
    expected = found[0]
    places = [checkpoints / f"checkpoint-{step}" for step in STEPS]
    course = bathyscope.course(places, [*PROMPTS] * times, tmp_path / "course", progress=False)
    ends = ("late_blocks_loss_low", "late_blocks_loss_high")
    assert np.isfinite(expected[[*ends]].to_array().values).all()
    for name in ("added_loss", "added_loss_low", "added_loss_high", *ends, "idle_blocks", "matters_from"):
        np.testing.assert_allclose(course.data[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_copies_of_one_prompt_leave_open_what_one_prompt_does(checkpoints: Path, tmp_path: Path) -> None:
    places = [checkpoints / "checkpoint-3", checkpoints / "checkpoint-20"]
    course = bathyscope.course(places, PROMPTS[:1] * 24, tmp_path / "course", progress=False)
    for name in ("idle_blocks", "added_loss_low", "added_loss_high", "matters_from"):
        assert course.data[name].isnull().all(), name
    assert "shown to be idle" not in course.text
    assert "There is no interval, which needs two different prompts: whether depth changed and which" in course.text
    assert "depth/idle_blocks" not in courses.depths_of(bathyscope.open(tmp_path / "course" / "step-00000003"))


def test_intervals_of_costs_are_those_of_the_steps_own_page(checkpoints: Path, tmp_path: Path) -> None:
    """Also where a step has too few prompts for one."""
    twelve = zoo.prompts(zoo.build("llama"), (6,) * 12)
    for place, (prompts, has_interval) in enumerate([(PROMPTS, False), (twelve, True)]):
        folder = tmp_path / f"course-{place}"
        course = bathyscope.course([checkpoints / "checkpoint-3"], prompts, folder, seed=5, progress=False)
        costs = cost_of_leaving_out(bathyscope.open(folder / "step-00000003"))
        assert costs is not None
        assert np.isfinite(course.data["added_loss_low"].values).all() == has_interval
        np.testing.assert_array_equal(course.data["added_loss_low"].values[0], [ends.low for ends in costs.intervals])
        np.testing.assert_array_equal(course.data["added_loss_high"].values[0], [ends.high for ends in costs.intervals])


def test_steps_surveyed_on_other_prompts_are_no_course(checkpoints: Path, tmp_path: Path) -> None:
    """Their readings would differ without any training."""
    place = tmp_path / "course"
    bathyscope.course([checkpoints / "checkpoint-3"], PROMPTS, place, progress=False)
    others = [ids[:4] for ids in PROMPTS]
    with pytest.raises(StoreError, match=r"holds the course of another training: its prompts differ"):
        bathyscope.course([checkpoints / "checkpoint-20"], others, place, progress=False)
    bathyscope.survey(checkpoints / "checkpoint-20", others, ["drop"], place / "step-00000020", progress=False)
    without_weights(place)
    with pytest.raises(
        StoreError,
        match=r"The steps of this course were surveyed on different prompts \(step 20 on others than step 3\)",
    ):
        open_course(place)


def test_checkpoints_of_other_shape_or_missing_are_left_out(checkpoints: Path, tmp_path: Path) -> None:
    config = zoo.entry("llama").build().config
    config.num_hidden_layers = 3
    zoo.entry("llama").build().__class__(config).save_pretrained(tmp_path / "checkpoint-50")
    places = [checkpoints / "checkpoint-3", tmp_path / "checkpoint-50", tmp_path / "checkpoint-60"]
    with pytest.warns(UserWarning, match=r"Step (50|60) is left out") as caught:
        result = bathyscope.course(places, PROMPTS, tmp_path / "course", progress=False)
    assert result.step.values.tolist() == [3]
    told = " ".join(str(warning.message) for warning in caught)
    assert "Step 50 is left out: its model has another shape than the first (blocks 3)." in told
    assert "Step 60 is left out: " in told
    with pytest.raises(StoreError, match=r"holds the course of another training: its model differs"):
        bathyscope.course([tmp_path / "checkpoint-50"], PROMPTS, tmp_path / "course", progress=False)


def _with_settings(checkpoint: Path, place: Path, **settings: Any) -> Path:
    """Copy a checkpoint with other entries of its configuration."""
    shutil.copytree(checkpoint, place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | settings))
    return place


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"hidden_act": "gelu"}, "hidden_act 'gelu', the first's 'silu'"),
        ({"rms_norm_eps": 0.1}, "rms_norm_eps 0.1, the first's "),
        ({"use_cache": False, "eos_token_id": 7, "initializer_range": 0.5}, None),
    ],
    ids=["activation", "norm", "of-no-account"],
)
def test_a_checkpoint_of_another_configuration_is_left_out(
    settings: dict[str, Any], sentence: str | None, checkpoints: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    other = _with_settings(checkpoints / "checkpoint-20", tmp_path / "checkpoint-20", **settings)
    places = [checkpoints / "checkpoint-3", other]
    course = bathyscope.course(places, PROMPTS[:2], tmp_path / "course", measures=["drop"], progress=False)
    told = " ".join(str(warning.message) for warning in recwarn)
    assert ("Step 20 is left out: its configuration is another than the first's" in told) == (sentence is not None)
    assert (sentence or "") in told
    assert course.data.step.values.tolist() == ([3] if sentence else [3, 20])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lora_alpha": 64}, r"its adapters \(default active\) have another scaling than the first's, or are in other"),
        (
            {"target_modules": ["down_proj"]},
            r"its adapters \(default active\) have another scaling .* in other modules",
        ),
        (None, "its adapters: none; the first's: default active"),
    ],
)
def test_adapters_that_differ_are_said_to_differ_in_what_they_do(
    change: dict[str, Any] | None, sentence: str, checkpoints: Path, tmp_path: Path
) -> None:
    """Both adapters are active, so that their states say nothing of what differs."""
    peft = pytest.importorskip("peft")
    base = checkpoints / "checkpoint-3"
    for step, entries in ((1, {}), (2, change)):
        place = tmp_path / "training" / f"checkpoint-{step}"
        if entries is None:
            shutil.copytree(base, place)
            continue
        config = {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM", **entries}
        hf = AutoModelForCausalLM.from_pretrained(base)
        peft.get_peft_model(hf, peft.LoraConfig(**config)).save_pretrained(place)
    with pytest.warns(UserWarning, match=f"Step 2 is left out: {sentence}"):
        bathyscope.course(tmp_path / "training", PROMPTS, tmp_path / "out", measures=["lens"], progress=False)


def _with_adapters(bases: dict[int, Path], training: Path) -> Path:
    """Write one adapter for each step, which names the base that it is put into."""
    peft = pytest.importorskip("peft")
    for step, base in bases.items():
        hf = AutoModelForCausalLM.from_pretrained(base)
        config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj"], task_type="CAUSAL_LM")
        peft.get_peft_model(hf, config).save_pretrained(training / f"checkpoint-{step}")
    return training


def test_adapters_of_two_models_are_no_course(checkpoints: Path, tmp_path: Path) -> None:
    first, other = checkpoints / "checkpoint-3", checkpoints / "checkpoint-20"
    training = _with_adapters({1: first, 2: other}, tmp_path / "training")
    words = f"Step 2 is left out: it is an adapter of {other}, and the first's is of {first}"
    with pytest.warns(UserWarning, match=re.escape(words)):
        course = bathyscope.course(training, PROMPTS[:2], tmp_path / "out", measures=["lens"], progress=False)
    assert course.data.step.values.tolist() == [1]


def test_adapters_of_one_model_are_a_course_however_it_is_written(
    checkpoints: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    first, copied = checkpoints / "checkpoint-3", tmp_path / "copied"
    shutil.copytree(first, copied)
    around = first.parent / "logs" / ".." / first.name
    training = _with_adapters({1: first, 2: around}, tmp_path / "training")
    options: dict[str, Any] = {"measures": ["lens"], "progress": False}
    course = bathyscope.course(training, PROMPTS[:2], tmp_path / "out", **options)
    assert course.data.step.values.tolist() == [1, 2]
    # a model that lies at two places is told to be one
    _with_adapters({3: copied}, training)
    course = bathyscope.course(training, PROMPTS[:2], tmp_path / "out", loading={"base": str(first)}, **options)
    assert course.data.step.values.tolist() == [1, 2, 3]
    assert not any("left out" in str(warning.message) for warning in recwarn)


@pytest.mark.parametrize("is_of_earlier_version", [False, True])
def test_a_course_does_not_go_on_under_another_configuration(
    is_of_earlier_version: bool, checkpoints: Path, tmp_path: Path
) -> None:
    """Also where ``course.json`` does not tell it: the surveys do."""
    places = tmp_path / "training"
    places.mkdir()
    place = tmp_path / "course"
    first = _with_settings(checkpoints / "checkpoint-3", places / "checkpoint-3")
    bathyscope.course([first], PROMPTS[:2], place, measures=["drop"], progress=False)
    about = json.loads((place / "course.json").read_text())
    if is_of_earlier_version:
        del about["configuration"]
        (place / "course.json").write_text(json.dumps(about))
    other = _with_settings(checkpoints / "checkpoint-20", places / "checkpoint-20", hidden_act="gelu")
    with pytest.raises(StoreError, match=r"holds the course of another training: its configuration differs\."):
        bathyscope.course([other], PROMPTS[:2], place, measures=["drop"], progress=False)
    same = _with_settings(checkpoints / "checkpoint-100", places / "checkpoint-100")
    course = bathyscope.course([same], PROMPTS[:2], place, measures=["drop"], progress=False)
    assert course.data.step.values.tolist() == [3, 100]


def test_a_course_that_mixes_configurations_says_so(checkpoints: Path, tmp_path: Path) -> None:
    """As one of an earlier version may; its runs still open."""
    other = _with_settings(checkpoints / "checkpoint-20", tmp_path / "checkpoint-20", hidden_act="gelu")
    place = tmp_path / "course"
    bathyscope.course([checkpoints / "checkpoint-3"], PROMPTS[:2], place, measures=["drop"], progress=False)
    bathyscope.survey(other, PROMPTS[:2], ["drop"], place / "step-00000020", progress=False)
    without_weights(place)
    assert open_course(place).text.startswith(
        "2 steps were surveyed, 3 to 20. Settings are part of what changed: the configuration at step 20 is not that "
        "at step 3. "
    )


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=9))
def test_each_step_of_another_configuration_is_said(configurations: list[str]) -> None:
    """What a run of an earlier version does not tell is no other configuration."""
    data = xr.Dataset(coords={"step": [10 * place for place in range(len(configurations))]})
    text = concluding._tell_configurations(data.assign_attrs(step_config_hashes=configurations))
    told = [(10 * place, name) for place, name in enumerate(configurations) if name]
    others = [step for step, name in told if name != told[0][1]]
    assert bool(text) == bool(others)
    if others:
        many = f"{len(others)} steps from {others[0]} to {others[-1]}"
        few = f"step{'' if len(others) == 1 else 's'} {', '.join(map(str, others))}"
        assert f" at {few if len(others) < 4 else many} is not that at step {told[0][0]}." in text
    assert concluding._tell_configurations(data) == ""


def test_change_and_slope_are_those_of_paired_prompts(found: tuple[xr.Dataset, Path]) -> None:
    dataset, out = found
    steps = dataset.step.values
    by_step = np.stack([bathyscope.open(out / f"step-{step:08d}").verdict.own.by_prompt for step in steps])
    change = dataset["change"].sel(reading="own")
    assert float(change) == pytest.approx(float((by_step[-1] - by_step[0]).mean()))
    slope = np.polyfit(steps, by_step.mean(1), 1)[0] * 1000
    assert float(dataset["slope"].sel(reading="own")) == pytest.approx(slope)
    assert float(dataset["change_low"].sel(reading="own")) <= float(change)


def test_a_block_matters_from_the_first_step_behind_which_it_always_does() -> None:
    matters = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 0]], dtype=bool)
    np.testing.assert_array_equal(courses._first_steps(matters, [0, 10, 30]), [30, 10, 0, np.nan])


def scaled_course(tmp_path: Path, steps: dict[int, float], out: str) -> Any:
    """A course of one random model, its weights multiplied, which learns nothing from it."""
    folders = []
    for step, factor in steps.items():
        hf = zoo.entry("llama").build()
        with torch.no_grad():
            for parameter in hf.parameters():
                parameter.mul_(factor)
        hf.save_pretrained(tmp_path / f"checkpoint-{step}")
        folders.append(tmp_path / f"checkpoint-{step}")
    return bathyscope.course(folders, PROMPTS, tmp_path / out, progress=False)


def test_what_blocks_cost_is_set_against_a_first_step_that_guesses(tmp_path: Path) -> None:
    course = scaled_course(tmp_path, {0: 1.0, 5: 1.0, 9: 1.4}, "course")
    runs = [bathyscope.open(tmp_path / "course" / f"step-{step:08d}") for step in (0, 5, 9)]
    added = [(run["drop"].loss - run["drop"].baseline_loss).transpose("prompt", "dropped").values for run in runs]
    assert float(course["loss"][0]) > np.log(waves.loaded("llama").vocabulary) - 0.1
    assert course.data.attrs["first_step_guesses"] == 1
    gains = np.stack([(of_step - added[0]).mean(0) for of_step in added])
    np.testing.assert_allclose(course["added_loss_gain"], gains, atol=1e-12)
    ends = [mean_intervals(added[2] - added[0])[block] for block in range(gains.shape[1])]
    np.testing.assert_allclose(course["added_loss_gain_low"][2], [each.low for each in ends], atol=1e-9)
    # what a random model costs without a block at step 0, it costs at step 5 too: nothing has begun to matter there
    np.testing.assert_array_equal(course["added_loss_gain_low"][1] > 0, False)
    expected = [
        9.0 if low > 0.01 and gain > 0 else np.nan
        for low, gain in zip(course["added_loss_low"][2].values, course["added_loss_gain_low"][2].values)
    ]
    np.testing.assert_array_equal(course["matters_from"], expected)
    later = gains.shape[1] // 2
    sums = [each[:, -later:].sum(1).mean() for each in added]
    np.testing.assert_allclose(course["late_blocks_loss"], sums, atol=1e-12)
    lates = [mean_intervals(each[:, -later:].sum(1, keepdims=True))[0] for each in added]
    np.testing.assert_allclose(course["late_blocks_loss_low"], [each.low for each in lates], atol=1e-9)
    np.testing.assert_allclose(course["late_blocks_loss_high"], [each.high for each in lates], atol=1e-9)
    of_late = (added[2] - added[0])[:, -later:].sum(1, keepdims=True)
    [low_high] = mean_intervals(of_late)
    assert float(course["late_blocks_gain_low"][2]) == pytest.approx(low_high.low)
    assert np.isnan(course["late_blocks_gain_low"][0])
    assert "step 0 only guesses, and a fall from there is no loss of depth." in course.text
    [first, *_, last] = (f"({ends.low:+.3g} to {ends.high:+.3g})" for ends in lates)
    costs = "Leaving out the later half (3 to 4), a block at a time, adds in all"
    assert (
        f"{costs} {sums[0]:+.3g} nats {first} at the first step, {sums[-1]:+.3g} {last} at the last (change "
        in course.text
    )
    [panel] = [panel for panel in drawing(course.data).panels if panel.name == "later"]
    assert panel.alt == (
        "Loss added without a block, summed over blocks 3 to 4, by step, with 95 % intervals: "
        + ", ".join(f"{total:+.3g} ({ends.low:+.3g} to {ends.high:+.3g})" for total, ends in zip(sums, lates))
        + " nats."
    )
    figure = plt.figure()
    panel.draw(figure)
    [axes] = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), sums)
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(min(each.low for each in lates))
    assert band[:, 1].max() == pytest.approx(max(each.high for each in lates))
    plt.close(figure)
    assert "than at step 0, where the model guesses" in drawing(course.data).note


def test_a_course_that_begins_with_a_trained_model_is_set_against_no_step(tmp_path: Path) -> None:
    later = scaled_course(tmp_path, {3: 1.0, 5: 1.0}, "later")
    assert later.data.attrs["first_step_guesses"] == 0
    np.testing.assert_array_equal(
        later["matters_from"], np.where((later["added_loss_low"] > 0.01).all("step"), 3.0, np.nan)
    )
    assert "guesses" not in later.text + drawing(later.data).note
    assert not is_guessing(0, 2.0, 256)
    assert not is_guessing(0, 9.0, None)


def test_a_course_says_what_it_has_in_place_of_what_runs_have(found: tuple[xr.Dataset, Path]) -> None:
    course = open_course(found[1])
    for name in ("plot", "verdict", "explore", "prompts"):
        assert not hasattr(course, name)
        with pytest.raises(
            OptionError, match=rf"A course has no {name}, which is of a run; .* course.picture\(\) or report"
        ):
            getattr(course, name)
    assert course.sizes == course.data.sizes
    with pytest.raises(AttributeError):
        _ = course.nothing


def test_two_courses_of_a_model_have_a_heading_each(checkpoints: Path, tmp_path: Path) -> None:
    courses_of_two = [
        bathyscope.course(
            [checkpoints / "checkpoint-3"], PROMPTS[:2], tmp_path / name, measures=["drop"], progress=False
        )
        for name in ("slow", "fast")
    ]
    headings = [course.heading for course in courses_of_two]
    assert [heading.rpartition(" ")[2] for heading in headings] == ["(slow)", "(fast)"]
    page = Path(bathyscope.report(courses_of_two, tmp_path / "page.html")).read_text(encoding="utf-8")
    assert all(f"{heading}<" in page for heading in headings)
    [one_model] = {model.name for course in courses_of_two for model in course.models}
    slow, fast = courses_of_two
    fast.data.attrs["step_weight_hashes"] = ["cd" * 32]
    [sentence] = tell_apart([], [slow, fast])
    start = f"the course of {one_model} (slow) and the course of {one_model} (fast) are not shown to be of one model"
    assert sentence.startswith(start)


def test_the_table_of_a_course_has_a_row_for_each_step(found: tuple[xr.Dataset, Path]) -> None:
    data, table = found[0], open_course(found[1]).tables()[0]
    assert [row[0] for row in table.rows] == data["step"].values.tolist()
    assert not [heading for heading in table.headings if heading.endswith(("low", "high"))]
    for name in ("half", "late_blocks_loss"):
        column = list(table.headings).index(name.replace("_", " "))
        last = table.rows[-1][column]
        ends = [float(data[name + end][-1]) for end in ("", "_low", "_high")]
        assert [last.value, last.low, last.high] == ends
    # what a course is asked first stays on a terminal of 80 letters
    assert {"step", "half", "loss", "late blocks loss"} <= set(table.headings) - set(table.optional)


def test_a_block_matters_where_it_costs_more_than_a_random_model_does() -> None:
    costs, gains = np.array([[0.02, 0.02], [0.3, 0.02]]), np.array([[np.nan, np.nan], [0.2, -0.01]])
    against_null = surely_matters(costs, gains, 0.01, guessing=True)
    np.testing.assert_array_equal(against_null, [[False, False], [True, False]])
    np.testing.assert_array_equal(surely_matters(costs, gains, 0.01, guessing=False), costs > 0.01)


def test_the_picture_of_a_course_names_what_it_has(found: tuple[xr.Dataset, Path]) -> None:
    data = found[0]
    panels = {panel.name: panel for panel in drawing(data).panels}
    assert list(panels) == ["depth", "loss", "later", "added_loss", "skip_effect"]
    figure = plt.figure(figsize=panels["depth"].size, layout="constrained")
    panels["depth"].draw(figure)
    figure.canvas.draw()
    [axes] = figure.axes
    # the legend lies above the line of all blocks
    legend = axes.get_legend().get_window_extent().transformed(axes.transData.inverted())
    assert legend.y0 > data.attrs["n_blocks"] >= max(axes.get_yticks())
    plt.close(figure)
    # three prompts are too few to count idle blocks
    assert data["idle_blocks"].isnull().all()
    for counts, titles in (
        (data["idle_blocks"], ["Loss of the prompts"]),
        (data["idle_blocks"].fillna(1.0), ["Loss of the prompts, and idle blocks", ""]),
    ):
        figure = plt.figure()
        [panel] = [panel for panel in drawing(data.assign(idle_blocks=counts)).panels if panel.name == "loss"]
        panel.draw(figure)
        assert [axes.get_title() for axes in figure.axes] == titles
        band = figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]
        np.testing.assert_allclose([band.min(), band.max()], [data["loss_low"].min(), data["loss_high"].max()])
        plt.close(figure)


def test_one_step_is_not_said_to_go_anywhere(checkpoints: Path, tmp_path: Path) -> None:
    result = bathyscope.course([checkpoints / "checkpoint-3"], PROMPTS, tmp_path / "course", progress=False)
    assert result.text.startswith("One step was surveyed, 3. Half of the tokens keep their final prediction from ")
    assert result.text.count("step 3") == 0


def test_a_checkpoint_under_a_passing_name_is_still_being_written(tmp_path: Path) -> None:
    for name in ("checkpoint-5", "tmp-checkpoint-5", ".checkpoint-6"):
        (tmp_path / name).mkdir()
    assert checkpoints_of(tmp_path, ()) == {5: (str(tmp_path / "checkpoint-5"), None)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("empty", r"There is no checkpoint-STEP in .*. Give the folder that holds the checkpoints."),
        ("nope/of/this", r"There is no folder 'nope/of/this'\. Give the folder that holds the checkpoints\."),
        (["a/final"], r"The checkpoint 'final' does not tell its step; name it such as checkpoint-500."),
        (["a/checkpoint-5", "b/checkpoint-5"], r"Two checkpoints are of step 5: .* Give one of them."),
    ],
)
def test_steps_must_be_told(given: Any, message: str, tmp_path: Path) -> None:
    given = tmp_path if given == "empty" else given
    with pytest.raises(OptionError, match=message):
        bathyscope.course(given, PROMPTS, tmp_path / "course", progress=False)


@pytest.mark.parametrize("file", ["manifest.json", "config.json", "notes.txt"])
def test_a_folder_of_something_else_does_not_become_a_course(file: str, checkpoints: Path, tmp_path: Path) -> None:
    (tmp_path / file).write_text("{}")
    with pytest.raises(StoreError, match=rf"is no course but not empty either \(it holds {file}\)"):
        bathyscope.course(checkpoints, PROMPTS, tmp_path, progress=False)
    with pytest.raises(StoreError, match="is no course but not empty either"):
        bathyscope.watch(zoo.entry("llama").build(), PROMPTS, tmp_path, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_a_course_whose_record_was_removed_goes_on(
    found: tuple[xr.Dataset, Path], checkpoints: Path, tmp_path: Path
) -> None:
    dataset, out = found
    shutil.copytree(out, tmp_path / "course")
    (tmp_path / "course" / "course.json").unlink()
    again = bathyscope.course(checkpoints, PROMPTS, tmp_path / "course", progress=False)
    assert again.step.values.tolist() == dataset.step.values.tolist()


def test_the_shell_names_several_measures_with_commas(checkpoints: Path, tmp_path: Path) -> None:
    """As the help says, whose default could not be typed."""
    rows = [json.dumps({"ids": [int(token) for token in ids]}) for ids in PROMPTS[:2]]
    (tmp_path / "p.jsonl").write_text("\n".join(rows))
    words = ["--prompts", str(tmp_path / "p.jsonl"), "--out", str(tmp_path / "c"), "--measures", "lens,drop", "--quiet"]
    assert main(["course", str(checkpoints), *words]) == 0
    assert {"half", "loss"} <= set(open_course(tmp_path / "c").data)


@pytest.mark.parametrize("has_state", [True, False])
def test_steps_of_another_training_are_no_steps_of_a_course_that_begins_next_to_them(
    has_state: bool, checkpoints: Path, tmp_path: Path
) -> None:
    """Its own first log, which its record tells from then on, shows nothing of surveys that were there before."""
    place, options = tmp_path / "course", {"measures": ["drop"], "progress": False}
    bathyscope.survey(checkpoints / "checkpoint-3", PROMPTS[:2], ["drop"], place / "step-00000003", progress=False)
    other = shutil.copytree(checkpoints / "checkpoint-20", tmp_path / "other" / "checkpoint-20")
    (other / "trainer_state.json").unlink(missing_ok=True)
    if has_state:
        log = [{"step": 1, "loss": 3.0, "learning_rate": 1e-3}]
        (other / "trainer_state.json").write_text(json.dumps({"log_history": log}))
    for _ in range(2):  # a refused call leaves nothing that the next one takes for evidence
        with pytest.raises(StoreError, match="up to step 3, and nothing shows that these checkpoints are of the same"):
            bathyscope.course([other], PROMPTS[:2], place, **options)
    assert not (place / "course.json").exists()


def test_a_course_that_begins_takes_in_no_survey_whose_checkpoint_it_was_not_given(
    checkpoints: Path, tmp_path: Path
) -> None:
    """One step that both have shows nothing of the steps next to it."""
    place, options = tmp_path / "course", {"measures": ["drop"], "progress": False}
    for step in (3, 20):
        survey = place / f"step-{step:08d}"
        bathyscope.survey(checkpoints / f"checkpoint-{step}", PROMPTS[:2], ["drop"], survey, progress=False)
    with pytest.warns(UserWarning, match="leaves out what it has not surveyed itself: step 20, which may be of"):
        course = bathyscope.course([checkpoints / "checkpoint-3"], PROMPTS[:2], place, **options)
    assert course.data.step.values.tolist() == [3]
    both = [checkpoints / "checkpoint-3", checkpoints / "checkpoint-20"]
    assert bathyscope.course(both, PROMPTS[:2], place, **options).data.step.values.tolist() == [3, 20]


@pytest.mark.parametrize("has_moved", [True, False])
def test_a_survey_in_the_place_of_another_step_is_refused(
    has_moved: bool, found: tuple[xr.Dataset, Path], checkpoints: Path, tmp_path: Path
) -> None:
    """A copied or renamed folder would be a step that was never surveyed, and the change to it a false one."""
    folder = tmp_path / "course"
    shutil.copytree(found[1], folder)
    first, other = folder / f"step-{min(STEPS):08d}", folder / "step-00000400"
    if has_moved:
        first.rename(other)
    else:
        shutil.copytree(first, other)
    message = rf"step-00000400' holds the survey of step {min(STEPS)}.*Give it its own name, step-\d+, or remove it"
    for read in (bathyscope.open, lambda place: bathyscope.course(checkpoints, PROMPTS, place, progress=False)):
        with pytest.raises(StoreError, match=message):
            read(folder)
    without_step(other)  # earlier versions tell neither steps nor weights
    without_weights(folder)
    assert 400 in bathyscope.open(folder).data.step


def test_a_watch_tells_the_step_of_each_survey(tmp_path: Path) -> None:
    watch = bathyscope.watch(zoo.entry("llama").build(), PROMPTS, out=tmp_path / "course", every=2, progress=False)
    watch(2)
    (tmp_path / "course" / "step-00000002").rename(tmp_path / "course" / "step-00000004")
    with pytest.raises(StoreError, match="step-00000004' holds the survey of step 2"):
        bathyscope.open(tmp_path / "course")


def without_weights(course: Path) -> None:
    """Leave out of a course which weights its steps were surveyed with, as earlier versions did."""
    about = json.loads((course / "course.json").read_text())
    del about["surveyed"]
    (course / "course.json").write_text(json.dumps(about))


def other_training(checkpoints: Path, place: Path, step: int) -> Path:
    """Write a step of a training that had other weights."""
    hf = zoo.entry("llama").build()
    hf.load_state_dict(type(hf).from_pretrained(checkpoints / f"checkpoint-{step}").state_dict())
    with torch.no_grad():
        hf.model.layers[0].mlp.down_proj.weight.mul_(1.5)
    hf.save_pretrained(place / f"checkpoint-{step}")
    return place / f"checkpoint-{step}"


@pytest.mark.parametrize("replaced", ["survey", "record"])
def test_the_same_step_of_another_training_is_refused(
    replaced: str, found: tuple[xr.Dataset, Path], checkpoints: Path, tmp_path: Path
) -> None:
    """It has the right step and the right prompts, and the change up to it was that of no training."""
    folder, others = tmp_path / "course", tmp_path / "others"
    shutil.copytree(found[1], folder)
    bathyscope.course([other_training(checkpoints, tmp_path, 20)], PROMPTS, others, progress=False)
    name = "step-00000020" if replaced == "survey" else "course.json"
    if replaced == "survey":
        shutil.rmtree(folder / name)
        shutil.copytree(others / name, folder / name)
    else:
        shutil.copy(others / name, folder / name)
    with pytest.raises(
        StoreError,
        match=r"step-00000020' holds a survey of other weights \(\w{8}\) than the course surveyed at step 20 "
        r"\(\w{8}\), as of another training\. Restore the course's own from a copy, or remove this one",
    ):
        bathyscope.open(folder)
    shutil.rmtree(folder)
    shutil.copytree(found[1], folder)
    xr.testing.assert_identical(bathyscope.open(folder).data, found[0])


def test_a_survey_that_the_course_did_not_make_is_left_out_until_it_is_compared(
    checkpoints: Path, tmp_path: Path
) -> None:
    place, first, second = tmp_path / "course", checkpoints / "checkpoint-3", checkpoints / "checkpoint-20"
    bathyscope.course([first], PROMPTS[:2], place, measures=["drop"], progress=False)
    survey = place / "step-00000020"
    bathyscope.survey(second, PROMPTS[:2], ["drop"], survey, progress=False)
    with pytest.warns(
        UserWarning, match="leaves out what it has not surveyed itself: step 20, which may be of another"
    ):
        assert open_course(place).data.step.values.tolist() == [3]
    course = bathyscope.course([first, second], PROMPTS[:2], place, measures=["drop"], progress=False)
    assert course.data.step.values.tolist() == [3, 20]
    assert open_course(place).data.step.values.tolist() == [3, 20]


def test_the_steps_of_an_earlier_version_are_taken_over_with_the_next_one(checkpoints: Path, tmp_path: Path) -> None:
    place = tmp_path / "course"
    options: dict[str, Any] = {"measures": ["drop"], "progress": False}
    places = [checkpoints / f"checkpoint-{step}" for step in sorted(STEPS)]
    bathyscope.course(places[:2], PROMPTS[:2], place, **options)
    without_weights(place)
    assert bathyscope.course(places[2:], PROMPTS[:2], place, **options).data.step.values.tolist() == sorted(STEPS)
    noted = json.loads((place / "course.json").read_text())["surveyed"]
    assert noted == {str(step): bathyscope.open(place / f"step-{step:08d}").identity.weight_hash for step in STEPS}


def test_a_watch_notes_a_survey_that_it_finds_finished(tmp_path: Path) -> None:
    """Whatever ended the process between the last file of a survey and its note."""
    watch = bathyscope.watch(zoo.entry("llama").build(), PROMPTS[:2], out=tmp_path / "c", measures=["drop"], every=1)
    watch(0)
    about = json.loads((tmp_path / "c" / "course.json").read_text())
    (tmp_path / "c" / "course.json").write_text(json.dumps({**about, "surveyed": {}}))
    with pytest.warns(UserWarning, match="leaves out"), pytest.raises(StoreError, match="no finished survey"):
        bathyscope.open(tmp_path / "c")
    watch(0)
    assert bathyscope.open(tmp_path / "c").data.step.values.tolist() == [0]
    assert json.loads((tmp_path / "c" / "course.json").read_text()) == about


def test_a_checkpoint_that_reads_other_tokens_is_left_out(checkpoints: Path, tmp_path: Path) -> None:
    """Its survey was stored, and the course opened no more."""
    text = "".join(letters(64)[4:20])
    for step in (3, 20, 100):
        place = shutil.copytree(checkpoints / f"checkpoint-{step}", tmp_path / "t" / f"checkpoint-{step}")
        letter_tokenizer(64).save_pretrained(place)
    exchange_letters(tmp_path / "t" / "checkpoint-20", text[2], text[9])
    options: dict[str, Any] = {"measures": ["drop"], "progress": False}
    with pytest.warns(UserWarning, match="Step 20 is left out: its tokenizer makes other tokens of the prompts than"):
        course = bathyscope.course(tmp_path / "t", [text], tmp_path / "course", **options)
    assert course.data.step.values.tolist() == [3, 100]
    assert not (tmp_path / "course" / "step-00000020").exists()


def exchange_letters(place: Path, first: str, second: str) -> None:
    """Give two letters of a tokenizer each other's token."""
    tokenizer = json.loads((place / "tokenizer.json").read_text())
    tokens = tokenizer["model"]["vocab"]
    tokens[first], tokens[second] = tokens[second], tokens[first]
    (place / "tokenizer.json").write_text(json.dumps(tokenizer))


def without_step(folder: Path) -> None:
    """Leave the step out of what a survey of a course notes, as earlier versions did."""
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["record"]["notes"]["step"]
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "content",
    [
        *("{}", "[]", "", '{"model": {"ty', '{"note": 1}', '{"model": true}'),
        *('{"model": {"vocabulary": 0}}', '{"model": {"vocabulary": true}}'),
    ],
)
def test_a_damaged_record_is_called_damaged_wherever_it_is_read(
    content: str, found: tuple[xr.Dataset, Path], checkpoints: Path, tmp_path: Path
) -> None:
    course = tmp_path / "course"
    shutil.copytree(found[1], course)
    (course / "course.json").write_text(content)
    for call in (
        lambda: bathyscope.open(course),
        lambda: bathyscope.show(course),
        lambda: bathyscope.course(checkpoints, PROMPTS, course, progress=False),
    ):
        with pytest.raises(StoreError, match=r"course\.json' is damaged"):
            call()


def test_a_folder_without_a_course_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no finished survey in .*; give the folder of a course."):
        open_course(tmp_path)


@pytest.mark.parametrize("name", ["step-00000003", "step-00000200"])
def test_surveys_of_a_course_are_its_own(
    found: tuple[xr.Dataset, Path], checkpoints: Path, tmp_path: Path, name: str
) -> None:
    copy = tmp_path / "course"
    shutil.copytree(found[1], copy)
    shutil.rmtree(copy / name, ignore_errors=True)
    (copy / name).symlink_to(found[1] / "step-00000020")
    for read in (bathyscope.open, lambda place: bathyscope.course(checkpoints, PROMPTS, place, progress=False)):
        with pytest.raises(StoreError, match=rf"{name}' is a link, and the surveys of a course are folders of its own"):
            read(copy)


def with_blocks(n_blocks: int) -> Any:
    """Return a Llama that was cut, or given copies, in memory."""
    hf = zoo.entry("llama").build()
    blocks = [hf.model.layers[number % len(hf.model.layers)] for number in range(n_blocks)]
    hf.model.layers = torch.nn.ModuleList(copy.deepcopy(block) for block in blocks)
    hf.config.num_hidden_layers = n_blocks
    return hf


@settings(max_examples=8, deadline=None)
@given(depths=st.lists(st.sampled_from([3, 4]), min_size=2, max_size=5))
def test_steps_of_another_depth_are_left_out_of_a_course_that_is_opened(
    depths: list[int], runs_by_depth: dict[int, Path]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "course"
        for step, depth in enumerate(depths, start=1):
            shutil.copytree(runs_by_depth[depth] / "step-00000000", folder / f"step-{step:08d}")
            without_step(folder / f"step-{step:08d}")
        (folder / "course.json").write_bytes((runs_by_depth[depths[0]] / "course.json").read_bytes())
        without_weights(folder)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = bathyscope.open(folder)
    first = [step for step, depth in enumerate(depths, start=1) if depth == depths[0]]
    others = [step for step in range(1, len(depths) + 1) if step not in first]
    assert result.data.step.values.tolist() == first
    assert result.data.sizes["block"] == depths[0]
    texts = [str(warning.message) for warning in caught if "another number of blocks" in str(warning.message)]
    assert len(texts) == bool(others)
    for text in texts:
        listed = text.partition(",")[0] if len(others) == 1 else text.partition(", where")[0]
        assert f"than the {depths[0]} of the first step" in text
        assert [int(number) for number in re.findall(r"\d+", listed)] == (
            others if len(others) < 4 else [len(others), others[0], others[-1]]
        )


@pytest.fixture(scope="module")
def runs_by_depth(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folders = {depth: tmp_path_factory.mktemp("depths") / str(depth) for depth in (3, 4)}
    for depth, folder in folders.items():
        bathyscope.watch(with_blocks(depth), PROMPTS, folder, measures=["lens"], progress=False)(0)
    return folders


@pytest.mark.parametrize("depth", [4, 6])
def test_a_watch_leaves_out_steps_of_another_depth_and_says_so_once(depth: int, tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()
    whole, n_blocks = hf.model.layers, len(hf.model.layers)
    watch = bathyscope.watch(hf, PROMPTS, tmp_path / "course", every=1, measures=["lens"], progress=False)
    assert watch(0)
    hf.model.layers, hf.config.num_hidden_layers = with_blocks(depth).model.layers, depth
    with pytest.warns(UserWarning, match="left out") as caught:
        assert watch(1) == watch(2) == {}
    texts = [str(warning.message) for warning in caught if "left out" in str(warning.message)]
    assert texts == [
        "Step 1 is left out of the course, as every step like it will be: its model has another shape than the first "
        f"(blocks {depth}). Watch this model in a folder of its own (out=…)."
    ]
    hf.model.layers, hf.config.num_hidden_layers = whole, n_blocks
    assert watch(3)
    assert watch.text.endswith("; 2 due ones were left out, where the model had another shape than at the first.")
    assert bathyscope.open(tmp_path / "course").data.step.values.tolist() == [0, 3]


def test_a_fifo_among_the_steps_is_refused_and_a_file_is_said(tmp_path: Path) -> None:
    """Both were left out without a word."""
    (tmp_path / "step-00000010").write_text("")
    with pytest.warns(
        UserWarning, match=r"step-00000010' is a file, and the surveys of a course are folders of its own"
    ):
        assert finished_runs(tmp_path) == {}
    os.mkfifo(tmp_path / "step-00000020")
    with pytest.raises(
        StoreError, match="step-00000020' is a FIFO, and the surveys of a course are folders of its own"
    ):
        finished_runs(tmp_path)
