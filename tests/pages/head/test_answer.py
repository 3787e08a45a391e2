"""What stands at the head of a page: which blocks are named, and when none is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import replaced, synthetic_run, without

from bathyscope.model.writing import Writing
from bathyscope.pages.head.answer import answer, plan_for
from bathyscope.pages.head.numbers import read_profile
from bathyscope.pages.head.section import facts
from bathyscope.pages.text.commands import more_prompts
from bathyscope.runs.by_place import cost_of_leaving_out
from bathyscope.runs.run import Run
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.plan.arrays import result
from bathyscope.surgery.plan.plan import Plan


def costing(costs: list[float], spread: float = 0.0, prompts: int = 6) -> Run:
    """A run whose blocks add this to the loss, ± ``spread`` from prompt to prompt."""
    run = synthetic_run(len(costs), prompts=prompts)
    drop = run["drop"].copy(deep=True)
    own = np.linspace(-spread, spread, prompts)[:, None]
    drop["loss"].values[:] = drop.baseline_loss.values[:, None] + np.array(costs) + own
    return replaced(run, "drop", drop)


def test_cheap_and_costly_blocks_are_named_with_intervals() -> None:
    found = answer(costing([2.5, 0.01, 0.02, 0.04, 0.3, 0.02, 1.0], spread=0.005))
    assert found.blocks == (1, 2, 3, 5)
    assert found.cheap.startswith("4 of 7 blocks cost least when left out: 1 to 3, 5; each alone adds at most 0.04")
    assert found.cheap.endswith("Costs of single blocks do not add up: leave them out together and measure.")
    assert found.costly.startswith("Costliest alone: block 0 (+2.5, +2.5 to +2.5 nats), 6 (+1), 4 (+0.3).")
    told = "bathyscope prune example/model-12 --calibration YOURS.jsonl --test OTHERS.jsonl --drop 4"
    assert found.command == told


def test_one_block_does_not_add_up_with_anything() -> None:
    found = answer(costing([2.5, 0.01, 0.3]))
    assert found.cheap.startswith("1 of 3 blocks costs least when left out: 1; it adds at most 0.01 nats to the loss")
    assert found.cheap.endswith("(upper end of the 95 % interval).")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            costing([2.5, 0.01, 0.3], spread=0.9),
            "No block is shown to cost at most 0.05 nats, since intervals are wide; the cheapest",
        ),
        (costing([2.5, 0.2, 0.3]), "No block can be left out for less than 0.05 nats; the cheapest is block 1 (+0.2"),
        # its mean is above, and its interval is not
        (
            costing([2.5, 0.06, 0.3], spread=0.05),
            "No block is shown to cost at most 0.05 nats; the cheapest is block 1 (+0.06",
        ),
        (
            costing([2.5, 0.0, 0.3], prompts=1),
            "Only one prompt, and an interval needs two, so no block is named as cheap: survey ten or more.",
        ),
        (costing([np.nan] * 3), "Which blocks could go is unknown: no prompt has a loss."),
        (without(synthetic_run(3), "drop"), "Which blocks could go is unknown: drop was not measured."),
    ],
)
def test_nothing_is_recommended_where_it_is_not_known(run: Run, said: str) -> None:
    found = answer(run)
    assert found.cheap.startswith(said)
    assert found.blocks == ()
    assert found.command.startswith("bathyscope survey ")


def costing_few(prompts: int, expensive: int) -> Run:
    """A run whose first block costs all prompts 2 nats, its second so many of them 0.5, and others next to nothing."""
    run = costing([2.0, 0.0, 0.01], spread=0.005, prompts=prompts)
    drop = run["drop"].copy(deep=True)
    drop["loss"].values[:, 1] = drop.baseline_loss.values + np.where(np.arange(prompts) < expensive, 0.5, 1e-4)
    return replaced(run, "drop", drop)


def test_a_block_that_few_prompts_need_is_not_called_cheap() -> None:
    """Two of thirty prompts need block 1, which costs 0.03 nats on average; of other prompts more may need it."""
    run = costing_few(30, expensive=2)
    cost = cost_of_leaving_out(run)
    assert cost is not None
    plain = mean_interval(cost.by_prompt[:, 1], Sampling())
    assert plain.low < 0.03 < plain.high
    found = answer(run)
    assert found.blocks == (2,)
    assert found.cheap.endswith(
        "Of block 1 it is open: few of the prompts make up most of such costs, and others may cost more; their "
        "intervals need 40 different prompts or clusters."
    )
    # ten prompts none of which needs it, next to a block that few need
    assert answer(costing_few(10, expensive=1)).blocks == (2,)


def test_where_few_prompts_carry_every_cost_no_block_is_cheap() -> None:
    run = costing_few(10, expensive=1)
    drop = run["drop"].copy(deep=True)
    drop["loss"].values[:] = drop["loss"].values[:, [1, 1, 1]]
    found = answer(replaced(run, "drop", drop))
    assert found.cheap.startswith("No block is named as cheap: few of the prompts make up most of such costs")
    assert found.blocks == ()
    assert found.command.startswith("bathyscope survey ")


def test_costs_of_three_prompts_are_not_bounded() -> None:
    found = answer(costing([2.5, 0.0, 0.3], prompts=3))
    assert (
        found.cheap
        == "No block is named as cheap: intervals of costs need 4 different prompts or clusters, better ten or more."
    )


def test_a_block_whose_cost_is_open_is_not_said_to_be_costly() -> None:
    """Where all other blocks cost more than 0.05 nats for sure."""
    run = costing_few(10, expensive=1)
    drop = run["drop"].copy(deep=True)
    drop["loss"].values[:, 2] += 0.5
    run = replaced(run, "drop", drop)
    assert answer(run).cheap.startswith("No block is shown to cost at most 0.05 nats; the cheapest is block 1 (+0.05)")
    titles = [fact.title for fact in facts(read_profile(run), answer(run))]
    assert titles[0] == "No block is proved cheap to leave out"


def test_a_block_that_is_better_left_out_is_a_warning() -> None:
    found = answer(costing([2.5, -0.2, 0.3, -0.1], spread=0.01))
    assert found.trust[-1] == (
        "Leaving out blocks 1, 3 lowers the loss: this text may be foreign to the model, or what is left out may harm "
        "it: measure on text like its training text before you decide."
    )
    assert "lowers the loss" not in " ".join(answer(costing([2.5, -0.01, 0.3], spread=0.05)).trust)


def test_blocks_without_a_loss_are_not_among_the_costliest() -> None:
    assert answer(costing([np.nan, 0.3, 1.0])).costly == "Costliest alone: block 2 (+1, +1 to +1 nats), 1 (+0.3)."


def plan_of(model: str, weight_hash: str = "") -> Plan:
    names = ["loss", "random"]
    values: dict[str, Any] = {
        "subset": np.array(["drop:1", "drop:2"], dtype=object),
        **{name: [0.2, 0.5] for name in ("calibration_cost", "test_cost", "test_cost_low", "test_cost_high")},
        **{name: [0.5, 0.5] for name in ("p_value", "test_kl", "test_agreement")},
        "indistinguishable": [True, False],
        "cost": np.zeros((2, 3)),
    }
    attrs: dict[str, Any] = {
        "model": model,
        "n_units": 4,
        "size": 1,
        "parts": "block",
        "level": 0.95,
        "how": "all pairs tried",
    }
    return Plan(result(names, values, {}, {**attrs, "weight_hash": weight_hash} if weight_hash else attrs))


def test_a_plan_for_the_model_decides_which_blocks_can_go() -> None:
    """It was measured together, whatever single blocks cost by the page's own bound."""
    for costs in ([2.5, 0.01, 0.01, 0.3], [2.5, 0.2, 0.5, 0.3]):
        run, plan = costing(costs), plan_of("example/model-12")
        found = answer(run, plan=plan)
        assert found.cheap == f"By bathyscope prune: {plan.text}"
        assert (found.blocks, found.command, found.purpose) == ((), "", "")


