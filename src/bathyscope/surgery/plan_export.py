"""A plan written as a checkpoint: without its blocks, or with parts of blocks that add nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bathyscope.core.paths import require_writable
from bathyscope.errors import warn
from bathyscope.model import AnyModel, Model, alone, loaded
from bathyscope.schedule import Schedule
from bathyscope.surgery.export_source import source_of
from bathyscope.surgery.plan_models import Choice, require_same_model
from bathyscope.surgery.proof import require_no_loops
from bathyscope.surgery.weight_files import SHARD_BYTES
from bathyscope.surgery.writing import write_export
from bathyscope.surgery.zeroing import zeroed_writes
from bathyscope.wavefront.histories import Unit


def export_plan(
    plan: Choice,
    folder: Path,
    model: AnyModel | None = None,
    *,
    evidence: str = "",
    shard_bytes: int = SHARD_BYTES,
) -> Path:
    """Write the model of a plan, with the plan's evidence in its card.

    Args:
        model: what was pruned; None = the plan's own, or the one of its name.
        evidence: further Markdown for the card.

    Raises:
        ModelError: the model is not the one that the plan tells of; a part that is not written by
            weights of its own.
        StoreError: as ``bathyscope.export``.
    """
    require_writable(folder, holds="an export")
    if not plan.proved:
        warn(f"This plan is not proved on its test prompts, and its card says so: {plan.left_out}.")
    source: Any = model if model is not None else plan.model if plan.model is not None else plan.place
    notes = "\n\n".join(text for text in (plan.evidence, evidence) if text)
    with alone(source):
        ready = require_same_model(plan, source)
        if isinstance(source, Model):
            require_no_loops(source.anatomy)
        # No configuration says that a block lacks a part, so that the part's last weights become 0.
        if not plan.leaves_blocks:
            ready = ready or loaded(source)
            standard = Schedule.standard(ready.n_blocks)
            changes = zeroed_writes(ready, units_of_text(plan.left_out))
            return write_export(
                named_as(plan, source_of(ready)),
                standard,
                folder,
                changes=changes,
                notes=[
                    f"Changed weights are 0 (or −1 in norms that add 1), for parts that add nothing: {plan.left_out}."
                ],
                evidence=notes,
            )
        files = named_as(plan, source_of(source))
        return write_export(files, plan.as_schedule(), folder, evidence=notes, shard_bytes=shard_bytes)


def named_as(plan: Choice, source: Any) -> Any:
    """Return the source under the name that the plan has for it."""
    return replace(source, name=str(plan.data.attrs["model"]))


def units_of_text(text: str) -> list[Unit]:
    """Return the parts in a text such as ``attention:2,mlp:5``."""
    pairs = [unit.partition(":") for unit in text.split(",")]
    return [Unit(int(block), part) for part, _, block in pairs]
