"""MoEUT written out: NumPy in float64, one token, head and expert at a time, from the weights of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]


def forward(weights: Weights, config: Any, ids: Sequence[int]) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
    """Logits [T, V] of one sequence, and the scores [T, (heads,) E] of every router, step by step, by its name."""
    x = np.stack([weights["model.embed_tokens.weight"][token] for token in ids])
    scores: dict[str, list[np.ndarray]] = {"value": [], "output": [], "feed_forward": []}
    for step in range(config.group_size * config.repeats):
        own = part(weights, f"model.layers.{step % config.group_size}.")
        x = x + attention(own, config, x, scores)
        x = x + feed_forward(own, config, x, scores)
    x = layer_norm(x, part(weights, "model.norm."), config.norm_eps)
    return x @ weights["lm_head.weight"].T, scores


def attention(own: Weights, config: Any, x: np.ndarray, scores: dict[str, list[np.ndarray]]) -> np.ndarray:
    """What attention adds to the stream x [T, d]."""
    tokens, heads, size, experts = len(x), config.num_attention_heads, config.head_dim, config.attention_experts
    taken = config.attention_experts_per_tok
    normed = layer_norm(x, part(own, "input_layernorm."), config.norm_eps)
    names = ("value", "output")
    found = {name: np.zeros((tokens, heads, experts)) for name in names}
    added = np.zeros_like(x)
    for head in range(heads):
        rows = slice(head * size, (head + 1) * size)
        choices = slice(head * experts, (head + 1) * experts)
        query, key = (own[f"self_attn.{kind}_proj.weight"][rows] for kind in "qk")
        value_experts, output_experts = (own[f"self_attn.{name}_experts"][choices] for name in names)
        for name in names:
            found[name][:, head] = normed @ own[f"self_attn.{name}_router.weight"][choices].T
        keys = [rotated(key @ normed[t], t, config) for t in range(tokens)]
        values = []
        for t in range(tokens):
            score = found["value"][t, head]
            values.append(sum(sigmoid(score[e]) * (x[t] @ value_experts[e]) for e in highest(score, taken)))
        for t in range(tokens):
            turned = rotated(query @ normed[t], t, config)
            weight = softmax(np.array([turned @ keys[past] / np.sqrt(size) for past in range(t + 1)]))
            z = sum(weight[past] * values[past] for past in range(t + 1))
            score = found["output"][t, head]
            added[t] += sum(sigmoid(score[e]) * (z @ output_experts[e]) for e in highest(score, taken))
    for name in names:
        scores[name].append(found[name])
    return added


def feed_forward(own: Weights, config: Any, x: np.ndarray, scores: dict[str, list[np.ndarray]]) -> np.ndarray:
    """What the experts add to the stream x [T, d]."""
    normed = layer_norm(x, part(own, "post_attention_layernorm."), config.norm_eps)
    score = normed @ own["mlp.router.weight"].T
    added = np.zeros_like(x)
    for t in range(len(x)):
        for e in highest(score[t], config.num_experts_per_tok):
            neurons = np.maximum(x[t] @ own["mlp.experts.up_proj"][e], 0)
            added[t] += sigmoid(score[t, e]) * (neurons @ own["mlp.experts.down_proj"][e])
    scores["feed_forward"].append(score)
    return added


def balance(steps: Sequence[np.ndarray]) -> float:
    """Mean over steps, and heads where there are some, of Σ p ln p; p the mean over tokens of softmax(scores)."""
    found = []
    for score in steps:
        by_choice = score.reshape(len(score), -1, score.shape[-1])
        for choice in range(by_choice.shape[1]):
            p = np.mean([softmax(token) for token in by_choice[:, choice]], axis=0)
            found.append(sum(one * np.log(one) for one in p))
    return float(np.mean(found))


def rotated(head: np.ndarray, position: int, config: Any) -> np.ndarray:
    """A query or key with its first entries turned; the two of a pair stand half of the turned entries apart."""
    entries = round(config.rotary_share * config.head_dim)
    found = head.copy()
    for pair in range(entries // 2):
        angle = position * config.rope_theta ** (-2 * pair / entries)
        one, other = head[pair], head[pair + entries // 2]
        found[pair] = one * np.cos(angle) - other * np.sin(angle)
        found[pair + entries // 2] = other * np.cos(angle) + one * np.sin(angle)
    return found


def highest(score: np.ndarray, taken: int) -> np.ndarray:
    """The experts with the highest scores."""
    return np.argsort(-score)[:taken]


def layer_norm(x: np.ndarray, norm: Weights, eps: float) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * norm["weight"] + norm["bias"]


def softmax(score: np.ndarray) -> np.ndarray:
    grown = np.exp(score - score.max())
    return grown / grown.sum()


def sigmoid(score: float) -> float:
    return 1 / (1 + np.exp(-score))


def part(weights: Weights, prefix: str) -> Weights:
    """Weights below a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
