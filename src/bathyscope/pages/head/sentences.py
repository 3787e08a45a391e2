"""What a depth profile says in words: one true sentence at the top, what it rests on, and what is cheap or costly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.core.estimates import Estimate
from bathyscope.core.text import capitalised, counted, signed, true_minus
from bathyscope.pages.head.classes import CARRIES, class_of, cost_text, write_cost
from bathyscope.pages.head.numbers import CRITERIA
from bathyscope.runs.head import percent

if TYPE_CHECKING:
    from bathyscope.pages.head.numbers import Mark, Points, Profile
    from bathyscope.runs.readings import Null

MATTERS: Final = 0.05
"""Share of tokens from where it is said that the last block still changes them."""
_NAMED: Final = 3
"""Blocks that a sentence lists at most."""
_NUMBERS: Final = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


SHORT_LABELS: Final = {"half": "half final from", "readable": "final after", "own": "90 % of effect on output by"}
"""How a depth is written at its mark where there is little room."""


def headline(profile: Profile) -> str:
    """Return one sentence, without its full stop: the head's first, or what single blocks cost without a lens."""
    head = profile.head
    if head is not None and (head.tokens_sentence or head.effect_sentence):
        return head.tokens_sentence or head.effect_sentence
    if profile.costs is not None:
        return _state_costs(profile.costs)
    if profile.of_states:
        return "These states say nothing of depth: that needs the lens, and the boundary behind the last block"
    return "This run says nothing of depth yet: survey with lens, skip and drop"


def basis(profile: Profile) -> str:
    """Return what is under the headline: the head's second sentence, prompts and tokens, controls, and advice."""
    tokens = f", {counted(profile.tokens, 'token')}" if profile.tokens else ""
    head, sentences = profile.head, []
    if head is not None and head.tokens_sentence and head.effect_sentence:
        sentences.append(f"{head.effect_sentence}.")
    sentences.append(f"{counted(profile.prompts, 'prompt')}{tokens}.")
    if head is not None and head.tokens.null is not None and not math.isnan(head.tokens.null.value):
        sentences.append(_name_controls(head.tokens.value, head.tokens.null))
        effect = head.effect.null
        if effect is not None and effect.seeds > 1 and not math.isnan(effect.moved):
            sentences.append(f"90 % of the effect on the output: {_write_moved(head.effect.value, effect)}.")
    if profile.verdict is not None:
        sentences += [f"{capitalised(caveat)}." for caveat in profile.verdict.caveats]
        sentences += [advice] if (advice := profile.verdict.advice) else []
    return " ".join([*sentences, *profile.notes])


def mark_label(mark: Mark) -> tuple[str, str]:
    """Return how a depth is written at its mark: the sentence, and its interval or nothing."""
    sentences = {
        "half": f"half of the tokens final from {mark.value:.1f}",
        "readable": f"the average token is final after {mark.value:.1f}",
        "own": f"90 % of the effect on output by {mark.value:.1f}",
    }
    return sentences[mark.name], interval_text(mark.low, mark.high)


def explain_picture(profile: Profile) -> list[str]:
    """Return what ticks and marks of the picture are, in the words of somebody who reads the curve below them.

    A line says of the papers' criteria why they differ, and of the effect that it is not the loss of the tiles.
    """
    lines = []
    if profile.criteria:
        ordered = sorted(profile.criteria.items(), key=lambda item: item[1])
        listed = ", ".join(f"{CRITERIA[name]} {depth:.0f}" for name, depth in ordered)
        curves = ", each on another curve" if len(ordered) > 1 else ""
        lines.append(f"ticks: where refinement begins by the papers' criteria: {listed} of {profile.n_blocks}{curves}")
    if profile.losses:
        lines.append("numbers under the curve: loss in nats if the model is read out there")
    if profile.mark("readable") is not None:
        lines.append("blue: mean over tokens (the curve need not be at 50 %)")
    kinds = [f"{len(control.curves)} {control.label}" for control in profile.controls if control.curves]
    if kinds:
        lines.append(f"grey: {', '.join(kinds)}, the same prompts")
    if profile.mark("own") is not None:
        changed = math.nan if profile.head is None else profile.head.changed_by_last
        rest = "; the rest can still change predictions" if changed >= MATTERS else ""
        lines.append(f"green: 90 % of how far skipping single blocks moves output probabilities lies before it{rest}")
    return lines


