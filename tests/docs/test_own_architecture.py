"""The page for models of one's own: its code and its commands run, in the order in which they need each other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import bathyscope
from bathyscope.cli.main import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own_architecture.md"


def blocks_of(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the page's code defines; its first block stands at the head of the page and needs all others."""
    _, *definitions = blocks_of("python")
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    for block in definitions:
        exec(block, names)
    return names


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_page_ends_with_a_run_that_is_shown(
    names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(blocks_of("python")[0], dict(names))
    (commands,) = blocks_of("bash")
    assert main(shlex.split(commands)[1:]) == 0
    assert "6 blocks" in " ".join(capsys.readouterr().out.split())


def test_the_adapter_is_as_the_page_says(names: dict[str, Any]) -> None:
    """All parameters are those of the plain module, and each run of a block can be left out alone."""
    mine, model = names["mine"], names["model"]
    assert f"print(model)  # {bathyscope.load(names['Adapted'](mine))!r}\n" in PAGE.read_text(encoding="utf-8")
    assert {id(one) for one in names["Adapted"](mine).parameters()} == {id(one) for one in mine.parameters()}
    ids = [5, 8, 1, 9, 2, 7]
    drops = bathyscope.survey(model, [ids], ["drop"], progress=False)["drop"]
    h = mine.embed(torch.tensor([ids]))
    for run in [0, 1, 0, 0, 1]:  # run 3, the second block in its second run, is left out
        h = mine.blocks[run](h)
    changed = mine.unembed(mine.norm(h)).log_softmax(-1)
    base = mine(torch.tensor([ids])).log_softmax(-1)
    expected = (base.exp() * (base - changed)).sum(-1)[0, :-1].mean().item()
    assert float(drops.kl[0, 3]) == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_a_plain_module_is_sent_to_the_page(names: dict[str, Any]) -> None:
    with pytest.raises(bathyscope.ModelError) as caught:
        bathyscope.load(names["mine"])
    assert str(caught.value) == (
        f"MyModel has no config. Wrap it in a PreTrainedModel that takes input_ids and gives logits: docs/{PAGE.name}."
    )


class Mixing(nn.Module):
    """A block on two streams, which mixes them and adds what the plain block makes of their mean."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block, self.mixing = block, nn.Parameter(torch.eye(2) + 0.1 * torch.randn(2, 2))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        mean = h.mean(2)
        return torch.einsum("btsd,sr->btrd", h, self.mixing) + (self.block(mean) - mean)[:, :, None]


class Folded(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.block(h.unflatten(-1, (2, -1))).flatten(-2)


class Readout(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.norm(h.unflatten(-1, (2, -1)).sum(-2))


def test_several_streams_are_folded_as_the_page_says(names: dict[str, Any]) -> None:
    """Block 1 left out, against the blocks on an axis of streams."""
    torch.manual_seed(0)
    mine = names["MyModel"](loops=1, blocks=3).eval()
    blocks = [Mixing(block) for block in mine.blocks]
    ids = torch.tensor([[5, 8, 1, 9, 2, 7]])

    def log_probabilities(order: list[int]) -> torch.Tensor:
        h = mine.embed(ids)[:, :, None].repeat(1, 1, 2, 1)
        for number in order:
            h = blocks[number](h)
        return mine.unembed(mine.norm(h.sum(2))).log_softmax(-1)

    class Streams(names["Adapted"]):  # type: ignore[misc]
        def forward(self, input_ids: torch.Tensor, use_cache: bool | None = None, **_: Any) -> Any:
            h = self.embed(input_ids).repeat(1, 1, 2)
            for run in self.blocks:
                h = run(h)
            return names["CausalLMOutput"](logits=self.unembed(self.norm(h)))

    adapted = Streams(mine)
    adapted.blocks = nn.ModuleList(Folded(block) for block in blocks)
    adapted.norm = Readout(mine.norm)
    base, changed = log_probabilities([0, 1, 2]), log_probabilities([0, 2])
    torch.testing.assert_close(adapted(input_ids=ids).logits.log_softmax(-1), base)
    drops = bathyscope.survey(bathyscope.load(adapted), ids.tolist(), ["drop"], progress=False)["drop"]
    expected = (base.exp() * (base - changed)).sum(-1)[0, :-1].mean().item()
    assert float(drops.kl[0, 1]) == pytest.approx(expected, rel=1e-4, abs=1e-7)
