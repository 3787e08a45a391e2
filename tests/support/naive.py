"""Plain reference implementation: one full forward of the real model per intervention.

Nothing is shared, padded, batched or cached here, and no engine code is used; only the families' declarations
say which submodules carry the parts. Every function takes the model, its list of blocks and the token ids of
one prompt. Shapes: L blocks, T tokens, d width, V vocabulary. Definitions: measures 0, 3 and 6.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.model.anatomy.family import Family, Site
from bathyscope.model.anatomy.registry import family_for

Blocks = Sequence[nn.Module]


def blocks_of(model: PreTrainedModel) -> nn.ModuleList:
    """The model's blocks, at the path its family declares."""
    family = family_of(model)
    blocks = attrgetter(family.blocks)(model)
    if family.idle is None:
        return blocks
    return nn.ModuleList(block for block in blocks if not hasattr(block, family.idle))


def family_of(model: PreTrainedModel) -> Family:
    """The declared family of the model; raises KeyError where there is none."""
    family = family_for(model.config.model_type)
    if family is None:
        raise KeyError(model.config.model_type)
    return family


def logits(model: PreTrainedModel, ids: Sequence[int]) -> Tensor:
    """Logits [T, V] of the untouched model, or of one whose hooks are in place."""
    with torch.no_grad():
        return model(torch.tensor([list(ids)]), use_cache=False).logits[0].clone()


def boundaries(model: PreTrainedModel, blocks: Blocks, ids: Sequence[int]) -> Tensor:
    """The residual stream [L+1, T, d]: every block's input, then the last block's output."""
    return _run(model, blocks, ids)[0]


def contributions(model: PreTrainedModel, blocks: Blocks, ids: Sequence[int]) -> dict[str, Tensor]:
    """What ``attention``, ``mlp`` and ``others`` add to the stream in each block, each [L, T, d].

    Read by hooks on the sites that the family declares. A kind without a site in this model is left out;
    where only some blocks have it, it is 0 in the rest.
    """
    found: dict[str, dict[int, Tensor]] = {}
    with ExitStack() as stack:
        for kind, sites in sites_of(model).items():
            for index, block in enumerate(blocks):
                for module, site in modules_at(block, sites):
                    sums = found.setdefault(kind, {})
                    stack.enter_context(_reading(module, site, block, index, sums))
        logits(model, ids)
    zero = torch.zeros(1)
    return {
        kind: torch.stack(torch.broadcast_tensors(*(sums.get(index, zero) for index in range(len(blocks)))))
        for kind, sums in found.items()
    }


def sites_of(model: PreTrainedModel) -> dict[str, tuple[Site, ...]]:
    """The declared sites by kind; empty tuples where the configuration makes the parts inseparable."""
    family = family_of(model)
    separable = family.parts_when is None or getattr(model.config, family.parts_when[0]) == family.parts_when[1]
    return {
        "attention": (family.attention,) if separable and family.attention else (),
        "mlp": (family.mlp,) if separable and family.mlp else (),
        "others": family.others,
    }


def modules_at(block: nn.Module, sites: Iterable[Site]) -> Iterator[tuple[nn.Module, Site]]:
    """The submodules of ``block`` that carry the sites, together with the sites summed to them."""
    for site in sites:
        held = [_submodule(block, path) for path in site.paths]
        module = next((module for module in held if module is not None), None)
        if module is not None:
            yield module, site
        yield from modules_at(block, site.also)


def skip_all(
    model: PreTrainedModel,
    blocks: Blocks,
    ids: Sequence[int],
    s: int,
    part: str = "block",
    protect_first: int = 1,
) -> tuple[Tensor, Tensor]:
    """Skip block ``s`` (or its ``attention`` or ``mlp``) at every position from ``protect_first`` on.

    Returns the intervened stream [L+1, T, d] and logits [T, V].
    """
    return _skip(model, blocks, ids, s, range(protect_first, len(ids)), part)


