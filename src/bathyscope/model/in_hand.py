"""Whether a model in memory is the one that its configuration makes.

Whoever cuts blocks out of a list, narrows a layer or stacks copies leaves a configuration behind that says something
else. What is built, written or counted from the configuration has to ask here first.
"""

import copy
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.mode import default_settings
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.constants.comparing import changed_values
from bathyscope.model.placement import blocks_of
from bathyscope.model.structure import ADAPTERS, hollow, shape_difference

_PLACES = re.compile(r"\.(layer_idx|layer_id|layer_index|layer_number|block_idx)$")
_COUNTS_OF_TABLES = re.compile(r"(^|\.)(vocab_size|num_embeddings)$")
"""How long a table of tokens is: its shape says so, and the library leaves the number behind when it resizes one."""


def configured(hf: PreTrainedModel) -> PreTrainedModel | None:
    """Return the model that the configuration makes, without weights; None where it cannot be made without them."""
    try:
        with default_settings(), torch.device("meta"):
            model: PreTrainedModel = type(hf)._from_config(copy.deepcopy(hf.config))
    # code of whatever family, which may need its weights to be made
    except Exception:
        return None
    return model


def shape_departure(hf: PreTrainedModel) -> str:
    """Return the first parameter that the configuration would make otherwise; empty where all are as it says.

    Adapters are set aside.
    """
    model = configured(hf)
    difference = "" if model is None else shape_difference(hollow(hf), model)
    return f"{difference} as its configuration says" if difference else ""


def departure_in_words(hf: PreTrainedModel) -> str:
    """Return how a model differs from the one that its configuration makes; empty where it does not.

    Compared are names and shapes of parameters, classes and plain values of modules. The numbers of places count, and
    lengths of tables, which their shapes say, do not.
    """
    departure = shape_departure(hf)
    if departure:
        return departure
    changed = values_changed(hf)
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    return f"{changed[0]}{more} is not what its configuration makes" if changed else ""


def values_changed(hf: nn.Module) -> list[str]:
    """Return classes and plain values of modules that the configuration would make otherwise, by path.

    Lengths of tables are left out, which their shapes say.
    """
    return [name for name in changed_values(hf) if not _COUNTS_OF_TABLES.search(name)]


def stale_places(hf: nn.Module) -> list[str]:
    """Return modules' numbers that are not the places of their blocks, such as a ``layer_idx``, by path.

    Caches are kept by these numbers. Copies in a list and blocks behind a deleted one have others than their places.
    """
    modules = dict(hf.named_modules())
    paths = [name.rpartition(".") for name in changed_values(hf) if _PLACES.search(name)]
    # the configuration may make blocks that are no longer there
    return [f"{owner}.{key}" for owner, _, key in paths if hasattr(modules.get(owner), key)]


@contextmanager
def renumbered(hf: PreTrainedModel) -> Iterator[None]:
    """Give stale numbers those of their places inside."""
    model = configured(hf)
    before: list[tuple[nn.Module, str, Any]] = []
    for path in stale_places(hf):
        owner_path, _, key = path.rpartition(".")
        owner = hf.get_submodule(owner_path)
        assert model is not None
        before.append((owner, key, getattr(owner, key)))
        setattr(owner, key, getattr(model.get_submodule(owner_path), key))
    try:
        yield
    finally:
        for owner, key, number in before:
            setattr(owner, key, number)


def count_departure(hf: PreTrainedModel) -> str:
    """Say how many blocks a model has where its configuration says another number; empty where it says the same."""
    model = configured(hf)
    if model is None:
        return ""
    try:
        lists = blocks_of(model).split(" + ")
    except ModelError:
        return ""
    counts = [sum(len(list_) for list_ in _lists(part, lists)) for part in (hf, model)]
    if counts[0] == counts[1]:
        return ""
    return (
        f"This {type(hf).__name__} has {counts[0]} blocks, and its configuration says {counts[1]}. Set "
        f"config.num_hidden_layers = {counts[0]}, and cut what it says block by block."
    )


def _lists(model: nn.Module, paths: Sequence[str]) -> list[nn.ModuleList]:
    lists = [submodule(model, path) for path in paths]
    return [list_ for list_ in lists if isinstance(list_, nn.ModuleList)]


def has_adapters(hf: nn.Module) -> bool:
    """Whether layers of a model are inside of adapters."""
    return any(type(module).__module__.partition(".")[0] == ADAPTERS for module in hf.modules())


def require_own_places(hf: PreTrainedModel, why: str) -> None:
    """Refuse a model whose configuration counts other blocks, or whose blocks have the numbers of other places.

    Args:
        why: what numbers are for, such as "caches are kept by these numbers".

    Raises:
        ModelError: with what helps.
    """
    counted = count_departure(hf)
    if counted:
        raise ModelError(counted)
    stale = stale_places(hf)
    if stale:
        owner_path, _, key = stale[0].rpartition(".")
        number = getattr(hf.get_submodule(owner_path), key)
        raise ModelError(
            f"{stale[0]} is {number}, the number of another place: {why}. Renumber the blocks first, by setting "
            f"{key} of each to its place in the list."
        )
