"""Panels by name with their variables, so that a panel can be found by its own name or by a variable's."""

from collections.abc import Collection, Mapping
from typing import Final

from bathyscope.measures.registry import MEASURES

FIRST: Final = "effective_depth"
"""The measure whose figure a report begins with; the others follow in their order."""
_OF_SEVERAL: Final[Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]]] = {
    "swap": ("drop_and_swap", {"top1_agreement": ("top1_agreement",), "kl": ("kl",)}),
    "neurons": ("prediction_fall", {"fall": ("prediction_fraction",)}),
}
"""Measure → the figure of several measures that comes behind its own, and its panels."""


def _list_panels() -> dict[str, Mapping[str, tuple[str, ...]]]:
    panels: dict[str, Mapping[str, tuple[str, ...]]] = {}
    for name in (FIRST, *(name for name in MEASURES if name != FIRST)):
        figures = [(name, MEASURES[name].panels), _OF_SEVERAL.get(name, ("", {}))]
        panels |= {figure: figure_panels for figure, figure_panels in figures if figure_panels}
    return panels


PANELS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = _list_panels()
"""Figure → panel → its variables of the figure's measure, in the order of a report.

A name that ends with an underscore stands for the panels of all prompts, whose numbers follow.
"""


def panel_of(figure: str, variable: str, panels: Collection[str]) -> str | None:
    """Return the first of a figure's panels that shows a variable; None where no panel does.

    Args:
        panels: names of the run's panels.
    """
    # A variable may be in several panels; the first in the order of a page stands for it.
    for panel, variables in PANELS.get(figure, {}).items():
        if variable in variables:
            for name in panels:
                if name == panel or (panel.endswith("_") and name.startswith(panel)):
                    return name
    return None


def panel_rows() -> list[dict[str, str]]:
    """Return every panel with its variables, for ``names``; ``N`` stands for the number of a prompt."""
    profile = "lens.top1_agreement, lens.prediction_depth, skip.output_all, drop.loss"
    return [{"name": "profile", "variables": profile}] + [
        {
            "name": f"{figure}.{panel}{'N' if panel.endswith('_') else ''}",
            "variables": ", ".join(f"{figure}.{name}" for name in variables),
        }
        for figure, panels in PANELS.items()
        for panel, variables in panels.items()
    ]
