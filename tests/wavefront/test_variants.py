"""A slot may hold another module: against forwards of the model with that module in its list of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from support import zoo
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model import Model, load
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import History, Step, Tree, TreeRun, grafted
from bathyscope.wavefront.variants import SlotVariant

FAMILIES = (
    *("llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi", "phi3", "olmo2"),
    *("gpt2", "gpt_neox", "gptj", "opt", "bloom", "falcon", "mixtral", "cohere"),
)
N = zoo.entry("llama").build().config.num_hidden_layers


@contextmanager
def blocks_in_place(hf: nn.Module, blocks: Sequence[nn.Module], new: dict[int, nn.Module]) -> Iterator[None]:
    holder = next(m for m in hf.modules() if isinstance(m, nn.ModuleList) and len(m) and m[0] is blocks[0])
    before = {index: holder[index] for index in new}
    for index, module in new.items():
        holder[index] = module
    try:
        yield
    finally:
        for index, module in before.items():
            holder[index] = module


def logits_of_histories(model: Model, histories: Sequence[History], variants: dict[str, SlotVariant]) -> list[Tensor]:
    wave = Wavefront(model.anatomy, tails=False)
    batch = Batch.of(zoo.prompts(model.hf, (7, 7)))
    ends: dict[int, Tensor] = {}

    def land(numbers: Sequence[int], resid_BTD: Tensor) -> None:
        ends.update(dict.fromkeys(numbers, wave.reader.read(resid_BTD.flatten(0, 1)).clone()))

    run = TreeRun(wave, batch, variants)
    tree = Tree(histories)
    run.run(tree, land)
    assert run.calls == tree.calls
    return [ends[number] for number in range(len(histories))]


def patched_logits(model: Model, other: Model, blocks: Sequence[int]) -> Tensor:
    ids_BT = torch.tensor(zoo.prompts(model.hf, (7, 7)))
    new = {block: other.anatomy.blocks[block] for block in blocks}
    with blocks_in_place(model.hf, list(model.anatomy.blocks), new), torch.no_grad():
        logits: Tensor = model.hf(ids_BT, use_cache=False).logits
    return logits.flatten(0, 1)


@pytest.mark.parametrize("name", FAMILIES)
def test_grafts_are_forwards_with_the_other_block_in_place(name: str) -> None:
    build: Callable[..., Any] = zoo.build
    model, other = load(build(name, seed=0)), load(build(name, seed=1))
    chosen = [(), (0,), (2,), (N - 1,), (0, 1, 2)]
    logits = logits_of_histories(
        model, [grafted(N, blocks, "b") for blocks in chosen], {"b": SlotVariant.of_model(other.anatomy)}
    )
    for blocks, result in zip(chosen, logits):
        torch.testing.assert_close(result, patched_logits(model, other, blocks), rtol=1e-5, atol=1e-5)
    assert (logits[1] - logits[0]).abs().max() > 1e-3


class Scaling(nn.Module):
    """Stands in for a block, and takes whatever a block takes."""

    def forward(self, hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        return 0.5 * hidden_states


def test_a_map_stands_in_for_a_block() -> None:
    model = load(zoo.build("llama"))
    scaled = SlotVariant({2: Scaling()})
    (logits,) = logits_of_histories(model, [grafted(N, (2,), "map")], {"map": scaled})
    ids_BT = torch.tensor(zoo.prompts(model.hf, (7, 7)))
    with blocks_in_place(model.hf, list(model.anatomy.blocks), {2: Scaling()}), torch.no_grad():
        expected = model.hf(ids_BT, use_cache=False).logits.flatten(0, 1)
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


def test_a_variant_without_a_module_for_the_block_is_refused() -> None:
    model = load(zoo.build("llama"))
    with pytest.raises(ModelError, match="This variant has no module for block 1; give one"):
        logits_of_histories(model, [(Step(1, variant="map"),)], {"map": SlotVariant({2: Scaling()})})


def test_modes_of_variants_are_restored() -> None:
    model, other = load(zoo.build("llama")), load(zoo.build("llama", seed=1))
    other.hf.train()
    logits_of_histories(model, [grafted(N, (1,), "b")], {"b": SlotVariant.of_model(other.anatomy)})
    assert all(module.training for module in other.hf.modules())
    other.hf.eval()
