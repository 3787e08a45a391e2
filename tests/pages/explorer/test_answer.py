"""What stands at the head of a page: which blocks are named, and when none is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import replaced, synthetic_run, without

from bathyscope.pages.explorer.answer import answer
from bathyscope.runs.run import Run


def costing(costs: list[float], spread: float = 0.0, prompts: int = 6) -> Run:
    """A run whose blocks add this to the loss, ± ``spread`` from prompt to prompt."""
    run = synthetic_run(len(costs), prompts=prompts)
    drop = run["drop"].copy(deep=True)
    own = np.linspace(-spread, spread, prompts)[:, None]
    drop["loss"].values[:] = drop.baseline_loss.values[:, None] + np.array(costs) + own
    return replaced(run, "drop", drop)


def test_cheap_and_dear_blocks_are_named_with_intervals() -> None:
    found = answer(costing([2.5, 0.01, 0.02, 0.04, 0.3, 0.02, 1.0], spread=0.005))
    assert found.blocks == (1, 2, 3, 5)
    assert found.cheap.startswith("4 of 7 blocks cost least when left out: 1 to 3, 5; each alone adds at most 0.04")
    assert found.cheap.endswith("Costs of single blocks do not add up: leave them out together and measure.")
    assert found.dear.startswith("Dearest: block 0 (+2.5, +2.5 to +2.5 nats), 6 (+1), 4 (+0.3).")
    told = "bathyscope prune example/model-12 --calibration YOURS.jsonl --test OTHERS.jsonl --drop 4"
    assert found.act == told


def test_one_block_does_not_add_up_with_anything() -> None:
    found = answer(costing([2.5, 0.01, 0.3]))
    assert found.cheap.startswith("1 of 3 block costs least when left out: 1; it adds at most 0.01 nats to the loss")
    assert found.cheap.endswith("(upper end of the 95 % interval).")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            costing([2.5, 0.01, 0.3], spread=0.9),
            "The intervals are too wide to name a block that could go; the cheapest",
        ),
        (costing([2.5, 0.2, 0.3]), "No block can be left out for less than 0.05 nats; the cheapest is block 1 (+0.2"),
        (costing([2.5, 0.0, 0.3], prompts=1), "One prompt has no interval, so that no block is named as cheap"),
        (without(synthetic_run(3), "drop"), "Which blocks could go is not known: drop was not measured."),
    ],
)
def test_nothing_is_recommended_where_it_is_not_known(run: Run, said: str) -> None:
    found = answer(run)
    assert found.cheap.startswith(said)
    assert found.blocks == ()
    assert found.act.startswith("bathyscope survey ")


def test_a_run_without_lens_has_no_verdict() -> None:
    assert answer(without(costing([1.0, 0.0]), "lens")).headline.startswith("No verdict: it needs the lens and skip")


@pytest.mark.parametrize(
    ("name", "told"),
    [("example/model-12", "example/model-12"), ("bundled model", "MODEL"), ("a; rm b", "MODEL")],
)
def test_the_command_names_a_model_only_where_it_could_be_loaded(name: str, told: str) -> None:
    run = costing([2.5, 0.2, 0.3])
    named = replace(run, manifest={**run.manifest, "identity": {**run.manifest["identity"], "model": name}})
    assert answer(named).act.startswith(f"bathyscope survey {told} --prompts")


def test_a_folder_is_named_as_a_shell_takes_it(tmp_path: Path) -> None:
    folder = tmp_path / "my model"
    folder.mkdir()
    run = costing([2.5, 0.2, 0.3])
    named = replace(run, manifest={**run.manifest, "identity": {**run.manifest["identity"], "model": str(folder)}})
    assert answer(named).act.startswith(f"bathyscope survey '{folder}' --prompts")