def skip_future(
    model: PreTrainedModel,
    blocks: Blocks,
    ids: Sequence[int],
    s: int,
    t: int,
    part: str = "block",
    protect_first: int = 1,
) -> tuple[Tensor, Tensor]:
    """Skip block ``s`` (or a part of it) at the positions from ``protect_first`` to ``t`` − 1.

    Returns the intervened stream [L+1, T, d] and logits [T, V], all positions; the measure looks at ``t`` on.
    """
    return _skip(model, blocks, ids, s, range(protect_first, t), part)


def direct(
    model: PreTrainedModel,
    blocks: Blocks,
    stream: Tensor,
    ids: Sequence[int],
    s: int,
    block: int,
    positions: Sequence[int],
) -> Tensor:
    """What ``block`` adds, [T, d], when its input alone lacks block ``s``'s contribution at ``positions``.

    ``stream`` is the plain one, [L+1, T, d].
    """
    given = stream[block].clone()
    rows = list(positions)
    given[rows] -= stream[s + 1][rows] - stream[s][rows]

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        enter(bound, given[None])
        return bound.args, bound.kwargs

    with _hooked(blocks[block].register_forward_pre_hook(hook, with_kwargs=True)):
        after = _run(model, blocks, ids)[0][block + 1]
    return after - given


@contextmanager
def skipping(
    model: PreTrainedModel, blocks: Blocks, s: int, positions: Sequence[int], part: str = "block"
) -> Iterator[None]:
    """While open, block ``s`` (or its ``attention`` or ``mlp``) adds nothing at ``positions``."""
    rows = list(positions)
    with ExitStack() as stack:
        if part == "block":
            stack.enter_context(_skipping_block(blocks[s], rows))
        else:
            sites = sites_of(model)[part]
            assert sites, f"{part} is not separable in {family_of(model).name}"
            for module, site in modules_at(blocks[s], sites):
                stack.enter_context(_zeroing(module, site, rows))
        yield


@contextmanager
def handing_on(blocks: Iterable[nn.Module]) -> Iterator[None]:
    """While open, these blocks return their input, whatever else they return."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        return leave(output, _entering(module.forward, args, kwargs).clone())

    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(_hooked(block.register_forward_hook(hook, with_kwargs=True)))
        yield


def run_schedule(
    model: PreTrainedModel,
    blocks: Blocks,
    ids: Sequence[int],
    order: Sequence[int],
    recorded: tuple[list[inspect.BoundArguments], list[Any]] | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Run the blocks in ``order``, each with the arguments it gets in the plain forward.

    The whole chain runs in the place of block 0; the other blocks hand their input on.
    Returns the logits [T, V] and the stream [T, d] after each executed step.

    Args:
        recorded: what ``record`` gave of these ids, where they are run in several orders.
    """
    plain, results = recorded or record(model, blocks, ids)
    originals = [block.forward for block in blocks]
    steps: list[Tensor] = []
    declared = family_for(model.config.model_type)
    passes = None if declared is None else declared.passes
    stored: dict[int, Tensor] = {}
    answers: list[Tensor] = []

    def chain(h: Tensor) -> Tensor:
        fresh: dict[int, Any] = {}
        handed_on: Any = None
        stored.update(dict.fromkeys(storing(model, blocks), h))
        for index in order:
            arguments = _renewed(plain[index], fresh)
            enter(arguments, h)
            if passes is not None:
                arguments.arguments[passes] = handed_on
            if stored:
                earlier = [stream for place, stream in stored.items() if place < index]
                arguments.arguments[EARLIER] = torch.stack(earlier, -2) if earlier else h.unsqueeze(-2)[:, :, :0]
            out = originals[index](*arguments.args, **arguments.kwargs)
            h, handed_on = leaving(out), out[1] if passes is not None else None
            stored.update({place: h for place in stored if place > index})
            steps.append(h[0].clone())
        # the model's own loop stores what the block before the place answers
        answers.extend(stored.get(index + 1, h) for index in range(len(blocks)))
        return answers[0]

    with ExitStack() as stack:
        for index, block in enumerate(blocks):
            instead = chain if index == 0 else (lambda _, index=index: answers[index])
            stack.enter_context(_replaced(block, originals[index], instead, results[index]))
        out = logits(model, ids)
    return out, steps