def test_a_plan_belongs_to_the_model_of_its_weights_or_name() -> None:
    run = costing([2.5, 0.01])
    other, named, weighed = plan_of("other"), plan_of("example/model-12"), plan_of("here", "ab" * 32)
    assert plan_for(run, [other]) is None
    assert plan_for(run, [other, named]) is named
    assert plan_for(run, [weighed, named]) is weighed


def test_a_plan_of_other_weights_is_no_plan_of_the_model() -> None:
    """A folder may hold another model than when it was pruned, and models in memory are named after their class."""
    run = costing([2.5, 0.01])
    elsewhere, same = plan_of("example/model-12", "cd" * 32), plan_of("there", "ab" * 32)
    elsewhere.data.attrs["precision"] = same.data.attrs["precision"] = "float32"
    assert plan_for(run, [elsewhere]) is None
    assert plan_for(run, [plan_of("example/model-12"), same]) is same
    # the same checkpoint in another precision has another hash, and so have other weights
    elsewhere.data.attrs["precision"] = "bfloat16"
    assert plan_for(run, [elsewhere]) is None


def test_one_block_stays_where_none_costs_anything() -> None:
    found = answer(costing([0.0, 0.01, -0.001]))
    assert found.blocks == (0, 1, 2)
    assert found.command.endswith(" --drop 2")
    alone = answer(costing([0.0]))
    assert alone.blocks == (0,)
    assert "bathyscope prune" not in alone.command


