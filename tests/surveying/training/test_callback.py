"""The callback and the watch: trainings are the same to the bit without them, and every number is the survey's."""

from __future__ import annotations

import functools
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import warm
from support.trainings import PROMPTS, STEPS, WAYS, Rows, assert_same, model, plain_loop, trained
from torch import nn
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

import bathyscope
from bathyscope.errors import ModelError, OptionError, PromptError, StoreError
from bathyscope.surveying.training import watch as watching
from bathyscope.surveying.training.budget import SurveyBudget
from bathyscope.surveying.training.steps import open_course
from bathyscope.surveying.training.twin import twin_of
from bathyscope.training import DepthCallback


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.mark.parametrize("way", [*WAYS, "dropout"])
def test_a_training_is_the_same_to_the_bit_with_and_without(way: str, tmp_path: Path) -> None:
    arguments = WAYS.get(way, {})
    _, plain = trained(tmp_path / "plain", hf=model(dropout=way == "dropout"), **arguments)
    callback = DepthCallback(PROMPTS, every=3, out=tmp_path / "course", measures=["lens"])
    trainer, watched = trained(tmp_path / "watched", callback, hf=model(dropout=way == "dropout"), **arguments)
    assert_same(watched, plain)
    assert [row["step"] for row in trainer.state.log_history if "depth/readable" in row] == [0, 3, 6]


def test_a_model_that_returns_its_routers_logits_is_watched(tmp_path: Path) -> None:
    def routed() -> PreTrainedModel:
        hf = model("mixtral")
        hf.config.output_router_logits = True
        return hf

    _, plain = trained(tmp_path / "plain", hf=routed(), steps=2)
    callback = DepthCallback(PROMPTS, every=1, out=tmp_path / "course", measures=["lens"])
    trainer, watched = trained(tmp_path / "watched", callback, hf=routed(), steps=2)
    assert_same(watched, plain)
    assert [row["step"] for row in trainer.state.log_history if "depth/readable" in row] == [0, 1, 2]
    assert trainer.model.config.output_router_logits is True


def test_adapters_are_watched_with_the_model_that_they_change(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")

    def adapted() -> nn.Module:
        config = peft.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True)
        torch.manual_seed(2)
        wrapped: nn.Module = peft.get_peft_model(model(), config)
        return wrapped

    _, plain = trained(tmp_path / "plain", hf=adapted(), learning_rate=0.1)
    callback = DepthCallback(PROMPTS, every=3, out=tmp_path / "course", measures=["lens"])
    trainer, watched = trained(tmp_path / "watched", callback, hf=adapted(), learning_rate=0.1)
    assert_same(watched, plain)
    first, *_, last = (row for row in trainer.state.log_history if "depth/readable" in row)
    assert last["step"] == 6
    assert first["depth/readable"] != last["depth/readable"]


def test_a_survey_that_fails_leaves_the_training_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, plain = trained(tmp_path / "plain")

    def fail(run: object) -> dict[str, float]:
        torch.rand(3)
        raise RuntimeError("in the middle")

    monkeypatch.setattr(watching, "depths_of", fail)
    with pytest.warns(
        UserWarning, match=r"The survey at step 0 failed, and the training goes on: RuntimeError: in the"
    ):
        _, watched = trained(tmp_path / "w", DepthCallback(PROMPTS, every=2, out=tmp_path / "course"))
    assert_same(watched, plain)


class Saving(TrainerCallback):
    """Keeps the weights of a step, as a checkpoint of it would."""

    def __init__(self, step: int, to: Path) -> None:
        self._step, self._to = step, to

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            kwargs["model"].save_pretrained(self._to)


def test_numbers_are_those_of_the_saved_step(tmp_path: Path) -> None:
    callback = DepthCallback(PROMPTS, every=2, out=tmp_path / "course")
    trainer, _ = trained(tmp_path / "t", callback, Saving(4, tmp_path / "saved"))
    watched = bathyscope.open(tmp_path / "course" / "step-00000004")
    offline = bathyscope.survey(tmp_path / "saved", PROMPTS, ["lens", "skip", "drop"], progress=False)
    for measure in ("lens", "skip", "drop"):
        for name, values in offline[measure].data_vars.items():
            np.testing.assert_array_equal(watched[measure][name], values, f"{measure}.{name}")
    row = next(row for row in trainer.state.log_history if row["step"] == 4 and "depth/own" in row)
    assert {"depth/readable", "depth/own", "depth/later", "depth/seconds"} <= row.keys()
    assert "depth/idle_blocks" not in row, "so few prompts show no rare cost"
    assert row["depth/own"] == offline.verdict.own.value
    assert row["depth/readable"] == offline.verdict.readable.value


