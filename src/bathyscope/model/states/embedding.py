"""Whether stored states are of the head's own checkpoint: boundary 0 is what its embedding gives for the prompts' ids.

A family may multiply the embedding by a factor, or bring it to one length, in front of block 0. So directions are
compared, which two checkpoints do not share. Where it adds something for a token's place, that cancels between two
tokens at one place of different prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor, nn

from bathyscope.core.text import counted
from bathyscope.errors import ModelError, warn
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.plain import token_table
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.states.folder import StatesFolder, StoredPrompt

ReadRows = Callable[[Sequence[str], Sequence[int], torch.dtype], Tensor | None]
"""Returns rows of the tensor that has one of these names, by number; None where the checkpoint does not hold it."""
_ROUNDINGS: Final = 4
"""Half units in the last place by which boundary 0 may leave the embedding's direction: the weight is rounded to the
dtype of the states, and so may be a factor, the product, and what is stored."""
_APART: Final = 0.05
"""Share of the ids that may have other states: an image stands behind an id of its own, which is no text."""


@dataclass(frozen=True)
class HeadEmbedding:
    """What is known of the embedding of a head's checkpoint.

    Args:
        names: of its matrix in the model; several where it is tied.
        adds_positions: whether something is added to it that depends on the place of a token.
        obstacle: why boundary 0 cannot be compared with it; empty where it can.
        rows: reads some rows of its matrix.
    """

    names: tuple[str, ...]
    adds_positions: bool
    obstacle: str
    rows: ReadRows


def find_embedding(
    outline: Any, family: Family, blocks: Sequence[nn.Module], width: int, adds_positions: bool, rows: ReadRows
) -> HeadEmbedding:
    """Return the embedding of an outline, with what may stand between it and the first block."""
    table = token_table(outline)
    weight = table.weight
    names = [name for name, tensor in outline.named_parameters(remove_duplicate=False) if tensor is weight]
    own_path = next(path for path, module in outline.named_modules() if module is table)
    behind = [submodule(outline, path) for path in (family.final_norm, family.head, family.projection) if path]
    between = _learned_between(outline, own_path, [*blocks, *behind])
    obstacle = ""
    if weight.shape[-1] != width:  # type: ignore[index]
        obstacle = f"it is {weight.shape[-1]} wide, and the stream {width}"  # type: ignore[index]
    elif between:
        obstacle = f"{between[0]} may stand between it and the first block"
    return HeadEmbedding(tuple(names), adds_positions, obstacle, rows)


def _learned_between(outline: nn.Module, path: str, others: Sequence[nn.Module | None]) -> list[str]:
    """Return what may act on an embedding: weights next to it and inside of it, and norms without weights.

    Args:
        path: of the embedding.
        others: modules that do not.
    """
    stem = path.rpartition(".")[0]
    own_weights = [f"{path}.{name}" for name, _ in outline.get_submodule(path).named_parameters() if name != "weight"]
    loose_weights = [f"{stem}.{name}" for name in outline.get_submodule(stem)._parameters]
    elsewhere = {id(module) for other in others if other is not None for module in other.modules()}
    modules = [
        inner
        for inner, module in outline.get_submodule(stem).named_modules(prefix=stem)
        if inner != stem
        and id(module) not in elsewhere
        # a table of positions adds one vector to all tokens at a place
        and not isinstance(module, nn.Embedding)
        and (module._parameters or "norm" in type(module).__name__.lower())
    ]
    return [*own_weights, *loose_weights, *modules]


def check_embedding(states: StatesFolder, embedding: HeadEmbedding, chosen: Sequence[StoredPrompt], tokens: int) -> str:
    """Refuse a boundary 0 that is not the embedding of the prompts' ids, and return what was compared.

    Args:
        chosen: prompts to look at.
        tokens: how many first tokens of each.

    Raises:
        ModelError: the states are of another model than the head.
    """
    obstacle = "boundary 0 is not stored" if states.boundaries[0] else embedding.obstacle
    if obstacle:
        return f"embedding of the head: not compared with the states, since {obstacle}"
    ids = sorted({token for prompt in chosen for token in prompt.ids[:tokens]})
    rows_ID = embedding.rows(embedding.names, ids, states.dtype)
    if rows_ID is None:
        return "embedding of the head: not compared with the states, since its folder does not hold it"
    row_by_id = dict(zip(ids, rows_ID.double(), strict=True))
    compare = _between_prompts if embedding.adds_positions else _token_by_token
    agrees: dict[int, bool] = {}
    for token, same in compare(states, chosen, tokens, row_by_id):
        agrees[token] = agrees.get(token, False) or same
    if not agrees:
        return "embedding of the head: not compared with the states, since no two prompts differ at one place"
    apart = [token for token, same in agrees.items() if not same]
    if len(apart) > _APART * len(agrees):
        raise ModelError(
            f"Boundary 0 of the states in {states.folder} is not the embedding of the head's checkpoint, at "
            f"{len(apart)} of {counted(len(agrees), 'token id')}: they are of another model or another training of "
            "it, or the ids of boundaries are off. Give the head of the model that was served."
        )
    if apart:
        warn(
            f"Boundary 0 of the states is the embedding of the head's checkpoint but for the token ids {apart[:3]}: "
            "inputs that are no text, or rows that were trained in the model that was served and not in the head's."
        )
    return f"embedding of the head: that of boundary 0, at {len(agrees) - len(apart)} of {len(agrees)} token ids"


def _token_by_token(
    states: StatesFolder, chosen: Sequence[StoredPrompt], tokens: int, row_by_id: dict[int, Tensor]
) -> Iterator[tuple[int, bool]]:
    """Yield for every token whether its state has the direction of its row."""
    for prompt in chosen:
        for token, state_D in zip(prompt.ids, states.states_of(prompt, tokens)[:, 0].double()):
            row_D = row_by_id[token]
            yield token, _has_direction(state_D, row_D, float(state_D.norm()), states.dtype)


def _between_prompts(
    states: StatesFolder, chosen: Sequence[StoredPrompt], tokens: int, row_by_id: dict[int, Tensor]
) -> Iterator[tuple[int, bool]]:
    """Yield for every token whether it differs from the one at its place in another prompt as their rows do."""
    for first, second in pairwise(chosen):
        states_of_both = [states.states_of(prompt, tokens)[:, 0].double() for prompt in (first, second)]
        for token, other, state_D, other_D in zip(first.ids, second.ids, *states_of_both):
            if token != other:
                size = float(state_D.norm() + other_D.norm())
                rows_D = row_by_id[token] - row_by_id[other]
                same = _has_direction(state_D - other_D, rows_D, size, states.dtype)
                yield from ((token, same), (other, same))


def _has_direction(vector_D: Tensor, row_D: Tensor, size: float, dtype: torch.dtype) -> bool:
    """Whether a vector is a positive multiple of another, up to the rounding of numbers of this size."""
    factor = float(vector_D @ row_D) / max(float(row_D @ row_D), torch.finfo(torch.float64).tiny)
    kind = torch.finfo(dtype)
    room = _ROUNDINGS * (size * kind.eps / 2 + kind.smallest_normal * len(row_D) ** 0.5)
    # no difference at all is one of two rows only where rounding hides theirs: states that are all zero tell nothing
    is_seen = factor > 0 or float(row_D.norm()) <= room
    return is_seen and factor >= 0 and float((vector_D - factor * row_D).norm()) <= room