def interval_text(low: float, high: float) -> str:
    """Return ``7.4 to 8.6``; empty where there is no interval."""
    ends = Estimate(low, low, high)
    return ends.interval(".1f") if ends.has_interval else ""


def carrying(costs: Points) -> tuple[int, ...]:
    """Return the blocks whose loss is shown to be in the two highest classes; the costliest first.

    The lower end decides, as it is written, of intervals that hold for all blocks at once: the costliest of many is
    picked by its cost. Without intervals nothing is shown.
    """
    ordered = _costliest_first(costs)
    return tuple(costs.places[place] for place in ordered if class_of(costs.joint_low[place]) >= CARRIES)


def undecided(costs: Points) -> tuple[int, ...]:
    """Return the blocks that are shown neither to carry the model nor not to; the costliest first."""
    carried = carrying(costs)
    may_carry = [
        costs.places[place]
        for place in _costliest_first(costs)
        if math.isnan(costs.joint_high[place]) or class_of(costs.joint_high[place]) >= CARRIES
    ]
    return tuple(block for block in may_carry if block not in carried)


def carrying_fact(profile: Profile) -> tuple[str, str]:
    """Return title and text on the blocks that the model cannot do without."""
    costs = profile.costs
    if profile.of_states:
        return "Which blocks carry the model cannot be told", "States of a served model show no block left out."
    if costs is None:
        reason = profile.why_no_costs or "no prompt has a loss"
        return "Which blocks carry the model is unknown", f"{capitalised(reason)}."
    blocks, still_open = carrying(costs), undecided(costs)
    if not blocks:
        verb = "is shown to carry" if still_open else "carries"
        return f"No single block {verb} the model", _name_costliest(costs, still_open)
    listed = [
        f"{'Block' if number == 0 else 'block'} {block} {'costs ' if number == 0 else ''}"
        f"{cost_text(costs.at(block)) if number == 0 else write_cost(costs.at(block))}"
        for number, block in enumerate(blocks[:_NAMED])
    ]
    more = f" and {len(blocks) - _NAMED} more from {write_cost(costs.at(blocks[-1]))}" if len(blocks) > _NAMED else ""
    rest = [costs.mean[place] for place in _costliest_first(costs) if costs.places[place] not in blocks]
    others = ""
    if len(rest) == 1:
        others = f"; the other {write_cost(rest[0])}"
    elif rest:
        others = f"; all others {write_cost(min(rest))} to {write_cost(max(rest))}"
    return _count_carrying(
        costs, len(blocks), bool(still_open)
    ), f"{', '.join(listed)}{more}{others}{_ask(still_open)}."


def _count_carrying(costs: Points, count: int, some_are_open: bool) -> str:
    """Return how many blocks carry the model; of how many that is shown where it is open of others."""
    measured = len(_costliest_first(costs))
    counted_words = _NUMBERS[count] if count < len(_NUMBERS) else str(count)
    if some_are_open:
        subject, verb = (f"{counted_words} block", "is") if count == 1 else (f"{counted_words} blocks", "are")
        return f"{subject} {verb} shown to carry the model"
    if count == 1:
        return "One block carries the model"
    if count == measured:
        return "Every block carries the model"
    if count > measured / 2 and count >= len(_NUMBERS):
        return f"Most blocks carry the model, {count} of {measured}"
    return f"{counted_words} blocks carry the model"


def _name_costliest(costs: Points, still_open: tuple[int, ...]) -> str:
    """Return the costliest block of a run in which none is shown to carry the model, and what leaves others open."""
    first = _costliest_first(costs)[0]
    costliest = f"Costliest alone: block {costs.places[first]}, {cost_text(costs.mean[first])}"
    if not still_open:
        return f"{costliest}."
    advice = "survey more prompts"
    if math.isnan(costs.joint_low[first]):
        return f"{costliest}, without an interval: {advice}."
    estimate = Estimate(costs.mean[first], costs.joint_low[first], costs.joint_high[first])
    costliest = f"Costliest alone: block {costs.places[first]}, {estimate.write(write_cost, ' nats')}"
    return f"{costliest}: {advice}." if costs.places[first] in still_open else f"{costliest}{_ask(still_open)}."


