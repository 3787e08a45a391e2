"""The answer of a run in a few sentences: its depth, cheap and costly blocks, and how far to trust the numbers."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.core.estimates import Estimate
from bathyscope.model.identity import compare_models
from bathyscope.pages.text.commands import more_prompts, prompts_flags, quote_model, quote_prompts
from bathyscope.pages.text.provenance import loading_warnings
from bathyscope.prompts.parts import resampled
from bathyscope.prompts.reading import reading_flags
from bathyscope.runs.by_place import LOSS_FALLS, ByPlace, cost_of_leaving_out, why_no_cost
from bathyscope.runs.departures import departures

if TYPE_CHECKING:
    from bathyscope.core.result import PageResult
    from bathyscope.runs.run import Run

CHEAP: Final = 0.05
"""Nats of loss that a cheap block adds at most, by the upper end of its interval."""
_NAMED: Final = 3
_ADD_UP: Final = "Costs of single blocks do not add up: leave them out together and measure."
_OF_STATES: Final = (
    "Which blocks could go cannot be told from states of a served model: to leave one out, it must be run."
)
_MEASURES: Final = ("lens", "skip", "drop", "tokens")
"""Measures that a page answers from; the last is optional."""


@dataclass(frozen=True)
class Answer:
    """The answer at the top of a page.

    Args:
        headline: the verdict, or what it needs where it is missing.
        cheap: which blocks could be removed, or why none is named.
        costly: which blocks could not.
        trust: sentences on the basis of the numbers.
        purpose: of the command; empty without one.
        command: measures the cost of the cheap blocks together, or what is missing to name them; may be empty.
        blocks: the cheap blocks in order.
        planned: whether a plan says which blocks can go.
    """

    headline: str
    cheap: str
    costly: str
    trust: tuple[str, ...]
    purpose: str = ""
    command: str = ""
    blocks: tuple[int, ...] = ()
    planned: bool = False


@dataclass(frozen=True)
class _Choice:
    """The cheap blocks, of how many measured ones, the sentence on them, and whether more prompts would improve it.

    ``prompts`` is how many would, where that is known.
    """

    sentence: str
    blocks: tuple[int, ...] = ()
    needs_prompts: bool = False
    measured: int = 0
    prompts: int | None = None


def answer(run: Run, cluster: str | None = None, plan: PageResult | None = None) -> Answer:
    """Return the answer of a run, whatever measures it has.

    Args:
        cluster: label of prompts that are resampled as one.
        plan: of ``prune`` for the same model. It measured the blocks together, so it decides which can be removed.
    """
    trust = [run.caption(), *([run.stopped] if run.stopped else []), *loading_warnings(run)]
    headline = "No verdict: it needs the lens and skip effects of blocks."
    if run.stored is not None:
        headline = "No verdict: it needs the lens, and with it the boundary behind the last block."
    if run.judged:
        verdict = run.verdict_by(cluster)
        headline, trust = verdict.text, [*trust, *verdict.details]
    if cluster is not None:
        trust.append(f"Intervals resample {resampled(cluster)}.")
    cost = cost_of_leaving_out(run, cluster)
    choice = _choose_blocks(cost, why_no_cost(run)) if run.stored is None else _Choice(_OF_STATES)
    trust += _warn_of_foreign_text(cost)
    if plan is not None:
        cheap = f"By bathyscope prune: {plan.text}"
        return Answer(headline, cheap, _name_costly_blocks(cost), tuple(trust), planned=True)
    purpose, command = _suggest_command(run, choice)
    return Answer(headline, choice.sentence, _name_costly_blocks(cost), tuple(trust), purpose, command, choice.blocks)


def plan_for(run: Run, plans: Sequence[PageResult]) -> PageResult | None:
    """Return the first plan for the run's model: of the same weights and settings, or of the same name.

    A plan of the same name counts where it does not tell its weights. One of another precision may be of other weights,
    which cannot be compared then, and decides nothing of the run.
    """
    sure: list[PageResult] = []
    named: list[PageResult] = []
    for plan in plans:
        agreement = compare_models(plan.models[0], run.identity.of_model)
        if agreement.differences:
            continue
        if "weights" not in agreement.unknown:
            sure.append(plan)
        elif plan.models[0].name == run.identity.model:
            named.append(plan)
    return next(iter([*sure, *named]), None)


def _suggest_command(run: Run, choice: _Choice) -> tuple[str, str]:
    """Return what a reader does next, and the command for it; both empty where nothing is missing."""
    model = quote_model(run.identity.model)
    options = _departing_flags(run)
    survey = f"bathyscope survey {model} {prompts_flags(run)}{options} --measures"
    # A model keeps at least one block, even where no block costs anything.
    droppable = min(len(choice.blocks), (run.identity.n_blocks or choice.measured) - 1)
    if droppable > 0:
        prompts = f"--calibration {quote_prompts(run.source)} --test OTHERS.jsonl"
        reading = reading_flags(run.prompts.reading)
        prune = f"bathyscope prune {model} {prompts}{reading} --drop {droppable}"
        return "To know what they cost together", prune
    if any(measure not in run for measure in _MEASURES[:-1]) or (run.stored is None and why_no_cost(run)):
        missing = "is missing" if run.stored is None else "needs the blocks, where the model itself can be run"
        return f"To measure what {missing}", f"{survey} {','.join(_MEASURES)} --out runs/more"
    if choice.needs_prompts:
        more = f"bathyscope survey {model} {prompts_flags(run, more_prompts(run, choice.prompts))}{options} --measures"
        return "To narrow the intervals, with more prompts", f"{more} {','.join(_MEASURES)} --out runs/more"
    if not any(label.startswith("untrained") for label in run.controls):
        return "To know what training moved", f"{survey} lens,skip --control untrained:3 --out runs/control"
    return "", ""


def _departing_flags(run: Run) -> str:
    """Return the options under which the run's readings are other quantities, as flags with a space before each."""
    options = (departure.option for departure in departures(run.identity.measures, has_skip="skip" in run))
    pairs = (option.partition("=") for option in options)
    return "".join(f" --{name} {shlex.quote(value)}" for name, _, value in pairs if value)


