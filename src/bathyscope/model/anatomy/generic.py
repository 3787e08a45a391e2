"""An unknown family: find its blocks, contributions and readout by search, to be accepted only if the checks hold."""

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import config_of
from bathyscope.model.anatomy.calls import Call, calls_within
from bathyscope.model.anatomy.family import GUIDE, Family, Site
from bathyscope.model.anatomy.plain import plain_forward, probe_ids
from bathyscope.model.anatomy.registry import family_for
from bathyscope.model.anatomy.sites import silenced, submodule, tapped

_ATTENTION_WORDS = ("attn", "attention", "mixer", "conv")
_PROBE_SIZE = (2, 6)
_CLOSE = 1e-4


def family_of(model: nn.Module) -> Family:
    """Return the family declared for a model's type, else the one that a search finds.

    A multi-modal model takes the declaration of its text model, where its blocks are in the same place.

    Raises:
        ModelError: nothing is declared, and the search finds nothing.
    """
    declared = family_for(str(getattr(model.config, "model_type", "")))
    if declared is not None:
        return declared
    inside = family_for(str(getattr(config_of(model), "model_type", "")))
    if inside is not None and (inside.refused or submodule(model, inside.blocks) is not None):
        return inside
    return infer_family(model)


@torch.no_grad()
def infer_family(model: nn.Module) -> Family:
    """Infer a family declaration for a model of unknown type.

    The blocks are the longest list of modules that each run once in a forward, or, where a list runs several times,
    all lists that are not inside of another one; the final norm is the module after them whose output the unembedding
    reads, with or without a projection between the two; the contributions are the pair of submodule outputs that sums
    to h_{l+1} − h_l in every block. Where no pair is found the family has no parts.

    Raises:
        ModelError: no list of blocks, no unembedding, or the model's own forward fails.
    """
    name = str(getattr(model.config, "model_type", type(model).__name__))
    embeddings = getattr(model, "get_output_embeddings", lambda: None)()
    head = next((path for path, module in model.named_modules() if module is embeddings and path), None)
    if head is None:
        raise ModelError(f"{name} is an unknown family and has no output embeddings: is it a causal language model?")
    ids_BT = probe_ids(model, *_PROBE_SIZE)
    with calls_within(model) as calls:
        plain_forward(model, ids_BT, name)
    blocks = _looped_lists(model, calls) or _longest_list(model, calls)
    if blocks is None:
        raise ModelError(
            f"{name} calls no list of blocks that give a tensor. Put them in one nn.ModuleList, the stream first of "
            f"what each gives: {GUIDE}."
        )
    norm, projection, head = _head_path(calls, blocks, head)
    family = Family(
        name=f"{name} (found by search)",
        model_types=(name,),
        blocks=blocks,
        head=head,
        final_norm=norm,
        projection=projection,
        attention=None,
        mlp=None,
    )
    pair = _contribution_pair(model, blocks, calls)
    if pair is None:
        return family
    attention, mlp = pair
    first = next(call for call in calls if call.path.rpartition(".")[0] in family.block_lists)
    return replace(family, attention=attention, mlp=mlp, parallel=_is_parallel(first, attention, mlp))


def _looped_lists(model: nn.Module, calls: Sequence[Call]) -> str | None:
    """Return the lists of a looped model, in the order of their first calls; None where no list runs several times.

    A list inside of a block may well run several times (experts), so only the outermost lists count.
    """
    ran = Counter(call.path for call in calls)
    first_call = {call.path: place for place, call in reversed(list(enumerate(calls)))}
    lists = [path for path, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m)]
    outermost = [path for path in lists if not any(path.startswith(f"{other}.") for other in lists)]
    # a module that is in a list twice is named once
    times = {
        path: [ran[f"{path}.{name}"] for name, _ in model.get_submodule(path).named_children()] for path in outermost
    }
    called_lists = [path for path in outermost if all(times[path])]
    if not any(max(times[path]) > 1 for path in called_lists):
        return None
    return " + ".join(sorted(called_lists, key=lambda path: first_call[f"{path}.0"]))


def _longest_list(model: nn.Module, calls: list[Call]) -> str | None:
    ran = [call.path for call in calls]
    lists = [
        (len(module), path)
        for path, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) and len({type(m) for m in module}) <= 4
        if all(ran.count(f"{path}.{index}") == 1 for index in range(len(module)))
    ]
    # among equally long lists the outermost is the list of blocks
    return max(lists, key=lambda item: (item[0], -item[1].count(".")))[1] if lists else None


