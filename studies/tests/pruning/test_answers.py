"""Likelihood and answers of every single drop: answers are those of one forward at a time, and ranks are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from support import naive

from bathyscope import OptionError, load, solved
from studies.pruning.answers import exact_answers, judged, problems
from studies.pruning.answers_command import draw, said
from studies.pruning.experiment import PERMUTATIONS

CHECKPOINT = Path(__file__).parents[3] / "checkpoints" / "permutations_8"


def test_every_drop_is_judged_by_its_loss_and_by_what_it_writes() -> None:
    model = load(str(CHECKPOINT), dtype="float32")
    asked = problems(model, PERMUTATIONS, 24, seed=3)
    assert len({prompt.ids for prompt in asked}) == 24
    found = judged(model, asked, resamples=100)
    table = found.table.set_index("dropped")
    assert table["exact"]["full"] == solved(model, asked, progress=False)["solved"].mean()
    blocks = naive.blocks_of(model.hf)
    right, cost = [], []
    for prompt in asked:
        answer = prompt.answer_tokens or 0
        ids = list(prompt.ids)
        wanted = torch.tensor(ids[-answer:])
        changed, _ = naive.run_schedule(model.hf, blocks, ids, list(range(1, 8)))
        losses = [naive.loss(logits, ids)[-answer:].mean() for logits in (changed, naive.logits(model.hf, ids))]
        right.append(bool((changed[-answer - 1 : -1].argmax(-1) == wanted).all()))
        cost.append(float(losses[0] - losses[1]))
    assert exact_answers(model, asked, "drop:0").tolist() == right
    assert table["exact"]["0"] == np.mean(right) < table["exact"]["full"]
    assert table["lost"]["0"] == pytest.approx(table["exact"]["full"] - np.mean(right))
    assert table["cost"]["0"] == pytest.approx(np.mean(cost), abs=1e-5)
    drops = table.drop(index="full")
    assert found.agreement[0] == pytest.approx(spearmanr(drops["cost"], drops["lost"]).statistic)
    assert found.agreement[1] <= found.agreement[0] <= found.agreement[2]
    assert "over 8 drops" in said(found)
    assert len(draw(found).subfigs) == 1
    with pytest.raises(OptionError, match="problems=99999: only"):
        problems(model, "task:permutations:50?factors=1-8&beyond=9-9&elements=generators&answer=image", 99999, 0)
