"""What a model in memory computes that a checkpoint of it would not: where it fails, or loads in another precision."""

import re

import torch
from transformers import PreTrainedModel

from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.anatomy.plain import plain_forward, probe_ids
from bathyscope.model.constants.tables import rounded_tables
from bathyscope.surgery.checkpoint.source import Source

_TOKENS = 2


def require_running(source: Source) -> None:
    """Refuse a model in memory whose own forward fails: nothing tells what a copy of it would have to compute.

    Raises:
        ModelError: with what fails, such as a block in another precision than its neighbours.
    """
    if source.hf is None:
        return
    name = str(getattr(source.config, "model_type", "")) or type(source.hf).__name__
    with evaluating(source.hf):
        plain_forward(source.hf, probe_ids(source.hf, 1, _TOKENS), name)


def note_rounded(source: Source) -> list[str]:
    """Say which tables were rounded with the model in memory, which a checkpoint is loaded with in full."""
    rounded = {} if source.hf is None else rounded_tables(source.hf)
    if not rounded:
        return []
    name = max(rounded, key=lambda table: rounded[table])
    more = f" (and {len(rounded) - 1} more)" if len(rounded) > 1 else ""
    return [
        f"{name}{more} was rounded with the model in memory (by up to {rounded[name]:.2g} of a number), and loads here "
        f"in full, so that logits may differ. Measure this copy, or load the source with dtype={_word(source.dtype)} "
        "instead of casting it."
    ]


def note_precisions(source: Source) -> list[str]:
    """Say which weights are in another precision in memory than the one that a checkpoint is loaded in."""
    if source.hf is None:
        return []
    names = _loaded_otherwise(source.hf, source.dtype)
    if not names:
        return []
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    precision, usual = _word(source.hf.get_parameter(names[0]).dtype), _word(source.dtype)
    return [
        f"{names[0]}{more} is {precision} in memory and loads here in {usual}, as most weights do, so that logits may "
        f"differ. Measure this copy, or convert the whole model to {usual} before it is exported."
    ]


def _loaded_otherwise(hf: PreTrainedModel, dtype: torch.dtype) -> list[str]:
    """Return the names of weights of another precision than transformers would load them in."""
    wide = [*(hf._keep_in_fp32_modules or ()), *(hf._keep_in_fp32_modules_strict or ())]
    kept_wide = re.compile("|".join(wide)) if wide else None
    return [
        name
        for name, weight in hf.named_parameters()
        if weight.is_floating_point()
        and weight.dtype != dtype
        and not (weight.dtype == torch.float32 and kept_wide is not None and kept_wide.search(name))
    ]


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
