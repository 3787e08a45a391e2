"""Figures in the style of reports: panels of one's own, and the pictures of results that are no run.

from bathyscope.extend.figures import Panel, arrange, render, style
"""

from bathyscope.pages.figures.kind import Panel, arrange
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import bent_axis, log_axis, whole_numbers
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.multiples import make_panel as heat_map_panel
from bathyscope.pages.figures.kit.series import looks
from bathyscope.pages.figures.of.maps import draw as draw_maps
from bathyscope.pages.figures.render import render

__all__ = [
    "Colours",
    "HeatMap",
    "Panel",
    "Side",
    "arrange",
    "bent_axis",
    "draw_maps",
    "heat_map_panel",
    "log_axis",
    "looks",
    "render",
    "style",
    "whole_numbers",
]
