"""Whether a model's anatomy is known, and what the checks at load measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bathyscope.model import Model, load
from bathyscope.model.placement import Placement

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def check(
    model: Model | PreTrainedModel | str | Path,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    placement: Placement = "auto",
    window: int | None = None,
    stream: bool = False,
) -> dict[str, Any]:
    """Loads a model where it is not loaded yet, and gives everything the checks of its anatomy measured.

    Args:
        model: what ``load`` returns or takes.
        dtype, device, revision, trust_remote_code, placement, window, stream: as for ``load``.

    Returns:
        The family and the sizes of the model, and gaps relative to the largest magnitude of what is compared.

    Raises:
        ModelError: as ``load``.

    Example:
        >>> found = bathyscope.check("model")
        >>> found["family"], found["no_op"] <= found["tolerance"]
        ('llama', True)
    """
    if not isinstance(model, Model):
        given = (dtype, device, revision, trust_remote_code)
        model = load(model, *given, placement=placement, window=window, stream=stream)
    anatomy, checks = model.anatomy, model.checks
    return {
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
