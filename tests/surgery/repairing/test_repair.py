"""``repair``: the ladder on a tiny model, its export, its refusals."""

from __future__ import annotations

import copy
import itertools
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from support import waves, zoo
from transformers import AutoModelForCausalLM

import bathyscope
from bathyscope.core.progress import ProgressBar
from bathyscope.errors import ModelError, OptionError, PromptError, RepairError, StoreError
from bathyscope.model.reading import tokenized
from bathyscope.prompts.samples import require_others
from bathyscope.runs.folder import FolderLock
from bathyscope.schedule import Schedule
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.order.model_of_plan import chosen_by
from bathyscope.surgery.repairing.healing import Budget
from bathyscope.surgery.repairing.ladder import climb_ladder
from bathyscope.surgery.repairing.repaired import Repaired, open_repaired
from bathyscope.surgery.repairing.rungs import losses, measured_rung, slot_losses
from bathyscope.surgery.scheduled.copying import ScheduledCopy
from bathyscope.surgery.trial.trial import read_trial

KNOWN = zoo.prompts(zoo.build("llama"), (40,) * 24, seed=1)
UNSEEN = zoo.prompts(zoo.build("llama"), (40,) * 8, seed=2)


def repaired(name: str = "llama", text: str = "drop:1,drop:3", **options: Any) -> Any:
    return bathyscope.repair(waves.loaded(name), text, KNOWN, test=UNSEEN, progress=False, **options)


def test_losses_are_those_of_the_library() -> None:
    hf, prompts = zoo.build("llama"), zoo.prompts(zoo.build("llama"), (9, 14, 9, 2))
    with torch.no_grad():
        wanted = [float(hf(ids, labels=ids).loss) for ids in (torch.tensor([prompt]) for prompt in prompts)]
    np.testing.assert_allclose(losses(hf, prompts), wanted, rtol=1e-5)


def test_the_first_rung_is_the_scheduled_model() -> None:
    model, found = waves.loaded("llama"), repaired(how="scale")
    with bathyscope.scheduled(model, "drop:1,drop:3") as hf:
        dropped = losses(hf, UNSEEN)
    assert found.rungs[0].cost == pytest.approx(float((dropped - losses(model.hf, UNSEEN)).mean()), abs=1e-6)
    assert (found.rungs[0].recovered, [one.name for one in found.rungs]) == (0, ["none", "scale"])
    assert all(one.cost_low <= one.cost <= one.cost_high for one in found.rungs)


@pytest.mark.each
@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen2"])
def test_costs_of_a_repair_are_those_of_its_copys_own_forward(name: str) -> None:
    """In the slots of the whole model stand the copy's modules, and nothing of the copy's loop runs."""
    fixed = repaired(name, how="linear")
    model = waves.loaded(name)
    base = losses(model.hf, UNSEEN)
    for rung in fixed.rungs[1:]:
        copy_model = ScheduledCopy(model.hf, fixed.schedule, model.anatomy.family)
        trial = read_trial(model, UNSEEN, KNOWN, sampling=Sampling())
        again = climb_ladder(trial, fixed.schedule, rung.name, progress=False)
        assert again.rungs[-1].cost == pytest.approx(rung.cost, abs=1e-9)
        copy_model.restore(again._changes if again.chosen == rung.name else {})
        assert slot_losses(model, copy_model, UNSEEN) == pytest.approx(losses(copy_model.hf, UNSEEN), abs=1e-5)
        if again.chosen == rung.name:
            assert rung.cost == pytest.approx(float((losses(copy_model.hf, UNSEEN) - base).mean()), abs=1e-5)
            assert abs(rung.cost - fixed.rungs[0].cost) > 1e-4


