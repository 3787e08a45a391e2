"""Direct effects: parity with one full forward per pair of blocks, exact properties, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, waves, zoo
from transformers import PreTrainedModel

from bathyscope.errors import OptionError
from bathyscope.measures.direct import Direct, DirectOptions

BRUTE_FORCE = ("test_parity_with_one_forward_per_pair_of_blocks",)
"""What test_looped_parity.py asks of looped models too."""

CLOSE = 1e-5
LENGTHS = (12, 8)
RAGGED = ("llama", "gpt_neox", "olmo2", "gemma2", "granite", "bloom", "falcon", "gemma4", "mixtral", "opt")
"""Families of which both prompts are compared; of the others the longer one, in the same ragged batch."""
NAMES = list(dict.fromkeys([*RAGGED, *zoo.names(plain=True)[::2], "gemma3", "universal", "moeut", "gpt2_sink"]))
PAIRS = ((0, 1), (0, 4), (2, 3))
"""Blocks left out and looked at."""


def positions(ids: list[int]) -> list[int]:
    return [2, len(ids) - 1]


def measured(name: str, ids: list[list[int]], tails: bool | None = None) -> xr.Dataset:
    model = waves.loaded(name)
    batches = [[one] for one in ids] if model.anatomy.equal_lengths else [ids]
    found = [
        waves.run(model, batch, {"direct": {"positions": [positions(one) for one in batch]}}, tails=tails)["direct"]
        for batch in batches
    ]
    return xr.concat(found, dim="prompt")


@pytest.mark.parametrize("name", zoo.swept(NAMES, zoo.FEWER))
def test_parity_with_one_forward_per_pair_of_blocks(name: str) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    everyone = zoo.prompts(model, LENGTHS)
    found = measured(name, everyone)
    for prompt, ids in enumerate(everyone if name in RAGGED else everyone[:1]):
        stream = naive.boundaries(model, blocks, ids)
        for s, block in PAIRS:
            cell = found.isel(prompt=prompt, skipped=s, block=block)
            everywhere = effect(model, stream, ids, s, block, range(1, len(ids)))
            later = torch.cat([effect(model, stream, ids, s, block, range(1, t))[t:] for t in positions(ids)])
            for reach, values in (("all", everywhere), ("future", later)):
                wanted = np.array([values.mean(), np.quantile(values, 0.95), values.max()])
                assert np.abs(cell[f"effect_{reach}"].values - wanted).max() <= CLOSE * max(1, wanted.max())


def effect(
    model: PreTrainedModel, stream: torch.Tensor, ids: list[int], s: int, block: int, rows: range
) -> torch.Tensor:
    """Per token the relative change of what ``block`` adds, block ``s`` left out of its input at ``rows``."""
    plain = stream[block + 1] - stream[block]
    changed = naive.direct(model, naive.blocks_of(model), stream, ids, s, block, rows)
    return (changed - plain).norm(dim=-1) / plain.norm(dim=-1).clamp_min(1e-6)


@pytest.mark.parametrize("name", ["llama", "gpt2", "falcon", "qwen3_moe", "gemma4"])
def test_no_block_has_a_direct_effect_on_itself_or_earlier_ones(name: str) -> None:
    found = measured(name, zoo.prompts(zoo.build(name), LENGTHS))
    rows, columns = np.tril_indices(5)
    for reach in ("all", "future"):
        values = found[f"effect_{reach}"].values
        assert (values[..., rows, columns] == 0).all()
    assert (found.effect_all.sel(reduction="max").values[..., *np.triu_indices(5, 1)] > 0).all()


def test_the_next_block_sees_a_direct_effect_that_is_its_skip_effect() -> None:
    """Only block s lies between h_s and h_{s+1}: without c_s, block s+1 sees h_s in both."""
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    options = {"positions": [positions(one) for one in ids]}
    found = waves.run(waves.loaded("llama"), ids, {"direct": options, "skip": options})
    for reach in ("all", "future"):
        direct = np.diagonal(found["direct"][f"effect_{reach}"].values, offset=1, axis1=-2, axis2=-1)
        skip = found["skip"][f"effect_{reach}"].sel(part="block").values
        np.testing.assert_allclose(direct, np.diagonal(skip, offset=1, axis1=-2, axis2=-1), atol=2e-5)


@pytest.mark.parametrize("name", ["qwen2", "bloom", "gemma4"])
def test_tails_and_full_rows_agree(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    tails, full = (measured(name, ids, tails=use) for use in (True, False))
    for reach in ("all", "future"):
        np.testing.assert_allclose(tails[f"effect_{reach}"].values, full[f"effect_{reach}"].values, atol=5e-6)


def test_a_prompt_without_positions_has_no_future_effects() -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    found = waves.run(waves.loaded("llama"), ids, {"direct": {"positions": [[], [4]]}})["direct"]
    assert np.isnan(found.effect_future.values[0]).all()
    assert np.isfinite(found.effect_future.values[1]).all()
    assert found.positions.values.tolist() == [[-1], [4]]


def test_options_are_checked() -> None:
    known = waves.facts(waves.loaded("llama"))
    with pytest.raises(
        OptionError, match=r"direct: position 14 of prompt 1 is out of range; this prompt has 14 tokens"
    ):
        Direct(DirectOptions(positions=((3,), (14,)))).prepare(known, waves.of_lengths(9, 14), seed=0)
    with pytest.raises(OptionError, match=r"direct: protect_first=10 is out of range; allowed: 0 to 9"):
        Direct(DirectOptions(protect_first=10)).prepare(known, waves.of_lengths(9, 14), seed=0)
    with pytest.warns(UserWarning, match=r"direct: 1 of 2 prompts are too short for a sampled position"):
        Direct(DirectOptions()).prepare(known, waves.of_lengths(9, 20), seed=0)
