"""Taking shared-layer models apart."""

from __future__ import annotations

import copy

from transformers import PreTrainedModel


def unshared(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of a shared-layer model in which every execution step has a copy of its own of the weights."""
    own = copy.deepcopy(model)
    blocks = own.model.layers
    for step in range(len(blocks)):
        blocks[step] = copy.deepcopy(blocks[step])
    group = own.config.group_size
    assert not {id(p) for p in blocks[0].parameters()} & {id(p) for p in blocks[group].parameters()}
    return own
