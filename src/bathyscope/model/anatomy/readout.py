"""From the residual stream to logits: final norm, unembedding, and what a family does to the logits.

``Readout(h)`` must equal the model's own logits at h_L; the check at load measures the gap.
``frozen`` is the lens that divides by another boundary's norm scale (lad2024 as published).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.own_path import OwnPath
from bathyscope.model.anatomy.precision import widened

# two sizes of vectors: an epsilon shows in the output of small ones alone
_SMALL = 3e-3


@dataclass(frozen=True)
class Readout:
    """Final norm and unembedding of a model.

    Args:
        norm: the final norm, None where a family has none.
        head: the unembedding.
        projection: what is between norm and head (OPT's ``project_out``), else None.
        multiplier, divisor, softcap: what the family does to the logits, else None.
        entries: logits that the family keeps, from the first on; None = all.
        width: entries of a residual vector that are read, where more is folded behind them; None = all.
    """

    norm: nn.Module | None
    head: nn.Module
    projection: nn.Module | None = None
    multiplier: float | None = None
    divisor: float | None = None
    softcap: float | None = None
    entries: int | None = None
    width: int | None = None

    def __call__(self, resid_ND: Tensor) -> Tensor:
        """Return logits [N, vocabulary] of residual vectors [N, width], with the final norm computed on them."""
        return self.logits(self.normed(resid_ND)).to(resid_ND.device)

    def normed(self, resid_ND: Tensor) -> Tensor:
        """Return what the unembedding takes of residual vectors: the final norm computed on them."""
        resid_ND = self._read(resid_ND)
        return resid_ND if self.norm is None else self.norm(resid_ND.to(_device(self.norm, resid_ND)))

    def logits(self, normed_ND: Tensor) -> Tensor:
        """Return logits [N, vocabulary] of already normed vectors [N, width]."""
        return self.finish(self.product(normed_ND))

    def product(self, normed_ND: Tensor) -> Tensor:
        """Return the unembedding's product [N, vocabulary] of already normed vectors [N, width]."""
        if self.projection is not None:
            normed_ND = self.projection(normed_ND.to(_device(self.projection, normed_ND)))
        weight = getattr(self.head, "weight", None)
        if isinstance(weight, Tensor) and weight.is_floating_point() and weight.element_size() > 1:
            # norms of a stream kept in float32 give float32 (Mamba); the head may lie on a device of its own
            normed_ND = normed_ND.to(weight.device, weight.dtype)
        product_NV: Tensor = self.head(normed_ND)
        return product_NV

    def finish(self, product_NV: Tensor) -> Tensor:
        """Return the logits: what the family makes of each entry of the product."""
        logits_NV = product_NV if self.entries is None else product_NV[..., : self.entries]
        if self.multiplier is not None:
            logits_NV = logits_NV * self.multiplier
        if self.divisor is not None:
            logits_NV = logits_NV / self.divisor
        if self.softcap is not None:
            logits_NV = torch.tanh(logits_NV / self.softcap) * self.softcap
        return logits_NV

    def frozen(self, resid_ND: Tensor, final_ND: Tensor, bias: bool = True) -> Tensor:
        """Return logits of ``resid_ND`` normed with the per-token scale of ``final_ND`` (same tokens, boundary L).

        Raises:
            ModelError: the final norm is of no known kind.
        """
        return self.logits(self.normed_by(resid_ND, final_ND, bias)).to(resid_ND.device)

    def normed_by(self, resid_ND: Tensor, final_ND: Tensor, bias: bool = True) -> Tensor:
        """Return what the unembedding takes of ``resid_ND``, normed with the per-token scale of ``final_ND``."""
        resid_ND, final_ND = self._read(resid_ND), self._read(final_ND)
        if self.norm is None:
            return resid_ND
        device = _device(self.norm, resid_ND)
        resid_ND, final_ND = resid_ND.to(device), final_ND.to(device)
        return self._norm_kind.apply(widened(resid_ND), widened(final_ND), bias=bias).to(resid_ND.dtype)

    def _read(self, resid_ND: Tensor) -> Tensor:
        return resid_ND if self.width is None else resid_ND[..., : self.width]

    @cached_property
    def _norm_kind(self) -> NormKind:
        # found by some runs of the norm, and asked for at every boundary and chunk of tokens
        assert self.norm is not None
        return norm_kind(self.norm)


@dataclass(frozen=True)
class NormKind:
    """A final norm taken apart: centring, epsilon, gain [width] or 1, bias [width] or None."""

    centred: bool
    eps: float
    gain: Tensor | float
    bias: Tensor | None

    def inverse_scale(self, resid_ND: Tensor) -> Tensor:
        """Return 1 / root of the mean square (of the centred vector where the norm centres), [N, 1]."""
        return (_centred(resid_ND, self.centred).pow(2).mean(-1, keepdim=True) + self.eps).rsqrt()

    def apply(self, resid_ND: Tensor, scaled_by_ND: Tensor, *, bias: bool = True) -> Tensor:
        """Apply the norm rebuilt from its parts; it is the norm itself where vectors are scaled by themselves."""
        normed = _centred(resid_ND, self.centred) * self.inverse_scale(scaled_by_ND) * self.gain
        return normed + self.bias if bias and self.bias is not None else normed


def _device(module: nn.Module, argument: Tensor) -> torch.device:
    """Return where a module computes: where its weights are, or without weights where its argument is."""
    return next((p.device for p in module.parameters() if p.device.type != "meta"), argument.device)


def _centred(resid_ND: Tensor, centred: bool) -> Tensor:
    return resid_ND - resid_ND.mean(-1, keepdim=True) if centred else resid_ND


@torch.no_grad()
def norm_kind(norm: nn.Module) -> NormKind:
    """Find out by trial what a norm does: centring or not, weight or 1 + weight, bias, and its epsilon.

    Raises:
        ModelError: none of the known forms reproduces the module's output.
    """
    if isinstance(norm, OwnPath):
        raise ModelError(
            "What stands between the last block and the unembedding is no single norm here, so it has no scale that "
            "could be frozen; use norm='recompute'."
        )
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    width = weight.shape[0] if weight is not None else int(getattr(norm, "normalized_shape", (64,))[0])
    device = weight.device if weight is not None else torch.device("cpu")
    dtype = weight.dtype if weight is not None else torch.float32
    probe = torch.randn(4, width, generator=torch.Generator().manual_seed(0)).to(device) * 3 + 0.5
    probes = (probe, _SMALL * probe)
    outputs = [norm(values.to(dtype)).float() for values in probes]
    gains: list[Tensor | float] = [1.0] if weight is None else [weight.float(), 1 + weight.float()]
    offset = None if bias is None else bias.float()
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    named: list[Any] = [getattr(norm, name, None) for name in ("eps", "variance_epsilon", "epsilon", "norm_eps")]
    declared_eps = next((float(eps) for eps in named if eps is not None), None)
    for centred in (False, True):
        for gain in gains:
            fitted_eps = _seen_epsilon(NormKind(centred, 0.0, gain, offset), probes[1], outputs[1])
            for eps in (fitted_eps,) if declared_eps is None else (declared_eps, fitted_eps):
                kind = NormKind(centred, eps, gain, offset)
                pairs = zip(probes, outputs)
                if all(torch.allclose(kind.apply(x, x), y, atol=tolerance, rtol=tolerance) for x, y in pairs):
                    return kind
    raise ModelError(
        f"The final norm {type(norm).__name__} is neither a LayerNorm nor an RMSNorm, so its scale cannot be "
        "frozen; use norm='recompute'."
    )


def _seen_epsilon(kind: NormKind, probe: Tensor, normed: Tensor) -> float:
    """Return the epsilon under which a norm of this kind would give these outputs, to three digits.

    OLMo's norm has its epsilon in the code alone.
    """
    direction = _centred(probe, kind.centred) * kind.gain
    plain = normed if kind.bias is None else normed - kind.bias
    scale = (plain * direction).sum(-1) / direction.pow(2).sum(-1)
    eps = float((scale.pow(-2) - _centred(probe, kind.centred).pow(2).mean(-1)).mean())
    return float(f"{max(eps, 0.0):.3g}") if math.isfinite(eps) else 0.0
