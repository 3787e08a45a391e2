"""The answer of a run in a few sentences: its depth, which blocks are cheap and which dear, how far to trust it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.prompts.parts import resampled
from bathyscope.runs.by_place import ByPlace, cost_of_leaving_out

if TYPE_CHECKING:
    from bathyscope.runs.run import Run

CHEAP: Final = 0.05
"""Nats of loss that a cheap block adds at most, by the upper end of its interval."""
_NAMED: Final = 3
_LOADABLE: Final = re.compile(r"[\w.-]+(/[\w.-]+)?")
"""What a model on the hub may be called."""
_ADD_UP: Final = "Costs of single blocks do not add up: leave them out together and measure."


@dataclass(frozen=True)
class Answer:
    """What stands at the head of a page.

    Args:
        headline: of the verdict; empty where the run has no lens.
        cheap: which blocks could go, or why none is named.
        dear: which blocks could not.
        trust: what the numbers rest on, a sentence each.
        act: the command that proves what the cheap blocks cost together, or, where none is named, one that tells more.
        blocks: those, in order.
    """

    headline: str
    cheap: str
    dear: str
    trust: tuple[str, ...]
    act: str
    blocks: tuple[int, ...] = ()


def answer(run: Run, cluster: str | None = None) -> Answer:
    """The answer of a run, whatever measures it has.

    Args:
        cluster: label of prompts that are resampled as one.
    """
    trust = [run.caption()]
    headline = "No verdict: it needs the lens and skip effects of blocks."
    if run.judged:
        verdict = run.verdict_by(cluster)
        headline, trust = verdict.text, [*trust, *verdict.details]
    if cluster is not None:
        trust.append(f"Intervals resample {resampled(cluster)}.")
    cost = cost_of_leaving_out(run, cluster)
    picked, cheap = _cheap(cost)
    return Answer(headline, cheap, _dear(cost), tuple(trust), _command(run, picked), picked)


def _command(run: Run, blocks: Sequence[int]) -> str:
    """What chooses as many blocks and proves what leaving them out together costs; without any the survey that would
    tell more."""
    if blocks:
        return f"bathyscope prune {_name(run)} --calibration YOURS.jsonl --test OTHERS.jsonl --drop {len(blocks)}"
    return f"bathyscope survey {_name(run)} --prompts YOURS.jsonl --measures lens,skip,drop,tokens --out runs/more"


def _name(run: Run) -> str:
    """The model as a shell takes it; MODEL where the run's name for it is none that could be loaded."""
    name = run.identity.model
    return shlex.quote(name) if _LOADABLE.fullmatch(name) or Path(name).is_dir() else "MODEL"


def _cheap(cost: ByPlace | None) -> tuple[tuple[int, ...], str]:
    """Blocks whose interval ends below ``CHEAP``, and the sentence that names them or says why none is."""
    if cost is None:
        return (), "Which blocks could go is not known: drop was not measured."
    high = np.array([interval.high for interval in cost.intervals])
    if np.isnan(high).all():
        return (), "One prompt has no interval, so that no block is named as cheap: survey at least ten."
    places = np.asarray(cost.places)
    below = np.flatnonzero(high <= CHEAP)
    if below.size:
        ordered = below[np.argsort(high[below], kind="stable")]
        picked = tuple(int(block) for block in sorted(places[ordered]))
        each = "it adds" if len(picked) == 1 else "each alone adds"
        most = f"{each} at most {high[below].max():.2g} nats to the loss (upper end of the 95 % interval)"
        subject = "block costs" if len(picked) == 1 else "blocks cost"
        together = f" {_ADD_UP}" if len(picked) > 1 else ""
        said = f"{len(picked)} of {len(places)} {subject} least when left out: {_listed(picked)}; {most}.{together}"
        return picked, said
    least = int(np.nanargmin(cost.mean))
    named = f"the cheapest is block {places[least]} ({_shown(cost, least)})"
    if cost.mean[least] <= CHEAP:
        return (), f"The intervals are too wide to name a block that could go; {named}. Survey more prompts."
    return (), f"No block can be left out for less than {CHEAP:g} nats; {named}."


def _dear(cost: ByPlace | None) -> str:
    if cost is None:
        return ""
    order = np.argsort(-np.nan_to_num(cost.mean, nan=-math.inf), kind="stable")[:_NAMED]
    first = f"block {cost.places[order[0]]} ({_shown(cost, int(order[0]))} nats)"
    rest = [f"{cost.places[place]} ({cost.mean[place]:+.2g})" for place in order[1:]]
    return f"Dearest: {', '.join([first, *rest])}."


def _shown(cost: ByPlace, place: int) -> str:
    low, high = cost.intervals[place]
    between = "" if math.isnan(low) else f", {low:+.2g} to {high:+.2g}"
    return f"{cost.mean[place]:+.2g}{between}"


def _listed(blocks: Sequence[int]) -> str:
    """``2, 5 to 7``: runs of three blocks or more by their ends."""
    said, start = [], 0
    for end in range(1, len(blocks) + 1):
        if end == len(blocks) or blocks[end] != blocks[end - 1] + 1:
            run = blocks[start:end]
            said += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(block) for block in run]
            start = end
    return ", ".join(said)
