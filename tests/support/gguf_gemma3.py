"""A tiny Gemma 3 as a GGUF file of mixed types, and the same weights unpacked by the formulas of the format.

Of the real file it has what is peculiar: four types of numbers, two rotary bases and windows shorter than prompts that
the header does not tell apart, a scaled and tied embedding, norms before and after each part, and norms of queries and
keys. Types of 256 numbers a block have no writer in the gguf package, so that their bytes are random here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, dequantize, quantize
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

BLOCKS, WIDTH, HEADS, HEAD, INNER, VOCABULARY, WINDOW = 7, 256, 2, 32, 256, 320, 6
EPSILON = float(np.float32(1e-6))
Q4_K, Q5_0, Q6_K, Q8_0 = (GGMLQuantizationType[name] for name in ("Q4_K", "Q5_0", "Q6_K", "Q8_0"))
PARTS = (
    ("attn_q", "self_attn.q_proj", Q5_0),
    ("attn_k", "self_attn.k_proj", Q5_0),
    ("attn_v", "self_attn.v_proj", Q8_0),
    ("attn_output", "self_attn.o_proj", Q8_0),
    ("ffn_gate", "mlp.gate_proj", Q4_K),
    ("ffn_up", "mlp.up_proj", Q4_K),
    ("ffn_down", "mlp.down_proj", Q6_K),
)
NORMS = (
    ("attn_norm", "input_layernorm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
)
SCALE = np.float16(0.002)


def config(**changes: object) -> Gemma3TextConfig:
    """The configuration that the header of the file, and the family's own defaults, amount to."""
    values: dict[str, object] = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": BLOCKS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 1,
        "head_dim": HEAD,
        "max_position_embeddings": 128,
        "rms_norm_eps": EPSILON,
        "sliding_window": WINDOW,
        "layer_types": ["full_attention" if block % 6 == 5 else "sliding_attention" for block in range(BLOCKS)],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    }
    return Gemma3TextConfig(**{**values, **changes})


def write_gemma3(path: Path) -> dict[str, torch.Tensor]:
    """Write the file and return its weights by transformers' names."""
    rng = np.random.default_rng(0)
    writer = GGUFWriter(path, "gemma3")
    writer.add_name("Tiny")
    writer.add_block_count(BLOCKS)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(1e6)
    writer.add_sliding_window(WINDOW)
    writer.add_vocab_size(VOCABULARY)
    outline = Gemma3ForCausalLM(config()).state_dict()
    state: dict[str, torch.Tensor] = {}

    def add_matrix(tensor: str, parameter: str, kind: GGMLQuantizationType) -> None:
        packed, value = packed_matrix(rng, tuple(outline[parameter].shape), kind)
        writer.add_tensor(f"{tensor}.weight", packed, raw_dtype=kind)
        state[parameter] = torch.from_numpy(value)

    def add_norm(tensor: str, parameter: str) -> None:
        # the file holds 1 + w; multiples of a power of two stay what they are when 1 is taken off
        weight = rng.integers(-512, 512, outline[parameter].shape[0]).astype(np.float32) / 1024
        writer.add_tensor(f"{tensor}.weight", weight + 1)
        state[parameter] = torch.from_numpy(weight)

    add_matrix("token_embd", "model.embed_tokens.weight", Q8_0)
    add_norm("output_norm", "model.norm.weight")
    for block in range(BLOCKS):
        for tensor, parameter, kind in PARTS:
            add_matrix(f"blk.{block}.{tensor}", f"model.layers.{block}.{parameter}.weight", kind)
        for tensor, parameter in NORMS:
            add_norm(f"blk.{block}.{tensor}", f"model.layers.{block}.{parameter}.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {**state, "lm_head.weight": state["model.embed_tokens.weight"]}


def packed_matrix(
    rng: np.random.Generator, shape: tuple[int, ...], kind: GGMLQuantizationType
) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of a random matrix, and the numbers that they stand for."""
    if kind in (Q5_0, Q8_0):
        packed = quantize((0.08 * rng.standard_normal(shape)).astype(np.float32), kind)
        return packed, dequantize(packed, kind)
    blocks = (shape[0], shape[1] // 256)
    scale = np.broadcast_to(SCALE, (*blocks, 1)).view(np.uint8)
    if kind is Q4_K:
        # one scale of the steps, one of what is taken off, twelve bytes of scales of 32 numbers each, 256 half bytes
        body = rng.integers(0, 256, (*blocks, 12 + 128), np.uint8)
        packed = np.concatenate([scale, scale, body], -1)
        return packed.reshape(shape[0], -1), unpacked_q4_k(body).reshape(shape)
    low, high = (rng.integers(0, 256, (*blocks, size), np.uint8) for size in (128, 64))
    scales = rng.integers(-8, 8, (*blocks, 16), np.int8)
    packed = np.concatenate([low, high, scales.view(np.uint8), scale], -1)
    return packed.reshape(shape[0], -1), unpacked_q6_k(low, high, scales).reshape(shape)


def unpacked_q4_k(body: np.ndarray) -> np.ndarray:
    """``d · scale · q − d · minimum``, number by number as the format is written down."""
    packed, numbers = body[..., :12].astype(int), body[..., 12:].astype(int)
    values = np.empty((*body.shape[:-1], 256), np.float32)
    for group in range(8):
        if group < 4:
            scale, minimum = packed[..., group] & 63, packed[..., group + 4] & 63
        else:
            scale = (packed[..., group + 4] & 15) | ((packed[..., group - 4] >> 6) << 4)
            minimum = (packed[..., group + 4] >> 4) | ((packed[..., group] >> 6) << 4)
        # 32 bytes hold two groups: lower halves of the bytes, then the upper ones
        bytes_of_pair = numbers[..., 32 * (group // 2) : 32 * (group // 2 + 1)]
        halves = bytes_of_pair & 15 if group % 2 == 0 else bytes_of_pair >> 4
        step, less = (np.float32(SCALE) * part.astype(np.float32)[..., None] for part in (scale, minimum))
        values[..., 32 * group : 32 * (group + 1)] = step * halves.astype(np.float32) - less
    return values


def unpacked_q6_k(low: np.ndarray, high: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """``d · scale · (q − 32)``, of q four bits in one place and two in another."""
    values = np.empty((*low.shape[:-1], 256), np.float32)
    for place in range(256):
        half, within = divmod(place, 128)
        quarter, column = divmod(within, 32)
        byte = low[..., 64 * half + 32 * (quarter % 2) + column].astype(int)
        four = byte & 15 if quarter < 2 else byte >> 4
        two = (high[..., 32 * half + column].astype(int) >> (2 * quarter)) & 3
        step = np.float32(SCALE) * scales[..., 8 * half + 2 * quarter + column // 16].astype(np.float32)
        values[..., place] = step * ((four | (two << 4)) - 32).astype(np.float32)
    return values
