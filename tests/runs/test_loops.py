"""Results of looped models: addresses of steps, depths in loops, and how near a loop is to a fixed point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import looped, zoo
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

import bathyscope
from bathyscope.cli.main import main

PROMPTS = torch.randint(4, looped.VOCABULARY, (4, 14), generator=torch.Generator().manual_seed(0)).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a tied stack on the disk."""
    out = tmp_path_factory.mktemp("runs") / "tied"
    bathyscope.survey(
        looped.make(looped.Looped), PROMPTS, ["residual", "lens", "skip", "drop"], out=out, progress=False
    )
    return out


def test_steps_have_addresses_along_every_dimension_of_blocks(folder: Path) -> None:
    run = bathyscope.open(folder)
    assert run.identity.loops == [0, 1, 0, 1, 0, 1]
    drop, residual = run["drop"], run["residual"]
    assert drop.dropped_loop.values.tolist() == residual.loop.values.tolist() == [0, 0, 1, 1, 2, 2]
    assert drop.dropped_block_in_loop.values.tolist() == residual.block_in_loop.values.tolist() == [0, 1] * 3
    later = drop.loss.where((drop.dropped_loop == 2) & (drop.dropped_block_in_loop == 1), drop=True)
    assert later.dropped.values.tolist() == [5]
    assert {"dropped_loop", "dropped_block_in_loop"} <= set(run.to_dataframe("drop").columns)


@pytest.mark.usefixtures("blank_pictures")
def test_show_and_pages_name_loop_and_block(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = bathyscope.show(folder, "drop")
    assert table.loop.tolist()[:6] == [0, 0, 1, 1, 2, 2]
    assert table.block_in_loop.tolist()[:6] == [0, 1] * 3
    assert "loop" not in bathyscope.show(folder, "lens").dropna(axis=1)
    assert main(["show", str(folder), "--measure", "drop"]) == 0
    shown = capsys.readouterr().out
    assert "3 (loop 1, block 1)" in shown
    assert "(loop 1, block 1)" in shown.partition("KL of the intervened")[0]
    page = bathyscope.report([bathyscope.open(folder)], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "3 (loop 1, block 1)" in page
    assert "Blocks 0 to 5 are 3 loops of 2." in page


def test_the_verdict_counts_in_blocks_and_in_loops(folder: Path) -> None:
    verdict = bathyscope.open(folder).verdict
    expected = f"of 6 blocks ({verdict.half.value / 2:.1f} of 3 loops) on"
    assert expected in verdict.text


def test_blocks_that_share_weights_are_loops_too() -> None:
    run = bathyscope.survey(zoo.build("moeut"), PROMPTS, ["residual"], progress=False)
    assert run["residual"].loop.values.tolist() == [0, 0, 1, 1, 2, 2]
    assert "fixed_point" in run["residual"]


def test_models_without_loops_have_no_addresses() -> None:
    run = bathyscope.survey(zoo.build("llama"), PROMPTS, ["residual"], progress=False)
    assert run.cycle is None
    assert run.identity.loops is None
    assert not {"loop", "block_in_loop"} & set(run["residual"].coords)
    assert "fixed_point" not in run["residual"]


class Approach(nn.Module):
    """Goes a share of the way to a point that never changes."""

    def __init__(self, point: Tensor, share: float) -> None:
        super().__init__()
        self.point, self.share = nn.Parameter(point), share

    def forward(self, stream: Tensor) -> Tensor:
        return stream + self.share * (self.point - stream)


class Contraction(looped.Looped):
    """A loop of two blocks, of which each is linear and halves or quarters the way to one point."""

    def add_modules(self, config: Any) -> None:
        point = torch.randn(config.hidden_size, generator=torch.Generator().manual_seed(1))
        self.layers = nn.ModuleList([Approach(point, 0.5), Approach(point, 0.25)])

    def forward(self, input_ids: Tensor, use_cache: bool | None = None, **_: Any) -> CausalLMOutput:
        stream = self.embed(input_ids)
        for _ in range(self.config.loops):
            for layer in self.layers:
                stream = layer(stream)
        return CausalLMOutput(logits=self.read(stream))


def test_a_planted_contraction_has_the_residual_that_was_planted() -> None:
    hf = looped.make(Contraction, loops=5)
    residual = bathyscope.survey(hf, PROMPTS, ["residual"], progress=False)["residual"]
    with torch.no_grad():
        begin = hf.embed(torch.tensor(PROMPTS)).double()
        point = hf.layers[0].point.double()
    shares = [0.5, 0.25] * 5
    left = np.cumprod([1 - share for share in shares])  # of the way to the point, behind every step
    for step in range(2, 10):
        before = point + left[step - 2] * (begin - point)
        moved = (left[step - 2] - left[step]) * (begin - point)
        expected = (moved.norm(dim=-1) / before.norm(dim=-1)).mean(-1)
        np.testing.assert_allclose(residual.fixed_point.values[:, step], expected, rtol=1e-5)
    assert np.isnan(residual.fixed_point.values[:, :2]).all()
    # a loop leaves 0.5 × 0.75 of the way, which the moves of two loops behind one another recover
    streams = point + torch.tensor(left)[:, None, None, None] * (begin - point)
    moves = residual.fixed_point.values[:, 3::2] * streams[1:-2:2].norm(dim=-1).mean(-1).T.numpy()
    assert np.allclose(moves[:, 1:] / moves[:, :-1], 0.375, rtol=0.1)
