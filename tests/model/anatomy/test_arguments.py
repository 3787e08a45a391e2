"""Reading the axes of a block's arguments, and fitting them to other rows and tokens."""

from __future__ import annotations

from collections import UserDict
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.arguments import Axes, default_axes, fit_rows, infer_axes, rebuild, same_for_all, walk

B, T, WIDER, LONGER = SIZES = (2, 5, 3, 7)


def axes_of(shape: str, heads: int = 4) -> Axes:
    """Axes of an argument whose shape is written with B (batch), T (tokens), H (heads · batch) and numbers."""

    def made(batch: int, tokens: int) -> Tensor:
        known = {"B": batch, "T": tokens, "H": heads * batch, "2T": 2 * tokens, "T+1": tokens + 1}
        return torch.zeros([known[part] if part in known else int(part) for part in shape.split()])

    return infer_axes(made(B, T), made(WIDER, T), made(B, LONGER), SIZES)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("1 1 T T", Axes(batch=False, query=2)),
        ("B 1 T T", Axes(batch=True, query=2)),
        ("1 T", Axes(batch=False, query=1)),
        ("B T", Axes(batch=True, query=1)),
        ("T", Axes(batch=False, query=0)),
        ("1 T 16", Axes(batch=False, query=1)),
        ("B T 16", Axes(batch=True, query=1)),
        ("B T 1 16", Axes(batch=True, query=1)),
        ("T 16", Axes(batch=False, query=0)),
        ("H 1 T", Axes(batch=True, multiplier=4, query=None)),
        ("4 1 T", Axes(batch=False, query=None)),
        ("1 4 1 T", Axes(batch=False, query=None)),
        ("4 1 64", Axes(batch=False, query=None)),
        ("B 16", Axes(batch=True, query=None)),
        ("64", Axes(batch=False, query=None)),
        ("T B 16", Axes(batch=True, query=0, batch_axis=1)),
        ("T+1 B 16", Axes(batch=True, query=None, batch_axis=1)),
        ("B 4 T 2T", Axes(batch=True, query=2)),
    ],
)
def test_axes(shape: str, expected: Axes) -> None:
    assert axes_of(shape) == expected


@pytest.mark.parametrize("shape", ["3 H T", "B B", "1 H"])
def test_an_unreadable_batch_axis(shape: str) -> None:
    with pytest.raises(ModelError, match=r"A block argument of shape \(.*\) has no readable batch axis"):
        axes_of(shape)


def test_unreadable_token_axes() -> None:
    with pytest.raises(ModelError, match=r"of shape \(2, 25\) has no readable token axis"):
        infer_axes(torch.zeros(2, T * T), torch.zeros(3, T * T), torch.zeros(2, LONGER * LONGER), SIZES)
    with pytest.raises(ModelError, match="has no readable token axis"):
        axes_of("T T T")


def test_masks_that_appear_only_in_longer_recordings() -> None:
    assert default_axes(torch.zeros(1, 1, 9, 9), batch=3, tokens=9) == Axes(batch=False, query=2)
    assert default_axes(torch.zeros(3, 1, 9, 9), batch=3, tokens=9) == Axes(batch=True, query=2)
    assert default_axes(torch.zeros(2, 1, 9, 9), batch=3, tokens=9) is None
    assert default_axes(torch.zeros(1, 1, 9, 8), batch=3, tokens=9) is None
    assert default_axes(torch.zeros(9, 9), batch=3, tokens=9) is None


class Pair(NamedTuple):
    first: Tensor
    second: object


