"""Choosing runs of a looped model's blocks: costs against one patched forward each, and addresses in the loops."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import looped as zoo
from support import naive

import bathyscope
from bathyscope.cli.main import main
from bathyscope.surgery.plan.opening import open_plan
from bathyscope.surgery.plan.plan import Plan

CALIBRATION = [[7, 5, 9, 33, 7, 21, 4, 4, 8], [5, 11, 2, 40, 8, 6, 3], [12, 3, 3, 9, 21, 30, 5, 17]]
TEST = [[9, 33, 8, 21, 5, 4, 14, 2], [6, 44, 7, 35, 3, 12, 12], [31, 5, 8, 2, 19, 23, 6, 40, 1]]
ADDRESSES = ["block 0", *(f"loop {loop}, block {block}" for loop in range(3) for block in range(2)), "block 3"]
"""Of a prelude, three loops of two blocks, and a coda."""


@pytest.fixture(scope="module")
def hf() -> Any:
    return zoo.make(zoo.StillHuginnLike)


@pytest.fixture(scope="module")
def folder(hf: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a plan that leaves out two of the eight runs."""
    out = tmp_path_factory.mktemp("plans") / "looped"
    bathyscope.prune(hf, CALIBRATION, TEST, drop=2, random=2, resamples=200, progress=False, out=str(out))
    return out


@pytest.fixture(scope="module")
def plan(folder: Path) -> Plan:
    return open_plan(folder)


def steps_of(plan: Plan) -> list[int]:
    return [int(unit.removeprefix("drop:")) for unit in plan.left_out.split(",")]


def test_the_choice_is_the_cheapest_pair_of_runs(hf: Any, plan: Plan) -> None:
    def costs(prompts: list[list[int]], steps: tuple[int, ...]) -> np.ndarray:
        losses = [
            [naive.loss(zoo.patched_logits(hf, torch.tensor([ids]), left_out)[0], ids).mean() for ids in prompts]
            for left_out in (steps, ())
        ]
        return np.subtract(*np.array(losses))

    by_pair = {pair: costs(CALIBRATION, pair).mean() for pair in combinations(range(8), 2)}
    cheapest = min(by_pair, key=lambda pair: by_pair[pair])
    assert tuple(steps_of(plan)) == cheapest
    np.testing.assert_allclose(plan.data["cost"].values[0], costs(TEST, cheapest), atol=1e-5)


def test_sentences_tables_and_records_name_loop_and_block(plan: Plan) -> None:
    assert plan.cycle is not None
    assert [plan.cycle.name(step) for step in range(8)] == ADDRESSES
    listed = "; ".join(f"drop:{step} is {ADDRESSES[step]}" for step in steps_of(plan))
    assert f"This model runs blocks several times, and costs are of single runs: {listed}." in plan.text
    again = plan.blocks_again
    assert again["unit"].tolist() == [f"drop:{step}" for step in range(8)]
    assert again["loop"].tolist() == [-1, 0, 0, 1, 1, 2, 2, -1]
    assert again["block_in_loop"].tolist() == [0, 0, 1, 0, 1, 0, 1, 3]
    record = plan.record()
    assert record["model"]["loops"] == [0, 1, 2, 1, 2, 1, 2, 3]
    assert [row["loop"] for row in record["blocks_again"]] == again["loop"].tolist()
    assert listed in record["conclusion"]


def test_terminal_and_page_name_loop_and_block(
    plan: Plan, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for step, address in enumerate(ADDRESSES):
        assert f"drop:{step} ({address})" in shown
    page = bathyscope.report([plan], tmp_path / "plan.html").read_text(encoding="utf-8")
    named = ", ".join(f"{step} ({ADDRESSES[step]})" for step in steps_of(plan))
    assert f"blocks {named}" in page
    for loop in range(3):
        assert f">loop {loop}<" in page
