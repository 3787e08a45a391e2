"""The head of a plan's page: what the choice costs and whether that is proved, every candidate, and what stays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from markupsafe import Markup

from bathyscope.core.cycles import with_address
from bathyscope.core.estimates import Estimate
from bathyscope.core.text import capitalised, counted, level_text, true_minus
from bathyscope.pages.figures.of.plan import (
    CandidateRow,
    candidate_rows,
    draw_candidates,
    ends_of_picture,
    write_candidate_cost,
)
from bathyscope.pages.head.answer import format_blocks
from bathyscope.pages.head.canvas import Canvas, wrap
from bathyscope.pages.head.layouts import NARROW, WIDE, ProfileLayout
from bathyscope.pages.head.section import Fact
from bathyscope.pages.head.svg import print_svg
from bathyscope.pages.text.commands import quote_result
from bathyscope.pages.text.environment import environment
from bathyscope.prompts.samples import by_clusters
from bathyscope.runs.by_place import LOSS_FALLS
from bathyscope.surgery.plan.at_random import RANDOM, random_name
from bathyscope.surgery.plan.bound import bound_text
from bathyscope.surgery.plan.stability_text import block_of, unknown_shares
from bathyscope.surgery.plan.stopping import stopping_losses
from bathyscope.surgery.plan.task_table import task_sentences
from bathyscope.surgery.plan.text import is_dearer_than_choice, place_of_better

if TYPE_CHECKING:
    from bathyscope.core.cycles import Cycle
    from bathyscope.surgery.plan.plan import Plan
    from bathyscope.surgery.plan.price import Price

_SURE: Final = 0.9
"""Share of resamples from where a choice is called stable."""
_DROPPED: Final = "#c4501b"
_NUMBERED: Final = 26
"""Width of a tile that has room for a share in per cent."""


def plan_headline(plan: Plan) -> str:
    """Return one sentence: what the choice costs, whether that is proved, and whether answers still end."""
    losses = [clause.replace("%", " %") for clause in stopping_losses(plan)]
    return f"{_cost_headline(plan)}{''.join(f'; but {clause}' for clause in losses)}"


def _cost_headline(plan: Plan) -> str:
    """Return what the choice costs, and whether the test prompts prove that it can go within a limit."""
    parts, price, limit = _name_parts(plan), plan.price, float(plan.data.attrs.get("max_cost") or 0)
    cost, base = f"{write_candidate_cost(price.cost)} {price.unit}{price.where}", _base(price)
    if not plan.fits:
        # The upper end of the interval decides, so the mean itself may lie below the limit.
        over = "over" if price.cost > limit else "not proved to be within"
        return (
            f"Not shown that anything can go: the choice of the calibration prompts, {parts}, costs {cost}{base}, "
            f"{over} the limit of {_limit_text(plan)}, and no other was put to this test"
        )
    if plan.proved:
        doubt = ", which cannot be told from 0" if price.may_be_nothing else ""
        chance = f", less than {random_name(plan.data)}" if is_dearer_than_choice(plan.data, RANDOM) else ""
        lead = f"Leaving out {parts}"
        if limit:
            unit = "" if plan.data.attrs.get("max_share") else f" {price.unit}"
            lead = f"{capitalised(parts)} can go within {_limit_text(plan)}{unit}: that"
        return f"{lead} costs {cost}{doubt}{base}{chance}; {_cheaper_clause(plan)}"
    if price.falls:
        return f"Not proved: without {parts} {price.loss} changes by {cost}{base}; {LOSS_FALLS}"
    better = place_of_better(plan.data)
    if better is None:
        chance = "which cannot be told from what random subsets cost on these prompts"
        return f"Not proved: leaving out {parts} costs {cost}{base}, {chance}"
    other = candidate_rows(plan.data)[better]
    better_cost = write_candidate_cost(other.cost)
    return f"Not proved: leaving out {parts} costs {cost}{base}, and {other.name} is better at {better_cost}"


def _limit_text(plan: Plan) -> str:
    """Return the limit: a number of nats, or a share of the loss."""
    return bound_text(plan.data.attrs).removesuffix(" nats").replace("%", " %")


def _cheaper_clause(plan: Plan) -> str:
    """Return whether another candidate costs less on the test prompts; one that does by chance is named."""
    cheapest = _cheapest(candidate_rows(plan.data))
    cost = write_candidate_cost(cheapest.cost)
    if cost == write_candidate_cost(plan.price.cost):
        return "nothing tried is shown to cost less"
    return f"nothing tried is shown to cost less, though {cheapest.name} costs {cost}, within chance"


def _cheapest(rows: list[CandidateRow]) -> CandidateRow:
    """Return the candidate that costs least on the test prompts, the first of equal ones; NaN is no cost."""
    return min(rows, key=lambda row: math.inf if math.isnan(row.cost) else row.cost)


def _base(price: Price) -> str:
    """Return the losses before and after and how many predictions change, in brackets; empty where neither is known."""
    consequences = "; ".join(part for part in (price.base, price.change) if part)
    return true_minus(f" ({consequences})".replace("%", " %")) if consequences else ""


def plan_basis(plan: Plan) -> str:
    """Return what the sentence rests on: prompts, interval, and how often resampled prompts choose the same."""
    price = plan.price
    level = level_text(price.level).replace("%", " %")
    estimate = Estimate(price.cost, price.low, price.high)
    interval = f"{level} interval {estimate.interval(write_candidate_cost)} on " if estimate.has_interval else ""
    prompts = f"{plan.data.sizes['prompt']} test prompts{by_clusters(plan.data.attrs)}, which took no part in choosing."
    sentences = [f"{interval}{prompts}" if interval else f"Judged on {prompts}"]
    again = chosen_again(plan)
    if reason := unknown_shares(plan.data):
        sentences.append(f"{reason}.")
    elif not math.isnan(again):
        how = "The choice is stable" if again >= _SURE else "Other calibration prompts may choose otherwise"
        sentences.append(f"{how}: {100 * again:.0f} % of resamples choose the same.")
    return " ".join(sentences)


def chosen_again(plan: Plan) -> float:
    """Return how often bootstraps of the calibration prompts make the same choice; NaN where that was not measured."""
    data = plan.data
    return float(data["chosen_again"].values[0]) if "chosen_again" in data else math.nan


def left_out_blocks(plan: Plan) -> list[int]:
    """Return the blocks of which something is left out by the choice, whether or not they can go."""
    return sorted({block_of(part) for part in plan.left_out.split(",")})


def plan_head(plan: Plan) -> Markup:
    """Return the head of a plan's section, with the command that writes the smaller model, if one can be written."""
    command = f"bathyscope export {quote_result(plan.stored_in)} --out SMALLER" if plan.fits else ""
    macros: Any = environment().get_template("parts.html.j2").module
    section = {
        "headline": f"{plan_headline(plan)}.",
        "basis": plan_basis(plan),
        **{
            name: Markup(print_svg(draw_plan(plan, layout), _describe(plan), name=layout.class_name))
            for name, layout in (("wide", WIDE), ("narrow", NARROW))
        },
        "facts": _list_facts(plan, command),
        "trust": [plan.text],
    }
    return Markup(macros.profile(section, 2, "", "Plan"))


