"""Attention weights as they are seen: from the fused kernel's arguments, or as modules return them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support import zoo
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from bathyscope.errors import ModelError
from bathyscope.model import anatomy_of
from bathyscope.model.anatomy.attention import Fused, Returned, attending, attention_heads

ROWS, HEADS, GROUPS, TOKENS, WIDTH = 2, 6, 3, 9, 4
SCALE = 0.7


class Attends(nn.Module):
    """Calls the fused kernel with the given arguments."""

    def __init__(self, *calls: dict[str, Any]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self) -> list[Tensor]:
        return [scaled_dot_product_attention(**call) for call in self.calls]


class Returns(nn.Module):
    """A block around a module that returns something beside its output."""

    def __init__(self, *beside: Any) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.forward = lambda: (torch.zeros(1), *beside)  # type: ignore[method-assign]

    def forward(self) -> Any:
        return self.inner()


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def arguments(**changes: Any) -> dict[str, Any]:
    """A call in which every two heads share their keys."""
    given: dict[str, Any] = {
        "query": drawn(ROWS, HEADS, TOKENS, WIDTH),
        "key": drawn(ROWS, GROUPS, TOKENS, WIDTH, seed=1),
        "value": drawn(ROWS, GROUPS, TOKENS, WIDTH, seed=2),
        "scale": SCALE,
        "enable_gqa": True,
    }
    return {**given, **changes}


def causal_window(window: int) -> Tensor:
    allowed = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    return (allowed & ~allowed.tril(-window))[None, None]


def by_hand(call: dict[str, Any]) -> Tensor:
    """Weights pair by pair, in Python floats."""
    out = torch.zeros(ROWS, HEADS, TOKENS, TOKENS, dtype=torch.float64)
    scale = call["scale"] or WIDTH**-0.5
    mask = call.get("attn_mask")
    for n, h, q in torch.cartesian_prod(*map(torch.arange, (ROWS, HEADS, TOKENS))).tolist():
        scores = {}
        for k in range(TOKENS):
            if call.get("is_causal") and k > q:
                continue
            added = 0.0 if mask is None else mask.expand(ROWS, HEADS, TOKENS, TOKENS)[n, h, q, k].item()
            if mask is not None and mask.dtype == torch.bool:
                if not added:
                    continue
                added = 0.0
            key = call["key"][n, h // (HEADS // GROUPS), k]
            scores[k] = scale * float(call["query"][n, h, q].double() @ key.double()) + added
        total = sum(math.exp(s) for s in scores.values())
        for k, s in scores.items():
            out[n, h, q, k] = math.exp(s) / total
    return out


def seen_in(block: nn.Module, rows: int = ROWS, tokens: int = TOKENS) -> Any:
    with attending(block, rows, tokens) as seen:
        block()
    return seen


MASKED = {
    "causal": {"is_causal": True},
    "window": {"attn_mask": causal_window(3)},
    "added to the scores": {"attn_mask": drawn(1, HEADS, TOKENS, TOKENS, seed=3).masked_fill(~causal_window(9), -9e9)},
    "the same for all queries": {"attn_mask": drawn(ROWS, 1, 1, TOKENS, seed=3)},
    "own scale": {"is_causal": True, "scale": None},
}


@pytest.mark.parametrize("call", [arguments(**change) for change in MASKED.values()], ids=list(MASKED))
@pytest.mark.parametrize("entries", [1, 300, 1 << 22])
def test_weights_of_the_fused_kernel(call: dict[str, Any], entries: int) -> None:
    attention = seen_in(Attends(call)).attention
    assert isinstance(attention, Fused)
    assert attention.size == (ROWS, HEADS, TOKENS, TOKENS)
    chunks = list(attention.chunks(entries))
    step = max(1, entries // (ROWS * HEADS * TOKENS))
    assert [first for first, _ in chunks] == list(range(0, TOKENS, step))
    torch.testing.assert_close(torch.cat([c for _, c in chunks], 2).double(), by_hand(call), atol=1e-6, rtol=0)
    assert attention.gap() < 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_are_computed_in_float32_or_wider(dtype: torch.dtype) -> None:
    call = {k: v.to(dtype) if isinstance(v, Tensor) else v for k, v in arguments(is_causal=True).items()}
    (_, weights), *_ = seen_in(Attends(call)).attention.chunks()
    assert weights.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(weights.double(), by_hand(call), atol=1e-6, rtol=0)


def test_gap_tells_of_a_result_that_the_weights_do_not_give() -> None:
    attention = seen_in(Attends(arguments(is_causal=True))).attention
    other = Fused(**{**vars(attention), "causal": False})
    assert attention.gap() < 1e-6
    assert other.gap() > 0.1


def test_the_same_attention_to_other_values_counts_once() -> None:
    call = arguments(is_causal=True)
    twice = seen_in(Attends(call, {**call, "value": call["value"].flip(1)}))
    assert (twice.ways, len(twice.fused)) == (1, 2)
    assert seen_in(Attends(call, {**call, "key": call["key"].flip(1)})).ways == 2


def test_returned_weights_are_taken_as_they_are() -> None:
    weights = by_hand(arguments(is_causal=True)).float()
    block = Returns(None, weights, weights)
    outer = nn.Sequential(block)  # hands the same tensor on
    outer.forward = block.forward  # type: ignore[method-assign]
    seen = seen_in(outer)
    assert seen.ways == 1
    assert isinstance(seen.attention, Returned)
    for first, chunk in seen.attention.chunks(ROWS * HEADS * TOKENS * 4):
        assert torch.equal(chunk, weights[:, :, first : first + 4])


@pytest.mark.parametrize(
    "other",
    [
        drawn(ROWS, HEADS, TOKENS, TOKENS),
        drawn(ROWS, HEADS, TOKENS, TOKENS).abs(),
        torch.ones(ROWS, HEADS, TOKENS, TOKENS + 1).tril(),
        torch.ones(ROWS + 1, HEADS, TOKENS, TOKENS).tril(),
        torch.ones(ROWS * HEADS, TOKENS, TOKENS).tril(),
        torch.ones(ROWS, HEADS, TOKENS, TOKENS, dtype=torch.long).tril(),
        "weights",
    ],
    ids=["signed", "acausal", "too many keys", "too many rows", "three axes", "whole numbers", "no tensor"],
)
def test_other_outputs_are_no_weights(other: Any) -> None:
    assert seen_in(Returns(other)).attention is None


def test_nothing_is_watched_afterwards() -> None:
    block = Attends(arguments())
    seen = seen_in(block)
    block()
    assert len(seen.fused) == 1
    assert not any(m._forward_hooks for m in block.modules())


class Largest(TorchDispatchMode):
    """The largest tensor that any operation gives."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor):
            self.entries = max(self.entries, out.numel())
        return out


