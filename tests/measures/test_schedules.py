"""Drop, swap and repeat: against models that were really rebuilt, and the options' errors."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
import torch
from support import naive, waves, zoo
from torch import nn
from transformers import PreTrainedModel

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.measures.of.drop import Drop, DropOptions
from bathyscope.measures.of.repeat import Repeat, RepeatOptions
from bathyscope.measures.of.swap import Swap, SwapOptions

LENGTHS = (14, 9, 17)
EDITABLE = ["llama", "gpt2", "gpt_neox", "mpt", "olmo2", "mixtral", "granite"]
"""Families whose blocks all get the same arguments, so that editing the list of blocks is exact."""
TOKEN_METRICS = ("kl", "top1_agreement", "entropy", "loss")


def rebuilt(name: str, order: Sequence[int]) -> PreTrainedModel:
    """A model whose list of blocks was edited."""
    model = zoo.entry(name).build()
    parent, attribute = naive.family_of(model).blocks.rsplit(".", 1)
    blocks = naive.blocks_of(model)
    setattr(attrgetter(parent)(model), attribute, nn.ModuleList(blocks[index] for index in order))
    model.config.num_hidden_layers = len(order)
    return model


def statistics(base: torch.Tensor, changed: torch.Tensor, ids: Sequence[int]) -> list[float]:
    return [
        naive.kl(base, changed)[:-1].mean().item(),
        naive.agreement(base, changed)[:-1].mean().item(),
        naive.entropy_bits(changed)[:-1].mean().item(),
        naive.loss(changed, ids).mean().item(),
    ]


@pytest.mark.parametrize("name", EDITABLE)
@pytest.mark.parametrize(
    ("measure", "index", "order"),
    [
        ("drop", 0, [1, 2, 3, 4]),
        ("drop", 3, [0, 1, 2, 4]),
        ("swap", 2, [0, 1, 3, 2, 4]),
        ("repeat", 1, [0, 1, 1, 1, 2, 2, 2, 3, 4]),
    ],
)
def test_equals_a_model_built_that_way(name: str, measure: str, index: int, order: list[int]) -> None:
    options = {"repeat": {"length": 2, "times": 2}}.get(measure)
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    found = waves.run(waves.loaded(name), ids, {measure: options})[measure]
    other = rebuilt(name, order)
    for prompt, own in enumerate(ids):
        expected = statistics(naive.logits(zoo.build(name), own), naive.logits(other, own), own)
        got = [float(found[metric][prompt, index]) for metric in TOKEN_METRICS]
        assert got == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "cohere2"])
@pytest.mark.parametrize(("measure", "index", "order"), [("drop", 1, [0, 2, 3, 4]), ("swap", 2, [0, 1, 3, 2, 4])])
def test_windows_and_rotary_tables_follow_the_block(name: str, measure: str, index: int, order: list[int]) -> None:
    """As in a model whose list of window types is permuted along with its blocks, and not as in one left as it is."""
    (ids,) = zoo.prompts(zoo.build(name), (20,))
    found = waves.run(waves.loaded(name), [ids], {measure: None})[measure]
    got = [float(found[metric].isel(prompt=0, **{found[metric].dims[1]: index})) for metric in TOKEN_METRICS]
    by_slot, by_block = rebuilt(name, order), rebuilt(name, order)
    by_block.config.layer_types = [by_block.config.layer_types[block] for block in order]
    expected, other = (
        statistics(naive.logits(zoo.build(name), ids), naive.logits(hf, ids), ids) for hf in (by_block, by_slot)
    )
    assert got == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert got != pytest.approx(other, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("protect_first", [1, 4])
def test_drop_may_protect_first_tokens(protect_first: int) -> None:
    model = zoo.build("llama")
    blocks, ids = naive.blocks_of(model), zoo.prompts(model, LENGTHS)
    found = waves.run(waves.loaded("llama"), ids, {"drop": {"protect_first": protect_first}})["drop"]
    for prompt, own in enumerate(ids):
        for s in range(5):
            _, changed = naive.skip_all(model, blocks, own, s, protect_first=protect_first)
            expected = statistics(naive.logits(model, own), changed, own)
            got = [float(found[metric][prompt, s]) for metric in TOKEN_METRICS]
            assert got == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("measure", ["drop", "swap"])
def test_protecting_every_token_changes_nothing(measure: str) -> None:
    ids = zoo.prompts(zoo.build("llama"), (12,))
    found = waves.run(waves.loaded("llama"), ids, {measure: {"protect_first": 12}})[measure]
    assert (found.kl.values == 0).all()
    assert (found.top1_agreement.values == 1).all()
    np.testing.assert_array_equal(
        found.entropy, np.repeat(found.baseline_entropy.values[:, None], found.kl.shape[1], 1)
    )
    np.testing.assert_array_equal(found.loss, np.repeat(found.baseline_loss.values[:, None], found.kl.shape[1], 1))


@pytest.mark.parametrize(
    ("measure", "index", "order"),
    [("drop", 3, [0, 1, 2, 4]), ("swap", 2, [0, 1, 3, 2, 4]), ("repeat", 1, [0, 1, 1, 2, 2, 3, 4])],
)
def test_published_positions(measure: str, index: int, order: list[int]) -> None:
    """KL, agreement and entropy without the first position and with the last one; the loss as ever."""
    options = {"positions": "published", **({"length": 2} if measure == "repeat" else {})}
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    found = waves.run(waves.loaded("llama"), ids, {measure: options})[measure]
    other = rebuilt("llama", order)
    for prompt, own in enumerate(ids):
        base, changed = naive.logits(zoo.build("llama"), own), naive.logits(other, own)
        expected = [
            naive.kl(base, changed)[1:].mean().item(),
            naive.agreement(base, changed)[1:].mean().item(),
            naive.entropy_bits(changed)[1:].mean().item(),
            naive.loss(changed, own).mean().item(),
        ]
        got = [float(found[metric][prompt, index]) for metric in TOKEN_METRICS]
        assert got == pytest.approx(expected, rel=1e-5, abs=1e-5)
        assert float(found.baseline_entropy[prompt]) == pytest.approx(naive.entropy_bits(base)[1:].mean().item())
        assert float(found.baseline_loss[prompt]) == pytest.approx(naive.loss(base, own).mean().item())
        assert found.n_averaged[prompt] == naive.loss(base, own).numel()


def test_only_the_asked_blocks() -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    model = waves.loaded("llama")
    every = waves.run(model, ids, {"drop": None, "swap": None})
    some = waves.run(model, ids, {"drop": {"blocks": [4, 1]}, "swap": {"blocks": [3]}})
    assert some["drop"]["dropped"].values.tolist() == [4, 1]
    assert some["swap"]["swapped"].values.tolist() == [3]
    np.testing.assert_allclose(some["drop"].kl, every["drop"].kl.sel(dropped=[4, 1]), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(some["swap"].loss, every["swap"].loss.sel(swapped=[3]), rtol=1e-5)


def test_a_block_that_lends_its_keys_and_values_cannot_be_dropped() -> None:
    """Gemma 4: blocks 3 and 4 attend to what block 1 keeps."""
    known = waves.facts(waves.loaded("gemma4"))
    assert known.checks.sources == (frozenset(), frozenset(), frozenset(), {1}, {1})
    ids = zoo.prompts(zoo.build("gemma4"), LENGTHS)
    with pytest.warns(UserWarning, match=r"drop:1 cannot run: .* block 3 takes the keys and values of block 1"):
        found = waves.run(waves.loaded("gemma4"), ids, {"drop": None})["drop"]
    assert found["dropped"].values.tolist() == [0, 2, 3, 4]
    with pytest.raises(ModelError, match="Leave 1 out of drop's blocks"):
        Drop(DropOptions(blocks=(0, 1))).prepare(known, waves.of_lengths(9), seed=0)
    Drop(DropOptions(blocks=(0, 3))).prepare(known, waves.of_lengths(9), seed=0)
    assert waves.loaded("gemma4_plain").checks.sources == ()


def test_a_block_may_not_run_before_the_one_it_takes_from() -> None:
    checks = waves.loaded("gemma4").checks
    assert checks.lacking([0, 1, 2, 3, 4]) == ""
    for order, block in (([0, 2, 3, 1, 4], 3), ([4], 4)):
        assert checks.lacking(order) == (
            f"block {block} takes the keys and values of block 1, which would not have run before it"
        )
    assert waves.loaded("llama").checks.lacking([4, 3]) == ""


@pytest.mark.parametrize(
    ("measure", "options", "message"),
    [
        (Drop, {"blocks": (5,)}, "drop: block 5 is out of range; allowed: 0 to 4."),
        (Drop, {"blocks": (-1,)}, "drop: block -1 is out of range; allowed: 0 to 4."),
        (Drop, {"blocks": (1, 1)}, "drop: blocks=[1, 1] is not allowed; give at least one, each once."),
        (Drop, {"blocks": ()}, "drop: blocks=[] is not allowed; give at least one, each once."),
        (Drop, {"protect_first": 10}, "drop: protect_first=10 is out of range; allowed: 0 to 9."),
        (Swap, {"blocks": (4,)}, "swap: block 4 is out of range; allowed: 0 to 3."),
        (Swap, {"protect_first": -1}, "swap: protect_first=-1 is out of range"),
        (Repeat, {"length": 6}, "repeat: length=6 does not fit a model of 5 blocks; allowed: 1 to 5."),
        (Repeat, {"length": 0}, "repeat: length=0 is out of range; allowed: 1 or more."),
        (
            Drop,
            {"positions": "publisched"},
            "drop: positions='publisched' is unknown. Did you mean 'published'? Allowed: next, published.",
        ),
        (Swap, {"positions": "all"}, "swap: positions='all' is unknown."),
        (Repeat, {"positions": ""}, "repeat: positions='' is unknown."),
        (Repeat, {"times": 0}, "repeat: times=0 is out of range; allowed: 1 to 100."),
        (Repeat, {"times": 101}, "repeat: times=101 is out of range; allowed: 1 to 100."),
        (Repeat, {"times": 100000}, "repeat: times=100000 is out of range; allowed: 1 to 100."),
    ],
)
def test_errors(measure: type[Drop | Swap | Repeat], options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        measure(options).prepare(waves.facts(waves.loaded("llama")), waves.of_lengths(9, 14), seed=0)
    assert message in str(caught.value)


def test_of_all_measures_those_that_do_not_fit_a_shallow_model_are_left_out(
    recwarn: pytest.WarningsRecorder,
) -> None:
    known, prompts = waves.facts(waves.loaded("llama")), waves.of_lengths(9)
    assert Repeat(RepeatOptions()).unavailable(known, prompts) is None
    assert Swap(SwapOptions()).unavailable(known, prompts) is None
    reason = Repeat(RepeatOptions(length=6)).unavailable(known, prompts)
    assert reason == "its window of 6 blocks is longer than the model, which has 5"
    one_block = rebuilt("llama", [0])
    run = bathyscope.survey(one_block, zoo.prompts(one_block, (9,)), "all", progress=False)
    said = [str(one.message) for one in recwarn]
    assert "repeat is left out: its window of 5 blocks is longer than the model, which has 1." in said
    assert "swap is left out: this model has one block only." in said
    assert not {"repeat", "swap", "swap_cosine"} & set(run.measures)
    assert run["drop"].sizes["dropped"] == 1
