"""``export``: a scheduled model as a plain checkpoint, which loads without this package, or as text for other tools."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from bathyscope.core.calls import takes
from bathyscope.core.paths import require_writable
from bathyscope.core.schedule_text import names_runs
from bathyscope.core.text import elided
from bathyscope.errors import ModelError, OptionError, warn
from bathyscope.model import AnyModel, Model, alone
from bathyscope.model.place import here
from bathyscope.runs.folder import folder_path
from bathyscope.schedule import Schedule, Scheduling
from bathyscope.surgery.checkpoint.folder import schedule_for, write_export
from bathyscope.surgery.checkpoint.integrity import require_apart
from bathyscope.surgery.checkpoint.proof import require_no_loops
from bathyscope.surgery.checkpoint.source import source_of
from bathyscope.surgery.checkpoint.target_folder import require_free
from bathyscope.surgery.checkpoint.weight_files import SHARD_BYTES
from bathyscope.surgery.options import Emit, ExportOptions
from bathyscope.surgery.plan.export import export_plan
from bathyscope.surgery.plan.plan import Plan


@takes(ExportOptions)
def export(
    model: AnyModel,
    schedule: Schedule | str | Scheduling,
    folder: str | Path | None = None,
    *,
    emit: Emit | None = None,
    evidence: str = "",
    revision: str | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> Path | str:
    """Write a model with its blocks in another order as a checkpoint for plain transformers.

    Number of layers and everything that the configuration says block by block are rewritten; before anything is
    written, a model of the new configuration is run next to the scheduled one, on made-up weights that take no memory,
    and must give the same numbers. From a folder or a hub name, tensors are copied from file to file and the model is
    never loaded. The folder appears under its name when it is whole.

    Args:
        model: checkpoint folder or hub name; or a model in memory, of which the weights as they are now are written;
            of a streamed one, its files are copied.
        schedule: the order of the blocks, its text such as ``"drop:2,drop:5"``, or the plan that ``prune`` made of this
            model, whose evidence is in the card then.
        folder: to write; it must not exist, be empty, or hold the same export, of which the card alone is
            written again where there is evidence.
        ...: the options of ``ExportOptions``.

    Returns:
        The folder; with ``emit``, the text.

    Raises:
        OptionError: a schedule that cannot be read or leaves no block; neither a folder nor ``emit``, or both; a file
            size below 1.
        ModelError: no such model; quantised weights that are not unpacked, code that comes with a checkpoint, types
            that transformers does not know; weights of another shape than the configuration says, or not finite; a
            model in memory whose own forward fails; a tokenizer that cannot be read; an order that the family's
            configuration cannot say (with what differs); a plan of other weights.
        PruningError: a plan in which no block can go.
        StoreError: the folder holds something else, is the model's own, or cannot be written; nothing is left of it.

    Example:
        >>> bathyscope.export("model", "drop:1", "smaller").name
        'smaller'
    """
    _require_model_first(model)
    _require_one_result(folder, emit)
    if emit is not None:
        _require_no_checkpoint_options(emit, evidence, shard_bytes)
    if revision is not None and not isinstance(model, str | Path):
        raise OptionError(
            f"revision={revision!r} is of a model on the hub, and the model given is in memory already; leave revision "
            "out, or give the model's name."
        )
    _require_text(evidence)
    target = Path() if folder is None else folder_path(folder, "folder")
    if emit is None:
        require_apart(here(str(model)) if isinstance(model, str | Path) else None, target)
        require_free(target)
        require_writable(target, holds="an export")
    with alone(model):
        if isinstance(model, Model):
            require_no_loops(model.anatomy)
        if isinstance(schedule, Plan) and emit is None:
            schedule.require_choice()
            return export_plan(schedule, target, model, evidence=evidence, shard_bytes=shard_bytes)
        source = source_of(model, revision, weights=emit is None)
        _require_block_numbers(schedule)
        chosen = schedule_for(schedule, source.n_blocks)
        if emit is None and chosen.is_standard:
            warn(f"{str(schedule)!r} is the model's own order, so that the copy has the same blocks.")
        if emit is not None:
            dtype = str(getattr(source.config, "dtype", None) or "bfloat16").removeprefix("torch.")
            model_revision = model.revision if isinstance(model, Model) else revision
            return emitted(chosen, source.name, dtype, emit, model_revision)
        return write_export(source, chosen, target, evidence=evidence, shard_bytes=shard_bytes)


def _require_block_numbers(schedule: object) -> None:
    """Refuse texts that name runs of a looped model, of which no checkpoint knows."""
    if isinstance(schedule, str) and names_runs(schedule):
        raise ModelError(
            f"{schedule!r} names runs of a looped model, and no configuration leaves out or moves a single run of a "
            "block. Run the schedule with bathyscope.scheduled instead."
        )


def _require_model_first(model: object) -> None:
    if isinstance(model, Schedule | Scheduling):
        what = type(model).__name__.lower()
        raise OptionError(f"export() takes the model first; a {what} given. Write export(model, {what}, folder).")


def _require_one_result(folder: Any, emit: Any) -> None:
    if (folder is None) == (emit is None):
        what = "neither" if folder is None else "both"
        raise OptionError(
            f"export() writes a checkpoint into a folder (--out), or gives a text by emit= (--emit); {what} asked for, "
            "give one of them."
        )


def _require_text(evidence: str) -> None:
    """Refuse the name of a file in place of its text, which the card would show as the evidence."""
    if os.path.isfile(evidence.strip()):
        raise OptionError(
            f"evidence={evidence.strip()!r} is a file, and the card takes its text; give that (in a shell "
            '--evidence "$(cat FILE)").'
        )


def _require_no_checkpoint_options(emit: Emit, evidence: str, shard_bytes: int) -> None:
    """Refuse options of a checkpoint, of which a text for other tools holds nothing."""
    for name, value in (("evidence", evidence), ("shard_bytes", shard_bytes)):
        if value != getattr(ExportOptions, name):
            raise OptionError(
                f"{name}={elided(repr(value), 40)} is of a checkpoint, and emit={emit!r} writes none; leave {name} "
                "out, or give a folder (--out) in place of emit."
            )


def emitted(schedule: Schedule, model: str, dtype: str, form: Emit, revision: str | None = None) -> str:
    """Return a schedule as text for other tools.

    Args:
        model: name or folder, as mergekit will look for it.
        dtype: of the weights, which mergekit writes in.
        form: "mergekit": a passthrough merge as YAML, a slice for every run of consecutive blocks; "layers": the
            blocks in their order, separated by commas; "json": both counts, the order, and what is left out.
        revision: of the model on the hub, which mergekit takes behind an @; None = not one in particular.
    """
    if form == "layers":
        return ",".join(map(str, schedule))
    if form == "json":
        dropped = sorted(set(range(schedule.n_blocks)) - set(schedule))
        counts = {"n_blocks": schedule.n_blocks, "layers": list(schedule), "dropped": dropped}
        return json.dumps({"model": model, **({"revision": revision} if revision else {}), **counts}, indent=2)
    name = json.dumps(f"{model}@{revision}" if revision else model)
    lines = ["slices:"]
    for first, last in runs(schedule):
        lines += ["- sources:", f"  - model: {name}", f"    layer_range: [{first}, {last + 1}]"]
    return "\n".join([*lines, "merge_method: passthrough", f"dtype: {dtype}"])


def runs(schedule: Schedule) -> list[tuple[int, int]]:
    """Return the first and the last block of every run of consecutive blocks."""
    ranges: list[tuple[int, int]] = []
    for block in schedule:
        if ranges and ranges[-1][1] + 1 == block:
            ranges[-1] = (ranges[-1][0], block)
        else:
            ranges.append((block, block))
    return ranges