def _ask(still_open: tuple[int, ...]) -> str:
    """Return of which blocks it is open whether they carry the model, and what would tell; empty without any."""
    if not still_open:
        return ""
    which = f"block {still_open[0]} does" if len(still_open) == 1 else f"{len(still_open)} others do"
    return f"; whether {which} is open: survey more prompts"


def describe(profile: Profile) -> str:
    """Return the picture in words, for readers who cannot see it."""
    parts = [f"Depth profile of {profile.model}, {counted(profile.n_blocks, 'block')}."]
    for mark in profile.marks:
        label, interval = mark_label(mark)
        parts.append(f"{capitalised(label)} blocks{f' ({interval})' if interval else ''}.")
    if profile.share is not None:
        shares = [
            f"{percent(share)} at {place}"
            for place, share in zip(profile.share.places, profile.share.mean)
            if not math.isnan(share)
        ]
        parts.append(f"Share of tokens with their final prediction, by blocks done: {', '.join(shares)}.")
    if profile.losses:
        losses = [f"{loss:.2f} at {place}" for place, loss in enumerate(profile.losses) if not math.isnan(loss)]
        parts.append(f"Loss in nats if the model is read out, by blocks done: {', '.join(losses)}.")
    if profile.costs is not None:
        costs = [
            f"{block}: {write_cost(cost)}"
            for block, cost in zip(profile.costs.places, profile.costs.mean)
            if not math.isnan(cost)
        ]
        parts.append(f"Loss added without one block, in nats: {', '.join(costs)}.")
    for control in profile.controls:
        for mark in control.marks:
            label, interval = mark_label(mark)
            parts.append(f"{capitalised(control.label)}: {label}{f' ({interval})' if interval else ''}.")
    return " ".join(parts)


def _state_costs(costs: Points) -> str:
    blocks = carrying(costs)
    order = _costliest_first(costs)
    first, last = order[0], order[-1]
    rest = max((costs.mean[place] for place in order if costs.places[place] not in blocks), default=math.nan)
    # a block that costs more than one that is shown to carry the model has a wide interval
    if blocks and rest < costs.at(blocks[-1]):
        subject = f"block {blocks[0]} adds" if len(blocks) == 1 else f"{len(blocks)} of {len(order)} blocks add"
        most = f"up to {cost_text(costs.at(blocks[0]))} to the loss"
        return f"Left out, {subject} {most}; each other at most {write_cost(rest)}"
    return (
        f"Leaving out one block adds {write_cost(costs.mean[last])} to {cost_text(costs.mean[first])} to the loss"
        if first != last
        else f"Leaving out block {costs.places[first]} adds {cost_text(costs.mean[first])} to the loss"
    )


def _name_controls(value: float, null: Null) -> str:
    if null.seeds == 1:
        return f"One untrained model of this shape reads {null.value:.1f}; three would tell what training moved."
    moved = _write_moved(value, null, level="95 % interval ")
    return f"{moved} against {null.seeds} models of the same shape that were never trained."


def _write_moved(value: float, null: Null, level: str = "") -> str:
    """Return ``−2.0 blocks (−2.3 to −1.7)``."""
    moved = true_minus(signed(null.moved))
    interval = Estimate(null.moved, *null.interval)
    remarks = []
    # Readers subtract the two marks, which are written with one decimal each.
    if round(round(value, 1) - round(null.value, 1) - round(null.moved, 1), 1) != 0:
        remarks.append(f"{value:.2f} against {null.value:.2f}")
    if interval.has_interval:
        remarks.append(true_minus(f"{level}{interval.interval(signed)}"))
    return f"{moved} blocks ({'; '.join(remarks)})" if remarks else f"{moved} blocks"


def _costliest_first(costs: Points) -> list[int]:
    mean = np.asarray(costs.mean)
    # A stable order keeps ties in the order of blocks, so the page has the same bytes everywhere.
    return [int(place) for place in np.argsort(-mean, kind="stable") if not math.isnan(mean[place])]
