"""Recording runs no block, leaves the model as it was, and asks for no cache."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
import torch
from support import naive, unknown, waves, zoo
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.model.anatomy.recording import CACHE_NAMES, Recorder
from bathyscope.model.anatomy.replay import unwrap

IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12, 13], [9, 9, 4, 5, 6, 30, 31, 32, 33]])


def own_forwards(model: nn.Module) -> list[bool]:
    return ["forward" in block.__dict__ for block in naive.blocks_of(model)]


def test_no_block_runs_and_forwards_come_back() -> None:
    hf = zoo.entry("llama").build()
    anatomy = load(hf).anatomy
    ran: list[str] = []
    for name, module in hf.named_modules():
        module.register_forward_pre_hook(lambda _m, _a, name=name: ran.append(name))
    recording = anatomy.recorder.record(IDS)
    assert own_forwards(hf) == [False] * 5
    # the blocks' own hooks see the stub being called; nothing inside them is
    assert not any(name.count(".") > 2 for name in ran)
    assert torch.equal(recording.resid0_BTD, hf.model.embed_tokens(IDS))
    assert len(recording.blocks) == 5


def test_a_forward_that_was_replaced_before_is_put_back() -> None:
    hf = zoo.entry("llama").build()
    anatomy = load(hf).anatomy
    block = hf.model.layers[1]
    original = block.forward

    @wraps(original)
    def mine(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    block.forward = mine
    anatomy.recorder.record(IDS)
    assert block.__dict__["forward"] is mine
    assert own_forwards(hf) == [False, True, False, False, False]


def test_forwards_come_back_after_an_error() -> None:
    hf = zoo.entry("llama").build()
    anatomy = load(hf).anatomy
    with torch.no_grad():
        expected = hf(IDS).logits

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    handle = hf.model.norm.register_forward_hook(fail)
    with pytest.raises(ZeroDivisionError):
        anatomy.recorder.record(IDS)
    handle.remove()
    assert own_forwards(hf) == [False] * 5
    with torch.no_grad():
        assert torch.equal(hf(IDS).logits, expected)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bloom", "gpt_neox", "mpt", "falcon", "lfm2", "gemma4"])
def test_a_model_that_likes_to_cache_is_recorded_without_a_cache(name: str) -> None:
    """A live cache would grow with every replay: the same block is run twice and must answer the same."""
    hf = zoo.entry(name).build()
    hf.config.use_cache = True
    anatomy = load(hf).anatomy
    replay = anatomy.replay(IDS)
    prompts = torch.arange(2)
    for arguments in replay.recording.blocks:
        assert arguments.values.get("use_cache", False) is False
        assert arguments.cache not in arguments.values
    with torch.no_grad():
        first, second = (replay.run(anatomy.blocks[0], 0, replay.recording.resid0_BTD, prompts) for _ in range(2))
    assert torch.equal(first, second)
    expected = naive.boundaries(hf, naive.blocks_of(hf), IDS[0].tolist())[1]
    torch.testing.assert_close(first[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", zoo.names(plain=True))
def test_no_family_records_a_cache(name: str) -> None:
    for block in waves.loaded(name).anatomy.recorder.record(IDS).blocks:
        held = [value for name, value in block.values.items() if name in CACHE_NAMES]
        assert all(value is None for value in held)
        assert not any(hasattr(value, "get_seq_length") for value in block.values.values())


class Toy(nn.Module):
    """What is asked of a model before it is recorded."""

    def get_input_embeddings(self) -> nn.Module:
        return nn.Embedding(40, 1)


class Looped(Toy):
    """Runs its blocks twice."""

    def __init__(self, unit: nn.Module) -> None:
        super().__init__()
        self.unit = unit

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> Tensor:
        h = torch.ones(*input_ids.shape, 4)
        return self.unit(self.unit(h))


class Unnamed(nn.Module):
    def forward(self, h: Tensor, *rest: Any) -> Tensor:
        return h


class Given(Toy):
    """Gives its one block an argument of a shape that cannot be read."""

    def __init__(self, unit: nn.Module, argument: Any) -> None:
        super().__init__()
        self.unit, self.argument = unit, argument
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> Tensor:
        return self.unit(torch.ones(*input_ids.shape, 4), self.argument(*input_ids.shape))


class Taking(nn.Module):
    def forward(self, h: Tensor, extra: Tensor) -> Tensor:
        return h


def test_a_block_that_runs_twice_is_refused() -> None:
    block = nn.Linear(4, 4)
    with pytest.raises(
        ModelError,
        match="Block 0 is called 2 times in one forward, and once is allowed",
    ):
        Recorder(Looped(block), [block], [None])


def test_unnamed_arguments_are_refused() -> None:
    block = Unnamed()
    with pytest.raises(ModelError, match=r"A block takes unnamed arguments \(\*rest\); its call cannot be replayed"):
        Recorder(Given(block, lambda b, t: torch.ones(1)), [block], [None])


def test_an_argument_that_grows_strangely_is_refused() -> None:
    block = Taking()
    with pytest.raises(ModelError, match=r"A block argument of shape \(25,\) has no readable token axis"):
        Recorder(Given(block, lambda b, t: torch.ones(t * t)), [block], [None])


def test_an_argument_that_appears_later_must_be_a_mask() -> None:
    block = Taking()
    recorder = Recorder(Given(block, lambda b, t: None if t < 8 else torch.ones(b, t)), [block], [None])
    with pytest.raises(ModelError, match=r"Block 0 was given extra of shape \(2, 9\), whose axes are unknown"):
        recorder.record(IDS)


def test_the_type_a_block_returns_is_unwrapped() -> None:
    state = torch.ones(2, 3, 4)
    for output in (state, (state,), [state, None], (state, state[0])):
        assert unwrap(output, 4) is state
    for output, shape in ((state[0], r"\(3, 4\)"), (torch.ones(2, 3, 5), r"\(2, 3, 5\)"), (None, "NoneType")):
        with pytest.raises(ModelError, match=rf"A block gives a (tensor of shape )?{shape}, not \(rows, tokens, 4\)"):
            unwrap(output, 4)


def test_a_prompt_is_recorded_as_if_no_longer_one_had_been() -> None:
    """Both are beyond the length that dynamic tables begin with, so that the shorter one does not put them back."""
    hf = zoo.entry("llama_dynamic").build()
    anatomy = load(hf).anatomy
    longer, shorter = (torch.tensor(zoo.prompts(hf, (length,))) for length in (17, 14))
    assert hf.model.rotary_emb.original_max_seq_len < 14
    first = anatomy.recorder.record(shorter).blocks[0].values["position_embeddings"]
    anatomy.recorder.record(longer)
    again = anatomy.recorder.record(shorter).blocks[0].values["position_embeddings"]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    untouched = zoo.entry("llama_dynamic").build().model.rotary_emb(torch.zeros(1, 1, 64), torch.arange(14)[None])
    assert all(torch.equal(a, b) for a, b in zip(again, untouched, strict=True))


@pytest.mark.parametrize("name", ["llama_dynamic", "llama_longrope", "phi3_longrope"])
def test_a_long_prompt_leaves_no_trace_in_rotary_tables(name: str) -> None:
    """Tables by length: after a long prompt a short one must get what an untouched model gives it."""
    hf = zoo.entry(name).build()
    anatomy = load(hf).anatomy
    long, short = (zoo.prompts(hf, (length,))[0] for length in (40, 6))
    for ids in (short, long, short):
        recorded = anatomy.recorder.record(torch.tensor([ids])).blocks[0].values["position_embeddings"]
        untouched = zoo.entry(name).build()
        cos_sin = untouched.model.rotary_emb(torch.zeros(1, 1, 64), torch.arange(len(ids))[None])
        assert all(torch.equal(a, b) for a, b in zip(recorded, cos_sin, strict=True))
    assert torch.equal(naive.logits(hf, short), naive.logits(zoo.entry(name).build(), short))


def test_a_base_model_without_a_prefix_is_recorded_whole() -> None:
    hf = unknown.build()
    assert load(hf).anatomy.replay(IDS).recording.resid0_BTD.shape == (2, 9, 32)