def test_a_training_that_goes_on_continues_the_course(tmp_path: Path) -> None:
    def callback() -> DepthCallback:
        return DepthCallback(PROMPTS, every=2, out=tmp_path / "course")

    saving = {"save_strategy": "steps", "save_steps": 4}
    trained(tmp_path / "t", callback(), steps=4, **saving)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    trainer = Trainer(
        model(),
        TrainingArguments(
            str(tmp_path / "t"),
            max_steps=STEPS,
            per_device_train_batch_size=4,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            seed=3,
        ),
        train_dataset=Rows(),
        callbacks=[callback()],
    )
    trainer.train(resume_from_checkpoint=str(tmp_path / "t" / "checkpoint-4"))
    found = open_course(tmp_path / "course")
    assert found.step.values.tolist() == [0, 2, 4, 6]
    assert np.isfinite(found.readable).all()
    assert found.added_loss.dims == ("step", "block")


def test_a_loop_of_ones_own_is_watched(tmp_path: Path) -> None:
    hf = model().train()
    watch = bathyscope.watch(hf, PROMPTS, out=tmp_path / "course", every=2)
    assert watch(1) == {}
    state = torch.random.get_rng_state()
    values = watch(2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert hf.training
    assert all(p.requires_grad for p in hf.parameters())
    alone = bathyscope.survey(hf.eval(), PROMPTS, ["lens", "skip"], progress=False).verdict.own.value
    # other measures make batches of other sizes
    assert values["depth/own"] == pytest.approx(alone, rel=1e-6)


def watched_steps(
    monkeypatch: pytest.MonkeyPatch, out: Path, survey: float, step: float, steps: int = 12, **options: Any
) -> tuple[list[int], list[float], watching.Watch]:
    """The steps that were surveyed on a clock on which surveys and steps take so long, and the share after each."""
    clock = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: clock[0])
    watch = bathyscope.watch(model(), PROMPTS, out=out, every=1, measures=["lens"], steps=steps, **options)
    monkeypatch.setattr(watch, "_survey", lambda number, *_: clock.__setitem__(0, clock[0] + survey))
    monkeypatch.setattr(watching, "depths_of", lambda run: {"depth/own": 1.0})
    surveyed, shares = [], []
    for number in range(steps + 1):
        if watch(number):
            surveyed.append(number)
            shares.append(watch.seconds / clock[0])
        clock[0] += step
    return surveyed, shares, watch


def test_all_surveys_that_are_due_are_made_and_their_time_is_said_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However long they take: who asks for five points gets five."""
    caplog.set_level("INFO", logger="bathyscope")
    surveyed, _, watch = watched_steps(monkeypatch, tmp_path / "c", survey=20.0, step=1.0, steps=4)
    assert surveyed == [0, 1, 2, 3, 4]
    assert "The survey at step 0 took 20 s. 5 are due in all, which take about 100 s together." in caplog.text
    assert f"Depth is surveyed every step on {len(PROMPTS)} prompts, by an estimate in about " in caplog.text
    assert "no more than" not in caplog.text
    assert watch.text == "5 surveys of depth took 100 s, 95.2% of the time."
    _, _, single = watched_steps(monkeypatch, tmp_path / "d", survey=20.0, step=20.0, steps=0)
    assert single.text == "1 survey of depth took 20 s, 50.0% of the time."


def test_surveys_beyond_their_share_are_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of 20 s pays for itself and for the first, which comes before any training."""
    caplog.set_level("INFO", logger="bathyscope")
    with pytest.warns(UserWarning, match=r"The survey at step 1 is left out: with 20 s more, .* 0.05 of the 2 min so"):
        surveyed, shares, watch = watched_steps(monkeypatch, tmp_path / "c", survey=20.0, step=100.0, max_share=0.05)
    assert surveyed == [0, 8, 12]
    assert all(share <= 0.05 for share in shares[1:])
    assert "All of them fit into 5 % of the time if each step takes at least 13 min; if not, some are" in caplog.text
    assert watch.left_out == 10
    assert "; 10 due ones were left out, to stay within 0.05 of it." in watch.text


