"""Learned exit gates of looped models against the own forward's gate, and against leaving where the lens is sure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import looped
from torch import Tensor

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.measures.loop_exits import gate_advantage
from bathyscope.measures.of.lens import EXIT_THRESHOLDS
from bathyscope.prompts.parts import COPY_OF

PROMPTS = [
    torch.randint(4, looped.VOCABULARY, (length,), generator=torch.Generator().manual_seed(length)).tolist()
    for length in (14, 9, 11, 12)
]


def gated(hf: Any, path: str = "exit_gate") -> bathyscope.Model:
    """A look-alike of Ouro whose family names its gate."""
    return bathyscope.load(hf, family=replace(bathyscope.load(hf).anatomy.family, exit_gate=path))


@torch.no_grad()
def own_forward(hf: Any, ids: list[int]) -> tuple[Tensor, Tensor]:
    """What the gate says after each loop [loops, T], and the logits of each loop's stream [loops, T, V]."""
    streams: list[Tensor] = []
    hook = hf.exit_gate.register_forward_hook(lambda _module, args, _out: streams.append(args[0][0].clone()))
    hf(input_ids=torch.tensor([ids]))
    hook.remove()
    gates = torch.stack([hf.exit_gate(stream)[:, 0].double().sigmoid() for stream in streams])
    return gates, torch.stack([hf.lm_head(hf.norm(stream)) for stream in streams])


@pytest.fixture(scope="module")
def model() -> bathyscope.Model:
    return gated(looped.make(looped.OuroLike))


@pytest.fixture(scope="module")
def run(model: bathyscope.Model) -> bathyscope.Run:
    return bathyscope.survey(model, PROMPTS, ["lens"], progress=False)


def test_tokens_leave_where_the_own_gate_or_the_own_readout_says(model: bathyscope.Model, run: bathyscope.Run) -> None:
    lens = run["lens"]
    assert lens.exit_rule.values.tolist() == ["gate", "confidence"]
    for prompt, ids in enumerate(PROMPTS):
        gates, logits = own_forward(model.hf, ids)
        final, p = logits[-1].argmax(-1), logits.double().softmax(-1).amax(-1)
        ends = [2, 4, 6]
        expected_exit = torch.stack([gates[0], (1 - gates[0]) * gates[1], (1 - gates[0]) * (1 - gates[1])]).mean(-1)
        np.testing.assert_allclose(lens.gate_exit.values[prompt, ends], expected_exit, atol=1e-6)
        assert np.isnan(np.delete(lens.gate_exit.values[prompt], ends)).all()
        scores = {"gate": torch.stack([gates[0], 1 - (1 - gates[0]) * (1 - gates[1])]), "confidence": p[:2]}
        for rule, score in scores.items():
            for threshold in EXIT_THRESHOLDS:
                loops = [next((r for r in (0, 1) if score[r, t] >= threshold), 2) for t in range(len(ids))]
                right = [float(logits[r, t].argmax() == final[t]) for t, r in enumerate(loops)]
                at = lens.sel(exit_rule=rule, threshold=threshold).isel(prompt=prompt)
                assert float(at.exit_depth) == pytest.approx(np.mean([ends[r] for r in loops]))
                assert float(at.exit_agreement) == pytest.approx(np.mean(right))
    assert len(np.unique(lens.exit_depth)) > 4


def test_the_advantage_is_the_gap_that_was_put_there() -> None:
    """It is 0 for equal curves, and 0.1 where the gate is right 0.1 more often at every depth."""
    draw = np.random.default_rng(0)
    depth = np.sort(draw.uniform(2, 6, (40, 1, len(EXIT_THRESHOLDS))), axis=-1)
    depth[..., 0], depth[..., -1] = 2, 6
    depth = np.repeat(depth, 2, axis=1)
    agreement = depth / 6
    better = agreement.copy()
    better[:, 0] += 0.1
    for values, gap in ((agreement, 0.0), (better, 0.1)):
        dims = ("prompt", "exit_rule", "threshold")
        dataset = xr.Dataset({"exit_depth": (dims, depth), "exit_agreement": (dims, values)})
        advantage = gate_advantage(dataset, 0)
        assert advantage["gate_advantage"] == pytest.approx(gap, abs=1e-9)
        assert advantage["gate_advantage_low"] <= gap + 1e-9
        assert advantage["gate_advantage_high"] >= gap - 1e-9


def test_the_advantage_has_an_interval(run: bathyscope.Run) -> None:
    lens = run["lens"]
    assert lens.gate_advantage_low <= lens.gate_advantage <= lens.gate_advantage_high
    assert lens.gate_advantage_low < lens.gate_advantage_high


def test_copies_leave_the_interval_of_the_advantage_as_it_is() -> None:
    """And copies of one prompt have none."""
    draw = np.random.default_rng(1)
    dims = ("prompt", "exit_rule", "threshold")
    depth = np.sort(draw.uniform(2, 6, (5, 2, len(EXIT_THRESHOLDS))), axis=-1)
    values = {"exit_depth": (dims, depth), "exit_agreement": (dims, draw.uniform(0, 1, depth.shape))}
    once = xr.Dataset(values)
    expected = gate_advantage(once, 0)
    number = np.tile(np.arange(5), 4)
    copied = once.isel(prompt=number).assign_coords({COPY_OF: ("prompt", number)})
    for name, value in gate_advantage(copied, 0).items():
        assert value == pytest.approx(expected[name], rel=1e-9), name
    alone = gate_advantage(copied.isel(prompt=number == 2), 0)
    assert alone["gate_advantage"] == pytest.approx(gate_advantage(once.isel(prompt=[2, 2]), 0)["gate_advantage"])
    assert np.isnan([alone["gate_advantage_low"], alone["gate_advantage_high"]]).all()


def test_models_without_a_declared_gate_have_no_exits() -> None:
    lens = bathyscope.survey(looped.make(looped.OuroLike), PROMPTS, ["lens"], progress=False)["lens"]
    assert not {"gate_exit", "exit_depth", "gate_advantage"} & set(lens.variables)


def test_a_gate_that_is_none_is_refused() -> None:
    hf = looped.make(looped.OuroLike)
    hf.spare = torch.nn.Linear(looped.WIDTH, 1)
    with pytest.raises(ModelError, match=r"has no module 'gate'\. Name its exit gate"):
        bathyscope.survey(gated(hf, "gate"), PROMPTS, ["lens"], progress=False)
    with pytest.raises(ModelError, match=r"its exit gate norm gives .* A gate gives one number for each token"):
        bathyscope.survey(gated(hf, "norm"), PROMPTS, ["lens"], progress=False)
    with pytest.raises(ModelError, match="its exit gate spare is read at 0 boundaries, and two are needed"):
        bathyscope.survey(gated(hf, "spare"), PROMPTS, ["lens"], progress=False)
