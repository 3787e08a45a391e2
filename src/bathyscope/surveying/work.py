"""The work of a survey, counted: operations of matrix products in blocks, and readouts, of every prompt.

A prompt that a measure leaves out costs that measure nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.model.anatomy.anatomy import Anatomy, config_of
from bathyscope.model.anatomy.configurations import block_configurations


@dataclass(frozen=True)
class PromptWork:
    """What one prompt of a survey costs.

    Args:
        tokens: of the prompt.
        rows: full rows that measures bring into the wave, without the baseline.
        rows_after: what measures compute once the wave has passed, in full rows.
        block_flops: floating-point operations of matrix products in blocks.
        compared: readouts of a token that are compared in one or two ways.
        compared_in_all_ways: those that are compared in most of the ways that there are, as the lens does.
    """

    tokens: int
    rows: float
    rows_after: float
    block_flops: float
    compared: float
    compared_in_all_ways: float

    @property
    def share_after(self) -> float:
        """Share of the operations in blocks that comes once the wave has passed."""
        return self.rows_after / count_forwards(self.rows, self.rows_after)


def count_forwards(rows: float, rows_after: float) -> float:
    """Count full forwards: the baseline, the rows, and a control where anything intervenes."""
    return 1 + (1 if rows + rows_after else 0) + rows + rows_after


class WorkCounter:
    """Counts what each prompt of a survey costs, with measures that are prepared for its prompts."""

    def __init__(self, facts: ModelFacts, measures: Sequence[Measure[Any]]) -> None:
        self._facts, self._measures = facts, measures
        # prompts of one length that the same measures look at cost the same
        self._by_kind: dict[tuple[Any, ...], PromptWork] = {}

    def of(self, number: int, tokens: int) -> PromptWork:
        """Count the work of the prompt of this number, of this many tokens."""
        measuring = [measure for measure in self._measures if measure.measures_prompt(number)]
        kind = tokens, *(measure.name for measure in measuring)
        if kind not in self._by_kind:
            self._by_kind[kind] = self._count(measuring, tokens)
        return self._by_kind[kind]

    def _count(self, measures: Sequence[Measure[Any]], tokens: int) -> PromptWork:
        facts = self._facts
        rows = sum(m.rows_per_prompt(facts, tokens) for m in measures)
        after = sum(m.rows_after(facts, tokens) for m in measures)
        forwards = count_forwards(rows, after)
        readouts = {True: 0.0, False: 0.0}
        for measure in measures:
            readouts[measure.compares_in_all_ways] += measure.readouts_per_prompt(facts, tokens)
        return PromptWork(
            tokens=tokens,
            rows=rows,
            rows_after=after,
            block_flops=tokens * forwards * (self._weight_flops + attention_flops(facts.anatomy, tokens)),
            compared=tokens * readouts[False],
            compared_in_all_ways=tokens * readouts[True],
        )

    @cached_property
    def _weight_flops(self) -> float:
        return weight_flops(self._facts.anatomy)


def weight_flops(anatomy: Anatomy) -> float:
    """Count the operations of one token with the weights of all blocks: two for each entry of a matrix.

    Of experts only the chosen ones are met.
    """
    configs = block_configurations(config_of(anatomy.model))
    # A looped model runs its blocks several times, and the configurations are those of one turn.
    return 2.0 * sum(
        weight.numel() * _share_met(f".{name}.", configs[number % len(configs)])
        for number, block in enumerate(anatomy.blocks)
        for name, weight in block.named_parameters()
        if weight.ndim >= 2
    )


def attention_flops(anatomy: Anatomy, tokens: int) -> float:
    """Count the operations of one token's attention in all blocks, to half of the tokens on average."""
    if anatomy.is_stored:
        return 0.0
    queries = [width for width, _ in _head_widths(anatomy)]
    return 2.0 * tokens * sum(queries) / len(queries) * anatomy.n_blocks


def _share_met(name: str, config: object) -> float:
    """Return the part of a matrix that one token meets."""
    for parts, counts, chosen in _EXPERTS:
        if any(part in name for part in parts):
            return float(_first(config, chosen) / _first(config, counts))
    return 1.0


def _first(config: object, names: Sequence[str]) -> Any:
    """What the first of the names that a configuration knows stands for; 1 where it knows none."""
    return next((getattr(config, name) for name in names if getattr(config, name, None)), 1)


_EXPERTS = (
    (
        (".experts.",),
        ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
        ("num_experts_per_tok", "moe_k"),
    ),
    ((".value_experts.", ".output_experts."), ("attention_experts",), ("attention_experts_per_tok",)),
)
"""Kinds of experts: parts of their weights' names, what configurations call their number, and that of the chosen."""


def key_width(anatomy: Anatomy) -> int:
    """Return the width of keys (or values) of all heads together, in the block where it is largest."""
    return max(keys for _, keys in _head_widths(anatomy))


def _head_widths(anatomy: Anatomy) -> list[tuple[int, int]]:
    """Return the widths of queries, and of keys (or values), of all heads together, for each configuration."""
    configs = block_configurations(config_of(anatomy.model))
    return [_read_head_widths(config, anatomy.width) for config in configs]


def _read_head_widths(config: Any, width: int) -> tuple[int, int]:
    names = ("num_attention_heads", "head_dim", "num_key_value_heads")
    heads, size, shared = (getattr(config, name, None) for name in names)
    queries = heads * size if isinstance(heads, int) and isinstance(size, int) else width
    keys = queries * shared // heads if heads and isinstance(heads, int) and isinstance(shared, int) else queries
    return queries, keys
