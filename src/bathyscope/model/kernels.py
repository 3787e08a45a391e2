"""Kernels for weights in four bits in memory, of which some give a token other numbers from call to call."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.gaps import tolerance

_ROWS = 4


@torch.no_grad()
def require_steady_kernels(hf: nn.Module) -> None:
    """Refuse a model whose layers in four bits give a token other numbers alone than next to others.

    The checks of a whole model would find it too, and blame its attention.

    Raises:
        ModelError: with the layer, how far its numbers are apart, and what helps.
    """
    for path, layer in _layers_in_four_bits(hf):
        inputs = _inputs_for(layer)
        try:
            together = layer.forward(inputs)
            alone = torch.cat([layer.forward(row[None]) for row in inputs])
        except (RuntimeError, ValueError, TypeError) as error:
            reason = f"fail on a single token ({type(error).__name__}: {' '.join(str(error).split())[:120]})"
            raise _refusal(path, layer, reason) from error
        gap = float((together - alone).float().norm() / together.float().norm().clamp_min(1e-12))
        if not gap <= tolerance(together.dtype):
            raise _refusal(
                path, layer, f"give a token other numbers alone than next to others ({gap:.1e} of their norm)"
            )


def explained(hf: nn.Module, error: ModelError) -> ModelError:
    """Return the error of a check that failed; of a model in four bits one that names its kernels and what helps.

    The checks compare calls of different shapes, and blame attention or routing where a token's numbers differ.
    """
    path, layer = next(_layers_in_four_bits(hf), ("", None))
    if layer is None:
        return error
    return _refusal(path, layer, "give the same tokens other numbers in other calls, by more than the checks allow")


def _layers_in_four_bits(hf: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield a layer of every shape, with its path."""
    seen: set[tuple[object, object]] = set()
    for path, layer in hf.named_modules():
        kind = type(layer)
        if kind.__module__.partition(".")[0] == "bitsandbytes" and kind.__name__ == "Linear4bit":
            shape = (getattr(layer, "in_features", None), getattr(layer, "out_features", None))
            if shape not in seen:
                seen.add(shape)
                yield path, layer


def _inputs_for(layer: Any) -> Tensor:
    """Return [rows, inputs] of the size that a normed stream has, in the dtype that the layer computes in."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(_ROWS, layer.in_features, generator=generator)
    dtype = getattr(layer, "compute_dtype", None) or torch.float32
    return inputs.to(device=layer.weight.device, dtype=dtype)


def _refusal(path: str, layer: Any, reason: str) -> ModelError:
    return ModelError(
        f"{path} is a layer of bitsandbytes in 4 bits, whose kernels on {layer.weight.device.type} {reason}. Give the "
        "model's folder or name instead (bathyscope.load(FOLDER)): its weights are unpacked then."
    )
