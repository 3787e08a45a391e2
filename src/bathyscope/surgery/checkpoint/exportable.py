"""Which models can be exported: plain ones that their configuration makes, as plain transformers loads them."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.gaps import random_ids
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.attending import registered_in_words
from bathyscope.model.classes import class_for, loads_by_itself
from bathyscope.model.constants.tables import changed_tables
from bathyscope.model.in_hand import (
    has_adapters,
    renumbered,
    stale_places,
    values_changed,
)
from bathyscope.model.replaced import replaced_in_words
from bathyscope.model.structure import stored_difference
from bathyscope.surgery.checkpoint.source import Source


def require_plain(source: Source) -> None:
    """Refuse what plain transformers could not load, or what cannot be copied tensor by tensor.

    Raises:
        ModelError: a type of another library or without a causal language model of its own, or quantised weights.
    """
    config = source.config
    kind = str(getattr(config, "model_type", "")) or type(config).__name__
    if not type(config).__module__.startswith("transformers."):
        raise ModelError(
            f"{kind} models cannot be exported: their type is made known by {type(config).__module__.split('.')[0]}, "
            "and an exported checkpoint is one that transformers loads by itself."
        )
    if not loads_by_itself(config):
        raise ModelError(
            f"{kind} models cannot be exported: transformers has no causal language model of a "
            f"{type(config).__name__} alone, so that no checkpoint of one can be loaded by itself."
        )
    if getattr(config, "quantization_config", None) is not None:
        raise ModelError(
            f"The weights of {source.name} are quantised, with scales that belong to blocks in ways of their own; "
            "export the model before it was quantised, and quantise the export."
        )


def require_library_attention(source: Source) -> None:
    """Refuse a model in memory that attends with a function that somebody has registered.

    Raises:
        ModelError: with its name.
    """
    if source.hf is not None and (registered := registered_in_words(source.hf)):
        raise ModelError(
            f"This {type(source.hf).__name__} cannot be exported: {registered}, and no checkpoint holds it. Put the "
            "library's own back, and measure the model with that."
        )


def require_all_layers(source: Source, whole: PreTrainedModel) -> None:
    """Refuse a model in memory that is not what its configuration makes.

    Raises:
        ModelError: another class, adapters, other shapes than the configuration says, or constants, tables and methods
            that were changed in memory. Numbers of places are no constants: those of the export are right.
    """
    if source.hf is None:
        return
    if type(source.hf) is not type(whole):
        raise ModelError(
            f"This {type(source.hf).__name__} cannot be exported: {class_for(source.config).__name__} makes a "
            f"{type(whole).__name__} of its configuration."
        )
    hf = source.hf
    if has_adapters(hf):
        raise ModelError(
            f"This {type(hf).__name__} has adapters, and a checkpoint holds plain layers alone. Merge them first "
            "(merge_and_unload()), then export."
        )
    shape = stored_difference(hf, whole)
    if shape:
        raise ModelError(
            f"This {type(hf).__name__} cannot be exported: {shape} as its configuration says. Write the change into "
            "the configuration, by which a checkpoint is loaded, or undo it."
        )
    places = stale_places(hf)
    changed = [*(name for name in values_changed(hf) if name not in places), *changed_tables(hf)]
    if changed:
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        remedy = "" if replaced_in_words(hf) else ", or write it into the configuration"
        raise ModelError(
            f"{changed[0]} of this {type(hf).__name__}{more} is not what its configuration makes, and no checkpoint "
            f"holds it. Undo the change{remedy}."
        )
    if places:
        _require_renumbering(hf, places[0])


@torch.no_grad()
def _require_renumbering(hf: PreTrainedModel, place: str) -> None:
    """Refuse a model that computes something else where its blocks bear the numbers of their places.

    Raises:
        ModelError: numbers are more than addresses of a cache in this family.
    """
    ids = random_ids(hf)
    with evaluating(hf):
        as_it_is = hf(input_ids=ids, use_cache=False, return_dict=True).logits
        with renumbered(hf):
            by_place = hf(input_ids=ids, use_cache=False, return_dict=True).logits
    if not torch.equal(as_it_is, by_place):
        raise ModelError(
            f"{place} of this {type(hf).__name__} is the number of another place, and its family computes with it, so "
            "that no checkpoint holds this model. Renumber the blocks first, and measure the model that results."
        )
