"""The head of a page: the profile with its sentence, three facts, and how far to trust them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from bathyscope.pages.head import drawing
from bathyscope.pages.head.answer import CHEAP, Answer, answer, format_blocks
from bathyscope.pages.head.numbers import Profile, read_profile
from bathyscope.pages.head.sentences import basis, carrying_fact, headline
from bathyscope.pages.text.environment import environment

if TYPE_CHECKING:
    from bathyscope.core.result import PageResult
    from bathyscope.runs.run import Run

_LISTED: Final = 6
"""Blocks that a title names at most."""


@dataclass(frozen=True)
class Fact:
    """A title, a sentence, and the command that acts on it, if any."""

    title: str
    text: str
    command: str = ""


def facts(profile: Profile, run_answer: Answer) -> list[Fact]:
    """Return what is free to cut, what carries the model, and the next command."""
    listed = [Fact(_cheap_title(profile, run_answer), run_answer.cheap), Fact(*carrying_fact(profile))]
    if run_answer.command:
        listed.append(Fact("Next", f"{run_answer.purpose}:", run_answer.command))
    return listed


def profile_html(
    run: Run, cluster: str | None = None, plan: PageResult | None = None, *, level: int = 2, name: str = ""
) -> Markup:
    """Return the profile as HTML with all text from outside escaped, for a page, a notebook or a widget.

    Args:
        cluster: label of prompts that are resampled as one.
        plan: of ``prune`` for the same model.
        level: of the heading.
        name: of the run, where there are several.

    Raises:
        OptionError: a run with only some of its blocks; a label that makes no clusters.
    """
    macros: Any = environment().get_template("parts.html.j2").module
    return Markup(macros.profile(_make_section(run, cluster, plan), level, name))


def _make_section(run: Run, cluster: str | None, plan: PageResult | None) -> dict[str, Any]:
    """Return what the template shows."""
    profile, run_answer = read_profile(run, cluster), answer(run, cluster, plan)
    return {
        "headline": f"{headline(profile)}.",
        "basis": basis(profile),
        "wide": Markup(drawing.wide(profile)),
        "narrow": Markup(drawing.narrow(profile)),
        "facts": facts(profile, run_answer),
        "trust": [run_answer.headline, *run_answer.trust],
    }


def _cheap_title(profile: Profile, run_answer: Answer) -> str:
    """Return the title of the first fact, which never names more than its sentence."""
    if run_answer.planned:
        return "What leaving out costs"
    if profile.of_states:
        return "Which blocks are cheap to leave out cannot be told"
    if profile.costs is None:
        return "Which blocks are cheap to leave out is unknown"
    blocks = run_answer.blocks
    if blocks:
        if len(blocks) > _LISTED:
            return f"{len(blocks)} of {len(profile.costs.places)} blocks are cheap to leave out alone"
        subject = "Block" if len(blocks) == 1 else "Blocks"
        return f"{subject} {format_blocks(blocks)} {'is' if len(blocks) == 1 else 'are'} cheap to leave out"
    lows = [low for low, mean in zip(profile.costs.low, profile.costs.mean) if not math.isnan(mean)]
    if lows and all(low > CHEAP for low in lows):
        return "No block is cheap to leave out"
    return "No block is proved cheap to leave out"
