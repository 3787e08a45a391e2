"""Exact properties of skip effects, and the options' errors; values are compared in test_parity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support import naive, waves, zoo
from support.rounding import rounding

from bathyscope.errors import OptionError
from bathyscope.measures.skip import Skip
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.probe import FinalStates
from bathyscope.wavefront.reader import Reader

LENGTHS = (14, 9, 17)
POSITIONS = [[1, 6, 13], [4], [16, 2]]
NAMES = ["llama", "gpt2", "falcon", "gemma3", "gemma4", "qwen3_moe", "lfm2"]


@pytest.mark.parametrize("name", NAMES)
def test_blocks_before_the_skipped_one_do_not_change(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    found = waves.run(waves.loaded(name), ids, {"skip": {"positions": POSITIONS}})["skip"]
    earlier = np.tril_indices(5, -1)
    assert (found.effect_all.values[..., earlier[0], earlier[1]] == 0).all()
    not_later = np.tril_indices(5)
    assert (found.effect_future.values[..., not_later[0], not_later[1]] == 0).all()
    later = np.triu_indices(5, 1)
    assert (found.effect_all.values[..., later[0], later[1]] > 0).all()
    assert (found.effect_future.values[..., later[0], later[1]] > 0).all() or name == "gemma4"


def test_blocks_that_attend_to_borrowed_keys_see_no_earlier_change() -> None:
    """Gemma 4: blocks 3 and 4 attend to block 1, so a skip of block 2 or 3 never reaches later tokens."""
    ids = zoo.prompts(zoo.build("gemma4"), LENGTHS)
    found = waves.run(waves.loaded("gemma4"), ids, {"skip": {"positions": POSITIONS}})["skip"]
    assert float(found.effect_future.sel(skipped=[2, 3]).max()) < 1e-5
    assert float(found.output_future.sel(skipped=[2, 3]).max()) < 1e-6
    assert float(found.effect_all.sel(skipped=2, block=[3, 4]).min()) > 1e-2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("protect_first", [0, 1, 3])
def test_the_skipped_block_loses_its_whole_contribution(name: str, protect_first: int) -> None:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    options = {"positions": POSITIONS, "protect_first": protect_first}
    own = waves.run(waves.loaded(name), ids, {"skip": options})["skip"].effect_all.sel(part="block")
    diagonal = np.diagonal(own.values, axis1=-2, axis2=-1)
    tokens = np.array(LENGTHS)
    assert (diagonal[:, 2] == 1).all()
    np.testing.assert_allclose(diagonal[:, 0], np.repeat((1 - protect_first / tokens)[:, None], 5, axis=1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("protect_first", [0, 3])
def test_first_tokens_may_be_protected_or_not(name: str, protect_first: int) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    ids = zoo.prompts(model, LENGTHS)
    options = {"positions": [[7], [7], [7]], "protect_first": protect_first}
    found = waves.run(waves.loaded(name), ids, {"skip": options})["skip"].sel(part="block", reduction="max")
    for prompt, own in enumerate(ids):
        base, base_logits = naive.boundaries(model, blocks, own), naive.logits(model, own)
        for s in range(5):
            stream, logits = naive.skip_all(model, blocks, own, s, protect_first=protect_first)
            expected = naive.effects(base, stream).amax(-1).numpy()
            np.testing.assert_allclose(found.effect_all[prompt, s], expected, rtol=1e-5, atol=1e-5)
            changed = naive.output_change(base_logits, logits).max().item()
            assert float(found.output_all[prompt, s]) == pytest.approx(changed, abs=1e-5)
            stream, logits = naive.skip_future(model, blocks, own, s, 7, protect_first=protect_first)
            expected = naive.effects(base, stream)[:, 7:].amax(-1).numpy()
            np.testing.assert_allclose(found.effect_future[prompt, s], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "bloom"])
def test_skipping_nothing_changes_nothing(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), (12,))
    options = {"positions": [[1, 7, 11]], "protect_first": 12}
    found, left = waves.run(waves.loaded(name), ids, {"skip": options})["skip"], rounding(zoo.build(name), (12,))
    for variable in ("effect_all", "effect_future", "output_all", "output_future"):
        assert (found[variable].values <= left).all(), variable


def test_the_output_change_is_bounded() -> None:
    """Probabilities can move by √2 at most, which a model sure of itself comes near to."""
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        hf.lm_head.weight.mul_(100)
    model = waves.load(hf)
    found = waves.run(model, zoo.prompts(hf, LENGTHS), {"skip": {"positions": POSITIONS}})["skip"]
    for variable in ("output_all", "output_future"):
        assert float(found[variable].max()) <= np.sqrt(2)
        assert float(found[variable].max()) > 1.2


@pytest.mark.parametrize("name", ["llama", "lfm2"])
def test_prompts_too_short_for_a_position_are_left_out(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), (12, 17, 13))
    with pytest.warns(UserWarning, match=r"skip: 1 of 3 prompts are too short .* \(shorter than 13 tokens\)"):
        found = waves.run(waves.loaded(name), ids, {"skip": None})["skip"]
    assert found.positions.values.tolist() == [[-1], [8], [8]]
    for variable in ("effect_future", "output_future"):
        assert found[variable][0].isnull().all()
        assert found[variable][1:].notnull().all()
    assert found.effect_all.notnull().all()
    assert found.output_all.notnull().all()


def test_no_position_at_all() -> None:
    ids = zoo.prompts(zoo.build("llama"), (5, 12))
    with pytest.warns(UserWarning, match="skip: 2 of 2 prompts are too short"):
        found = waves.run(waves.loaded("llama"), ids, {"skip": None})["skip"]
    assert found.sizes["sample"] == 0
    assert found.effect_future.isnull().all()
    assert found.effect_all.notnull().all()


def test_an_empty_list_of_positions_is_no_future_effect() -> None:
    ids = zoo.prompts(zoo.build("llama"), (9, 9))
    found = waves.run(waves.loaded("llama"), ids, {"skip": {"positions": [[], [3, 5]]}})["skip"]
    assert found.positions.values.tolist() == [[-1, -1], [3, 5]]
    assert found.effect_future[0].isnull().all()
    assert found.effect_future[1].notnull().all()


def test_a_position_counts_once_and_order_does_not_matter() -> None:
    ids = zoo.prompts(zoo.build("llama"), (14,))
    one, twice = (
        waves.run(waves.loaded("llama"), ids, {"skip": {"positions": [given]}})["skip"] for given in ([3, 9], [9, 3, 9])
    )
    np.testing.assert_allclose(one.effect_future, twice.effect_future, rtol=1e-12)
    np.testing.assert_allclose(one.output_future, twice.output_future, rtol=1e-12)


def test_a_last_position_measures_the_last_token_alone() -> None:
    model = zoo.build("llama")
    (ids,) = zoo.prompts(model, (10,))
    found = waves.run(waves.loaded("llama"), [ids], {"skip": {"positions": [[9]]}})["skip"]
    mean, p95, largest = (found.effect_future.sel(reduction=r) for r in ("mean", "p95", "max"))
    np.testing.assert_array_equal(mean, p95)
    np.testing.assert_array_equal(mean, largest)


def test_the_noise_of_the_output_is_the_worst_tokens() -> None:
    """The control's predictions against the plain forward's; the norm and the head are the model's own."""
    model = waves.loaded("llama")
    batch = Batch.of(zoo.prompts(model.hf, (9, 6)))
    measure = Skip({"positions": ((), ())})
    measure.prepare(waves.facts(model), waves.of_lengths(9, 6), seed=0)
    probe = measure.probe(waves.facts(model), batch, (0, 1))
    control = torch.randn(2, 9, model.anatomy.width, generator=torch.Generator().manual_seed(0))
    plain = control.clone()
    plain[0, 2] += 0.01 * control[1, 2]
    plain[0, 7] += 0.1 * control[1, 7]
    plain[1, 6] += control[0, 6]  # beyond the second prompt's end
    reader, rows = Reader.of(model.anatomy), dict.fromkeys(probe.requests, control)
    probe.finish(FinalStates(batch, reader, plain, control, rows, []))
    with torch.no_grad():
        y = [model.hf.lm_head(model.hf.model.norm(h)).double().softmax(-1) for h in (plain, control)]
    apart = (y[0] - y[1]).norm(dim=-1)
    assert apart[0, 7] > 5 * apart[0].mean()
    assert probe.noise() == pytest.approx([float(apart[0, 7]), 0.0], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": ("blok",)}, "skip: parts='blok' is unknown. Did you mean 'block'? Allowed: block"),
        ({"parts": ()}, "skip: parts=[] is not allowed; give at least one, each once; allowed: block, attention, mlp."),
        ({"protect_first": -1}, "skip: protect_first=-1 is out of range; allowed: 0 or more."),
        ({"protect_first": 10}, "skip: protect_first=10 is out of range; allowed: 0 to 9."),
        ({"positions": ((9,), (9,))}, "position 9 of prompt 0 is out of range; this prompt has 9 tokens"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Skip(options).prepare(waves.facts(waves.loaded("llama")), waves.of_lengths(9, 14), seed=0)
    assert message in str(caught.value)


def test_positions_before_which_everything_is_protected_are_a_warning() -> None:
    ids = zoo.prompts(zoo.build("llama"), (12, 12))
    options = {"skip": {"positions": [[3, 5], [6, 9]], "protect_first": 5}}
    words = r"2 of 4 positions lie within the first 6 tokens, .*protect_first=5 leaves nothing out; their effects are 0"
    with pytest.warns(UserWarning, match=words):
        found = waves.run(waves.loaded("llama"), ids, options)["skip"]
    assert (found.effect_future[0] == 0).all()
    assert found.effect_future[1].max() > 0
