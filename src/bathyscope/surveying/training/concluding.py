"""What a course says in sentences: from where to where the readings went, and what its prompts leave open."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from bathyscope.core.estimates import Estimate
from bathyscope.core.text import capitalised, counted, signed
from bathyscope.statistics.rare import FEWEST_PROMPTS
from bathyscope.surveying.training.course_labels import STEP_CONFIGURATIONS, STEP_PACKINGS, STEP_PRECISIONS
from bathyscope.surveying.training.gains import guessing_text, later_text


def conclude(data: xr.Dataset, n_blocks: int) -> str:
    """Return from where to where the readings went, in at most three sentences."""
    first, last = (int(data["step"][place]) for place in (0, -1))
    if first == last:
        return _describe_step(data, n_blocks) + _no_interval_text(data) + _idle_text(data)
    text = f"{data.sizes['step']} steps were surveyed, {first} to {last}{_tell_precisions(data)}{_tell_packings(data)}."
    text += _tell_configurations(data) + _nothing_told(data)
    if "readable" in data:
        name, subject = _head_of(data)
        ends = [f"{float(data[name][place]):.1f}" for place in (0, -1)]
        blocks = counted(n_blocks, "block")
        text += f" {subject} from {ends[0]} of {blocks} on at step {first}, and from {ends[1]} at {last}"
        change = Estimate.of(data.sel(reading=name), "change")
        text += f" (change {change.write_in_brackets(signed)})" if change.has_interval else ""
        text += f"{guessing_text(data)}."
    costs = [later_text(data)]
    if "idle_blocks" in data and data["idle_blocks"].notnull().all():
        counts = [int(data["idle_blocks"][place]) for place in (0, -1)]
        costs.append(f"blocks shown to be idle: {counts[0]} at step {first}, {counts[1]} at {last}")
    text += "".join(f" {capitalised(clause)}." for clause in ["; ".join(filter(None, costs))] if clause)
    return text + _no_interval_text(data) + _idle_text(data)


def _tell_precisions(data: xr.Dataset) -> str:
    """Return which steps have weights of which precision, where that is not one for all; else an empty text."""
    listed = _list_several(data, STEP_PRECISIONS)
    words = f", in several precisions ({listed}), so that rounding is part of what changed (load all in one dtype)"
    return words if listed else ""


def _tell_packings(data: xr.Dataset) -> str:
    """Return which steps have weights of how many bits, where some were rounded otherwise; else an empty text."""
    listed = _list_several(data, STEP_PACKINGS)
    words = f", with weights stored in several ways ({listed}), so that rounding is part of what changed"
    return words if listed else ""


def _tell_configurations(data: xr.Dataset) -> str:
    """Return which steps were surveyed under other settings than the first that tells its own; else an empty text."""
    own_steps, *others = _steps_by(data, STEP_CONFIGURATIONS).values() or [[]]
    if not others:
        return ""
    steps = sorted((step for group in others for step in group), key=int)
    where = first_and_last(steps) if len(steps) > 3 else f"step{'s' * (len(steps) > 1)} {first_and_last(steps)}"
    return f" Settings are part of what changed: the configuration at {where} is not that at step {own_steps[0]}."


def _list_several(data: xr.Dataset, attribute: str) -> str:
    """Return what an attribute tells of which steps, where it tells more than one thing; else an empty text."""
    steps_by_value = _steps_by(data, attribute)
    if len(steps_by_value) < 2:
        return ""
    return "; ".join(f"{value} at {first_and_last(steps)}" for value, steps in steps_by_value.items())


def _steps_by(data: xr.Dataset, attribute: str) -> dict[str, list[str]]:
    """Return the steps by what an attribute tells of each; those of which it tells nothing are left out."""
    steps_by_value: dict[str, list[str]] = {}
    for step, value in zip(data["step"].values.tolist(), data.attrs.get(attribute, ())):
        if value:
            steps_by_value.setdefault(value, []).append(str(step))
    return steps_by_value


def first_and_last(steps: Sequence[str]) -> str:
    """Return few steps one by one, many by their number, the first and the last."""
    return ", ".join(steps) if len(steps) < 4 else f"{len(steps)} steps from {steps[0]} to {steps[-1]}"


def _head_of(data: xr.Dataset) -> tuple[str, str]:
    """Return the reading that heads a course, and its subject: a mean over tokens where a run stores no more."""
    if np.isnan(data["half"].values).any():
        return "readable", "On average a token keeps its final prediction"
    return "half", "Half of the tokens keep their final prediction"


def _nothing_told(data: xr.Dataset) -> str:
    """Return what a course lacks whose measures tell neither a depth nor a cost; empty for others."""
    if data.data_vars:
        return ""
    return " Its measures tell no depth by step; survey the steps with lens, skip or drop, or open its runs one by one."


def _no_interval_text(data: xr.Dataset) -> str:
    """Return what stays open where prompts are too few for an interval; empty where there is one."""
    # a single cost may lack one where there are prompts for it
    ends = [data[f"{name}_low"] for name in ("readable", "late_blocks_loss") if f"{name}_low" in data]
    if not ends or any(end.notnull().any() for end in ends):
        return ""
    open_questions = []
    if "readable" in data and data.sizes["step"] > 1:
        open_questions.append("whether depth changed")
    if "added_loss" in data:
        open_questions.append("which blocks are idle or matter")
    reason = "There is no interval, which needs two different prompts"
    return f" {reason}: {' and '.join(open_questions)} is open." if open_questions else f" {reason}."


def _idle_text(data: xr.Dataset) -> str:
    """Return what it takes to tell idle blocks where intervals of costs exist and prompts are too few for that."""
    is_known = "idle_blocks" not in data or data["idle_blocks"].notnull().any()
    if is_known or data["late_blocks_loss_low"].isnull().all():
        return ""
    return (
        f" Which blocks are idle is open: few prompts miss rare costs, and {FEWEST_PROMPTS} different ones are needed."
    )


def _describe_step(data: xr.Dataset, n_blocks: int) -> str:
    """Return the readings of the only step."""
    text = f"One step was surveyed, {int(data['step'][0])}.{_nothing_told(data)}"
    if "readable" in data:
        name, subject = _head_of(data)
        text += f" {subject} from {float(data[name][0]):.1f} of {counted(n_blocks, 'block')} on."
    if "idle_blocks" in data and data["idle_blocks"].notnull().all():
        text += f" Blocks shown to be idle: {int(data['idle_blocks'][0])}."
    return text
