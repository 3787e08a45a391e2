"""Removals with a mean in their place, and their direct effects: against hooks on the model's own forward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from measures.test_schedules import TOKEN_METRICS, statistics
from support import naive, waves, zoo
from support.planted_blocks import backed_up
from support.side_by_side import rewriting
from torch import Tensor, nn

import bathyscope
from bathyscope.errors import ModelError, PromptError
from bathyscope.measures.of.drop import Drop, DropOptions
from bathyscope.prompts.prompt import TokenizedPrompt

FAMILIES = (
    *("llama", "gpt2", "falcon", "gemma2", "granite", "bloom", "lfm2", "mamba", "openai-gpt", "olmo2", "mixtral"),
)
LENGTHS = (12, 9, 14)


def batch_of(name: str, lengths: Sequence[int] = LENGTHS) -> list[list[int]]:
    """Prompts, of one length where a family takes no others together."""
    equal = waves.loaded(name).anatomy.equal_lengths
    return zoo.prompts(zoo.build(name), [lengths[0]] * len(lengths) if equal else lengths)


def means_of_others(name: str, ids: Sequence[Sequence[int]], own: int, first: int) -> Tensor:
    """The mean contribution of each block over the tokens of the prompts that do not read as prompt ``own``, [L, D]."""
    model = zoo.build(name)
    others = {tuple(prompt) for prompt in ids} - {tuple(ids[own])}
    streams = [naive.boundaries(model, naive.blocks_of(model), prompt)[:, first:] for prompt in sorted(others)]
    return torch.cat([stream.diff(dim=0) for stream in streams], dim=1).mean(1)


@pytest.mark.parametrize("name", zoo.swept(FAMILIES, zoo.FEWER | {"olmo2"}))
def test_a_mean_of_other_prompts_takes_the_place_of_a_contribution(name: str) -> None:
    first = 1 if name in ("llama", "gpt2") else 0
    model, ids = zoo.build(name), batch_of(name)
    blocks = naive.blocks_of(model)
    found = waves.run(waves.loaded(name), ids, {"drop": {"replace": "mean", "protect_first": first}})["drop"]
    for prompt, own in enumerate(ids):
        base, means_LD = naive.logits(model, own), means_of_others(name, ids, prompt, first)
        for block in (0, 2, len(blocks) - 1):

            def filled(before: Tensor, after: Tensor, mean_D: Tensor = means_LD[block]) -> Tensor:
                return torch.cat([after[:, :first], (before + mean_D)[:, first:]], dim=1)

            with rewriting(blocks[block], filled):
                expected = statistics(base, naive.logits(model, own), own)
            got = [float(found[metric][prompt, block]) for metric in TOKEN_METRICS]
            assert got == pytest.approx(expected, rel=1e-4, abs=1e-5), block


def test_copies_of_a_prompt_are_no_other_prompts() -> None:
    """Of a text given three times and another one, the means are those of the two texts alone."""
    one, other = batch_of("llama", (12, 9))
    twice = waves.run(waves.loaded("llama"), [one, other], {"drop": {"replace": "mean"}})["drop"]
    often = waves.run(waves.loaded("llama"), [one, one, other, one], {"drop": {"replace": "mean"}})["drop"]
    for number, as_in in enumerate((0, 0, 1, 0)):
        np.testing.assert_allclose(often["loss"][number], twice["loss"][as_in], rtol=1e-5)


@pytest.mark.parametrize("replace", ["zero", "mean"])
@pytest.mark.parametrize("name", zoo.swept(FAMILIES, zoo.FEWER | {"olmo2"}))
def test_direct_effects_are_read_off_the_last_stream(name: str, replace: str) -> None:
    """The last block gives h_L − c_s, or h_L − c_s + its mean; norm and unembedding are the model's own."""
    first = 2 if name in ("llama", "gpt2") else 0
    model, ids = zoo.build(name), batch_of(name)
    blocks = naive.blocks_of(model)
    options = {"direct": True, "replace": replace, "protect_first": first}
    found = waves.run(waves.loaded(name), ids, {"drop": options})["drop"]
    for prompt, own in enumerate(ids):
        base, stream = naive.logits(model, own), naive.boundaries(model, blocks, own)
        means_LD = means_of_others(name, ids, prompt, first)
        for block in (0, 2, len(blocks) - 1):
            removed = stream[block + 1] - stream[block] - (means_LD[block] if replace == "mean" else 0.0)
            removed[:first] = 0

            def without(_: Tensor, after: Tensor, removed: Tensor = removed) -> Tensor:
                return after - removed

            with rewriting(blocks[-1], without):
                expected = statistics(base, naive.logits(model, own), own)
            got = [float(found[f"{metric}_direct"][prompt, block]) for metric in TOKEN_METRICS]
            assert got == pytest.approx(expected, rel=1e-4, abs=1e-5), block
            repaired = expected[-1] - float(found["loss"][prompt, block])
            assert float(found["self_repair"][prompt, block]) == pytest.approx(repaired, rel=1e-4, abs=1e-5)
    # no block is left that could make up for the last one
    assert found["self_repair"][:, -1].values == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(("strength", "share"), [(1.0, 1.0), (0.0, 0.0), (0.5, None)])
