"""Run as a program on the processor of ``any_machine``: says of each part whether it is as it should be."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread

import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn.functional import conv1d, linear, scaled_dot_product_attention

X_BTD = torch.randn(6, 5, 32, generator=torch.Generator().manual_seed(0))
W_ED = torch.randn(64, 32, generator=torch.Generator().manual_seed(1))
Q_BHTD = torch.randn(6, 4, 5, 8, generator=torch.Generator().manual_seed(2))

# each maps rows to rows, so that in exact arithmetic a few rows give what they give among all
KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: linear(x, W_ED),
    "linear with bias": lambda x: linear(x, W_ED, W_ED[:, 0]),
    "matmul": lambda x: x @ W_ED.T,
    "mm": lambda x: x[:, 0].mm(W_ED.T),
    "out": lambda x: torch.mm(x[:, 0], W_ED.T, out=torch.empty(len(x), 64)),
    "bmm": lambda x: x.bmm(x.mT),
    "baddbmm": lambda x: torch.baddbmm(x[:, :, :5], x, x.mT),
    "in place": lambda x: x[:, :, :5].clone().baddbmm_(x, x.mT),
    "addmm": lambda x: torch.addmm(x[:, 1], x[:, 0], W_ED[:32]),
    "einsum": lambda x: torch.einsum("btd,ed->bte", x, W_ED),
    "mv": lambda x: x[:, 0].mv(W_ED[0]),
    "attention": lambda x: scaled_dot_product_attention(*[Q_BHTD[: len(x)]] * 3, is_causal=True),
    "convolution": lambda x: conv1d(x.mT, W_ED[:, :, None]),
}


def sizes() -> bool:
    """Calls of equal sizes agree, calls of other sizes do not, and by little."""
    whole, again, few = linear(X_BTD, W_ED), linear(X_BTD.clone(), W_ED), linear(X_BTD[:4], W_ED)
    return torch.equal(whole, again) and not torch.equal(whole[:4], few) and torch.allclose(whole[:4], few)


def kernels() -> bool:
    """Every product depends on the rows of its call, for some of 2 to 5 among 6 rows, and agrees with itself."""
    return all(
        torch.equal(kernel(X_BTD), kernel(X_BTD))
        and any(not torch.equal(kernel(X_BTD)[:n], kernel(X_BTD[:n])) for n in (2, 3, 4, 5))
        and torch.allclose(kernel(X_BTD)[:3], kernel(X_BTD[:3]), atol=1e-5)
        for kernel in KERNELS.values()
    )


def units() -> bool:
    """A product of a matrix with 1 alone in each row and column is moved by −1, 0 and 1 units, and by no more."""
    for dtype, whole, digits in ((torch.float32, torch.int32, 24), (torch.float64, torch.int64, 53)):
        values = torch.randn(300, 300, dtype=dtype, generator=torch.Generator().manual_seed(0))
        # numbers at the ends of their binades too
        values[:2] = torch.tensor([[0.25], [-0.25 - 2.0 ** -(digits + 1)]], dtype=dtype)
        moves = (values @ torch.eye(300, dtype=dtype)).view(whole) - values.view(whole)
        if sorted(moves.unique().tolist()) != [-1, 0, 1]:
            return False
    return True


def exact() -> bool:
    """Sums of whole numbers, single terms, zeros, and what is no number stay."""
    counts = torch.arange(60.0).view(6, 10)
    special = torch.tensor([[torch.inf, -torch.inf, torch.nan, 0.0]] * 40).T
    left = (special @ torch.eye(40)[:, :1]).flatten()
    return (
        torch.equal(counts @ counts.T, (counts.long()[:, None] * counts.long()).sum(-1).float())
        and torch.equal(X_BTD[0, :, :1] @ W_ED[:1], X_BTD[0, :, :1] * W_ED[:1])
        and torch.equal(X_BTD[0] @ torch.zeros(32, 3), torch.zeros(5, 3))
        and bool(left[2].isnan())
    )


def dtypes() -> bool:
    """Below float32 nothing is moved."""
    x, w = torch.full((3, 4), 0.3, dtype=torch.bfloat16), torch.eye(4, dtype=torch.bfloat16)
    return torch.equal(x @ w, x)


def transforms() -> bool:
    """Gradients, vmap, inference mode and changes in place of parameters work, and backward passes round too."""
    weight = W_ED.clone().requires_grad_()
    linear(X_BTD, weight).square().sum().backward()
    few = grad(lambda w: linear(X_BTD[:4], w).square().sum())(W_ED)
    rest = grad(lambda w: linear(X_BTD[4:], w).square().sum())(W_ED)
    assert weight.grad is not None
    with torch.no_grad():
        weight.addmm_(W_ED, torch.eye(32))
    with torch.inference_mode():
        inferred = linear(X_BTD, W_ED)
    return (
        torch.allclose(weight.grad, few + rest, rtol=1e-4, atol=1e-2)
        and vmap(lambda x: x @ W_ED.T)(X_BTD).shape == (6, 5, 64)
        and weight._version == 1
        and inferred.is_inference()
        and not torch.equal(inferred[:4], linear(X_BTD[:4], W_ED))
    )


def threads() -> bool:
    """Another thread rounds as this one does."""
    others: list[Tensor] = []
    thread = Thread(target=lambda: others.append(linear(X_BTD, W_ED)))
    thread.start()
    thread.join()
    return torch.equal(others[0], linear(X_BTD, W_ED))


def forks() -> bool:
    """So does a forked child."""
    expected = linear(X_BTD, W_ED)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(linear(X_BTD, W_ED), expected) else 1)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    for part in (sizes, kernels, units, exact, dtypes, transforms, threads, forks):
        print(f"{part.__name__}: {'as it should be' if part() else 'NOT as it should be'}", flush=True)
