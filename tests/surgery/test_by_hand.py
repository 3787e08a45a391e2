"""Models whose blocks were stacked, deleted or narrowed by hand: written on, exported and advised on as they are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import edited
from transformers import AutoModelForCausalLM, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model import in_hand
from bathyscope.model.continuing import writes_on_a_cache
from bathyscope.model.in_hand import renumbered, stale_places

QUESTION = [1, 2, 3, 4, 5]


@torch.no_grad()
def greedy(hf: LlamaForCausalLM, ids: Sequence[int], count: int) -> list[int]:
    """The most probable token again and again, each by a forward of its own without a cache."""
    sequence = torch.tensor([list(ids)])
    for _ in range(count):
        best = hf(sequence, use_cache=False).logits[:, -1:].argmax(-1)
        sequence = torch.cat([sequence, best], dim=1)
    return [int(token) for token in sequence[0]]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_what_is_written_is_greedy_whatever_numbers_blocks_bear(order: list[int]) -> None:
    model = bathyscope.load(edited.stacked(order))
    run = bathyscope.survey(model, [QUESTION], ["lens"], write=8, progress=False)
    assert list(run.prompts.items[0].ids) == greedy(edited.stacked(order), QUESTION, 8)


@pytest.mark.parametrize("edit", edited.EDITS)
def test_what_is_written_is_greedy_after_every_edit(edit: edited.Edit) -> None:
    run = bathyscope.survey(edited.edited([edit]), [QUESTION], ["lens"], write=6, progress=False)
    assert list(run.prompts.items[0].ids) == greedy(edited.edited([edit]), QUESTION, 6)


class Averaging(edited.PassThrough):
    """A block that mixes tokens and knows no cache: it adds the mean of all tokens so far."""

    def forward(self, hidden_states: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        counts = torch.arange(1, hidden_states.shape[1] + 1)[:, None]
        return hidden_states + hidden_states.cumsum(1) / counts


def test_a_cache_is_used_where_it_changes_nothing_and_only_there() -> None:
    plain, sliced = edited.tiny(3), edited.edited([edited.sliced])
    strange = edited.tiny(3)
    strange.model.layers[1] = Averaging()
    assert writes_on_a_cache(plain)
    assert writes_on_a_cache(sliced), "its blocks bear their places, so that its cache is right"
    assert not writes_on_a_cache(edited.stacked([0, 1, 1]))
    assert not writes_on_a_cache(strange)
    run = bathyscope.survey(strange, [QUESTION], ["lens"], write=6, progress=False)
    assert list(run.prompts.items[0].ids) == greedy(strange, QUESTION, 6)


@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=5))
def test_an_export_bears_the_numbers_of_its_places(tmp_path_factory: pytest.TempPathFactory, order: list[int]) -> None:
    hf = edited.stacked(order)
    numbers = [block.self_attn.layer_idx for block in hf.model.layers]
    folder = tmp_path_factory.mktemp("stacked") / "copy"
    with pytest.warns(UserWarning, match="without a tokenizer"):
        bathyscope.export(hf, "standard", folder)
    copy = AutoModelForCausalLM.from_pretrained(folder)
    assert [block.self_attn.layer_idx for block in copy.model.layers] == list(range(len(order)))
    ids = torch.tensor([QUESTION])
    with torch.no_grad():
        torch.testing.assert_close(copy(ids).logits, hf(ids, use_cache=False).logits, rtol=0, atol=1e-6)
    assert [block.self_attn.layer_idx for block in hf.model.layers] == numbers


def test_numbers_are_put_back_behind_a_failure() -> None:
    hf = edited.stacked([2, 0])
    with pytest.raises(KeyError), renumbered(hf):
        raise KeyError(stale_places(hf))
    assert [block.self_attn.layer_idx for block in hf.model.layers] == [2, 0]


def test_a_family_that_computes_with_its_numbers_is_not_renumbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = LlamaMLP.forward

    def scaled(self: LlamaMLP, stream: torch.Tensor) -> torch.Tensor:
        return plain(self, stream) * (1 + self.layer_id)

    # a library's class that computes so: its method is the family's own, and was replaced by nobody
    monkeypatch.setattr(LlamaMLP, "forward", scaled)
    monkeypatch.setattr(LlamaMLP, "layer_id", 0, raising=False)
    for file in ("comparing", "departure"):
        monkeypatch.setattr(f"bathyscope.model.constants.{file}.replaced_methods", lambda _: {})
    hf = edited.tiny(3)
    hf.model.layers[1].mlp.layer_id = 2
    monkeypatch.setattr(in_hand, "configured", lambda _: edited.tiny(3))
    with pytest.raises(ModelError, match=r"layers\.1\.mlp\.layer_id of this LlamaForCausalLM .* computes with it"):
        bathyscope.export(hf, "standard", tmp_path / "copy")


COUNTED = (
    "This LlamaForCausalLM has 2 blocks, and its configuration says 5. Set config.num_hidden_layers = 2, and cut what "
    "it says block by block."
)


def test_blocks_that_the_configuration_does_not_count_are_named(tmp_path: Path) -> None:
    hf = edited.edited([edited.sliced])
    for call in (
        lambda: bathyscope.export(hf, "drop:1", tmp_path / "copy"),
        lambda: bathyscope.export(hf, "drop:1", emit="layers"),
        lambda: bathyscope.export(bathyscope.load(hf), "drop:1", tmp_path / "copy"),
        lambda: bathyscope.exit_advice(hf, [QUESTION, QUESTION[1:]], new_tokens=2, progress=False),
    ):
        with pytest.raises(ModelError) as caught:
            call()
        assert str(caught.value) == COUNTED
    hf.config.num_hidden_layers = 2
    assert bathyscope.export(hf, "drop:1", emit="layers") == "0"
    with pytest.warns(UserWarning, match="without a tokenizer"):
        bathyscope.export(hf, "drop:1", tmp_path / "copy")


def test_advice_on_exits_asks_for_numbers_in_order() -> None:
    with pytest.raises(ModelError) as caught:
        bathyscope.exit_advice(edited.stacked([1, 0]), [QUESTION, QUESTION[1:]], new_tokens=2, progress=False)
    assert str(caught.value) == (
        "model.layers.0.self_attn.layer_idx is 1, the number of another place: caches of drafts are kept by these "
        "numbers. Renumber the blocks first, by setting layer_idx of each to its place in the list."
    )


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            edited.narrowed,
            "This LlamaForCausalLM cannot be exported: model.layers.0.mlp.gate_proj.weight is 32×32, not 64×32 as its "
            "configuration says. Write the change into the configuration, by which a checkpoint is loaded, or undo it.",
        ),
        (
            edited.with_another_scale,
            "model.layers.0.self_attn.scaling of this LlamaForCausalLM is not what its configuration "
            "makes, and no checkpoint holds it. Undo the change, or write it into the configuration.",
        ),
    ],
)
def test_what_no_checkpoint_holds_is_refused_with_what_helps(edit: edited.Edit, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        bathyscope.export(edited.edited([edit]), "drop:1", tmp_path / "copy")
    assert str(caught.value) == message


@pytest.mark.parametrize("edit", [edited.resized, edited.tied])
def test_what_the_library_itself_changes_is_exported(edit: edited.Edit, tmp_path: Path) -> None:
    hf = edited.edited([edit])
    with pytest.warns(UserWarning, match="without a tokenizer"):
        bathyscope.export(hf, "drop:1", tmp_path / "copy")
    ids = torch.tensor([QUESTION])
    with torch.no_grad(), bathyscope.scheduled(hf, "drop:1") as expected:
        logits = AutoModelForCausalLM.from_pretrained(tmp_path / "copy")(ids).logits
        torch.testing.assert_close(logits, expected(ids, use_cache=False).logits, rtol=0, atol=1e-6)


def test_sizes_behind_a_cut_are_those_of_the_model_in_hand() -> None:
    draw = random.Random(0)
    prompts = [[[draw.randrange(3, 60) for _ in range(9)] for _ in range(4)] for _ in range(2)]
    hf = edited.edited([edited.resized_by_hand])
    plan = bathyscope.prune(bathyscope.load(hf), *prompts, drop=1, resamples=100, budget=0, random=1, progress=False)
    whole = sum(value.numel() for value in hf.parameters())
    block = sum(value.numel() for value in hf.model.layers[0].parameters())
    assert int(plan.data.attrs["parameters_after"]) == whole - block