def draw_plan(plan: Plan, layout: ProfileLayout) -> Canvas:
    """Draw a strip of the blocks that stay, and below it every candidate's cost with its interval."""
    canvas = Canvas(layout.width)
    bottom = _draw_strip(canvas, plan, *ends_of_picture(layout))
    canvas.height = draw_candidates(canvas, layout, plan.data, bottom + 26)
    return canvas


def _draw_strip(canvas: Canvas, plan: Plan, left: float, right: float) -> float:
    n_blocks = int(plan.data.attrs["n_blocks"])
    dropped = set(left_out_blocks(plan)) if plan.fits else set()
    again = _share_by_block(plan)
    step = (right - left) / n_blocks
    gap = 2.0 if step > 24 else 0.8
    tile, y = 34.0, 22.0
    canvas.text(left, 13, "blocks that stay, and those that are left out (crossed out)", 13, role="muted")
    for block in range(n_blocks):
        x, w = left + step * block + gap, step - 2 * gap
        canvas.rect(x, y, w, tile, fill=_DROPPED if block in dropped else "#8fb8d8", radius=4 if step > 12 else 0)
        has_share = block in again and step >= _NUMBERED
        if block in dropped:
            # Faint behind a number, which must stay legible.
            canvas.curve([(x + 3, y + tile - 4), (x + w - 3, y + 4)], "paper", 1.5, 0.4 if has_share else 1.0)
        every = next(number for number in (1, 2, 5, 10, 20, 50, 1000) if number * step >= 24)
        if block % every == 0:
            canvas.text(x + w / 2, y + tile + 16, str(block), 12, role="muted", anchor="middle")
        if has_share:
            fill = "#ffffff" if block in dropped else "#20242b"
            text, size = (f"{100 * again[block]:.0f} %", 12.0) if step >= 34 else (f"{100 * again[block]:.0f}", 11.0)
            canvas.text(x + w / 2, y + tile / 2 + 4, text, size, anchor="middle", bold=block in dropped, fill=fill)
    bottom = _draw_loops(canvas, plan.cycle, left, step, y + tile + 22)
    if again and step >= _NUMBERED:
        words = "in the tiles: % of resamples of the calibration prompts that leave the block out"
        for line in wrap(words, right - left, 12):
            canvas.text(left, bottom + 12, line, 12, role="muted")
            bottom += 16
    return bottom


