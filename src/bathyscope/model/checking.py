"""``check``: whether a model's anatomy is known, and what the checks at load measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bathyscope.core.calls import checked
from bathyscope.core.result import TabledResult
from bathyscope.model import Model, ModelArgument, load
from bathyscope.model.load_arguments import require_defaults
from bathyscope.model.options import Attention, Placement

if TYPE_CHECKING:
    import pandas as pd
    import torch
    import xarray as xr


class CheckResult(dict[str, Any], TabledResult):
    """What the checks of a model measured, by name, such as ``result["no_op"]``."""

    @property
    def data(self) -> xr.Dataset:
        """The gaps of contributions by block, and everything that is a single number or text as attributes."""
        import xarray as xr

        attrs = {name: value for name, value in self.items() if isinstance(value, str | int | float)}
        return xr.Dataset({"contribution_gap": ("block", list(self["contributions"]))}, attrs=attrs)

    @property
    def text(self) -> str:
        """Which model it is; a model that fails its checks has no result."""
        streamed = ", streamed" if self["placement"] == "stream" else ""
        order = "parallel" if self["parallel"] else "sequential"
        unpacked = "" if self["weights"] == "as stored" else f" ({self['weights']})"
        return (
            f"{self['model']} is accepted: family {self['family']} ({self['class']}), {self['blocks']} blocks × width "
            f"{self['width']}, vocabulary {self['vocabulary']}, {self['dtype']}{unpacked}{streamed}, "
            f"{order} attention and MLP."
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for every block."""
        return self.data.to_dataframe().reset_index()

    def record(self) -> dict[str, Any]:
        """Return everything by name."""
        return dict(self)


@checked
def check(
    model: ModelArgument,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    placement: Placement = "auto",
    window: int | None = None,
    stream: bool = False,
    attn: Attention | None = None,
    base: str | Path | None = None,
    tensor_parallel: str | int | None = None,
) -> CheckResult:
    """Load a model where it is not loaded yet, and return everything that the checks of its anatomy measured.

    Args:
        dtype, device, revision, trust_remote_code, placement, window, stream, attn, base, tensor_parallel: as for
            ``load``.

    Returns:
        The family and the sizes of the model, and gaps relative to the largest magnitude of what is compared.

    Raises:
        ModelError: as ``load``; an argument of ``load`` with a model that is loaded already.

    Example:
        >>> checks = bathyscope.check("model")
        >>> checks["family"], checks["no_op"] <= checks["tolerance"]
        ('llama', True)
    """
    arguments: dict[str, Any] = {
        "dtype": dtype,
        "device": device,
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "placement": placement,
        "window": window,
        "stream": stream,
        "attn": attn,
        "base": base,
        "tensor_parallel": tensor_parallel,
    }
    if isinstance(model, Model):
        require_defaults("check()", load, arguments)
    else:
        model = load(model, **arguments)
    anatomy, checks = model.anatomy, model.checks
    numbers = {
        "model": model.name,
        "accepted": True,
        "family": anatomy.family.name,
        "class": type(model.hf).__name__,
        "blocks": model.n_blocks,
        "width": anatomy.width,
        "vocabulary": anatomy.vocabulary,
        "context": model.max_tokens,
        "dtype": str(model.dtype).removeprefix("torch."),
        "placement": model.placement,
        "weights": "as stored" if model.unpacked_from is None else f"unpacked from {model.unpacked_from}",
        "parallel": anatomy.parallel,
        "tolerance": checks.tolerance,
        "no_op": checks.no_op,
        "readout": checks.readout,
        "contributions": checks.contributions,
        "parts": checks.parts,
        "later": checks.later,
        "padding": checks.padding,
        "equal_lengths": anatomy.equal_lengths,
        "tail": checks.tail,
        "tails": checks.tails,
        "tail_reason": checks.tail_reason,
    }
    return CheckResult(numbers)