def test_no_command_is_given_where_nothing_is_missing() -> None:
    run = costing([2.5, 0.2, 0.3])
    assert answer(run).purpose == "To know what training moved"
    assert answer(run).command.endswith("--measures lens,skip --control untrained:3 --out runs/control")
    controlled = replace(run, controls={"untrained-0": run})
    assert (answer(controlled).purpose, answer(controlled).command) == ("", "")


def test_a_run_without_lens_has_no_verdict() -> None:
    assert answer(without(costing([1.0, 0.0]), "lens")).headline.startswith("No verdict: it needs the lens and skip")


@pytest.mark.parametrize(
    ("name", "told"),
    [("example/model-12", "example/model-12"), ("bundled model", "MODEL"), ("a; rm b", "MODEL")],
)
def test_the_command_names_a_model_only_where_it_could_be_loaded(name: str, told: str) -> None:
    run = costing([2.5, 0.2, 0.3])
    named = replace(run, manifest={**run.manifest, "identity": {**run.manifest["identity"], "model": name}})
    assert answer(named).command.startswith(f"bathyscope survey {told} --prompts")


def test_a_folder_is_named_as_a_shell_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my model").mkdir()
    monkeypatch.chdir(tmp_path)
    run = costing([2.5, 0.2, 0.3])
    named = replace(run, manifest={**run.manifest, "identity": {**run.manifest["identity"], "model": "my model"}})
    assert answer(named).command.startswith("bathyscope survey 'my model' --prompts")


@pytest.mark.parametrize(
    ("source", "own", "more"),
    [
        ("problems:24?steps=1-6", "'problems:15?steps=1-6'", "'problems:24?steps=1-6'"),
        ("mine.jsonl", "mine.jsonl:15", "mine.jsonl"),
        ("my prompts", "YOURS.jsonl", "YOURS.jsonl"),
    ],
)
def test_commands_name_the_prompts_of_a_run_that_ended_before_its_source(source: str, own: str, more: str) -> None:
    run = costing([2.5, 0.01, 0.3], prompts=15)
    run.manifest["identity"]["dataset"] = source
    run.manifest["record"].setdefault("notes", {})["until"] = {"prompts": 15, "offered": 24}
    assert f"--calibration {own} --test" in answer(run).command
    spread = costing([2.5, 1.0, 0.3], spread=3.0, prompts=15)
    spread.manifest["identity"]["dataset"] = source
    spread.manifest["record"].setdefault("notes", {})["until"] = {"prompts": 15, "offered": 24}
    assert f"--prompts {own}" in answer(without(spread, "drop")).command
    assert more_prompts(spread) == more
    # what a file holds that was not read is named, and what it does not hold is not
    assert more_prompts(spread, 20) == own.replace("15", "20")
    beyond = {"mine.jsonl": "MORE.jsonl", "my prompts": "YOURS.jsonl"}
    assert more_prompts(spread, 30) == beyond.get(source, own.replace("15", "30"))
    whole = {"prompts": 24, "offered": 24}
    run.manifest["record"]["notes"]["until"] = whole
    assert "15" not in answer(run).command


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ({"lens": {"positions": "answer", "k": 7}}, " --lens.positions answer --measures"),
        (
            {"lens": {"norm": ["frozen"]}, "skip": {"protect_first": 2, "positions": [[3]]}},
            "mine.jsonl --lens.norm frozen --skip.protect_first 2 --measures",
        ),
        ({}, "mine.jsonl --measures"),
    ],
)
def test_commands_measure_the_same_quantity(settings: dict[str, dict[str, Any]], flags: str) -> None:
    """What a page recommends reads depths of the tokens that its own depths are of."""
    for run in (costing([2.5, 0.2, 0.3]), without(costing([2.5, 0.2, 0.3]), "drop")):
        run.manifest["identity"]["dataset"] = "mine.jsonl"
        run.manifest["identity"]["measures"] = settings
        command = answer(run).command
        assert flags in command
        assert command.startswith("bathyscope survey ")


@pytest.mark.parametrize(
    ("writing", "flags"),
    [(Writing(8), "--write 8"), (Writing(2, 0.7, 3), "--write 2 --temperature 0.7 --seed 3")],
)
def test_commands_let_the_model_write_as_it_did(writing: Writing, flags: str) -> None:
    """The questions are their source, and not what the data are called on which the model went on."""
    run = costing([2.5, 0.01, 0.3], prompts=15)
    run.manifest["identity"]["dataset"] = f"mine.csv?text=sentence&labels=name,condition ({writing})"
    command = answer(without(run, "drop")).command
    assert f"--prompts 'mine.csv?text=sentence&labels=name,condition' {flags} --measures" in command
    assert "--calibration 'mine.csv?text=sentence&labels=name,condition' --test" in answer(run).command
    run.manifest["identity"]["dataset"] = f"gsm8k:4 ({writing})"
    assert more_prompts(run) == "gsm8k:8"
    assert more_prompts(run, 9) == "gsm8k:9"
