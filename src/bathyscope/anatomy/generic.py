"""An unknown family: find its blocks, contributions and readout by search, to be accepted only if the checks hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from bathyscope.anatomy.family import Family, Site
from bathyscope.anatomy.sites import contribution, site_modules, submodule, tapped
from bathyscope.errors import ModelError

_ATTENTION_WORDS = ("attn", "attention", "mixer", "conv")
_PROBE_IDS = ((1, 2, 3, 4, 5, 6), (6, 5, 4, 3, 2, 1))
_CLOSE = 1e-4


@torch.no_grad()
def infer_family(model: nn.Module) -> Family:
    """A family declaration for a model of unknown type.

    The blocks are the longest list of modules that each run once in a forward; the final norm is the module
    after them whose output the unembedding reads; the contributions are the pair of submodule outputs that
    sums to h_{l+1} − h_l in every block. Where no pair is found the family has no parts.

    Raises:
        ModelError: no list of blocks, or no unembedding.
    """
    name = str(getattr(model.config, "model_type", type(model).__name__))
    head = _path_of(model, getattr(model, "get_output_embeddings", lambda: None)())
    if head is None:
        raise ModelError(f"{name} is an unknown family and has no output embeddings: is it a causal language model?")
    blocks = _longest_list(model)
    if blocks is None:
        raise ModelError(f"{name} is an unknown family and no list of blocks was found; it needs a family file.")
    family = Family(
        name=f"{name} (found by search)",
        model_types=(name,),
        blocks=blocks,
        head=head,
        final_norm=_norm_path(model, blocks, head),
        attention=None,
        mlp=None,
        notes="not declared: found by search and accepted by the checks at load",
    )
    pair = _contribution_pair(model, blocks)
    if pair is None:
        return family
    attention, mlp = pair
    parallel = _is_parallel(model, cast(nn.ModuleList, submodule(model, blocks))[0], attention, mlp)
    return replace(family, attention=attention, mlp=mlp, parallel=parallel)


def _path_of(model: nn.Module, wanted: nn.Module | None) -> str | None:
    return next((path for path, module in model.named_modules() if module is wanted and path), None)


def _longest_list(model: nn.Module) -> str | None:
    lists = [
        (len(module), path)
        for path, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) and len({type(m) for m in module}) <= 4
    ]
    # among equally long lists the outermost is the list of blocks
    return max(lists, key=lambda item: (item[0], -item[1].count(".")))[1] if lists else None


@dataclass
class _Call:
    path: str
    module: nn.Module
    inputs: dict[str, Tensor]
    output: Tensor


def _calls(model: nn.Module, root: nn.Module) -> list[_Call]:
    """Every call of every submodule of ``root`` in one forward, in the order of their ends."""
    calls: list[_Call] = []

    def note(path: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            value = output[0] if isinstance(output, tuple | list) and output else output
            if isinstance(value, Tensor) and value.is_floating_point():
                names = list(_parameter_names(module))
                given = {**dict(zip(names, args)), **kwargs}
                tensors = {k: v.clone() for k, v in given.items() if isinstance(v, Tensor) and v.is_floating_point()}
                calls.append(_Call(path, module, tensors, value.clone()))

        return hook

    handles = [m.register_forward_hook(note(p), with_kwargs=True) for p, m in root.named_modules() if p]
    try:
        _forward(model)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _forward(model: nn.Module) -> None:
    model(input_ids=torch.tensor(_PROBE_IDS, device=next(model.parameters()).device), use_cache=False)


def _parameter_names(module: nn.Module) -> Iterator[str]:
    code = module.forward.__func__.__code__ if hasattr(module.forward, "__func__") else module.forward.__code__
    yield from code.co_varnames[1 : code.co_argcount]


def _norm_path(model: nn.Module, blocks: str, head: str) -> str | None:
    """The module that runs after the last block and whose output the unembedding reads."""
    calls = _calls(model, model)
    last_block = max((i for i, c in enumerate(calls) if c.path.startswith(f"{blocks}.")), default=-1)
    read = next((c for c in calls if c.path == head), None)
    if read is None or not read.inputs:
        return None
    head_input = next(iter(read.inputs.values()))
    after = [c for c in calls[last_block + 1 :] if c.path != head and not c.path.startswith(f"{blocks}.")]
    return next(
        (c.path for c in after if c.output.shape == head_input.shape and torch.equal(c.output, head_input)),
        None,
    )


def _contribution_pair(model: nn.Module, blocks: str) -> tuple[Site, Site] | None:
    """The (attention, mlp) sites that explain every block, by the names that work in all of them."""
    modules = submodule(model, blocks)
    assert isinstance(modules, nn.ModuleList)
    common: set[tuple[Site, Site]] | None = None
    for block in modules:
        pairs = _pairs_of(model, block)
        common = pairs if common is None else common & pairs
        if not common:
            return None
    assert common is not None
    # the outermost modules: shallow paths, plain outputs before corrected ones
    return min(common, key=lambda p: (sum(str(s.path).count(".") + (s.minus is not None) for s in p), str(p)))


def _pairs_of(model: nn.Module, block: nn.Module) -> set[tuple[Site, Site]]:
    before: list[Tensor] = []
    after: list[Tensor] = []
    pre = block.register_forward_pre_hook(
        lambda m, args, kwargs: before.append((args[0] if args else kwargs[next(_parameter_names(m))]).clone()),
        with_kwargs=True,
    )
    post = block.register_forward_hook(
        lambda _m, _a, out: after.append((out[0] if isinstance(out, tuple | list) else out).clone())
    )
    try:
        calls = _calls(model, block)
    finally:
        pre.remove()
        post.remove()
    change = after[0] - before[0]
    scale = after[0].abs().max() + before[0].abs().max()
    once = [c for c in calls if sum(c.path == other.path for other in calls) == 1]
    candidates = [candidate for call in once for candidate in _candidates(call, change)]
    return {
        (a, b)
        for i, (a, x) in enumerate(candidates)
        for b, y in candidates[i + 1 :]
        if _is_attention(a) and not _is_attention(b) and (x + y - change).abs().max() <= _CLOSE * scale
    }


def _candidates(call: _Call, change: Tensor) -> Iterator[tuple[Site, Tensor]]:
    """A module's output, and its output minus each of its inputs, where they have the stream's size."""
    if call.output.numel() != change.numel() or call.output.shape[-1] != change.shape[-1]:
        return
    yield Site(call.path), call.output.reshape(change.shape)
    for name, value in call.inputs.items():
        if value.numel() == change.numel():
            yield (
                Site(call.path, minus=name),
                (call.output - value.reshape(call.output.shape)).reshape(change.shape),
            )


def _is_parallel(model: nn.Module, block: nn.Module, attention: Site, mlp: Site) -> bool:
    """The MLP gives the same when attention adds nothing, so it reads the block's input."""

    def silence(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        value = output[0] if isinstance(output, tuple | list) else output
        nothing = value - contribution(block, module, attention, args, kwargs, output)
        return type(output)([nothing, *output[1:]]) if isinstance(output, tuple | list) else nothing

    with tapped(block, {"mlp": mlp}) as plain:
        _forward(model)
    (module, _), *_ = site_modules(block, attention)
    handle = module.register_forward_hook(silence, with_kwargs=True)
    try:
        with tapped(block, {"mlp": mlp}) as silenced:
            _forward(model)
    finally:
        handle.remove()
    return torch.equal(plain["mlp"], silenced["mlp"])


def _is_attention(site: Site) -> bool:
    return any(word in str(site.path).lower() for word in _ATTENTION_WORDS)