def _choose_blocks(cost: ByPlace | None, why_none: str) -> _Choice:
    """Return the blocks whose interval ends below ``CHEAP``, or a sentence on why none is named.

    Args:
        why_none: the reason, where no cost is known.
    """
    if cost is None:
        return _Choice(f"Which blocks could go is unknown: {why_none or 'no loss is stored'}.")
    if np.isnan(cost.mean).all():
        return _Choice("Which blocks could go is unknown: no prompt has a loss.", needs_prompts=True)
    low, high = (np.array(ends) for ends in zip(*cost.intervals))
    if cost.unbounded and np.isnan(high).all():
        why_none = f"No block is named as cheap: {cost.why_unbounded}."
        return _Choice(why_none, needs_prompts=True, prompts=cost.enough_prompts)
    if np.isnan(high).all():
        return _Choice(f"{_explain_no_interval(cost)}, so no block is named as cheap: survey ten or more.", (), True)
    still_open = _explain_unbounded(cost)
    places = np.asarray(cost.places)
    # The upper end decides, and not the mean: a block is cheap only if the data rule out that it is costly.
    below = np.flatnonzero(high <= CHEAP)
    if below.size:
        blocks = tuple(int(block) for block in sorted(places[below]))
        each = "it adds" if len(blocks) == 1 else "each alone adds"
        most = f"{each} at most {high[below].max():.2g} nats to the loss (upper end of the 95 % interval)"
        subject = f"{'block' if len(places) == 1 else 'blocks'} {'costs' if len(blocks) == 1 else 'cost'}"
        together = f" {_ADD_UP}" if len(blocks) > 1 else ""
        return _Choice(
            f"{len(blocks)} of {len(places)} {subject} least when left out: {format_blocks(blocks)}; "
            f"{most}.{together}{still_open}",
            blocks,
            measured=len(places),
        )
    least = int(np.nanargmin(cost.mean))
    named = f"the cheapest is block {places[least]} ({_format_estimate(cost, least)})"
    if (low <= CHEAP).any():
        undecided = f"No block is shown to cost at most {CHEAP:g} nats"
        if cost.mean[least] > CHEAP:
            advice = "Its estimate is above that, and its interval reaches below: more prompts would decide."
            return _Choice(f"{undecided}; {named}. {advice}{still_open}", needs_prompts=True)
        wide = f"{undecided}, since intervals are wide; {named}. Survey more prompts.{still_open}"
        return _Choice(wide, needs_prompts=True)
    if still_open:
        none_shown = f"No block is shown to cost at most {CHEAP:g} nats; {named}.{still_open}"
        return _Choice(none_shown, needs_prompts=True, prompts=cost.enough_prompts)
    return _Choice(f"No block can be left out for less than {CHEAP:g} nats; {named}.")


def _explain_unbounded(cost: ByPlace) -> str:
    """Return a sentence, after a space, on the blocks whose cost has no interval; empty without any."""
    if not cost.unbounded:
        return ""
    which = f"block{'' if len(cost.unbounded) == 1 else 's'} {format_blocks(cost.unbounded)}"
    return f" Of {which} it is open: {cost.why_unbounded}."


def _explain_no_interval(cost: ByPlace) -> str:
    prompts = len(cost.by_prompt)
    measured = ~np.isnan(cost.by_prompt).all(1)
    if measured.sum() == 1 < prompts:
        return f"Only 1 of {prompts} prompts has a loss, and an interval needs two"
    if prompts == 1:
        return "Only one prompt, and an interval needs two"
    return f"All {measured.sum()} prompts with a loss belong to one cluster, or are copies, and an interval needs two"


def _warn_of_foreign_text(cost: ByPlace | None) -> list[str]:
    """Warn where leaving out a block is shown to lower the loss, as it seldom does on familiar text."""
    if cost is None:
        return []
    better = [int(place) for place, interval in zip(cost.places, cost.joint_intervals) if interval.high < 0]
    if not better:
        return []
    blocks = f"block {better[0]}" if len(better) == 1 else f"blocks {format_blocks(better)}"
    return [f"Leaving out {blocks} lowers the loss: {LOSS_FALLS}."]


def _name_costly_blocks(cost: ByPlace | None) -> str:
    if cost is None:
        return ""
    # A stable order keeps ties in the order of blocks, so the page has the same bytes everywhere.
    order = [int(place) for place in np.argsort(-cost.mean, kind="stable") if not math.isnan(cost.mean[place])]
    if not order:
        return ""
    first = f"block {cost.places[order[0]]} ({_format_estimate(cost, order[0])} nats)"
    rest = [f"{cost.places[place]} ({cost.mean[place]:+.2g})" for place in order[1:_NAMED]]
    return f"Costliest alone: {', '.join([first, *rest])}."


def _format_estimate(cost: ByPlace, place: int) -> str:
    return Estimate(cost.mean[place], *cost.intervals[place]).write_in_brackets("+.2g")


def format_blocks(blocks: Sequence[int]) -> str:
    """Write ``2, 5 to 7``: three or more neighbouring blocks by their ends."""
    ranges, start = [], 0
    for end in range(1, len(blocks) + 1):
        if end == len(blocks) or blocks[end] != blocks[end - 1] + 1:
            run = blocks[start:end]
            ranges += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(block) for block in run]
            start = end
    return ", ".join(ranges)