EARLIER = "block_states"
"""The argument of blocks that attend over streams in front of earlier blocks."""


def storing(model: PreTrainedModel, blocks: Blocks) -> list[int]:
    """The blocks in front of which the model's own forward stores the stream for later ones."""
    declared = family_for(model.config.model_type)
    if declared is None or declared.earlier_streams is None:
        return []
    return [index for index, block in enumerate(blocks) if getattr(block, declared.earlier_streams[1])]


def drop_order(n_blocks: int, dropped: int) -> list[int]:
    """All blocks but ``dropped``."""
    return [index for index in range(n_blocks) if index != dropped]


def swap_order(n_blocks: int, swapped: int) -> list[int]:
    """Block ``swapped`` + 1 before ``swapped``."""
    order = list(range(n_blocks))
    order[swapped], order[swapped + 1] = order[swapped + 1], order[swapped]
    return order


def repeat_order(n_blocks: int, start: int, length: int = 1, times: int = 1) -> list[int]:
    """Each block of the window ``start`` … ``start + length − 1`` runs 1 + ``times`` times in a row."""
    window = range(start, start + length)
    return [index for index in range(n_blocks) for _ in range(1 + times if index in window else 1)]


def effects(base_resid: Tensor, new_resid: Tensor) -> Tensor:
    """Change of each block's contribution, ‖c_l − c̄_l‖ / max(‖c_l‖, 1e-6): [L, T] from two [L+1, T, d]."""
    base = base_resid[1:].double() - base_resid[:-1].double()
    new = new_resid[1:].double() - new_resid[:-1].double()
    return (base - new).norm(dim=-1) / base.norm(dim=-1).clamp_min(1e-6)


def output_change(base_logits: Tensor, new_logits: Tensor) -> Tensor:
    """‖y − ȳ‖ per token [T], with float64 softmax."""
    return (base_logits.double().softmax(-1) - new_logits.double().softmax(-1)).norm(dim=-1)


def kl(base_logits: Tensor, new_logits: Tensor) -> Tensor:
    """KL(base ‖ new) per token [T], in nats."""
    base, new = base_logits.double().log_softmax(-1), new_logits.double().log_softmax(-1)
    return (base.exp() * (base - new)).sum(-1)


def agreement(base_logits: Tensor, new_logits: Tensor) -> Tensor:
    """1 where both have the same most likely token, else 0, per token [T]."""
    return (base_logits.argmax(-1) == new_logits.argmax(-1)).double()


def entropy_bits(values: Tensor) -> Tensor:
    """Entropy of the next-token distribution per token [T], in bits."""
    log_p = values.double().log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1) / torch.log(torch.tensor(2.0, dtype=torch.float64))


def loss(values: Tensor, ids: Sequence[int]) -> Tensor:
    """Cross-entropy of the true next token [T−1], in nats."""
    log_p = values.double().log_softmax(-1)
    return -torch.stack([log_p[position, token] for position, token in enumerate(ids[1:])])


# --- machinery -----------------------------------------------------------------------------------------


