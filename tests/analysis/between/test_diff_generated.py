"""One change in a parameter of nine families is named where it is, which the families' own states say."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from support import zoo
from torch import Tensor, nn

import bathyscope

FAMILIES = ("llama", "gpt2", "qwen2", "mixtral", "gemma2", "phi3", "gpt_neox", "olmo2", "mamba2")
PROMPTS = np.random.default_rng(1).integers(4, 110, size=(40, 9)).tolist()
USED = {"wpe": 6}
"""Rows of tables that the prompts ask for; of others, a token of the second prompt."""


def states(hf: Any, ids: Sequence[int]) -> list[Tensor]:
    """The stream in front of block 0 and behind each block, then the predictions, of the model's own forward."""
    blocks = next(
        module
        for module in hf.modules()
        if isinstance(module, nn.ModuleList) and len(module) == hf.config.num_hidden_layers
    )
    caught: list[Tensor] = []

    def before(_: nn.Module, args: Any, named: Any) -> None:
        caught.append((args[0] if args else named["hidden_states"]).double())

    def behind(_: nn.Module, __: Any, output: Any) -> None:
        caught.append((output[0] if isinstance(output, tuple) else output).double())

    hooks = [blocks[0].register_forward_pre_hook(before, with_kwargs=True)]
    hooks += [block.register_forward_hook(behind) for block in blocks]
    with torch.no_grad():
        logits = hf(torch.tensor([ids]), use_cache=False).logits.double()
    for hook in hooks:
        hook.remove()
    return [*caught, logits.log_softmax(-1)]


def first_other(one: Any, other: Any, prompts: Sequence[Sequence[int]]) -> tuple[int | None, float, float]:
    """The first boundary at which a stream differs at all, the largest distance of streams, and of predictions (KL)."""
    firsts, streams, outputs = [], [0.0], [0.0]
    for ids in prompts:
        *mine, log_p = states(one, ids)
        *theirs, log_q = states(other, ids)
        apart = [float(((x - y).norm(dim=-1) / x.norm(dim=-1)).mean()) for x, y in zip(mine, theirs)]
        firsts += [place for place, distance in enumerate(apart) if distance > 0][:1]
        streams.append(max(apart))
        outputs.append(float((log_p.exp() * (log_p - log_q)).sum(-1).mean()))
    return min(firsts, default=None), max(streams), max(outputs)


def changes(family: str) -> Iterator[tuple[str, str]]:
    """A parameter of each kind, in a block that is drawn for it, and whether a row of it changes or the whole."""
    groups: dict[str, list[str]] = {}
    for name, _ in zoo.build(family).named_parameters():
        groups.setdefault(re.sub(r"\.\d+\.", ".*.", name), []).append(name)
    draw = np.random.default_rng(len(family))
    for names in groups.values():
        for kind in ("row", "whole"):
            yield names[int(draw.integers(len(names)))], kind


def changed(hf: Any, name: str, kind: str) -> Any:
    other = copy.deepcopy(hf)
    weight = other.get_parameter(name).data
    if kind == "whole":
        noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(3))
        weight.add_(0.05 * weight.norm() / weight.numel() ** 0.5 * noise)
        return other
    row = PROMPTS[1][4] if place_of(name) == "embedding" else len(weight) // 2
    row = next((used for table, used in USED.items() if table in name), row)
    weight[row] = 1.3 * weight[row] if weight[row].any() else weight[row] + 0.1
    return other


def place_of(name: str) -> int | str:
    block = re.search(r"\.(?:layers|h)\.(\d+)\.", name)
    if block:
        return int(block[1])
    return "embedding" if re.search("embed|wte|wpe", name) else "readout"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_place_is_where_the_models_own_states_part(family: str) -> None:
    every = list(changes(family))
    for name, kind in every[:: max(len(every) // 4, 1)]:
        require_named(family, name, kind, 2)


@pytest.mark.thorough
@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_is_named_by_few_prompts_and_by_many(family: str, count: int) -> None:
    for name, kind in changes(family):
        require_named(family, name, kind, count)


def require_named(family: str, name: str, kind: str, count: int) -> None:
    hf = zoo.build(family)
    other = changed(hf, name, kind)
    result = bathyscope.diff(hf, other, PROMPTS[:count], resamples=20)
    boundary, streams, output = first_other(hf, other, PROMPTS[:count])
    place, where = place_of(name), (name, kind, result.text)
    named = result.attrs["weights_differ"]
    blocks = [entry for entry in named if entry.startswith("block ")]
    assert named, where
    if isinstance(place, int):
        assert [entry.partition(",")[0] for entry in named] == [f"block {place}"], where
        assert f"block {place}" in result.text, where
    else:
        assert not blocks, where
    if result.first is None and "not distinguishable from rounding" in result.text:
        assert streams < result["noise_floor"].values.max(), where
        assert output < result["output_floor"].values.max(), where
    elif boundary is None:
        assert result.first is None, where
        assert "do not part beyond rounding" in result.text, where
        assert "their predictions differ by" in result.text, where
    elif boundary == 0:
        assert result.first == 0, where
        assert "The streams part before block 0, in the embedding" in result.text, where
    else:
        assert result.first == boundary - 1 == place, where
        assert f"The streams part at block {place};" in result.text, where
