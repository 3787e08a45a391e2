"""A published table of model sizes beside what the checkpoints' configurations say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bathyscope.errors import ModelError
from bathyscope.model import load_config
from bathyscope.papers.reproduction import Sizes
from bathyscope.reproducing.models import NamedModel


@dataclass(frozen=True)
class SizePair:
    """A model's sizes, found and published; None where there are none, with the reason for what was not found."""

    model: str
    found: Sizes | None
    published: Sizes | None
    reason: str = ""


def size_pairs(published: Mapping[str, Sizes], models: Sequence[NamedModel], read: bool = True) -> list[SizePair]:
    """One row a model, from its configuration alone.

    Args:
        read: look at the configurations; otherwise only what was published is given.
    """
    listed = [(model, published.get(model.published or "")) for model in models]
    if not read:
        return [SizePair(model.name, None, sizes) for model, sizes in listed]
    return [_pair(model, sizes) for model, sizes in listed]


def _pair(model: NamedModel, published: Sizes | None) -> SizePair:
    try:
        config = load_config(model.source).get_text_config()
    except ModelError as error:
        return SizePair(model.name, None, published, str(error))
    blocks = getattr(config, "num_hidden_layers", None)
    heads = getattr(config, "num_attention_heads", None)
    if blocks is None or heads is None:
        return SizePair(model.name, None, published, f"{model.name} has a configuration without blocks and heads.")
    return SizePair(model.name, Sizes(blocks, heads, getattr(config, "num_key_value_heads", None) or heads), published)
