"""Choosing what can go by a random sample of tokens: against single tokens of the real model, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support import naive, waves, zoo

import bathyscope
from bathyscope import OptionError, StoreError
from bathyscope.measures.token_samples import draw_sample
from bathyscope.surgery.plan.plan import Plan
from bathyscope.wavefront.engine import Wavefront

LENGTHS = (24, 18, 21, 20)
CALIBRATION, TEST = (zoo.prompts(zoo.build("llama"), LENGTHS, seed) for seed in (1, 2))


def pruned(**options: object) -> Plan:
    given = {"drop": 1, "random": 2, "resamples": 100, "progress": False, **options}
    return bathyscope.prune(waves.loaded("llama"), CALIBRATION, TEST, **given)  # type: ignore[arg-type]


def test_costs_are_means_over_the_sampled_tokens() -> None:
    plan = pruned(read_tokens=6)
    hf = zoo.build("llama")
    blocks = naive.blocks_of(hf)
    (dropped,) = set(range(len(blocks))) - set(plan.schedule)
    costs = []
    for number, ids in enumerate(TEST):
        order = [block for block in range(len(blocks)) if block != dropped]
        changed, _ = naive.run_schedule(hf, blocks, ids, order)
        added = naive.loss(changed, ids) - naive.loss(naive.logits(hf, ids), ids)
        sample = draw_sample(range(len(ids) - 1), range(0), 6, (0, number, 0))
        costs.append(sample.mean(torch.as_tensor(added)[None][:, list(sample.places)]).item())
    np.testing.assert_allclose(plan.data["cost"].values[0], costs, atol=1e-5)


def test_a_sample_of_every_token_chooses_as_all_tokens_do() -> None:
    with pytest.warns(UserWarning, match=r"prune \(calibration\): read_tokens=30 is no less than the length of 4 of 4"):
        sampled = pruned(read_tokens=30)
    exact = pruned()
    assert sampled.schedule == exact.schedule
    np.testing.assert_allclose(sampled.data["cost"], exact.data["cost"], atol=1e-6)


def test_what_cannot_be_sampled_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned(out=tmp_path / "plan")
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    with pytest.raises(StoreError, match="read_tokens"):
        pruned(read_tokens=6, out=tmp_path / "plan")
    with pytest.raises(OptionError, match=r"read_tokens=1 is out of range; allowed: 2 or more"):
        pruned(read_tokens=1)
    with pytest.raises(
        OptionError, match=r"read_tokens=6 and over='answer' do not go together, since the tokens of the an"
    ):
        pruned(read_tokens=6, over="answer")
