"""``reordered``: a loaded model whose own blocks are those of a schedule, on the same weights."""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.model import Model, load
from bathyscope.schedule import Schedule
from bathyscope.surgery.export_source import Source
from bathyscope.surgery.exporting import layout_of, require_all_layers, schedule_for
from bathyscope.surgery.outline import fill, skeleton


def reordered(model: Model, schedule: Schedule | str) -> Model:
    """The model that ``export`` would write, in memory and without a copy of its weights.

    Args:
        schedule: the order of the blocks, or its text such as ``"drop:2,drop:5"``.

    Raises:
        OptionError: a schedule that cannot be read or leaves no block.
        ModelError: an order that the family's configuration cannot say, with what differs; streamed blocks; a check
            that fails.
    """
    chosen = schedule_for(schedule, model.n_blocks)
    if chosen.is_standard:
        return model
    if model.blocks is not None:
        raise ModelError(
            f"schedule={str(schedule)!r} needs a model in memory, and the blocks of {model.name} are streamed; export "
            "it (bathyscope export MODEL SCHEDULE FOLDER), and survey the exported checkpoint."
        )
    hf = model.hf
    source = Source(model.name, hf.config, hf, family=model.anatomy.family)
    config, layout = layout_of(source, chosen)
    config._attn_implementation = hf.config._attn_implementation
    whole, copy = skeleton(hf.config), skeleton(config)
    require_all_layers(source, whole)
    theirs = hf.state_dict(keep_vars=True)

    def shared(name: str, like: Tensor) -> Tensor:
        return layout.taken(name, theirs, tuple(like.shape)).detach()

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        fill(copy, shared)
    copy.to(model.device).eval()  # type: ignore[arg-type]
    made = load(copy, family=model.anatomy.family)
    return replace(model, anatomy=made.anatomy, checks=made.checks, weight_hash=made.weight_hash, schedule=str(chosen))