@settings(deadline=None, max_examples=200)
@given(seconds=st.floats(0.01, 1e4), share=st.floats(0.001, 1), more=st.floats(0, 2), due=st.integers(2, 60))
def test_what_is_said_before_the_first_step_holds(seconds: float, share: float, more: float, due: int) -> None:
    """From the time between two surveys that is said on, all are allowed, and the share holds whenever one ends."""
    budget = SurveyBudget(seconds, share)
    interval = budget.least_interval() * (1 + more)
    taken = passed = seconds
    for _ in range(due - 1):
        passed += interval
        assert budget.allows(taken, passed)
        taken, passed = taken + seconds, passed + seconds
        assert taken <= share * passed * (1 + 1e-6)
    if share < 0.9:
        assert not budget.allows(seconds, seconds + 0.99 * budget.least_interval())
    assert SurveyBudget(seconds).allows(taken, passed)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, 5, 100, float("nan")])
def test_a_share_is_no_number_of_per_cent(share: float, tmp_path: Path) -> None:
    message = r"max_share=\S+ is out of range: it is a share of the time, above 0 and at most 1 \(0.05 is 5 %\)"
    with pytest.raises(OptionError, match=message):
        bathyscope.watch(model(), PROMPTS, out=tmp_path / "c", max_share=share)


def test_the_length_of_a_training_is_not_how_often_it_is_surveyed(tmp_path: Path) -> None:
    def watched(**options: Any) -> bathyscope.surveying.training.watch.Watch:
        return bathyscope.watch(model(), PROMPTS, out=tmp_path / "c", measures=["lens"], **options)

    for options, every in (({"steps": 5}, 500), ({"steps": 5, "every": 6}, 6)):
        with pytest.raises(
            OptionError, match=rf"steps=5 is the length .* with every={every} step 0 alone .* give every=5;"
        ):
            watched(**options)
    with pytest.raises(OptionError, match=r"unexpected keyword argument 'evry'\. Did you mean 'every'"):
        watched(evry=5)
    assert not (tmp_path / "c").exists()
    assert watched(steps=5, every=5).every == 5


def test_a_training_with_such_a_share_does_not_begin(tmp_path: Path) -> None:
    callback = DepthCallback(PROMPTS, every=1, out=tmp_path / "c", max_share=100)
    with pytest.raises(OptionError, match=r"max_share=100 is out of range: .* \(0\.05 is 5 %\)"):
        trained(tmp_path / "training", callback, steps=1)
    assert not (tmp_path / "c").exists()


