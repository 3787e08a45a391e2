"""Models of other weights, precisions or kernels that compute the same function, and copies with one change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from support import zoo
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

Pair = tuple[Any, Any]


def tiny(blocks: int = 4, **settings: Any) -> Any:
    """A random Llama with groups of keys and values and large weights."""
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=blocks,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        eos_token_id=None,
        **settings,
    )
    return LlamaForCausalLM(config).eval()


def copied(name: str) -> Any:
    """A model of the zoo, or ``tiny``, that may be changed."""
    return tiny() if name == "tiny" else copy.deepcopy(zoo.build(name)).eval()


def _with(change: Callable[[Any], None], name: str = "tiny", dtype: torch.dtype = torch.float32) -> Pair:
    one = copied(name).to(dtype)
    other = copy.deepcopy(one)
    with torch.no_grad():
        change(other)
    return one, other


def _order(size: int) -> Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(1))


def _factors(size: int) -> Tensor:
    return 0.6 + torch.rand(size, generator=torch.Generator().manual_seed(2))


def permute_neurons(hf: Any) -> None:
    """Put the neurons of every MLP into another order."""
    for block in hf.model.layers:
        mlp, order = block.mlp, _order(block.mlp.up_proj.out_features)
        for matrix in (mlp.gate_proj, mlp.up_proj):
            matrix.weight.copy_(matrix.weight[order].clone())
        mlp.down_proj.weight.copy_(mlp.down_proj.weight[:, order].clone())


def permute_gpt2_neurons(hf: Any) -> None:
    """The same where matrices are stored the other way round and have biases."""
    for block in hf.transformer.h:
        order = _order(block.mlp.c_proj.weight.shape[0])
        block.mlp.c_fc.weight.copy_(block.mlp.c_fc.weight[:, order].clone())
        block.mlp.c_fc.bias.copy_(block.mlp.c_fc.bias[order].clone())
        block.mlp.c_proj.weight.copy_(block.mlp.c_proj.weight[order].clone())


def permute_heads(hf: Any) -> None:
    """Exchange both groups of keys and values with their queries."""
    for block in hf.model.layers:
        attention = block.self_attn
        for matrix in (attention.q_proj, attention.k_proj, attention.v_proj):
            half = matrix.out_features // 2
            matrix.weight.copy_(matrix.weight.roll(half, 0).clone())
        attention.o_proj.weight.copy_(attention.o_proj.weight.roll(attention.o_proj.in_features // 2, 1).clone())


def rotate_values(hf: Any) -> None:
    """Turn the values of every head, and what reads them back."""
    for block in hf.model.layers:
        attention, size, dtype = block.self_attn, block.self_attn.head_dim, block.self_attn.v_proj.weight.dtype
        turn = torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(3)).to(dtype))[0]
        value, read = attention.v_proj.weight, attention.o_proj.weight
        value.copy_((turn @ value.view(-1, size, value.shape[1])).reshape(value.shape))
        read.copy_((read.view(read.shape[0], -1, size) @ turn.T).reshape(read.shape))


def absorb_first_norm(hf: Any) -> None:
    """Move gains of the norm in front of attention into the matrices behind it."""
    for block in hf.model.layers:
        gain = _factors(len(block.input_layernorm.weight))
        block.input_layernorm.weight.div_(gain)
        for matrix in (block.self_attn.q_proj, block.self_attn.k_proj, block.self_attn.v_proj):
            matrix.weight.mul_(gain)


def absorb_second_norm(hf: Any) -> None:
    """Move gains of the norm in front of the MLP into the matrices behind it."""
    for block in hf.model.layers:
        gain = _factors(len(block.post_attention_layernorm.weight))
        block.post_attention_layernorm.weight.div_(gain)
        for matrix in (block.mlp.gate_proj, block.mlp.up_proj):
            matrix.weight.mul_(gain)


def absorb_final_norm(hf: Any) -> None:
    """Move gains of the final norm into the unembedding."""
    gain = _factors(len(hf.model.norm.weight))
    hf.model.norm.weight.div_(gain)
    hf.lm_head.weight.mul_(gain)


def scale_neurons(hf: Any) -> None:
    """Make neurons larger, and what reads them smaller."""
    for block in hf.model.layers:
        factor = _factors(block.mlp.up_proj.out_features)
        block.mlp.up_proj.weight.mul_(factor[:, None])
        block.mlp.down_proj.weight.div_(factor)


def scale_queries(hf: Any) -> None:
    """Make queries larger and keys smaller."""
    for block in hf.model.layers:
        block.self_attn.q_proj.weight.mul_(1.7)
        block.self_attn.k_proj.weight.div_(1.7)


def permute_experts(hf: Any) -> None:
    """Put experts into another order, with the rows of their routers."""
    for block in hf.model.layers:
        gate, experts = block.mlp.gate, block.mlp.experts
        order = _order(gate.weight.shape[0])
        for weight in (gate.weight, experts.gate_up_proj, experts.down_proj):
            weight.copy_(weight[order].clone())


def in_precisions(name: str, first: torch.dtype, second: torch.dtype) -> Pair:
    """The same numbers as weights in two precisions: those that the coarser of them holds."""
    coarse = max((first, second), key=lambda dtype: torch.finfo(dtype).eps)
    rounded = copied(name).to(coarse)
    return copy.deepcopy(rounded).to(first), copy.deepcopy(rounded).to(second)


def with_kernels(name: str, dtype: torch.dtype = torch.float32) -> Pair:
    """Attention written out, and fused."""
    pair = tuple(copied(name).to(dtype) for _ in range(2))
    for model, kernel in zip(pair, ("eager", "sdpa")):
        model.set_attn_implementation(kernel)
    return pair[0], pair[1]


def with_adapters(dtype: torch.dtype = torch.float32, **settings: Any) -> Any:
    """``tiny`` with adapters that change what it computes."""
    import peft

    torch.manual_seed(4)
    wrapped = peft.get_peft_model(tiny(), peft.LoraConfig(r=2, **settings))
    for name, parameter in wrapped.named_parameters():
        if "lora_B" in name or "lora_embedding_A" in name:
            nn.init.normal_(parameter, std=0.1)
        if "modules_to_save" in name:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return wrapped.eval().to(dtype)


def merged(dtype: torch.dtype = torch.float32) -> Pair:
    """Adapters, and the weights that they are merged into."""
    wrapped = with_adapters(dtype, target_modules=["q_proj", "v_proj", "down_proj"])
    return wrapped, copy.deepcopy(wrapped).merge_and_unload()


def untied() -> Pair:
    """One matrix for embedding and unembedding, and a copy that has it twice."""
    one, other = tiny(tie_word_embeddings=True), tiny()
    other.load_state_dict({name: value.clone() for name, value in one.state_dict().items()})
    return one, other


_HALF, _SINGLE, _DOUBLE = torch.bfloat16, torch.float32, torch.float64
EQUAL: dict[str, Callable[[], Pair]] = {
    "neurons in another order": lambda: _with(permute_neurons),
    "neurons in another order, bfloat16": lambda: _with(permute_neurons, dtype=_HALF),
    "neurons in another order, gpt2": lambda: _with(permute_gpt2_neurons, "gpt2"),
    "heads in another order": lambda: _with(permute_heads),
    "values turned": lambda: _with(rotate_values),
    "values turned, float64": lambda: _with(rotate_values, dtype=_DOUBLE),
    "first norms absorbed": lambda: _with(absorb_first_norm),
    "second norms absorbed": lambda: _with(absorb_second_norm),
    "final norm absorbed": lambda: _with(absorb_final_norm),
    "neurons scaled": lambda: _with(scale_neurons),
    "queries scaled": lambda: _with(scale_queries),
    "experts in another order": lambda: _with(permute_experts, "mixtral"),
    "adapters merged": merged,
    "adapters merged, bfloat16": lambda: merged(_HALF),
    "eager, sdpa": lambda: with_kernels("tiny"),
    "eager, sdpa, bfloat16": lambda: with_kernels("tiny", _HALF),
    "eager, sdpa, mixtral": lambda: with_kernels("mixtral"),
    "untied": untied,
    "float32, float64": lambda: in_precisions("tiny", _SINGLE, _DOUBLE),
    "float32, float64, gpt2": lambda: in_precisions("gpt2", _SINGLE, _DOUBLE),
    "float32, float64, gemma2": lambda: in_precisions("gemma2", _SINGLE, _DOUBLE),
    "bfloat16, float32": lambda: in_precisions("tiny", _HALF, _SINGLE),
    "float32, bfloat16, opt": lambda: in_precisions("opt", _SINGLE, _HALF),
    "float16, float32": lambda: in_precisions("tiny", torch.float16, _SINGLE),
    "bfloat16, float32, mixtral": lambda: in_precisions("mixtral", _HALF, _SINGLE),
}
"""What the pair is → both models."""
