"""Plain reference for gradients: one forward and one backward of the real model for every point of a path.

Nothing is batched or stored here and no engine code is used; hooks on the real model put in the leaves.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from support import naive
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.model.anatomy.family import Site

Point = tuple[float, float]


def integrated(
    model: PreTrainedModel,
    ids: Sequence[int],
    answer: int,
    site: str,
    points: Sequence[Point],
    baseline: str = "tokens",
    target: str = "probability",
) -> tuple[np.ndarray, np.ndarray]:
    """Integrated gradients [block, token] of the answer's probability or logits, and completeness residuals [block].

    Args:
        answer: how many of the last tokens are the answer.
        points: (α, weight) along the path.
    """
    blocks = naive.blocks_of(model)
    if site == "block":
        actual = naive.boundaries(model, blocks, ids)[1:]
    else:
        actual = naive.contributions(model, blocks, ids)[site].expand(len(blocks), len(ids), -1)
    score = SCORES[target]
    clean = float(score(model, ids, answer).detach())
    attribution, completeness = [], []
    for index, x in enumerate(actual.double()):
        start = x.mean(0 if baseline == "tokens" else 1, keepdim=True).expand_as(x)
        mean = torch.zeros_like(x)
        for alpha, weight in points:
            mean += weight * gradient(model, ids, answer, index, site, alpha * x + (1 - alpha) * start, target)[1]
        with placed(model, index, site, start[None].to(model.dtype)):
            at_start = float(score(model, ids, answer).detach())
        own = ((x - start) * mean).sum(-1)
        attribution.append(own.numpy())
        completeness.append(float(own.sum()) - (clean - at_start))
    return np.stack(attribution), np.array(completeness)


def gradient(
    model: PreTrainedModel,
    ids: Sequence[int],
    answer: int,
    index: int,
    site: str,
    value: Tensor,
    target: str = "probability",
) -> tuple[float, Tensor]:
    """P and ∂P/∂x [T, d] where the site of block ``index`` is set to ``value`` [T, d]."""
    leaf = value[None].to(model.dtype).requires_grad_()
    with placed(model, index, site, leaf):
        score = SCORES[target](model, ids, answer)
    (found,) = torch.autograd.grad(score, leaf)
    return float(score.detach()), found[0].double()


def probability(model: PreTrainedModel, ids: Sequence[int], answer: int) -> Tensor:
    """Σ over the answer's tokens of p(token | all before it)."""
    with torch.enable_grad():
        p = model(torch.tensor([list(ids)]), use_cache=False).logits[0].float().softmax(-1)
    return sum(p[position - 1, ids[position]] for position in range(len(ids) - answer, len(ids)))


def logit(model: PreTrainedModel, ids: Sequence[int], answer: int) -> Tensor:
    """Σ over the answer's tokens of their logit."""
    with torch.enable_grad():
        logits = model(torch.tensor([list(ids)]), use_cache=False).logits[0].float()
    return sum(logits[position - 1, ids[position]] for position in range(len(ids) - answer, len(ids)))


SCORES = {"probability": probability, "logit": logit}


def depth_gradients(model: PreTrainedModel, ids: Sequence[int], own: bool) -> np.ndarray:
    """∂(mean loss)/∂h_b [L+1, T, d] by one backward pass, or of every token's own loss by one pass for each.

    h_b is a leaf put in the stream's place; what earlier blocks passed on beside it stays as it was.
    """
    blocks = naive.blocks_of(model)
    found = []
    for boundary, h in enumerate(naive.boundaries(model, blocks, ids)):
        leaf = h[None].requires_grad_()
        with torch.enable_grad(), placed_boundary(model, boundary, leaf):
            log_p = model(torch.tensor([list(ids)]), use_cache=False).logits[0].float().log_softmax(-1)
        losses = [-log_p[t, ids[t + 1]] / (len(ids) - 1) for t in range(len(ids) - 1)]
        result = torch.zeros_like(h)
        if own:
            for t, loss in enumerate(losses):
                result[t] = torch.autograd.grad(loss, leaf, retain_graph=True)[0][0, t]
        else:
            result = torch.autograd.grad(sum(losses), leaf)[0][0]
        found.append(result.double().numpy())
    return np.stack(found)


@contextmanager
def placed_boundary(model: PreTrainedModel, boundary: int, leaf: Tensor) -> Iterator[None]:
    """While open, ``leaf`` [1, T, d] is the residual stream at the boundary."""
    blocks = naive.blocks_of(model)
    if boundary == len(blocks):
        with placed(model, boundary - 1, "block", leaf):
            yield
        return

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = next(iter(inspect.signature(module.forward).parameters))
        if name in kwargs:
            return args, {**kwargs, name: leaf}
        return (leaf, *args[1:]), kwargs

    handle = blocks[boundary].register_forward_pre_hook(enter, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def placed(model: PreTrainedModel, index: int, site: str, leaf: Tensor) -> Iterator[None]:
    """While open, the site of one block gives ``leaf`` [1, T, d]."""
    block = naive.blocks_of(model)[index]
    with ExitStack() as stack:
        if site == "block":
            stack.enter_context(_hook(block, lambda args, old: leaf.reshape(old.shape).clone()))
        else:
            for number, (module, own) in enumerate(naive.modules_at(block, naive.sites_of(model)[site])):
                stack.enter_context(_hook(module, _putting(block, module, own, leaf if number == 0 else 0 * leaf)))
        yield


def _putting(block: nn.Module, module: nn.Module, site: Site, leaf: Tensor) -> Any:
    """The module's output for which the site adds ``leaf``."""

    def put(arguments: dict[str, Any], old: Tensor) -> Tensor:
        value = leaf if site.scale is None else leaf / getattr(block, site.scale)
        # a copy, since Falcon adds to what its modules return
        value = value.reshape(old.shape).clone()
        return value if site.minus is None else arguments[site.minus] + value

    return put


@contextmanager
def _hook(module: nn.Module, put: Any) -> Iterator[None]:
    def answer(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        if isinstance(output, Tensor):
            return put(arguments, output)
        return type(output)([put(arguments, output[0]), *output[1:]])

    handle = module.register_forward_hook(answer, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