def test_planted_backups_are_recovered(strength: float, share: float | None) -> None:
    """Block 2 adds what is missing of what block 1 writes: all of it, nothing, or half of it."""
    hf = backed_up(strength)
    ids = zoo.prompts(hf, (14, 14, 11))
    found = waves.run(bathyscope.load(hf), ids, {"drop": {"direct": True}})["drop"]
    total = (found["loss"] - found["baseline_loss"]).values[:, 1]
    direct = (found["loss_direct"] - found["baseline_loss"]).values[:, 1]
    kl, kl_direct = found["kl"].values[:, 1], found["kl_direct"].values[:, 1]
    assert (kl_direct > 1e-3).all()
    assert found["self_repair"].values[:, 1] == pytest.approx(direct - total, abs=1e-9)
    if share == 1.0:
        assert kl.max() < 1e-8
        assert total == pytest.approx(0, abs=1e-5)
        # the backup adds nothing in the whole model, and is missed in neither way
        assert max(found["kl"].values[:, 2].max(), found["kl_direct"].values[:, 2].max()) < 1e-8
    else:
        assert (kl > 1e-4).all()


@contextmanager
def counted(blocks: Sequence[nn.Module]) -> Iterator[Counter[str]]:
    """Count calls of blocks, and the rows in them, until the context ends."""
    counts: Counter[str] = Counter()

    def count(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stream = args[0] if args else kwargs["hidden_states"]
        counts.update(calls=1, rows=len(stream))

    handles = [block.register_forward_pre_hook(count, with_kwargs=True) for block in blocks]
    try:
        yield counts
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_direct_effects_take_no_further_call_of_a_block(name: str) -> None:
    model = bathyscope.load(zoo.entry(name).build())
    ids = zoo.prompts(model.hf, LENGTHS)
    waves.run(model, ids, {"drop": None})  # what is measured of a model once is behind it
    counts = []
    for options in ({}, {"direct": True}):
        with counted(model.anatomy.blocks) as counter:
            waves.run(model, ids, {"drop": options})
        counts.append(counter)
    assert counts[0] == counts[1]
    # drop:s runs the blocks behind s; control, plain forward, and the model's own forward that it is held to, run all
    assert counts[0]["rows"] == 3 * (3 * 5 + 4 + 3 + 2 + 1)


def test_direct_effects_of_some_blocks_and_some_tokens() -> None:
    model, ids = waves.loaded("llama"), batch_of("llama", (20, 17))
    every = waves.run(model, ids, {"drop": {"direct": True}})["drop"]
    some = waves.run(model, ids, {"drop": {"direct": True, "blocks": [3, 1], "read_tokens": 100}})["drop"]
    assert some["dropped"].values.tolist() == [3, 1]
    np.testing.assert_allclose(some["loss_direct"], every["loss_direct"].sel(dropped=[3, 1]), rtol=1e-5)
    np.testing.assert_allclose(some["self_repair"], every["self_repair"].sel(dropped=[3, 1]), atol=1e-5)
    assert not {name for name in waves.run(model, ids, {"drop": None})["drop"] if "direct" in str(name)}


def test_what_cannot_be_measured_is_refused_before_anything_runs() -> None:
    known = waves.facts(waves.loaded("llama"))
    same = [TokenizedPrompt(str(number), (4, 5, 6)) for number in range(3)]
    with pytest.raises(PromptError, match=r"needs the tokens of other prompts, and of 3 prompts 1 differ"):
        Drop(DropOptions(replace="mean")).prepare(known, same, seed=0)
    different = [*same, TokenizedPrompt("other", (7, 5, 6))]
    Drop(DropOptions(replace="mean")).prepare(known, different, seed=0)
    with pytest.raises(PromptError, match="without the first 3 tokens"):
        Drop(DropOptions(replace="mean", protect_first=3)).prepare(known, different, seed=0)
    with pytest.raises(ModelError, match=r"drop: direct .* this gemma3n model has several residual streams"):
        Drop(DropOptions(direct=True)).prepare(waves.facts(waves.loaded("gemma3n")), different, seed=0)


def test_means_are_no_longer_those_of_a_smaller_survey() -> None:
    known, prompts = waves.facts(waves.loaded("llama")), waves.of_lengths(5, 6, 7)
    for replace, stays in (("zero", True), ("mean", False)):
        before, after = (Drop({"replace": replace}) for _ in range(2))
        before.prepare(known, prompts[:2], seed=0)
        after.prepare(known, prompts, seed=0)
        assert after.stays_valid(before, 2) is stays


def test_a_survey_in_batches_fits_means_over_all_its_prompts() -> None:
    """Prompts of three lengths, which are computed apart, against one batch that holds them all."""
    model = waves.loaded("gpt2")
    ids = zoo.prompts(model.hf, (40, 9, 20))
    run = bathyscope.survey(model, ids, ["drop"], drop={"replace": "mean", "direct": True}, progress=False)
    together = waves.run(model, ids, {"drop": {"replace": "mean", "direct": True}})["drop"]
    assert run.manifest["identity"]["measures"]["drop"].items() >= {"replace": "mean", "direct": True}.items()
    for name in ("loss", "kl", "loss_direct", "self_repair"):
        np.testing.assert_allclose(run["drop"][name], together[name], rtol=1e-4, atol=1e-6)


def test_runs_from_before_there_were_these_options_are_resumed() -> None:
    """What an earlier version stored of drop and swap is what is stored by default now."""
    model = waves.loaded("llama")
    run = bathyscope.survey(model, zoo.prompts(model.hf, (9, 9)), ["drop", "swap"], progress=False)
    stored = {"blocks": None, "positions": "next", "protect_first": 0}
    assert run.manifest["identity"]["measures"] == {"drop": stored, "swap": stored}