def _run(model: PreTrainedModel, blocks: Blocks, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The stream [L+1, T, d] and the logits [T, V] of one forward, hooks already in place included."""
    stream: list[Tensor] = []

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stream.append(_entering(module.forward, args, kwargs)[0].clone())

    def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        stream.append(leaving(output)[0].clone())

    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(_hooked(block.register_forward_pre_hook(before, with_kwargs=True)))
        stack.enter_context(_hooked(blocks[-1].register_forward_hook(after)))
        out = logits(model, ids)
    # without what the model's own forward pads them with
    states = torch.stack(stream)[:, : len(ids)]
    # behind the stream what is stored of it: it follows until its block has run
    stored = [
        torch.stack([states[min(boundary, place)] for boundary in range(len(states))])
        for place in storing(model, blocks)
    ]
    return torch.cat([states, *stored], dim=-1), out


def _skip(
    model: PreTrainedModel, blocks: Blocks, ids: Sequence[int], s: int, positions: Sequence[int], part: str
) -> tuple[Tensor, Tensor]:
    with skipping(model, blocks, s, positions, part):
        return _run(model, blocks, ids)


def _skipping_block(block: nn.Module, rows: list[int]) -> AbstractContextManager[None]:
    """Hand the block's input on at ``rows``."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        state = leaving(output).clone()
        state[:, rows] = _entering(module.forward, args, kwargs)[:, rows]
        return leave(output, state)

    return _hooked(block.register_forward_hook(hook, with_kwargs=True))


def _zeroing(module: nn.Module, site: Site, rows: list[int]) -> AbstractContextManager[None]:
    """Make the site add nothing at ``rows``."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        value = _first(output).clone()
        by_token = value.view(-1, value.shape[-1])
        if site.minus is None:
            by_token[rows] = 0
        else:
            given = _argument(module.forward, site.minus, args, kwargs)
            by_token[rows] = given.reshape(-1, given.shape[-1])[rows]
        return leave(output, value)

    return _hooked(module.register_forward_hook(hook, with_kwargs=True))


def _reading(
    module: nn.Module, site: Site, block: nn.Module, index: int, sums: dict[int, Tensor]
) -> AbstractContextManager[None]:
    """Add the site's contribution [T, d] to ``sums[index]``."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        value = _first(output).clone()
        if site.minus is not None:
            value = value - _argument(module.forward, site.minus, args, kwargs)
        if site.scale is not None:
            value = value * getattr(block, site.scale)
        sums[index] = sums.get(index, 0) + value.reshape(-1, value.shape[-1])

    return _hooked(module.register_forward_hook(hook, with_kwargs=True))


def _submodule(block: nn.Module, path: str) -> nn.Module | None:
    try:
        return attrgetter(path)(block)
    except AttributeError:
        return None


def record(
    model: PreTrainedModel, blocks: Blocks, ids: Sequence[int]
) -> tuple[list[inspect.BoundArguments], list[Any]]:
    """Each block's arguments, bound by its signature, and its result in the plain forward."""
    arguments: list[inspect.BoundArguments] = []
    results: list[Any] = []

    def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        arguments.append(inspect.signature(module.forward).bind(*args, **kwargs))
        results.append(output)

    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(_hooked(block.register_forward_hook(after, with_kwargs=True)))
        logits(model, ids)
    return arguments, results


def _renewed(bound: inspect.BoundArguments, fresh: dict[int, Any]) -> inspect.BoundArguments:
    """A copy of the arguments in which every dictionary that the blocks share is a new, empty one.

    ``fresh`` remembers which new dictionary stands for which old one, so that all blocks of a run share it.
    """

    def renew(value: Any) -> Any:
        return fresh.setdefault(id(value), type(value)()) if isinstance(value, MutableMapping) else value

    copied = inspect.BoundArguments(bound.signature, dict(bound.arguments))
    for name, parameter in bound.signature.parameters.items():
        if name not in copied.arguments or name == "position_embeddings":
            continue
        value = copied.arguments[name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            tables = {"position_embeddings"} & value.keys()
            renewed = {key: renew(held) for key, held in value.items()}
            copied.arguments[name] = renewed | {key: value[key] for key in tables}
        else:
            copied.arguments[name] = renew(value)
    return copied


@contextmanager
def _replaced(
    block: nn.Module, original: Callable[..., Any], instead: Callable[[Tensor], Tensor], result: Any
) -> Iterator[None]:
    """Let the block answer ``instead(its input)``, in the type that it answers with otherwise."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return leave(result, instead(_entering(original, args, kwargs)))

    block.forward = forward
    try:
        yield
    finally:
        del block.forward


def _entering(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """The hidden state among a block's arguments, streams one behind the other."""
    return entering(inspect.signature(forward).bind(*args, **kwargs))


PAIR = {"prev_attn_output": "attn_output", "hidden_states": "hidden_states"}
"""Arguments and results of blocks that take and give two streams apart."""


def entering(bound: inspect.BoundArguments) -> Tensor:
    """The hidden state of a call: its first parameter, or both of a pair."""
    first = next(iter(bound.signature.parameters))
    if first in PAIR and set(PAIR) <= bound.arguments.keys():
        return torch.cat([bound.arguments[name] for name in PAIR], dim=-1)
    return flat(bound.arguments[first])


def enter(bound: inspect.BoundArguments, state: Tensor) -> None:
    """Give a call another hidden state."""
    first = next(iter(bound.signature.parameters))
    if first in PAIR and set(PAIR) <= bound.arguments.keys():
        bound.arguments.update(zip(PAIR, state.chunk(2, dim=-1)))
    else:
        bound.arguments[first] = like(state, bound.arguments[first])


_ALONG_TOKENS = 1


@contextmanager
def streams_along_tokens(count: int) -> Iterator[None]:
    """While open, states hold this many streams one behind the other along the tokens, [1, n·T, d]."""
    global _ALONG_TOKENS
    _ALONG_TOKENS = count
    try:
        yield
    finally:
        _ALONG_TOKENS = 1


def flat(state: Tensor) -> Tensor:
    """A state [1, T, d] or [T, 1, d], or of n streams [1, T, n, d] or [n, 1, T, d], as [1, T, n·d]."""
    if state.ndim == 3 and state.shape[0] > 1:
        return state.transpose(0, 1)
    if state.ndim == 3 and _ALONG_TOKENS > 1:
        return torch.cat(state.chunk(_ALONG_TOKENS, dim=1), dim=-1)
    if state.ndim == 4:
        state = state.permute(1, 2, 0, 3) if state.shape[1] == 1 else state
        return torch.cat([state[:, :, number] for number in range(state.shape[2])], dim=-1)
    return state


def like(value: Tensor, state: Tensor) -> Tensor:
    """A flat value in the form of a block's own state."""
    if state.ndim == value.ndim == 3 and state.shape[0] > 1:
        return value.transpose(0, 1)
    if state.ndim == value.ndim == 3 and _ALONG_TOKENS > 1:
        return torch.cat(value.chunk(_ALONG_TOKENS, dim=-1), dim=1)
    if state.ndim != 4 or value.ndim != 3:
        return value
    streams = state.shape[0] if state.shape[1] == 1 else state.shape[2]
    apart = value.chunk(streams, dim=-1)
    return torch.stack(apart, dim=0 if state.shape[1] == 1 else 2)


def _argument(forward: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    return inspect.signature(forward).bind(*args, **kwargs).arguments[name]


def leaving(output: Any) -> Tensor:
    """The stream [1, T, d] in what a block returned."""
    if hasattr(output, "attn_output"):
        return torch.cat([getattr(output, name) for name in PAIR.values()], dim=-1)
    state = flat(_first(output))
    assert state.ndim == 3, f"a block returned a state of {state.ndim} dimensions"
    return state


def _first(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


def leave(output: Any, value: Tensor) -> Any:
    """``output`` with ``value`` in the place of its (first) tensor, in the same type."""
    if hasattr(output, "attn_output"):
        return output._replace(**dict(zip(PAIR.values(), value.chunk(2, dim=-1))))
    value = like(value, _first(output))
    return value if isinstance(output, Tensor) else type(output)([value, *output[1:]])


@contextmanager
def _hooked(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()