@pytest.mark.parametrize("tokens", [512, 1024])
def test_no_tensor_grows_with_the_square_of_the_tokens(tokens: int) -> None:
    one = drawn(1, 8, tokens, 4)
    attention = Fused(one, one, one, one, None, True, 0.5)
    entries = 1 << 17
    with Largest() as watched:
        for _ in attention.chunks(entries):
            pass
    assert entries // 2 < watched.entries <= entries


@pytest.mark.parametrize("name", ["llama", "gpt_oss", "gemma2", "diffllama", "falcon", "bloom", "deepseek_v3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_of_real_families_pass(name: str, dtype: torch.dtype) -> None:
    assert attention_heads(anatomy_of(zoo.build(name, dtype=dtype))) == (4,) * 5


@pytest.mark.parametrize(
    ("name", "attends"),
    [("jamba", (1, 3)), ("qwen3_next", (1, 4)), ("recurrent_gemma", (1, 3)), ("lfm2_convolutions", (4,))],
)
def test_blocks_without_weights_have_no_heads(name: str, attends: tuple[int, ...]) -> None:
    heads = attention_heads(anatomy_of(zoo.build(name)))
    assert heads == tuple(4 * (block in attends) for block in range(5))


def test_heads_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A survey asks twice, and each time would read all blocks of a streamed model."""
    anatomy = anatomy_of(zoo.build("llama"))
    heads = attention_heads(anatomy)
    monkeypatch.setattr(type(anatomy), "replay", lambda *_: pytest.fail("blocks run again"))
    assert attention_heads(anatomy) == heads == (4,) * 5


@pytest.mark.parametrize(("name", "named"), [("mamba", "mamba"), ("rwkv", "rwkv"), ("openai-gpt", "openai")])
def test_a_model_that_shows_no_weights_is_refused(name: str, named: str) -> None:
    with pytest.raises(
        ModelError,
        match=rf"No block of this {named}.* model shows attention weights.*attn_implementation='sdpa' or 'eager'",
    ):
        attention_heads(anatomy_of(zoo.build(name)))


def test_weights_on_later_tokens_are_refused() -> None:
    model = zoo.entry("gpt2").build()
    model.transformer.h[3].attn.is_causal = False
    with pytest.raises(
        ModelError, match=r"seen in block 3 of this gpt2 .* also lie on later tokens, so that it cannot"
    ):
        attention_heads(anatomy_of(model))