def ladder_of(monkeypatch: pytest.MonkeyPatch, aside: dict[str, float], test: dict[str, list[float]]) -> Any:
    """A ladder whose rungs cost what is said here, on the prompts kept aside and on the test prompts."""
    rungs, calls = iter(["whole", *test]), {"name": ""}

    def known(hf: object, prompts: list[list[int]]) -> np.ndarray:
        if len(prompts) == len(UNSEEN):
            calls["name"] = next(rungs)
            return np.zeros(len(prompts)) if calls["name"] == "whole" else np.array(test[calls["name"]])
        return np.full(len(prompts), aside.get(calls["name"], 0.0))

    monkeypatch.setattr("bathyscope.surgery.repairing.rungs.losses", known)
    monkeypatch.setattr(
        "bathyscope.surgery.repairing.rungs.slot_losses", lambda whole, copy, prompts: known(copy, prompts)
    )
    return repaired(how=list(test)[-1], **({"tokens": 100} if "heal" in test else {}))


def test_the_rung_is_chosen_on_calibration_prompts_and_proved_on_others(monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = [0.01 * place for place in range(8)], [0.2 + 0.01 * place for place in range(8)]
    found = ladder_of(
        monkeypatch, {"none": 0.3, "scale": 0.1, "linear": 0.2}, {"none": high, "scale": low, "linear": low}
    )
    assert (found.chosen, found.proved) == ("scale", True)
    assert (found.best.gain, found.best.gain_low) == (pytest.approx(0.2), pytest.approx(0.2))
    assert found.text.startswith(
        "Proved on 8 test prompts: scale costs 0.2 (0.2 to 0.2) nats per token less than no repair"
    )
    again = ladder_of(monkeypatch, {"none": 0.3, "scale": 0.1}, {"none": high, "scale": list(reversed(high))})
    assert (again.chosen, again.proved) == ("scale", False)
    assert again.text.startswith(
        "Not proved on 8 test prompts: scale, the best on the calibration prompts kept aside ("
    )


def test_a_repair_that_costs_more_on_the_test_prompts_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to cost "-0.1 nats per token less"."""
    found = ladder_of(monkeypatch, {"none": 0.3, "scale": 0.1}, {"none": [0.25] * 8, "scale": [0.375, 0.25] * 4})
    assert (found.chosen, found.proved, found.best.gain) == ("scale", False, pytest.approx(-0.0625))
    low, high = 0.0 - found.best.gain_high, 0.0 - found.best.gain_low
    assert 0 <= low < 0.0625 < high
    told = f"costs 0.0625 ({low:.4g} to {high:.4g}) nats per token more than no repair"
    assert told in found.text


def test_a_ladder_that_makes_it_worse_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The costs of a model of twelve blocks without three of them: every rung is worse than none."""
    costs = {"none": 0.0208, "scale": 0.0505, "linear": 0.0456, "heal": 0.0295}
    found = ladder_of(monkeypatch, costs, {name: [cost] * 8 for name, cost in costs.items()})
    assert (found.chosen, found.proved) == ("none", False)
    assert found.text.startswith("No repair helps: on the calibration prompts kept aside nothing costs less")
    with pytest.raises(RepairError, match=r"No repair helps: .* Nothing was written. Give more calibration") as caught:
        found.export(tmp_path / "out")
    assert (caught.value.exit_code, caught.value.repaired) == (7, found)
    assert not list(tmp_path.iterdir())
    assert [row[-1] for row in found.tables()[0].cells()] == ["–", *["nothing; worse"] * 3]
    assert (found.record()["proved"], found.record()["settings"]["chosen"]) == (False, "none")


def test_the_weights_are_those_of_the_chosen_rung_though_training_went_on_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Repaired, "chosen", "linear")
    trained, mapped = repaired(how="heal", tokens=2000), repaired(how="linear")
    assert trained._changes.keys() == mapped._changes.keys()
    ids = torch.tensor(UNSEEN)
    with torch.no_grad():
        logits = [found.hf(ids, use_cache=False).logits for found in (trained, mapped)]
    assert torch.equal(*logits)
    monkeypatch.setattr(Repaired, "chosen", "heal")
    healed = repaired(how="heal", tokens=2000)
    with torch.no_grad():
        assert not torch.equal(healed.hf(ids, use_cache=False).logits, logits[0])


