"""Skipping attention or MLP alone: on all plain families with separable parts against one full forward per skip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, waves, zoo
from transformers import PreTrainedModel

from bathyscope.errors import ModelError, OptionError
from bathyscope.measures.skip import Skip, SkipOptions

BRUTE_FORCE_OF_PARTS = ("test_parity_with_one_forward_per_skip",)
"""What test_looped_parity.py asks of looped models too."""

CLOSE = 1e-5
LENGTHS = (13, 8)
PARTS = ("mlp", "attention")
WITH_PARTS = [entry.name for entry in zoo.entries(plain=True) if entry.parts]
WITHOUT_PARTS = [entry.name for entry in zoo.entries() if not entry.parts]


RAGGED = ("llama", "gpt_neox", "olmo2", "gemma2", "granite", "bloom", "falcon", "gemma4", "mixtral", "opt")
"""Families of which both prompts are compared; of the others the longer one, in the same ragged batch."""


def positions(ids: list[int]) -> list[int]:
    return [len(ids) // 2, len(ids) - 1]


def measured(name: str, ids: list[list[int]]) -> xr.Dataset:
    model = waves.loaded(name)
    batches = [[one] for one in ids] if model.anatomy.equal_lengths else [ids]
    found = [
        waves.run(model, batch, {"skip": {"parts": PARTS, "positions": [positions(one) for one in batch]}})["skip"]
        for batch in batches
    ]
    return xr.concat(found, dim="prompt")


@pytest.mark.parametrize("name", zoo.swept(WITH_PARTS, zoo.FEWER))
def test_parity_with_one_forward_per_skip(name: str) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    everyone = zoo.prompts(model, LENGTHS)
    found = measured(name, everyone).sel(reduction="max")
    for prompt, ids in enumerate(everyone if name in RAGGED else everyone[:1]):
        if "dynamic" in name:
            naive.logits(model, ids[:4])  # the tables stay as long as the longest forward made them
        base, base_logits = naive.boundaries(model, blocks, ids), naive.logits(model, ids)
        for part in PARTS:
            got = found.sel(part=part).isel(prompt=prompt)
            for s in (0, len(blocks) // 2, len(blocks) - 1):
                stream, logits = naive.skip_all(model, blocks, ids, s, part)
                assert_near(got.effect_all[s], naive.effects(base, stream).amax(-1))
                assert_near(got.output_all[s], naive.output_change(base_logits, logits).max())
                later = [(t, naive.skip_future(model, blocks, ids, s, t, part)) for t in positions(ids)]
                assert_near(
                    got.effect_future[s],
                    torch.cat([naive.effects(base, stream)[:, t:] for t, (stream, _) in later], -1).amax(-1),
                )
                changes = [naive.output_change(base_logits, logits)[t:] for t, (_, logits) in later]
                assert_near(got.output_future[s], torch.cat(changes).max())


def assert_near(got: xr.DataArray, expected: torch.Tensor) -> None:
    wanted = expected.double().numpy()
    assert got.shape == wanted.shape
    assert (np.abs(got.values - wanted) / np.maximum(1, np.abs(wanted))).max() <= CLOSE


@pytest.mark.parametrize("name", RAGGED)
def test_earlier_blocks_and_later_tokens_of_the_same_block_do_not_change(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    found = measured(name, ids)
    earlier, not_later = np.tril_indices(5, -1), np.tril_indices(5)
    assert (found.effect_all.values[..., earlier[0], earlier[1]] == 0).all()
    assert (found.effect_future.values[..., not_later[0], not_later[1]] == 0).all()
    own = np.diagonal(found.effect_all.values, axis1=-2, axis2=-1)
    assert (own > 0).all()


def test_both_parts_of_a_parallel_block_make_up_the_block() -> None:
    """In a parallel block either part alone leaves the other: ‖a‖, ‖m‖ over ‖a + m‖ at the block itself."""
    model = zoo.build("gpt_neox")
    ids = zoo.prompts(model, (11,))
    own = np.diagonal(measured("gpt_neox", ids).effect_all.sel(reduction="max").values[0], axis1=-2, axis2=-1)
    parts = naive.contributions(model, naive.blocks_of(model), ids[0])
    a, m = parts["attention"][:, 1:].double(), parts["mlp"][:, 1:].double()
    whole = (a + m).norm(dim=-1)
    np.testing.assert_allclose(own[0], (m.norm(dim=-1) / whole).amax(-1), rtol=1e-5)
    np.testing.assert_allclose(own[1], (a.norm(dim=-1) / whole).amax(-1), rtol=1e-5)


def test_tails_and_full_rows_agree() -> None:
    ids = zoo.prompts(zoo.build("qwen2"), LENGTHS)
    options = {"skip": {"parts": PARTS, "positions": [positions(one) for one in ids]}}
    model = waves.loaded("qwen2")
    tails, full = (waves.run(model, ids, options, tails=use)["skip"] for use in (True, False))
    for name in ("effect_all", "effect_future", "output_all", "output_future"):
        np.testing.assert_allclose(tails[name].values, full[name].values, atol=2e-6)


@pytest.mark.parametrize("name", WITHOUT_PARTS[:3])
def test_models_without_separable_parts_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"skip of attention or mlp needs attention and MLP contributions"):
        Skip(SkipOptions(parts=("mlp",))).prepare(waves.facts(waves.loaded(name)), waves.of_lengths(9), seed=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"parts": ("mpl",)}, r"parts='mpl' is unknown\. Did you mean 'mlp'\? Allowed: block, attention, mlp"),
        ({"parts": ()}, r"parts=\[\] is not allowed; give at least one, each once; allowed: block, attention, mlp"),
        (
            {"parts": ("mlp", "mlp")},
            r"parts=\['mlp', 'mlp'\] is not allowed; give at least one, each once; allowed: block, attention, mlp",
        ),
        ({"axis": "token"}, r"axis='token' is unknown.*Allowed: tokens, channels"),
        ({"axis": "channels", "parts": ("mlp",)}, r"slip in the skipping of whole blocks; give parts=block"),
    ],
)
def test_options_are_checked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Skip(options).prepare(waves.facts(waves.loaded("llama")), waves.of_lengths(9, 14), seed=0)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "mixtral"])
def test_the_published_slip_skips_channels(name: str) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    everyone = zoo.prompts(model, LENGTHS)
    options = {"axis": "channels", "positions": [[7, 5], [4]]}
    found = waves.run(waves.loaded(name), everyone, {"skip": options})["skip"].sel(part="block", reduction="max")
    for prompt, ids in enumerate(everyone):
        base, base_logits = naive.boundaries(model, blocks, ids), naive.logits(model, ids)
        for s in range(len(blocks)):
            effects, changes = [], []
            for t in options["positions"][prompt]:
                stream, logits = without_channels(model, ids, s, range(1, t))
                effects.append(naive.effects(base, stream)[:, t:])
                changes.append(naive.output_change(base_logits, logits)[t:])
            cell = found.isel(prompt=prompt)
            assert_near(cell.effect_future[s], torch.cat(effects, -1).amax(-1))
            assert_near(cell.output_future[s], torch.cat(changes).max())


def without_channels(model: PreTrainedModel, ids: list[int], s: int, channels: range) -> tuple[torch.Tensor, ...]:
    """Stream [L+1, T, d] and logits [T, V] where block ``s`` changes nothing in some channels of any token."""
    blocks = naive.blocks_of(model)

    def hook(module: torch.nn.Module, args: tuple[torch.Tensor, ...], output: object) -> object:
        state = (output if isinstance(output, torch.Tensor) else output[0]).clone()  # type: ignore[index]
        state[..., list(channels)] = args[0][..., list(channels)]
        return state if isinstance(output, torch.Tensor) else (state, *output[1:])  # type: ignore[index]

    handle = blocks[s].register_forward_hook(hook)
    try:
        return naive.boundaries(model, blocks, ids), naive.logits(model, ids)
    finally:
        handle.remove()
