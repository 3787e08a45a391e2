"""Contributions read while a block runs, from modules made for the purpose."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.family import Family, Site
from bathyscope.model.anatomy.sites import site_modules, sites_of, submodule, tapped

H = torch.arange(6.0).view(1, 2, 3)


class Doubling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


class Adding(nn.Module):
    """Returns its input added to a residual it is given, in a tuple."""

    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, None]:
        return residual + 3 * x, None


class Block(nn.Module):
    """Calls its parts in turn; overwrites a part's output afterwards, as Falcon does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.added = Doubling(), Doubling(), Adding()
        self.half, self.calls = 0.5, 1

    def forward(self, h: Tensor) -> Tensor:
        out = torch.zeros_like(h)
        for _ in range(self.calls):
            out = self.first(h)
        out += self.second(10 * h).view_as(out)
        return out + self.added(h, residual=100 * h)[0]


def taken(sites: dict[str, Site], block: Block | None = None) -> dict[str, Tensor]:
    block = block or Block()
    with tapped(block, sites) as found:
        block(H)
    return found


def test_an_output_is_copied_before_it_is_overwritten() -> None:
    assert torch.equal(taken({"attention": Site("first")})["attention"], 2 * H)


def test_a_residual_argument_is_subtracted() -> None:
    assert torch.equal(taken({"mlp": Site("added", minus="residual")})["mlp"], 3 * H)


def test_a_scale_multiplies() -> None:
    assert torch.equal(taken({"mlp": Site("second", scale="half")})["mlp"], 10 * H)
    both = taken({"mlp": Site("added", minus="residual", scale="half")})["mlp"]
    assert torch.equal(both, 1.5 * H)


def test_further_sites_are_summed_each_with_its_own_scale() -> None:
    site = Site("first", also=(Site("second", scale="half", also=(Site("added", minus="residual"),)), Site("absent")))
    assert torch.equal(taken({"mlp": site})["mlp"], (2 + 10 + 3) * H)


def test_the_first_path_that_exists_is_read() -> None:
    assert torch.equal(taken({"mlp": Site(("absent", "second", "first"))})["mlp"], 20 * H)
    assert taken({"mlp": Site(("absent", "missing"))}) == {}


def test_a_site_that_runs_twice_is_refused() -> None:
    block = Block()
    block.calls = 2
    with pytest.raises(ModelError, match="The attention site first ran twice in one block"):
        taken({"attention": Site("first")}, block)


def test_hooks_go_away_even_after_an_error() -> None:
    block = Block()
    block.calls = 2
    with pytest.raises(ModelError):
        taken({"attention": Site("first"), "mlp": Site("second")}, block)
    assert not any(module._forward_hooks for module in block.modules())
    taken({"mlp": Site("second")}, block)
    assert not any(module._forward_hooks for module in block.modules())


def test_flat_and_shaped_sites_are_summed_in_the_first_ones_shape() -> None:
    block = Block()
    block.second.register_forward_hook(lambda _m, _a, out: out.flatten(0, 1))
    assert torch.equal(taken({"mlp": Site("first", also=(Site("second"),))}, block)["mlp"], 22 * H)


def test_submodules_by_path() -> None:
    root = nn.ModuleDict({"a": nn.ModuleDict({"b": nn.Linear(1, 1)})})
    assert submodule(root, "a.b") is root["a"]["b"]
    assert submodule(root, "a.c") is None
    assert submodule(root, "a.b.weight") is None
    assert [site.path for _, site in site_modules(root, Site("a", also=(Site("a.b"), Site("x"))))] == ["a", "a.b"]


def test_sites_by_part() -> None:
    attention, mlp, other = Site("attn"), Site("mlp"), Site("embedding")
    family = Family("f", ("f",), attention=attention, mlp=mlp, others=(other,), parts_when=("pre_norm", True))
    assert sites_of(family, SimpleNamespace(pre_norm=True)) == {"attention": attention, "mlp": mlp, "other0": other}
    assert sites_of(family, SimpleNamespace(pre_norm=False)) == {}
    assert set(sites_of(family, SimpleNamespace())) == {"attention", "mlp", "other0"}
    assert sites_of(Family("f", ("f",), attention=None), SimpleNamespace()) == {}
