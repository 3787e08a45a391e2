"""A run's depth as a badge of one line, an SVG of one to two kilobytes for a model card or a README."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Annotated, Final

from bathyscope.core.calls import checked
from bathyscope.core.descriptions import Doc
from bathyscope.core.output import write_output
from bathyscope.core.own_files import require_own_picture
from bathyscope.core.paths import given_path, require_writable
from bathyscope.core.text import counted, elided, legible
from bathyscope.errors import OptionError
from bathyscope.pages.figures.arguments import read_one_run
from bathyscope.pages.head.canvas import text_width
from bathyscope.pages.head.classes import COLOURS, class_of
from bathyscope.pages.head.numbers import Points, Profile, read_profile
from bathyscope.runs.run import Run

_TITLE: Final = "bathyscope depth"
_HEIGHT: Final = 28
_BARS: Final = 150
"""Widest room of the bars."""
_TALLEST: Final = 20.0
_OPTIONS: Final = 48
"""Letters that options have in the line."""
_LEAST: Final = 0.03
"""Loss in nats of the lowest bar; heights are logarithmic."""


ProfiledRun = Annotated[Run, Doc("a run with lens, skip or drop.")]


@checked
def badge(run: ProfiledRun, out: str | Path | None = None) -> str:
    """Draw a run's depth as a badge: its depths in words, and a bar for each block with the loss it would add.

    Args:
        out: an SVG file to write; None = the text alone is returned.

    Returns:
        The badge as SVG text, one to two kilobytes, legible on light and dark ground.

    Raises:
        OptionError: a run with nothing to show, or with only some of its blocks; ``out`` does not end in .svg.
        StoreError: the file cannot be written, or is there and was not drawn by this package.

    Example:
        >>> bathyscope.badge(run, "depth.svg").startswith("<svg ")
        True
    """
    run = read_one_run(run, "badge")
    path = None if out is None else given_path(out, "out")
    if path is not None and path.suffix.lower() != ".svg":
        raise OptionError(f"out={str(out)!r} is not the name of an SVG file; give one, such as 'depth.svg'.")
    if path is not None:
        require_writable(path)
        require_own_picture(path)
    profile = read_profile(run)
    if profile.empty:
        raise OptionError(
            f"A badge needs the lens, skip or drop; this run has {', '.join(run.measures) or 'no measure'}. Survey "
            "with measures=['lens', 'skip', 'drop']."
        )
    content = draw_badge(profile)
    if path is not None:
        write_output(path, content.encode("utf-8"))
    return content


def depth_words(profile: Profile) -> str:
    """Return ``half of the tokens from 8.6 of 12 blocks``: the depth that heads the run, or the one that it has.

    Options under which it is another quantity than the definition's are behind it.
    """
    departed = () if profile.verdict is None else profile.verdict.departed
    under = f" ({elided(', '.join(departure.option for departure in departed), _OPTIONS)})" if departed else ""
    blocks = f"of {counted(profile.n_blocks, 'block')}{under}"
    for mark in profile.marks:
        if mark.name != "own":
            subject = "half of the tokens" if mark.name == "half" else "a token on average"
            return f"{subject} from {mark.value:.1f} {blocks}"
    done = next((f"90 % of the effect by {mark.value:.1f} {blocks}" for mark in profile.marks), "")
    return done or counted(profile.n_blocks, "block")


def draw_badge(profile: Profile) -> str:
    """Return the badge of a profile."""
    words = depth_words(profile)
    left = 10 + text_width(_TITLE, 12) + 8
    bars, room = ("", 0.0) if profile.costs is None else _draw_bars(profile.costs, profile.n_blocks, left)
    at = left + room + (10 if room else 0)
    width = math.ceil(at + text_width(words, 12) + 10)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}" '
        f'role="img" aria-label="{escape(legible(f"depth: {words}"))}" font-family="DejaVu Sans,Verdana,sans-serif" '
        f'font-size="12"><rect width="{width}" height="{_HEIGHT}" rx="4" fill="#20242b"/>'
        f'<text x="10" y="18.5" fill="#fff">{_TITLE}</text>{bars}'
        f'<text x="{at:.0f}" y="18.5" fill="#fff">{escape(words)}</text></svg>'
    )


def _draw_bars(costs: Points, n_blocks: int, left: float) -> tuple[str, float]:
    """Return the bars, one path for each class of loss, and their width together."""
    step = min(11.0, _BARS / n_blocks)
    present = [loss for loss in costs.mean if not math.isnan(loss)]
    highest = max(1.0, *present)
    paths: dict[int, list[str]] = {}
    for block, loss in zip(costs.places, costs.mean):
        if not math.isnan(loss):
            share = max(0.0, math.log(max(loss, _LEAST) / _LEAST) / math.log(highest / _LEAST))
            x, tall = left + step * (block + 0.5), 3 + (_TALLEST - 3) * share
            paths.setdefault(class_of(loss), []).append(f"M{x:.1f} 0v-{tall:.0f}")
    bars = "".join(
        f'<path d="{"".join(path)}" stroke="{COLOURS[level]}" stroke-width="{0.8 * step:.1f}"/>'
        for level, path in sorted(paths.items())
    )
    return f'<g transform="translate(0 24)">{bars}</g>', step * n_blocks