def _head_path(calls: list[Call], blocks: str, head: str) -> tuple[str | None, str | None, str]:
    """Find final norm and projection, each None where absent, and what gives the logits after them.

    That is the unembedding itself, or the module around it where functions between its parts belong to no module
    (RoBERTa's dense layer, activation and norm).
    """
    lists = tuple(f"{path}." for path in blocks.split(" + "))
    last = max(place for place, call in enumerate(calls) if call.path.startswith(lists))
    resid, behind = calls[last].value, calls[last + 1 :]
    read = next((call for call in behind if call.path == head), None)
    head_input = None if read is None else next(iter(_inputs(read).values()), None)
    if head_input is None or _same(head_input, resid):
        return None, None, head
    around = (*lists, head)
    after = [call for call in behind if not any(path.startswith(call.path) for path in around)]
    giving = [call for call in reversed(after) if _same(call.value, head_input)]
    # the outermost module that does it alone ends last
    for call in giving:
        if _reads(call, resid):
            has_matrix = any(weight.ndim > 1 for weight in call.module.parameters())
            return (None, call.path, head) if has_matrix else (call.path, None, head)
    reading = [call for call in after if _reads(call, resid)]
    for norm in reading:
        for end in giving:
            if _reads(end, norm.value):
                return norm.path, end.path, head
    for call in behind:
        if head.startswith(f"{call.path}."):
            norms = [None] if _reads(call, resid) else [norm.path for norm in reading if _reads(call, norm.value)]
            if norms:
                return norms[0], None, call.path
    return (giving[-1].path if giving else None), None, head


def _same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second)


def _reads(call: Call, value: Tensor) -> bool:
    return any(_same(argument, value) for argument in _inputs(call).values())


def _inputs(call: Call) -> dict[str, Tensor]:
    return {name: v for name, v in call.bound.items() if isinstance(v, Tensor) and v.is_floating_point()}


def _contribution_pair(model: nn.Module, blocks: str, calls: list[Call]) -> tuple[Site, Site] | None:
    """Find the (attention, mlp) sites that explain every block, by the names that work in all of them."""
    common: set[tuple[Site, Site]] | None = None
    behind_last = 0
    for place, whole in enumerate(calls):
        if whole.path.rpartition(".")[0] not in blocks.split(" + "):
            continue
        # calls are listed as they end: those inside of a block are between the end of the block before and its own
        inside = f"{whole.path}."
        within = [call for call in calls[behind_last:place] if call.path.startswith(inside)]
        inner = [replace(call, path=call.path.removeprefix(inside)) for call in within]
        behind_last = place + 1
        pairs = _pairs_of(inner, whole)
        common = pairs if common is None else common & pairs
        if not common:
            return None
    assert common is not None
    # the outermost modules: shallow paths, plain outputs before corrected ones
    return min(common, key=lambda p: (sum(str(s.path).count(".") + (s.minus is not None) for s in p), str(p)))


def _pairs_of(calls: list[Call], block: Call) -> set[tuple[Site, Site]]:
    before = next((value for value in _inputs(block).values() if value.shape == block.value.shape), None)
    if before is None:
        return set()
    change = block.value - before
    scale = block.value.abs().max() + before.abs().max()
    paths = [call.path for call in calls]
    once = [call for call in calls if paths.count(call.path) == 1 and call.value.is_floating_point()]
    candidates = [(call, *candidate) for call in once for candidate in _candidates(call, change)]
    close = [
        ((a, attention), (b, other))
        for i, (attention, a, x) in enumerate(candidates)
        for other, b, y in candidates[i + 1 :]
        # calls are listed as they end, so that attention comes first: a pair is tried in one order
        if _is_attention(a) and not _is_attention(b) and (x + y - change).abs().max() <= _CLOSE * scale
    ]
    return {(pair[0][0], pair[1][0]) for pair in close if all(_is_added(site, call) for site, call in pair)}


def _is_added(site: Site, call: Call) -> bool:
    """Whether what is subtracted from a module's output is only added there: more of it gives as much more.

    A norm of the sum (BERT) does not pass; its parts have no contributions of their own.
    """
    if site.minus is None:
        return True
    bound = inspect.signature(call.module.forward).bind(*call.args, **call.kwargs)
    more = 0.5 * bound.arguments[site.minus]
    bound.arguments[site.minus] = bound.arguments[site.minus] + more
    out = call.module(*bound.args, **bound.kwargs)
    strayed = (out[0] if isinstance(out, tuple | list) else out) - call.value - more.reshape(call.value.shape)
    return bool(strayed.abs().max() <= _CLOSE * call.value.abs().max())


def _candidates(call: Call, change: Tensor) -> Iterator[tuple[Site, Tensor]]:
    """Yield a module's output, and its output minus each of its inputs, where they have the stream's size."""
    if call.value.numel() != change.numel() or call.value.shape[-1] != change.shape[-1]:
        return
    yield Site(call.path), call.value.reshape(change.shape)
    for name, value in _inputs(call).items():
        if value.numel() == change.numel():
            corrected = call.value - value.reshape(call.value.shape)
            yield Site(call.path, minus=name), corrected.reshape(change.shape)


def _is_parallel(block: Call, attention: Site, mlp: Site) -> bool:
    """Whether the MLP gives the same when attention adds nothing, so that it reads the block's input."""
    tokens = torch.ones(block.value.shape[:2], dtype=torch.bool, device=block.value.device)
    with tapped(block.module, {"mlp": mlp}) as plain:
        block.module(*block.args, **block.kwargs)
    with (
        silenced(block.module, {"attention": attention}, {"attention": tokens}),
        tapped(block.module, {"mlp": mlp}) as without,
    ):
        block.module(*block.args, **block.kwargs)
    return torch.equal(plain["mlp"], without["mlp"])


def _is_attention(site: Site) -> bool:
    return any(word in str(site.path).lower() for word in _ATTENTION_WORDS)
