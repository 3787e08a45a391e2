"""Panels that only looped models have: exits of a learned gate, and stages by place and by loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import looped
from support.artists import axes_titled, drawn_from

import bathyscope
from bathyscope.pages.figures.of import lens, stages

PROMPTS = torch.randint(4, looped.VOCABULARY, (4, 12), generator=torch.Generator().manual_seed(0)).tolist()


@pytest.fixture(scope="module")
def run() -> bathyscope.Run:
    hf = looped.make(looped.OuroLike)
    model = bathyscope.load(hf, family=replace(bathyscope.load(hf).anatomy.family, exit_gate="exit_gate"))
    return bathyscope.survey(model, PROMPTS, ["residual", "lens", "drop", "stages"], progress=False)


def test_exits_of_the_gate_and_of_confidence_are_drawn_over_their_depth(run: bathyscope.Run) -> None:
    figure = drawn_from(lens.FIGURE, run)
    ax, data = axes_titled(figure, "Exits with the final top-1 token"), run["lens"]
    lines = {line.get_label(): line for line in ax.get_lines()}
    for rule, label in (("gate", "learned gate"), ("confidence", "confidence of the lens")):
        for values, name in zip(lines[label].get_data(), ("exit_depth", "exit_agreement")):
            np.testing.assert_allclose(values, data[name].sel(exit_rule=rule).mean("prompt"))
    ended = axes_titled(figure, "Where the learned gate ends tokens").get_lines()[0]
    np.testing.assert_array_equal(ended.get_xdata(), [2, 4, 6])
    np.testing.assert_allclose(ended.get_ydata(), data.gate_exit.mean("prompt").isel(boundary=[2, 4, 6]))
    note = lens.FIGURE.drawing(run).note
    advantage = [float(data[f"gate_advantage{end}"]) for end in ("", "_low", "_high")]
    assert f"{advantage[0]:+.3f} ({advantage[1]:+.3f} to {advantage[2]:+.3f}); 0 = no better" in note


def test_stages_by_place_and_by_loop_stand_next_to_those_of_random_order(run: bathyscope.Run) -> None:
    ax, data = axes_titled(drawn_from(stages.FIGURE, run), "Do stages repeat in each loop?"), run["stages"]
    marks = [float(line.get_xdata()[0]) for line in ax.get_lines() if len(line.get_xdata()) == 1]
    names = ("by_place", "by_place_chance", "by_loop", "by_loop_chance")
    np.testing.assert_allclose(marks, [float(data[name]) for name in names])
    whiskers = [list(line.get_xdata()) for line in ax.get_lines() if len(line.get_xdata()) == 2]
    np.testing.assert_allclose(
        whiskers, [[float(data[f"{name}_{end}"]) for end in ("low", "high")] for name in ("by_place", "by_loop")]
    )
