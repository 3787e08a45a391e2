"""Where the weights of two models differ, tensor by tensor and by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bathyscope.analysis.between.diff_text import SCALING_OF_ADAPTERS, name_places
from bathyscope.core.text import elided
from bathyscope.model import Model, adapters_of, config_hash
from bathyscope.model.anatomy.family import Site
from bathyscope.model.attending import implementations_of
from bathyscope.model.constants.comparing import differing_constants
from bathyscope.model.constants.departure import departure_of
from bathyscope.model.streaming.lending import lent
from bathyscope.model.weights import configuration_difference
from bathyscope.wavefront.adapters import acting_adapters, adapter_scalings, effective_state, is_adapted

EMBEDDING: Final = "embedding"
FINAL_NORM: Final = "final norm"
UNEMBEDDING: Final = "unembedding"
_MOST_NAMES: Final = 3
_ROWS: Final = 4096
"""Rows of a matrix that are compared at once."""


@dataclass(frozen=True)
class WeightComparison:
    """What two models differ in before anything is run.

    Args:
        changes: ‖W_B − W_A‖ / ‖W_A‖ of each block; NaN where its tensors have other names or shapes, or where all of
            A's are 0 and B's are not.
        differs: whether each block may compute anything different.
        places: where weights differ as numbers, each ``"block 3, mlp"``, ``"block 3"`` (outside of its parts),
            ``"embedding"``, ``"final norm"``, ``"unembedding"``, or a tensor's name; None = not all tensors have the
            same names and shapes in both.
        settings: what else differs: ``"configuration"``, ``"constants"``, ``"attention"`` (its implementation),
            ``"precision"``, ``"adapters"`` (their state), ``"unknown"``.
        details: the same in words: entries of the configuration with both values, constants by path.
        by_adapters: the places are those of adapters.
    """

    changes: NDArray[np.float64]
    differs: list[bool]
    places: list[str] | None
    settings: list[str]
    by_adapters: bool = False
    details: tuple[str, ...] = ()


def compare_weights(a: Model, b: Model) -> WeightComparison:
    """Compare two models of one shape. Equal numbers in two precisions are equal."""
    # Equal weights under another configuration, with other constants (tables, scales changed in memory), or in another
    # precision, still compute something else.
    details_by_setting = _compare_settings(a, b)
    settings = details_by_setting.keys()
    changes, differs, places, scaled_places, comparable = [], [], [], [], True
    for number, blocks in enumerate(zip(a.anatomy.blocks, b.anatomy.blocks, strict=True)):
        with lent(blocks[0]) as left_block, lent(blocks[1]) as right_block:
            left, right = _with_absent_biases(effective_state(left_block), effective_state(right_block))
            same = _have_the_same_shapes(left, right)
            names = _differing(left, right) if same else []
            scaled = _differently_scaled(left_block, right_block)
            changes.append(_relative_change(left, right) if same else float("nan"))
        comparable = comparable and same
        # adapters show in the tensors and factors of the blocks that have them
        differs.append(not same or bool(names) or bool(scaled) or bool(settings - {"adapters"}))
        places += sorted({_place_in_block(a, number, name) for name in names})
        scaled_places += sorted({_place_in_block(a, number, name) for name in scaled})
    left, right = _with_absent_biases(*(_outside_of_blocks(model) for model in (a, b)))
    left, right = _with_shared_rows(left, right, a.vocabulary, b.vocabulary)
    comparable = comparable and _have_the_same_shapes(left, right)
    if comparable:
        inside = _prefixes_of_blocks(a)
        scaled = [name for name in _differently_scaled(a.hf, b.hf) if not name.startswith(inside)]
        scaled_places = [*(_place_outside(a, name) for name in scaled), *scaled_places]
        places = [*(_place_outside(a, name) for name in _differing(left, right)), *places]
    if scaled_places:
        details_by_setting["adapters"] = [f"{SCALING_OF_ADAPTERS} in {name_places(list(dict.fromkeys(scaled_places)))}"]
    return WeightComparison(
        np.array(changes),
        differs,
        list(dict.fromkeys(places)) if comparable else None,
        list(settings),
        details=tuple(detail for details in details_by_setting.values() for detail in details),
    )


def _compare_settings(a: Model, b: Model) -> dict[str, list[str]]:
    """Return what two models differ in besides weights, each with its details in words."""
    details: dict[str, list[str]] = {}
    entries = configuration_difference(a.hf.config, b.hf.config)
    entries = {name: pair for name, pair in entries.items() if not _is_size_of_vocabulary(a, name)}
    if entries:
        words = [f"{name} ({_short_text(left)} and {_short_text(right)})" for name, (left, right) in entries.items()]
        details["configuration"] = [f"{text} of the configuration" for text in _first_few(words)]
    # constants that follow from the configuration of either are no difference of their own
    departures = [departure_of(model.hf, config_hash(model.hf)) for model in (a, b)]
    if departures[0] != departures[1]:
        names = differing_constants(a.hf, b.hf, across_precisions=a.anatomy.dtype != b.anatomy.dtype)
        names = [name for name in names if not _is_size_of_vocabulary(a, name)]
        if names:
            details["constants"] = _first_few(names)
    names = [" and ".join(dict.fromkeys(implementations_of(model.hf).values())) for model in (a, b)]
    if names[0] != names[1]:
        details["attention"] = [f"the attention implementation ({names[0]} and {names[1]})"]
    acting = [_adapter_state(model) for model in (a, b)]
    if acting[0] != acting[1]:
        states = [adapters_of(model.hf) for model in (a, b)]
        if states[0] == states[1]:
            details["adapters"] = [SCALING_OF_ADAPTERS]  # where it differs is found block by block
        elif None not in states:
            details["adapters"] = [f"the state of the adapters ({states[0]} and {states[1]})"]
    if a.anatomy.dtype != b.anatomy.dtype:
        details["precision"] = ["the precision"]
    return details


def _is_size_of_vocabulary(model: Model, name: str) -> bool:
    """Whether an entry says how many tokens there are: further ones change nothing that is computed from the others."""
    entry = name.rpartition(".")[2]
    of_rows = entry in ("num_embeddings", "out_features") and _place_outside(model, name) in (EMBEDDING, UNEMBEDDING)
    return entry == "vocab_size" or of_rows


def _adapter_state(model: Model) -> dict[str, Any]:
    """Return which adapters act in which layer, and the factor of each, by the names of tensors."""
    layers = {
        name: module for name, module in model.hf.named_modules() if is_adapted(module) and acting_adapters(module)
    }
    paths = {name: tuple(range(len(acting_adapters(module)))) for name, module in layers.items()}
    return {**paths, **adapter_scalings(model.hf)}


def _first_few(names: list[str]) -> list[str]:
    more = len(names) - _MOST_NAMES
    return names if more <= 0 else [*names[:_MOST_NAMES], f"{more} more"]


def _short_text(value: object) -> str:
    return "none" if value is None else elided(str(value), 30)


def compare_adapters(model: Model) -> WeightComparison:
    """Return where adapters of a model act once they are on; by how much they change its weights is not known."""
    blocks = model.anatomy.blocks
    names = [[name for name, module in block.named_modules() if _acts(module)] for block in blocks]
    places = [
        place
        for number, inside in enumerate(names)
        for place in sorted({_place_in_block(model, number, f"{name}.") for name in inside})
    ]
    outside = [_place_outside(model, name) for name in _adapted_outside(model)]
    return WeightComparison(
        np.full(len(blocks), np.nan),
        [bool(inside) for inside in names],
        list(dict.fromkeys([*outside, *places])),
        [],
        by_adapters=True,
    )


def _with_absent_biases(left: dict[str, Tensor], right: dict[str, Tensor]) -> tuple[dict[str, Tensor], ...]:
    """Return both with zeros for each bias that one alone has, next to a weight that both have: none adds nothing."""

    def filled(state: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, Tensor]:
        absent = {
            name: torch.zeros_like(tensor)
            for name, tensor in other.items()
            if name not in state and name.endswith("bias") and f"{name.removesuffix('bias')}weight" in state
        }
        return {**state, **absent}

    return filled(left, right), filled(right, left)


def _with_shared_rows(
    left: dict[str, Tensor], right: dict[str, Tensor], left_rows: int, right_rows: int
) -> tuple[dict[str, Tensor], ...]:
    """Return both with as many rows of embedding and unembedding as the smaller vocabulary has."""

    def shared(state: dict[str, Tensor], other: dict[str, Tensor], rows: int, other_rows: int) -> dict[str, Tensor]:
        has_more = {
            name
            for name, tensor in state.items()
            if name in other and tensor.ndim and (len(tensor), len(other[name])) == (rows, other_rows)
        }
        return {name: t[: min(rows, other_rows)] if name in has_more else t for name, t in state.items()}

    if left_rows == right_rows:
        return left, right
    return shared(left, right, left_rows, right_rows), shared(right, left, right_rows, left_rows)


def _have_the_same_shapes(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return {name: t.shape for name, t in left.items()} == {name: t.shape for name, t in right.items()}


def _differing(left: dict[str, Tensor], right: dict[str, Tensor]) -> list[str]:
    return [name for name, tensor in left.items() if not _are_equal(tensor, right[name])]


def _are_equal(left: Tensor, right: Tensor) -> bool:
    """Return whether two tensors of one shape hold the same numbers, whatever their precision."""
    if left is right:
        return True
    if left.dtype == right.dtype:
        return torch.equal(left, right.to(left.device))
    pairs = zip(left.reshape(-1).split(_ROWS * _ROWS), right.reshape(-1).split(_ROWS * _ROWS))
    return all(torch.equal(one.double().cpu(), other.double().cpu()) for one, other in pairs)


def _differently_scaled(left: nn.Module, right: nn.Module) -> list[str]:
    """Return the adapters that both have and scale by other factors, by name."""
    factors = adapter_scalings(left), adapter_scalings(right)
    return [name for name, factor in factors[0].items() if factors[1].get(name, factor) != factor]


def _relative_change(left: dict[str, Tensor], right: dict[str, Tensor]) -> float:
    squares = [0.0, 0.0]
    for name, tensor in left.items():
        if tensor.is_floating_point():
            reference = tensor.double().cpu()
            squares[0] += float((right[name].double().cpu() - reference).square().sum())
            squares[1] += float(reference.square().sum())
    if not squares[1]:  # nothing is no unit of what was added to it
        return float("nan") if squares[0] else 0.0
    return float(np.sqrt(squares[0] / squares[1]))


def _place_in_block(model: Model, number: int, name: str) -> str:
    """Return the block, with the part that a tensor of this name belongs to."""
    for part in ("attention", "mlp"):
        site = model.anatomy.sites.get(part)
        if site is not None and any(name.startswith(f"{path}.") for path in _paths_of(site)):
            return f"block {number}, {part}"
    return f"block {number}"


def _paths_of(site: Site) -> Iterator[str]:
    yield from (path for path in site.paths if path)
    for further in site.also:
        yield from _paths_of(further)


def _outside_of_blocks(model: Model) -> dict[str, Tensor]:
    """Return all tensors that no block holds, by name; a tensor that is in two places under each."""
    inside = _prefixes_of_blocks(model)
    return {name: tensor for name, tensor in effective_state(model.hf).items() if not name.startswith(inside)}


def _prefixes_of_blocks(model: Model) -> tuple[str, ...]:
    sources = {id(block) for block in model.anatomy.sources}
    # a block that is in several places has a name in each, and so have its tensors
    modules = model.hf.named_modules(remove_duplicate=False)
    return tuple(f"{name}." for name, module in modules if id(module) in sources)


def _adapted_outside(model: Model) -> list[str]:
    inside = _prefixes_of_blocks(model)
    modules = model.hf.named_modules()
    return [f"{name}." for name, module in modules if _acts(module) and not name.startswith(inside)]


def _acts(module: nn.Module) -> bool:
    return is_adapted(module) and bool(acting_adapters(module, on=True))


def _place_outside(model: Model, name: str) -> str:
    """Return what a tensor outside of the blocks belongs to, or its own name."""
    readout = model.anatomy.readout
    kinds: list[tuple[str, nn.Module | None]] = [
        (EMBEDDING, model.hf.get_input_embeddings() if hasattr(model.hf, "get_input_embeddings") else None),
        (FINAL_NORM, readout.norm),
        (UNEMBEDDING, readout.head),
    ]
    for place, module in kinds:
        paths = [path for path, other in model.hf.named_modules(remove_duplicate=False) if other is module]
        if module is not None and any(name.startswith(f"{path}.") for path in paths):
            return place
    return name.removesuffix(".")
