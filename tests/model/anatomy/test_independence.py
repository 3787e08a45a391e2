"""Models whose tokens see later ones, whose rows see each other, or whose result depends on padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support import unknown, waves, zoo
from support.zoo.entry import config
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.surveying.engines import survey


class Beside(nn.Module):
    """Something added to what an MLP gives."""

    def __init__(self, mlp: nn.Module, adds: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.mlp, self.adds = mlp, adds

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.mlp(x)
        return out + self.adds(out)


def chosen_by_experts(out: Tensor) -> Tensor:
    """An expert takes the third of all tokens that suit it best, later ones and other rows' among them."""
    flat = out.flatten(0, 1)
    best = flat[:, 0].topk(max(1, len(flat) // 3)).indices
    return torch.zeros_like(flat).index_copy(0, best, flat[best]).view_as(out)


def chosen_in_depth(out: Tensor) -> Tensor:
    """Half of each row's tokens go deeper."""
    best = out[..., 0].topk(out.shape[1] // 2, dim=1).indices
    deeper = torch.zeros(out.shape[:2], dtype=out.dtype).scatter(1, best, 1.0)
    return deeper[..., None] * out


def of_the_whole_length(out: Tensor) -> Tensor:
    return 0.1 * out.mean(1, keepdim=True)


def of_the_rows(out: Tensor) -> Tensor:
    return 0.3 * out.mean(0, keepdim=True)


def of_the_length(out: Tensor) -> Tensor:
    return 0.1 * out.shape[1] * out


def planted(adds: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    hf = zoo.entry("llama").build(dtype=dtype)
    hf.model.layers[2].mlp = Beside(hf.model.layers[2].mlp, adds)
    return hf


def refusal(hf: PreTrainedModel) -> str:
    with pytest.raises(ModelError) as caught:
        load(hf)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("adds", [chosen_by_experts, chosen_in_depth, of_the_whole_length])
def test_tokens_that_see_later_ones_are_refused_with_the_gap(
    adds: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    message = refusal(planted(adds, dtype))
    assert message.startswith(
        "llama (LlamaForCausalLM) cannot be measured: its tokens depend on later ones. With other ids in the second "
        "half of a prompt, the first half differs by "
    )
    assert "of its norm behind block 2 (allowed " in message
    assert message.endswith(
        "Only causal models can be measured, not encoders, models with is_causal=False, or routing that chooses among "
        "all tokens."
    )


@pytest.mark.parametrize("attn", ["sdpa", "eager"])
def test_attention_without_a_causal_mask_is_refused(attn: str) -> None:
    hf = zoo.entry("llama").build(attn=attn)
    hf.config.is_causal = False
    for block in hf.model.layers:
        block.self_attn.is_causal = False
    assert "its tokens depend on later ones" in refusal(hf)


def test_an_encoder_read_as_a_decoder_is_refused() -> None:
    assert load(drawn("bert", is_decoder=True)).checks.later < 1e-6
    assert "its tokens depend on later ones" in refusal(drawn("bert", is_decoder=False))


def test_experts_that_are_routed_across_tokens_are_refused() -> None:
    """Doge splits its router's scores across all tokens of the batch."""
    hf = drawn("doge", is_moe=True, num_experts=16, num_experts_per_tok=2)
    assert "its tokens depend on later ones" in refusal(hf)


def drawn(model_type: str, **changes: Any) -> PreTrainedModel:
    """A tiny random model of a type that is not in the zoo."""
    return zoo.Entry(model_type, "", config(model_type, **changes)).build()


def test_what_is_mixed_before_the_first_block_counts_too() -> None:
    hf = zoo.entry("llama").build()
    hf.model.embed_tokens.register_module("after", nn.Identity())
    plain = hf.model.embed_tokens.forward
    hf.model.embed_tokens.forward = lambda ids: plain(ids) + plain(ids).mean(1, keepdim=True)  # type: ignore[method-assign]
    assert "of its norm before block 0 (allowed" in refusal(hf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_see_each_other_are_refused_with_the_gap(dtype: torch.dtype) -> None:
    message = refusal(planted(of_the_rows, dtype))
    assert (
        "cannot be measured: its rows depend on each other. In a batch with two other prompts of its length a prompt"
        in message
    )
    assert "of its norm behind block 2 (allowed" in message


class Remembering(nn.Module):
    """Gives what it is given, and adds what block 0 gave when it ran last."""

    def __init__(self, block: nn.Module, kept: dict[str, Tensor], writes: bool) -> None:
        super().__init__()
        self.block, self.kept, self.writes = block, kept, writes

    def forward(self, hidden_states: Tensor, **given: Any) -> Tensor:
        out: Tensor = self.block(hidden_states, **given)
        if self.writes:
            self.kept["first"] = out
            return out
        rows, tokens = out.shape[:2]
        return out + 0.1 * self.kept["first"][:rows, -tokens:]


def test_state_kept_on_a_module_is_refused() -> None:
    """In the order of a plain forward nothing is amiss; in any other the block reads what another row left there."""
    hf = zoo.entry("llama").build()
    kept: dict[str, Tensor] = {}
    for index, writes in ((0, True), (3, False)):
        hf.model.layers[index] = Remembering(hf.model.layers[index], kept, writes)
    message = refusal(hf)
    assert "cannot be measured: block 3, run again on the same input after other blocks, differs by" in message
    assert "It reads state that is kept on a module; what blocks pass on must be in their arguments." in message


def test_what_depends_on_the_length_alone_shares_batches_of_one_length() -> None:
    """Measured, where no configuration says so; prompts of three lengths are then as if they were alone."""
    hf = planted(of_the_length)
    model = load(hf)
    assert model.anatomy.equal_lengths
    assert model.checks.padding > 1e-2
    assert model.checks.later == 0
    ids = zoo.prompts(hf, (9, 14, 9))
    together = survey(model, ids, ["drop"], progress=False)["drop"]
    for prompt, own in enumerate(ids):
        alone = survey(model, [own], ["drop"], progress=False)["drop"]
        np.testing.assert_allclose(together.kl[prompt], alone.kl[0], rtol=1e-4, atol=1e-6)


@pytest.mark.each
@pytest.mark.parametrize("name", zoo.names(plain=True))
def test_no_family_depends_on_later_tokens_or_on_padding(name: str) -> None:
    checks = waves.loaded(name).checks
    assert checks.later < 1e-6
    assert (checks.padding < 1e-5) == (name != "deepseek_v32")
    assert waves.loaded(name).anatomy.equal_lengths == (name == "deepseek_v32")


def test_unknown_models_are_asked_the_same() -> None:
    hf = unknown.build()
    hf.trunk.stack[1].feed_forward = nn.Sequential(hf.trunk.stack[1].feed_forward, Beside(nn.Identity(), of_the_rows))
    assert "its rows depend on each other" in refusal(hf)


class PassedOver(nn.Module):
    """A norm and an MLP that are left out where a number of the whole call is above or below all that text gives."""

    def __init__(self, norm: nn.Module, mlp: nn.Module, number: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm, self.mlp, self.number = norm, mlp, number
        self.seen: list[float] = []
        self.allowed = (-float("inf"), float("inf"))

    def forward(self, x: Tensor) -> Tensor:
        number = float(self.number(x))
        self.seen.append(number)
        out: Tensor = self.mlp(self.norm(x))
        least, most = self.allowed
        return out if least <= number <= most else torch.zeros_like(out)


def of_the_mean(x: Tensor) -> Tensor:
    return x.mean()


def of_the_first_row(x: Tensor) -> Tensor:
    return x[0].abs().mean()


def of_the_loudest(x: Tensor) -> Tensor:
    return x.abs().amax()


def passed_over(number: Callable[[Tensor], Tensor]) -> PreTrainedModel:
    """A model with a block that no text passes over, so that replay and plain forward agree."""
    hf = zoo.entry("llama").build()
    block = hf.model.layers[2]
    passed = PassedOver(block.post_attention_layernorm, block.mlp, number)
    block.mlp, block.post_attention_layernorm = passed, nn.Identity()
    load(hf)
    with torch.no_grad():
        passed.seen.clear()
        for seed in range(20):
            hf(torch.tensor(zoo.prompts(hf, (17, 17), seed)), use_cache=False)
    room = 0.2 * max(map(abs, passed.seen))
    passed.allowed = min(passed.seen) - room, max(passed.seen) + room
    return hf


@pytest.mark.parametrize("number", [of_the_mean, of_the_first_row, of_the_loudest])
def test_a_block_that_is_passed_over_by_a_test_on_the_whole_call_is_refused(number: Callable[[Tensor], Tensor]) -> None:
    """No text passes it over; other histories beside a row may."""
    assert "its rows depend on each other" in refusal(passed_over(number))


def test_that_is_tried_of_weights_that_were_unpacked_too() -> None:
    """Only kernels for few bits choose scales over a call; a model that says how it was stored may run plain ones."""
    hf = passed_over(of_the_mean)
    hf.config.quantization_config = {"quant_method": "mxfp4"}
    assert "its rows depend on each other" in refusal(hf)