def test_two_trainings_do_not_share_a_folder(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path, "training")
    try:
        with pytest.raises(StoreError, match=r"The training in .* is being written by process \d+ on"):
            repaired(how="heal", tokens=100, state=tmp_path)
    finally:
        lock.release()


def test_the_time_left_is_that_of_the_budget_from_the_first_word_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of next to nothing, told before the first step, foretold hours for a budget of seconds."""
    shares: list[float] = []
    monkeypatch.setattr(ProgressBar, "advance_to", lambda self, share: shares.append(share))
    ticks = itertools.count(0.0, 1.0)
    whole = waves.loaded("llama")
    trial = read_trial(whole, UNSEEN, KNOWN, sampling=Sampling(100))
    schedule = Schedule.standard(whole.n_blocks).drop(1)
    climb_ladder(
        trial,
        schedule,
        "heal",
        budget=Budget(minutes=0.2),
        progress=False,
        clock=lambda: next(ticks),
    )
    assert shares[0] == 0
    assert all(share >= 1 / 12 for share in shares[1:])
    assert shares[-1] == 1


def test_minutes_are_those_of_the_clock_that_is_given() -> None:
    ticks = itertools.count(0.0, 1.0)
    repaired(text="drop:1", how="heal", minutes=0.2, clock=lambda: next(ticks))
    # every look at the clock takes one of twelve seconds
    assert 12 <= next(ticks) <= 20
    with pytest.raises(OptionError, match=r"clock=3 cannot be called; give one, such as time\.process_time\."):
        repaired(how="heal", minutes=1.0, clock=3)
    for options in ({"tokens": 100, "how": "heal"}, {"how": "scale"}):
        with pytest.raises(OptionError, match="clock counts minutes, and none are given; give minutes=10, or leave"):
            repaired(clock=time.process_time, **options)


def test_what_is_written_is_the_repaired_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repaired, "chosen", "linear")
    monkeypatch.setattr(Repaired, "proved", True)
    found = repaired(how="linear")
    with pytest.warns(UserWarning, match="without a tokenizer"):
        out = found.export(tmp_path / "out")
    ids = torch.tensor(UNSEEN)
    with torch.no_grad():
        again = AutoModelForCausalLM.from_pretrained(out)(ids, use_cache=False).logits
        assert torch.equal(again, found.hf(ids, use_cache=False).logits)
    card = (out / "README.md").read_text()
    assert "| linear |" in card
    assert "Repaired on 24 prompts, 960 tokens (given). Measured on 8 prompts, 320 tokens (given)." in card
    assert "In brackets: 95 % intervals over prompts. The weights are those of linear." in card
    assert "save those listed as changed" in card
    again_open = open_repaired(out)
    assert again_open.rungs == found.rungs
    assert (again_open.schedule, again_open.record()) == (found.schedule, found.record())
    plain = torch.tensor(UNSEEN)
    with bathyscope.scheduled(waves.loaded("llama"), "drop:1,drop:3") as hf, torch.no_grad():
        assert not torch.equal(again, hf(plain, use_cache=False).logits)


def test_the_model_that_is_repaired_stays_as_it_is() -> None:
    model = waves.loaded("llama")
    before = {name: value.clone() for name, value in model.hf.state_dict().items()}
    repaired(how="heal", tokens=4000)
    assert all(torch.equal(value, before[name]) for name, value in model.hf.state_dict().items())
    assert all(parameter.grad is None for parameter in model.hf.parameters())


def test_healing_goes_on_where_no_map_can_be_folded() -> None:
    found = repaired("olmo2", how="heal", tokens=2000)
    assert [bool(one.why_not) for one in found.rungs] == [False, True, True, False]
    assert "a norm or a gate follows it" in found.rungs[1].why_not
    with pytest.raises(ModelError, match=r"olmo2: nothing can be folded into block 0.*how='heal'"):
        repaired("olmo2", how="linear")


def test_what_cannot_be_repaired_is_refused() -> None:
    for text, said in (
        ("repeat:1", "Only schedules that drop blocks can be repaired; given: repeat:1+1"),
        ("swap:1", "Only schedules that drop blocks"),
        ("drop:0", "There is nothing to repair: drop:0 leaves out nothing behind its first block"),
    ):
        with pytest.raises(OptionError) as caught:
            repaired(text=text)
        assert str(caught.value).startswith(said)
    with pytest.raises(OptionError, match=r"minutes=3\.0 is of healing; give how='heal'"):
        repaired(minutes=3.0)
    for budget in ({}, {"tokens": 5, "minutes": 1.0}, {"tokens": 0}, {"minutes": math.nan}, {"minutes": math.inf}):
        with pytest.raises(OptionError, match="Healing takes a budget of tokens or of minutes, above 0"):
            repaired(how="heal", **budget)
    model = waves.loaded("llama")
    with pytest.raises(PromptError, match=r"1 of [0-9]+ test prompts stand among the calibration prompts too"):
        bathyscope.repair(model, "drop:1", KNOWN, test=[UNSEEN[0], KNOWN[3]], progress=False)
    with pytest.raises(PromptError, match="Only one test prompt: an interval needs at least two"):
        bathyscope.repair(model, "drop:1", KNOWN, test=UNSEEN[:1], progress=False)
    with pytest.raises(PromptError, match="at least 4 calibration prompts; 2 given"):
        bathyscope.repair(model, "drop:1", KNOWN[:2], test=UNSEEN, progress=False)
    with pytest.raises(ModelError, match="universal models cannot be exported: their type is made known by"):
        bathyscope.repair(waves.loaded("universal"), "drop:1", KNOWN, test=UNSEEN, progress=False)
    with pytest.raises(OptionError, match="made for 8 blocks and this model has 5"):
        bathyscope.repair(model, Schedule.standard(8).drop(3), KNOWN, test=UNSEEN, progress=False)
    with pytest.raises(OptionError, match="A schedule is a Schedule or a text such as 'drop:5'; 3 given"):
        bathyscope.repair(model, 3, KNOWN, test=UNSEEN, progress=False)  # type: ignore[arg-type]
    for options, said in (
        ({"resamples": 0}, "resamples=0 is out of range"),
        ({"level": 95.0}, "level=95.0 is out of range"),
        ({"rate": -1.0}, "rate=-1.0 is out of range; allowed: above 0."),
    ):
        with pytest.raises(OptionError, match=said):
            repaired(**options)


def test_a_training_that_diverges_is_said_and_no_model_is_given() -> None:
    with pytest.raises(ModelError, match=r"Repaired by heal \(rate=1e\+30\), the model has NaN or Inf predictions"):
        repaired(how="heal", tokens=2000, rate=1e30)


def test_nothing_comes_back_where_nothing_was_lost() -> None:
    lost, cheaper = np.array([0.2, 0.3, 0.4]), np.array([0.1, 0.1, 0.1])
    whole = measured_rung("linear", cheaper, lost, Sampling(100))
    assert whole.recovered == pytest.approx(2 / 3)
    assert whole.interval_text("recovered", ".0%").startswith("67% (")
    # dropping made it better, the map worse: no share of a loss
    none = measured_rung("linear", lost, -lost, Sampling(100))
    assert math.isnan(none.recovered)
    assert none.interval_text("recovered", ".0%") == "–"
    assert none.interval_text("cost", ".1f").startswith("0.3 (")
    # a loss that the prompts do not agree on has a share without an interval
    unsure = measured_rung("linear", cheaper, np.array([-0.5, 0.1, 1.0]), Sampling(100))
    assert unsure.interval_text("recovered", ".0%") == "50%"


def test_a_streamed_model_is_refused_and_one_in_training_is_measured_as_in_use(tmp_path: Path) -> None:
    zoo.build("llama").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="its blocks are streamed; load it with placement='resident'"):
        bathyscope.repair(bathyscope.load(tmp_path, placement="stream"), "drop:1", KNOWN, test=UNSEEN, progress=False)
    hf = copy.deepcopy(zoo.build("gpt2"))
    hf.transformer.drop.p = 0.5
    found = [
        bathyscope.repair(hf.train(training), "drop:1", KNOWN, test=UNSEEN, how="scale", progress=False).rungs
        for training in (False, True)
    ]
    assert found[0] == found[1]
    assert hf.training


def test_a_state_that_cannot_be_gone_on_from_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    repaired(how="heal", tokens=100, state=tmp_path / "state")
    monkeypatch.setattr("bathyscope.surgery.repairing.rungs.losses", lambda *_: pytest.fail("it computed"))
    for options, kind, said in (
        (
            {"how": "heal", "tokens": 100, "state": tmp_path / "file"},
            StoreError,
            r"cannot hold the state of a training: it is no folder.*another folder \(state=\.\.\., --state \.\.\.\)",
        ),
        ({"how": "heal", "tokens": 99, "state": tmp_path / "state"}, StoreError, "is the state of another training"),
        ({"state": tmp_path / "state"}, OptionError, "is of healing; give how='heal'"),
    ):
        with pytest.raises(kind, match=said):
            repaired(**options)


@pytest.fixture(scope="module")
def plan_and_prompts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, list[list[int]], list[list[int]]]:
    """A plan in memory and the same from its folder, with the prompts that chose and those that judged."""
    choosing, judging = KNOWN[:6], UNSEEN[:4]
    folder = tmp_path_factory.mktemp("plans") / "plan"
    plan = bathyscope.prune(waves.loaded("llama"), choosing, judging, drop=1, random=1, out=folder, progress=False)
    return plan, bathyscope.open(folder), choosing, judging


@settings(deadline=None, max_examples=12)
@given(st.sets(st.integers(0, 5), max_size=3), st.booleans())
def test_what_chose_a_plan_does_not_judge_its_repair(
    plan_and_prompts: tuple[Any, Any, list[list[int]], list[list[int]]], shared: set[int], is_stored: bool
) -> None:
    plan, stored, choosing, judging = plan_and_prompts
    test = [*judging, *(choosing[place] for place in sorted(shared))]
    chosen = chosen_by(stored if is_stored else plan)
    assert len(chosen) == len(choosing)
    prompts = tokenized(waves.loaded("llama"), test)
    if not shared:
        require_others(chosen, prompts, plan.left_out)
        return
    message = rf"{len(shared)} of {len(test)} test prompts are among those that chose {plan.left_out} \(first: '4'"
    with pytest.raises(PromptError, match=message):
        require_others(chosen, prompts, plan.left_out)
    with pytest.raises(PromptError, match=message):
        bathyscope.repair(waves.loaded("llama"), stored, KNOWN[12:], test=test, how="scale", progress=False)


def test_a_plan_that_does_not_tell_what_chose_it_is_repaired(
    plan_and_prompts: tuple[Any, Any, list[list[int]], list[list[int]]],
) -> None:
    """As those of earlier versions; and the plan's own test prompts judge in any case."""
    plan, _, choosing, judging = plan_and_prompts
    options: dict[str, Any] = {"how": "scale", "resamples": 20, "progress": False}
    attrs = {name: value for name, value in plan.data.attrs.items() if name != "chosen_by"}
    earlier = replace(plan, data=plan.data.drop_attrs(deep=False).assign_attrs(attrs))
    for choice, fit, test in ((earlier, KNOWN[12:18], choosing), (plan, choosing, judging)):
        repaired = bathyscope.repair(waves.loaded("llama"), choice, fit, test=test, **options)
        assert f" on {len(test)} test prompts" in repaired.text
        assert repaired.data["rung"].values.tolist() == ["none", "scale"]