def test_walk_and_rebuild_reach_every_tensor_and_keep_every_type() -> None:
    value = {
        "tables": (torch.tensor([1.0]), [torch.tensor([2.0]), "text"]),
        "pair": Pair(torch.tensor([3.0]), None),
        "passed": UserDict({"key": torch.tensor([4.0])}),
        "number": 5,
    }
    paths = {path: tensor.item() for path, tensor in walk(value)}
    assert paths == {
        ("tables", 0): 1,
        ("tables", 1, 0): 2,
        ("pair", 0): 3,
        ("passed", "key"): 4,
    }
    seen: list[tuple[str | int, ...]] = []

    def negate(path: tuple[str | int, ...], tensor: Tensor) -> Tensor:
        seen.append(path)
        return -tensor

    changed = rebuild(value, negate)
    assert seen == list(paths)
    assert {path: tensor.item() for path, tensor in walk(changed)} == {p: -v for p, v in paths.items()}
    assert isinstance(changed["tables"], tuple)
    assert isinstance(changed["tables"][1], list)
    assert isinstance(changed["pair"], Pair)
    assert isinstance(changed["passed"], UserDict)
    assert (changed["tables"][1][1], changed["number"]) == ("text", 5)


def fitted(value: Tensor, axes: Axes, prompts: list[int], start: int = 0, batch: int = 3) -> Tensor:
    own = replace(axes, shared=same_for_all(value, axes, batch))
    return fit_rows(value, own, torch.tensor(prompts), len(prompts), start)


def test_rows_get_the_values_of_their_prompt() -> None:
    ids = torch.arange(12).view(3, 4)
    got = fitted(ids, Axes(batch=True, query=1), [2, 0, 2, 1])
    assert got.tolist() == ids[[2, 0, 2, 1]].tolist()
    assert fitted(ids, Axes(batch=True, query=1), [1, 2], start=3).tolist() == [[7], [11]]


def test_heads_of_a_prompt_stay_together() -> None:
    alibi = torch.arange(6.0)[:, None, None] * torch.ones(6, 1, 5)
    axes = Axes(batch=True, multiplier=2, query=None)
    assert fitted(alibi, axes, [2, 0])[:, 0, 0].tolist() == [4, 5, 0, 1]
    same = torch.tensor([7.0, 8.0]).repeat(3)[:, None, None] * torch.ones(6, 1, 5)
    assert same_for_all(same, axes, 3)
    assert fitted(same, axes, [2, 0, 1, 1])[:, 0, 0].tolist() == [7, 8] * 4


def test_rows_of_a_second_axis_get_the_values_of_their_prompt() -> None:
    table = torch.arange(12).reshape(3, 2, 2)
    axes = Axes(batch=True, query=None, batch_axis=1)
    assert fit_rows(table, axes, torch.tensor([1, 0, 1]), 3, 1).equal(table[:, [1, 0, 1]])
    assert not same_for_all(table, axes, 2)
    alike = table[:, :1].expand(3, 2, 2)
    assert same_for_all(alike, axes, 2)
    shared = fit_rows(alike, replace(axes, shared=True), torch.tensor([1, 0, 1]), 3, 0)
    assert shared.equal(table[:, [0, 0, 0]])


def test_a_tail_asks_with_its_own_tokens_and_keeps_all_keys() -> None:
    mask = torch.arange(25.0).view(1, 1, 5, 5)
    got = fitted(mask, Axes(batch=False, query=2), [0, 1], start=3)
    assert got.tolist() == mask[:, :, 3:].tolist()
    keys = torch.arange(5.0).view(1, 1, 5)
    assert fitted(keys, Axes(batch=False, query=None), [0, 1], start=3).tolist() == keys.tolist()


def test_a_single_prompt_serves_all_rows() -> None:
    ids = torch.arange(4).view(1, 4)
    got = fit_rows(ids, Axes(batch=True, query=1, shared=True), None, rows=3, start=1)
    assert got.tolist() == [[1, 2, 3]] * 3


def test_what_is_the_same_for_all_prompts() -> None:
    batch = Axes(batch=True)
    assert same_for_all(torch.ones(3, 2), batch, 3)
    assert not same_for_all(torch.tensor([[1.0], [1.0], [2.0]]), batch, 3)
    assert same_for_all(torch.tensor([[1.0], [2.0]]), Axes(batch=False), 3)
    assert same_for_all(torch.tensor([[1.0]]), batch, 1)
