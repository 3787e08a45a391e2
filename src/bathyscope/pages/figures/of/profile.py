"""The depth profile as a panel: the picture of a run's page, printed by matplotlib for papers, trackers and files."""

from __future__ import annotations

from functools import partial
from typing import Final

from bathyscope.errors import OptionError
from bathyscope.pages.figures.kind import Panel
from bathyscope.pages.figures.kit.painting import paint
from bathyscope.pages.head.canvas import Canvas
from bathyscope.pages.head.drawing import draw_profile
from bathyscope.pages.head.layouts import paper_layout
from bathyscope.pages.head.numbers import Profile, read_profile
from bathyscope.pages.head.sentences import describe
from bathyscope.runs.run import Run

NAME: Final = "profile"
PAGE_INCHES: Final = 6.75


def profile_panel(run: Run, cluster: str | None = None, width: float | None = None) -> Panel:
    """Return the panel of a run's profile.

    Args:
        cluster: label of prompts that intervals resample as one.
        width: in inches; None = both columns of a journal. The height follows from what is drawn.

    Raises:
        OptionError: the run has nothing that a profile shows.
    """
    panel = find_profile(run, cluster, width)
    if panel is None:
        raise OptionError(
            f"A profile needs the lens, skip or drop; this run has {', '.join(run.measures) or 'no measure'}. Survey "
            "with measures=['lens', 'skip', 'drop']."
        )
    return panel


def find_profile(run: Run, cluster: str | None = None, width: float | None = None) -> Panel | None:
    """Return the panel, as :func:`profile_panel` does; None where the run has nothing that it shows."""
    profile = read_profile(run, cluster)
    if profile.empty:
        return None
    inches = width or PAGE_INCHES
    canvas = _draw(inches, profile)
    draw = partial(paint, draw=partial(_draw, profile=profile))
    return Panel(NAME, draw, describe(profile), (inches, inches * canvas.height / canvas.width))


def _draw(inches: float, profile: Profile) -> Canvas:
    return draw_profile(profile, paper_layout(inches))
