"""A tiny Llama as a GGUF file, written by the gguf package's own writer; and the weights that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, TokenType, dequantize, quantize
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM

BLOCKS, WIDTH, HEADS, KEY_HEADS, INNER = 3, 64, 4, 2, 96
MERGES = ("t h", "th e", "Ġ the", "o n", "Ġ on", "i n")
VOCABULARY = ("<|endoftext|>", *sorted(ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in MERGES))


@dataclass(frozen=True)
class Written:
    """A file, and a model of the same weights that never saw it."""

    path: Path
    model: LlamaForCausalLM


def write_llama(
    path: Path,
    kind: GGMLQuantizationType = GGMLQuantizationType.Q8_0,
    architecture: str = "llama",
    tokenizer: bool = True,
    leave_out: str = "",
    block_count: int = BLOCKS,
    rotary_base: float = 10_000.0,
    further: Callable[[GGUFWriter], None] = lambda _: None,
) -> Written:
    """Writes a random Llama with matrices of one quantisation.

    Args:
        kind: how matrices are stored.
        architecture: named in the header.
        tokenizer: write a vocabulary too.
        leave_out: name of a tensor that is not written.
        block_count: number of blocks by the header.
        rotary_base: of the frequencies, by the header.
        further: writes further keys and tensors.
    """
    model = _model()
    writer = GGUFWriter(path, architecture)
    writer.add_name("Tiny")
    writer.add_block_count(block_count)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(rotary_base)
    writer.add_vocab_size(len(VOCABULARY))
    if tokenizer:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(VOCABULARY)
        writer.add_token_types([TokenType.CONTROL] + [TokenType.NORMAL] * (len(VOCABULARY) - 1))
        writer.add_token_merges(MERGES)
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(0)
        writer.add_add_bos_token(False)
    state = model.state_dict()
    for tensor, parameter, heads in _names():
        stored = state[parameter].numpy()
        value = _interleaved(stored, heads) if heads else stored
        if value.ndim == 2 and kind not in (GGMLQuantizationType.F32, GGMLQuantizationType.F16):
            packed = quantize(value, kind)
            unpacked = dequantize(packed, kind)
            state[parameter].copy_(torch.from_numpy(_halved(unpacked, heads) if heads else unpacked))
            if tensor != leave_out:
                writer.add_tensor(tensor, packed, raw_dtype=kind)
        elif tensor != leave_out:
            writer.add_tensor(tensor, value)
    further(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Written(path, model)


def _model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=BLOCKS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        max_position_embeddings=128,
        rms_norm_eps=float(np.float32(1e-5)),
        tie_word_embeddings=False,
        eos_token_id=0,
        bos_token_id=0,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # as large as those of trained models, so that a wrong order of heads changes the logits
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def _names() -> list[tuple[str, str, int]]:
    """(llama.cpp's name, transformers' name, heads whose halves the file interleaves)."""
    names = [
        ("token_embd.weight", "model.embed_tokens.weight", 0),
        ("output_norm.weight", "model.norm.weight", 0),
        ("output.weight", "lm_head.weight", 0),
    ]
    parts = (
        ("attn_q", "self_attn.q_proj", HEADS),
        ("attn_k", "self_attn.k_proj", KEY_HEADS),
        ("attn_v", "self_attn.v_proj", 0),
        ("attn_output", "self_attn.o_proj", 0),
        ("ffn_gate", "mlp.gate_proj", 0),
        ("ffn_up", "mlp.up_proj", 0),
        ("ffn_down", "mlp.down_proj", 0),
        ("attn_norm", "input_layernorm", 0),
        ("ffn_norm", "post_attention_layernorm", 0),
    )
    for block in range(BLOCKS):
        names += [
            (f"blk.{block}.{first}.weight", f"model.layers.{block}.{second}.weight", n) for first, second, n in parts
        ]
    return names


def _interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama.cpp has them: it rotates neighbours, transformers the two halves of a head."""
    halves = weight.reshape(heads, 2, -1, weight.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))


def _halved(weight: np.ndarray, heads: int) -> np.ndarray:
    pairs = weight.reshape(heads, -1, 2, weight.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(weight.shape))
