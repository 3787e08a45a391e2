"""Whether a family of a user's own has attention and MLP the right way round: attention alone reads other tokens."""

from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.gaps import token_gap, tolerance
from bathyscope.model.anatomy.plain import plain_forward, probe_ids
from bathyscope.model.anatomy.sites import site_modules
from bathyscope.model.streaming.lending import lender_of

_SHARP: Final = 1e-5
"""What may differ at a token that nothing reaches, by rounding."""
_SHAPE: Final = (1, 4)
_PARTS: Final = ("attention", "mlp")


@torch.no_grad()
def require_parts_in_place(anatomy: Anatomy) -> None:
    """Refuse a family whose "MLP" reads other tokens in some block while its "attention" reads none in any.

    Each module is called again on what it was given in a plain forward, with another state at the first token. Parts
    that both read other tokens, as channel mixing of RWKV, are left alone, and so are blocks that are streamed.

    Raises:
        ModelError: says that they are exchanged.
    """
    sites = anatomy.sites
    if not sites or lender_of(anatomy.blocks[0]) is not None:
        return
    modules = [
        (part, module) for block in anatomy.sources for part in _PARTS for module, _ in site_modules(block, sites[part])
    ]
    calls: list[Call] = []
    with called(modules, lambda call: calls.append(replace(call.copied(), output=call.value))):
        plain_forward(anatomy.model, probe_ids(anatomy.model, *_SHAPE), anatomy.family.name)
    changes: dict[str, list[float]] = {part: [] for part in _PARTS}
    for call in calls:
        change = _change_from_first_token(call)
        if change is None:
            return
        changes[call.path].append(change)
    dtype = next(p.dtype for p in anatomy.model.parameters() if p.is_floating_point())
    # experts multiply the tokens that chose them together, whose number rounds
    rounding = max(_SHARP, 2 * torch.finfo(dtype).eps)
    is_attention_local = bool(changes["attention"]) and max(changes["attention"]) <= rounding
    if is_attention_local and max(changes["mlp"], default=0.0) > tolerance(dtype):
        attention, mlp = ("/".join(sites[part].paths) for part in _PARTS)
        raise ModelError(
            f"{anatomy}: attention and mlp of the Family that was given are exchanged: {mlp} (mlp) reads other tokens, "
            f"and {attention} (attention) does not. Exchange the two sites."
        )


def _change_from_first_token(call: Call) -> float | None:
    """Return how far the last token's output moves with the first token's input; None where a call cannot tell."""
    args, kwargs = list(call.args), dict(call.kwargs)
    places: list[tuple[Any, Any]] = [
        *((args, place) for place in range(len(args))),
        *((kwargs, name) for name in kwargs),
    ]
    for holder, place in places:
        if _is_stream(holder[place]):
            holder[place] = _with_other_first_token(holder[place])
            break
    else:
        return None
    try:
        output = call.module(*args, **kwargs)
    # whatever a family's code raises where it is called outside of its block
    except Exception:
        return None
    value = output[0] if isinstance(output, tuple | list) and output else output
    if not _is_stream(value) or not _is_stream(call.output) or value.shape != call.output.shape:
        return None
    return token_gap(value[:, -1:], call.output[:, -1:])


def _is_stream(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim == 3 and value.shape[:2] == _SHAPE and value.is_floating_point()


def _with_other_first_token(stream_BTD: Tensor) -> Tensor:
    changed_BTD = stream_BTD.clone()
    changed_BTD[:, 0] = -stream_BTD[:, 0].roll(1, -1)
    return changed_BTD