def _draw_loops(canvas: Canvas, cycle: Cycle | None, left: float, step: float, y: float) -> float:
    """Draw a line below the steps of every loop, with the number of the loop; return where the drawing ends."""
    if cycle is None or cycle.period is None:
        return y
    width = step * cycle.period
    words = "loop " if width > 46 else ""
    for loop in range(cycle.loops):
        x = left + step * (cycle.first + loop * cycle.period)
        canvas.line(x + 2, y + 3, x + width - 2, y + 3, "muted", 1.5)
        if width > 16:
            canvas.text(x + width / 2, y + 18, f"{words}{loop}", 12, role="muted", anchor="middle")
    return y + 26


def _list_facts(plan: Plan, command: str) -> list[Fact]:
    rows = candidate_rows(plan.data)
    same = [row.name for row in rows[1:] if row.subset == rows[0].subset]
    alike = [row.name for row in rows[1:] if row.alike and row.name not in same]
    others = "No other blocks tried do" if plan.leaves_blocks else "Nothing else does"
    heading, sentences = f"{others} as well", []
    if alike:
        heading = "Not shown to be worse"
        sentences.append(_alike_sentence(rows, alike))
    elif len(rows) > 1 + len(same):
        sentences.append(f"{len(rows) - 1 - len(same)} other candidates are worse than the best.")
    if same:
        sentences.append(f"The same blocks as the choice: {', '.join(same)}.")
    facts = [Fact(heading, " ".join(sentences))] if len(rows) > 1 else []
    if plan.leaves_blocks and plan.fits:
        stays = [block for block in range(int(plan.data.attrs["n_blocks"])) if block not in left_out_blocks(plan)]
        facts.append(
            Fact(f"{counted(len(stays), 'block')} {'stays' if len(stays) == 1 else 'stay'}", f"{format_blocks(stays)}.")
        )
    if plan.speeds is not None:
        facts.append(Fact("Speed", plan.speeds.text))
    if plan.tasks_data is not None:
        facts.append(Fact("Tasks", true_minus(" ".join(task_sentences(plan.tasks_data)).replace("%", " %"))))
    if command:
        all_the_same = " all the same" if stopping_losses(plan) else ""
        model_text = "smaller model" if plan.leaves_blocks else "model without them"
        facts.append(Fact("Next", f"To write the {model_text}{all_the_same}:", command))
    return facts


def _alike_sentence(rows: list[CandidateRow], alike: list[str]) -> str:
    """Return which candidates are not shown to differ from the best, which may be one of them."""
    best = _cheapest(rows)
    others = [name for name in alike if name != best.name]
    lead = f"{best.name} costs least ({write_candidate_cost(best.cost)})" if best.name in alike else ""
    tail = f"{', '.join(others)}: no difference from the best is shown" if others else ""
    if lead and not tail and rows[0].alike:
        tail = "the choice is not shown to differ from it"
    return f"{'; '.join(filter(None, (lead, tail)))}."


def _share_by_block(plan: Plan) -> dict[int, float]:
    """Return how often resampled calibration prompts leave out each block; empty where that was not measured."""
    data = plan.data
    if "blocks_again" not in data or not plan.leaves_blocks:
        return {}
    dim = data["blocks_again"].dims[0]
    shares = {}
    for unit, share in zip(data[dim].values.tolist(), np.asarray(data["blocks_again"].values).tolist()):
        if not math.isnan(share):
            shares[block_of(unit)] = float(share)
    return shares


def _name_parts(plan: Plan) -> str:
    if not plan.leaves_blocks:
        return plan.left_out.replace(",", ", ")
    blocks = left_out_blocks(plan)
    # one by one where a run of a block needs its address in the loops
    listed = (
        format_blocks(blocks) if plan.cycle is None else ", ".join(with_address(plan.cycle, block) for block in blocks)
    )
    return f"block{'' if len(blocks) == 1 else 's'} {listed}"


def _describe(plan: Plan) -> str:
    rows = [
        f"{row.name} ({row.subset}) {Estimate(row.cost, row.low, row.high).write(write_candidate_cost)}"
        for row in candidate_rows(plan.data)
    ]
    return f"Costs on the test prompts in {plan.price.unit}: {'; '.join(rows)}. {plan_headline(plan)}."
