"""Choosing blocks of models with several streams: costs against one forward of the untouched model each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from support import naive, several, waves, zoo
from support.brute_force import blocks_of
from transformers import PreTrainedModel

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model import Model, load

QUICK = ("deepseek_v4",)
OTHER = ("gemma3n", "hy_v4", "inkling2", "qwen4_exp", "zaya")
NEEDED = {"gemma3n": (1,), "zaya": (0,), "hy_v4": (1,)}
"""Blocks that later ones need something of: keys and values, a router's state, chosen positions."""
DROPPED = 2
LENGTHS = (9, 7, 8)


def require_cheapest(name: str, model: Model, hf: PreTrainedModel) -> None:
    """Compare the costs of the choice and of all other subsets with one forward for each."""
    blocks = blocks_of(model, hf)
    calibration, test = zoo.prompts(hf, LENGTHS, 1), zoo.prompts(hf, LENGTHS, 2)

    def costs(prompts: Sequence[list[int]], dropped: Sequence[int]) -> np.ndarray:
        order = [block for block in range(len(blocks)) if block not in dropped]
        changed = [naive.run_schedule(hf, blocks, ids, order)[0] for ids in prompts]
        plain = [naive.logits(hf, ids) for ids in prompts]
        return np.array(
            [float((naive.loss(a, ids) - naive.loss(b, ids)).mean()) for a, b, ids in zip(changed, plain, prompts)]
        )

    plan = bathyscope.prune(model, calibration, test, drop=DROPPED, random=2, progress=False)
    free = [block for block in range(len(blocks)) if block not in NEEDED.get(name, ())]
    every = {pair: costs(calibration, pair).mean() for pair in combinations(free, DROPPED)}
    cheapest = min(every, key=lambda pair: every[pair])
    assert plan.left_out == ",".join(f"drop:{block}" for block in cheapest)
    table = plan.table.set_index("candidate")
    for candidate, subset in table["subset"].items():
        if isinstance(subset, str) and subset.startswith("drop:"):
            pair = tuple(int(word.removeprefix("drop:")) for word in subset.split(","))
            assert table["calibration_cost"][candidate] == pytest.approx(every[pair], abs=1e-5), candidate
            assert table["test_cost"][candidate] == pytest.approx(costs(test, pair).mean(), abs=1e-5), candidate
    np.testing.assert_allclose(plan.data["cost"].values[0], costs(test, cheapest), atol=1e-5)


@pytest.mark.parametrize("name", zoo.swept((*QUICK, *OTHER), frozenset(QUICK)))
def test_the_choice_is_the_cheapest_of_all_pairs(name: str) -> None:
    require_cheapest(name, waves.loaded(name), zoo.build(name))


@pytest.mark.thorough
@pytest.mark.parametrize("name", several.SEVERAL)
def test_the_choice_of_a_look_alike_is_the_cheapest_of_all_pairs(name: str) -> None:
    require_cheapest(name, load(several.SEVERAL[name]()), several.SEVERAL[name]())


@pytest.mark.parametrize("name", zoo.swept((*QUICK, "gemma3n", "hy_v4", "qwen4_exp", "zaya"), frozenset(QUICK)))
def test_an_exported_model_of_several_streams_runs_its_schedule(name: str, tmp_path: Path) -> None:
    model, hf = load(zoo.entry(name).build()), zoo.build(name)
    (ids,) = zoo.prompts(hf, (9,))
    bathyscope.export(model, "drop:3", tmp_path / "out")
    smaller = bathyscope.load(tmp_path / "out", dtype="float32").hf
    expected, _ = naive.run_schedule(hf, blocks_of(model, hf), ids, [0, 1, 2, 4])
    with torch.no_grad():
        logits = smaller(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_streams_that_the_own_forward_stores_are_not_exported(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        bathyscope.export(load(zoo.entry("inkling2").build()), "drop:4", tmp_path / "out")
    assert str(caught.value) == (
        "inkling2_text cannot be exported with this order of its blocks (drop:4): This model's own forward stores "
        "streams between its blocks, so they cannot change places in it. The measures drop, swap, repeat and pairs run "
        "it in other orders."
    )
    assert not (tmp_path / "out").exists()
