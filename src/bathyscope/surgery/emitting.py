"""A schedule as other tools take it: a list of layers, JSON, or a merge of slices for mergekit."""

from __future__ import annotations

import json
from typing import Literal

from bathyscope.schedule import Schedule

Emit = Literal["mergekit", "layers", "json"]


def emitted(schedule: Schedule, model: str, dtype: str, form: Emit, revision: str | None = None) -> str:
    """A schedule as text.

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
        found = {"n_blocks": schedule.n_blocks, "layers": list(schedule), "dropped": dropped}
        return json.dumps({"model": model, **({"revision": revision} if revision else {}), **found}, indent=2)
    name = json.dumps(f"{model}@{revision}" if revision else model)
    lines = ["slices:"]
    for first, last in runs(schedule):
        lines += ["- sources:", f"  - model: {name}", f"    layer_range: [{first}, {last + 1}]"]
    return "\n".join([*lines, "merge_method: passthrough", f"dtype: {dtype}"])


def runs(schedule: Schedule) -> list[tuple[int, int]]:
    """First and last block of every run of consecutive blocks."""
    found: list[tuple[int, int]] = []
    for block in schedule:
        if found and found[-1][1] + 1 == block:
            found[-1] = (found[-1][0], block)
        else:
            found.append((block, block))
    return found