class Wrapping(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def test_twins_share_weights_and_nothing_else() -> None:
    hf = model().train()
    hf.transformer.h[0].register_forward_hook(lambda *_: None)
    hf.forward = lambda *_: None  # as mixed precision does
    twin = twin_of(Wrapping(hf))
    assert {id(p) for p in twin.parameters()} == {id(p) for p in hf.parameters()}
    assert {id(m) for m in twin.modules()}.isdisjoint(id(m) for m in hf.modules())
    assert not twin.training
    assert hf.training
    assert not any(module._forward_hooks for module in twin.modules())
    assert "forward" not in twin.__dict__
    assert torch.isfinite(twin(torch.tensor([[1, 2, 3]])).logits).all()
    compiled = twin_of(torch.compile(model()))
    assert isinstance(compiled, PreTrainedModel)


@pytest.mark.parametrize("measures", [["lens", "skip", "drop"], ["gradient"]])
def test_a_plain_loop_is_the_same_to_the_bit(measures: list[str], tmp_path: Path) -> None:
    plain = plain_loop(model(dropout=True))
    hf = model(dropout=True)
    watch = bathyscope.watch(hf, PROMPTS, out=tmp_path / "course", every=2, measures=measures, progress=False)
    assert_same(plain_loop(hf, watch), plain)
    assert watch.surveys == 5  # two in each step that is due, and one behind the last


@pytest.mark.parametrize("measures", [["lens", "skip", "drop"], ["gradient"]])
def test_a_survey_that_breaks_inside_a_block_leaves_a_loop_alone(
    measures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients are switched on and off inside of the survey, and blocks replaced; all of it is put back."""
    plain = plain_loop(model(dropout=True))
    hf = model(dropout=True)
    watch = bathyscope.watch(hf, PROMPTS, out=tmp_path / "c", every=1, measures=measures, progress=False)
    calls = []

    def fail(*_: Any, **__: Any) -> None:
        calls.append(torch.rand(5))
        raise RuntimeError("in the middle")

    block, survey = type(hf.transformer.h[2]), watching.survey
    forward = block.forward

    @functools.wraps(forward)
    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.training or self.ln_1.weight is not hf.transformer.h[2].ln_1.weight:
            return forward(self, *args, **kwargs)
        return fail()

    def surveyed(*args: Any, **kwargs: Any) -> Any:
        # From here on, and not in the checks of the anatomy that precede a survey.
        with monkeypatch.context() as breaking:
            breaking.setattr(block, "forward", broken)
            return survey(*args, **kwargs)

    monkeypatch.setattr(watching, "survey", surveyed)
    with pytest.warns(UserWarning, match="the training goes on: .*in the middle") as caught:
        assert_same(plain_loop(hf, watch), plain)
    assert calls
    steps = [re.findall(r"at step (\d+) failed", str(warning.message)) for warning in caught]
    failures = [int(step) for numbers in steps for step in numbers]
    assert len(failures) > 1, "every failure is told"
    assert len(set(failures)) > 1, "and not the first step's alone"
    assert (watch.surveys, watch.failed) == (0, len(failures))
    assert f"; {len(failures)} failed" in watch.text


def test_prompts_that_can_be_read_only_once_are_read_once(tmp_path: Path) -> None:
    watch = bathyscope.watch(model(), iter(PROMPTS), out=tmp_path / "c", every=1, measures=["lens"], progress=False)
    assert watch(1)["depth/readable"] == watch(2)["depth/readable"]


def test_what_surveys_take_is_said_before_and_after(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="bathyscope")
    callback = DepthCallback(PROMPTS, every=3, out=tmp_path / "course", measures=["lens"])
    trained(tmp_path / "t", callback)
    err = caplog.text
    caplog.clear()
    assert "Depth is surveyed every 3 steps on 2 prompts, by an estimate in about 0." in err
    assert "3 are due in all, which take about " in err
    assert err.index("are due in all") < err.index("surveys of depth took")
    assert "3 surveys of depth took " in err
    assert "% of the time." in err
    quiet_callback = DepthCallback(PROMPTS, every=3, out=tmp_path / "course", measures=["lens"], progress=False)
    trained(tmp_path / "t", quiet_callback)
    assert "surveys of depth" not in caplog.text


class FSDPModel(nn.Module):
    pass


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_what_cannot_be_watched_is_refused_before_the_first_step(tmp_path: Path) -> None:
    def refused(error: type[Exception], message: str, hf: nn.Module | None = None, **options: Any) -> None:
        prompts = options.pop("prompts", PROMPTS)
        with pytest.raises(error, match=message):
            bathyscope.watch(model() if hf is None else hf, prompts, out=tmp_path / "c", progress=False, **options)
        assert not (tmp_path / "c").exists()

    refused(
        ModelError,
        r"\(DeepSpeed ZeRO-3, or FSDP of version 1\)\. Use version 2 .* or survey the checkpoints",
        FSDPModel(),
    )
    refused(ModelError, r"Linear is no model of transformers, nor does it wrap one", nn.Linear(2, 2))
    refused(ModelError, r"in memory; str given\. Of a folder of checkpoints, survey each: bathyscope\.course", "folder")  # type: ignore[arg-type]
    refused(OptionError, r"Unknown measure 'lense'\. Did you mean 'lens'", measures="lens,lense")
    refused(OptionError, r"every=0 is out of range", every=0)
    refused(OptionError, r"Unknown measure 'lense'\. Did you mean 'lens'", measures=["lense"])
    refused(PromptError, r"Prompt '0'.*vocabulary", prompts=[[5, 10**6]])
    too_long = [[7] * (model().config.n_positions + 1)]
    refused(PromptError, r"it has 257 tokens, more than the 256 the model can take", prompts=too_long)
    locked = model()
    locked.add_module("locked", Locked())
    refused(ModelError, r"cannot be copied, so it is not watched .*Survey its checkpoints instead", locked)


def test_the_course_of_another_training_is_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {"out": tmp_path / "c", "measures": ["lens"], "progress": False}
    bathyscope.watch(model(), PROMPTS, **options)
    with pytest.raises(StoreError, match=r"holds the course of another training: its model differs\. Give another"):
        bathyscope.watch(model("llama"), PROMPTS, **options)
    with pytest.raises(StoreError, match=r"another training: its prompts differ"):
        bathyscope.watch(model(), PROMPTS[:1], **options)
    with pytest.raises(StoreError, match=r"another training: its prompts, measures and seed differ\."):
        bathyscope.watch(model(), PROMPTS[:1], **{**options, "measures": ["drop"], "seed": 5})
    with pytest.raises(StoreError, match=r"another training: its seed differs\."):
        bathyscope.watch(model(), PROMPTS, **{**options, "seed": 5})
    # prompts that begin alike are others all the same
    long = [list(range(2, 60))] * 5
    bathyscope.watch(model(), long, **{**options, "out": tmp_path / "long"})
    with pytest.raises(StoreError, match=r"its prompts differ"):
        bathyscope.watch(model(), [*long[:-1], PROMPTS[0]], **{**options, "out": tmp_path / "long"})
    (tmp_path / "c" / "course.json").write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=r"course\.json' is damaged and cannot be read; remove it"):
        bathyscope.watch(model(), PROMPTS, **options)


def test_two_trainings_on_one_folder_are_one_warning(tmp_path: Path) -> None:
    """The first to come keeps its step; the other training goes on without."""
    options: dict[str, Any] = {"every": 1, "progress": False, "measures": ["lens"]}
    first, second = model(), model()
    with torch.no_grad():
        next(second.parameters()).mul_(1.5)
    watches = [bathyscope.watch(hf, PROMPTS, out=tmp_path / "c", **options) for hf in (first, second)]
    kept = watches[0](1)
    with pytest.warns(UserWarning, match=r"step 1 in .* was surveyed with other weights, by another training .* stays"):
        assert watches[1](1) == {}
    run = bathyscope.open(tmp_path / "c" / "step-00000001")
    assert run.verdict.readable.value == kept["depth/readable"]


DRIVER = Path(__file__).parents[2] / "support" / "training_driver.py"


def drive(out: Path, *arguments: str, processes: int = 1) -> int:
    """Run the driver, in two processes that train together if wanted; return its exit status."""
    out.mkdir(parents=True, exist_ok=True)
    driver = [str(DRIVER), str(out), *arguments]
    if processes == 1:
        return warm.run(driver).returncode
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", str(free_port())]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *launch, *driver], env=env, capture_output=True, check=False).returncode


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port


@pytest.mark.thorough
def test_two_processes_train_the_same_to_the_bit(tmp_path: Path) -> None:
    assert drive(tmp_path / "plain", processes=2) == 0
    assert drive(tmp_path / "watched", "--course", str(tmp_path / "course"), processes=2) == 0
    for rank in (0, 1):
        results = [torch.load(tmp_path / name / f"result_{rank}.pt") for name in ("watched", "plain")]
        assert_same(*results)
    assert open_course(tmp_path / "course").step.values.tolist() == [0, 2, 4, 6]


@pytest.mark.thorough
def test_a_killed_training_ends_with_the_course_of_one_that_was_not(tmp_path: Path) -> None:
    """SIGKILL in the middle of the survey of step 4; the checkpoint of step 2 is what it goes on from."""
    course = ["--course", str(tmp_path / "course")]
    assert drive(tmp_path / "killed", *course, "--kill-in", "4") == -signal.SIGKILL
    assert open_course(tmp_path / "course").step.values.tolist() == [0, 2]
    assert (tmp_path / "course" / "step-00000004").exists()
    assert drive(tmp_path / "killed", *course, "--resume", str(tmp_path / "killed" / "checkpoint-2")) == 0
    assert drive(tmp_path / "straight", "--course", str(tmp_path / "whole")) == 0
    assert_same(*(torch.load(tmp_path / name / "result_0.pt")["weights"] for name in ("killed", "straight")))
    resumed, whole = (open_course(tmp_path / name) for name in ("course", "whole"))
    assert resumed.step.values.tolist() == [0, 2, 4, 6]
    xr.testing.assert_identical(resumed.data.drop_attrs(), whole.data.drop_attrs())
