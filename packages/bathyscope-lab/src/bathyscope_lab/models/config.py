"""What all shared-layer models are told: how many blocks there are, and how often the group of them is repeated."""

from __future__ import annotations

from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from bathyscope.errors import OptionError

_NORMS = ("layer_norm", "rms_norm")


@strict
class SharedLayerConfig(PreTrainedConfig):
    """A group of ``group_size`` blocks that is run ``repeats`` times in a row.

    Args:
        vocab_size: entries of the vocabulary.
        hidden_size: width of the residual stream.
        group_size: blocks with weights of their own.
        repeats: how often the group is run; 1 = an ordinary decoder.
        num_hidden_layers: execution steps, ``group_size`` × ``repeats``; follows from these and need not be given.
        num_attention_heads: heads of every block.
        head_dim: width of a head; None = ``hidden_size`` shared out among the heads.
        rotary_share: share of each head's entries that rotary embedding turns, the first ones.
        rope_theta: base of its wavelengths.
        norm: ``"layer_norm"`` or ``"rms_norm"``, before attention, before the feed-forward part (but for
            ``post_norm_blocks``) and before the readout.
        norm_eps: their epsilon.
        post_norm_blocks: how many of the group's first blocks norm the sum of the stream and what attention or the
            feed-forward part adds to it, rather than what these read. With a quarter of them, run once, it is Mix-LN
            (Li, Yin & Liu 2024).
        initializer_range: standard deviation of all freshly drawn matrices; None = √(2 / steps) of the scale that
            keeps variances, and embeddings of about unit norm.
        max_position_embeddings: the context it is trained for; positions come from no table.

    Raises:
        OptionError: a group of no blocks, a ``num_hidden_layers`` that disagrees with ``group_size`` × ``repeats``, an
            unknown norm, more ``post_norm_blocks`` than the group has, heads that do not fit the width, a
            ``rotary_share`` that leaves an odd number of entries, or an ``initializer_range`` of 0 or less.
    """

    keys_to_ignore_at_inference: ClassVar = ["past_key_values"]

    vocab_size: int = 8000
    hidden_size: int = 1024
    group_size: int = 2
    repeats: int = 9
    num_hidden_layers: int | None = None
    num_attention_heads: int = 16
    head_dim: int | None = None
    rotary_share: float = 0.5
    rope_theta: float = 10000.0
    norm: str = "layer_norm"
    norm_eps: float = 1e-5
    post_norm_blocks: int = 0
    initializer_range: float | None = None
    max_position_embeddings: int = 1024
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        _require_group(self)
        self.num_hidden_layers = self.group_size * self.repeats
        if self.head_dim is None:
            if self.hidden_size % self.num_attention_heads:
                raise OptionError(
                    f"hidden_size={self.hidden_size} cannot be shared out among {self.num_attention_heads} heads; give "
                    "head_dim, or a multiple of num_attention_heads."
                )
            self.head_dim = self.hidden_size // self.num_attention_heads
        _require_rotary(self.rotary_share, self.head_dim)
        if self.norm not in _NORMS:
            raise OptionError(f"norm={self.norm!r} is unknown; allowed: {', '.join(_NORMS)}.")
        if not 0 <= self.post_norm_blocks <= self.group_size:
            raise OptionError(
                f"post_norm_blocks={self.post_norm_blocks} of group_size={self.group_size}; give 0 to "
                f"{self.group_size}."
            )
        if self.initializer_range is not None and not self.initializer_range > 0:
            raise OptionError(
                f"initializer_range={self.initializer_range} is no standard deviation; give a number above 0, such as "
                "0.02, or leave it out."
            )
        super().__post_init__(**kwargs)

    @property
    def parts_add(self) -> bool:
        """Whether what attention and the feed-forward part contribute sums to what every block adds."""
        return self.post_norm_blocks == 0

    @property
    def rotary_entries(self) -> int:
        """How many entries of each head are turned."""
        assert self.head_dim is not None
        return round(self.rotary_share * self.head_dim)


def _require_group(config: SharedLayerConfig) -> None:
    if config.group_size < 1 or config.repeats < 1:
        raise OptionError(
            f"group_size={config.group_size} and repeats={config.repeats}: a model needs at least one block, and at "
            "least one run of it."
        )
    steps = config.group_size * config.repeats
    if config.num_hidden_layers not in (None, steps):
        raise OptionError(
            f"num_hidden_layers={config.num_hidden_layers} disagrees with group_size={config.group_size} × "
            f"repeats={config.repeats} = {steps} execution steps; leave num_hidden_layers out."
        )


def _require_rotary(share: float, head_dim: int) -> None:
    entries = share * head_dim
    if not 0 <= share <= 1 or entries != round(entries) or round(entries) % 2:
        raise OptionError(
            f"rotary_share={share} of a head of {head_dim} entries is {entries:g} entries; an even number from 0 to "
            f"{head_dim} is needed, since they are turned in pairs."
        )
