"""Options of pages and files, for calls and flags alike; importing them does not import torch or matplotlib."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bathyscope.core.descriptions import Doc

FORMATS = ("png", "svg", "pdf")
"""Formats of a figure's file."""
PICTURE_FORMATS = (*FORMATS, "pgf")
"""Formats of a single panel's file."""


PaperTarget = Doc(
    "csordas2025, hu2025, hu2025-table1 (effective depths), hu2025-table2 (sizes of the models) or lad2024."
)
PaperData = Doc(
    "NAME=FILE, or a folder of files named after data sets, in place of the hub's copies; lad2024's corpus is a text "
    "file, pile=FILE.txt."
)


@dataclass(frozen=True)
class PageOptions:
    """Options of ``report``.

    Args:
        out: the HTML file; it appears under its name when it is complete.
        title: of the page; None = model and data.
        text: show the words of prompts and predictions; without them the page shows token ids.
        names: of the runs, instead of their models and data.
    """

    out: str | None = None
    title: str | None = None
    text: bool = True
    names: Sequence[str] | None = None


@dataclass(frozen=True)
class FileOptions:
    """Options of ``save_figures``.

    Args:
        formats: of the files that --figures writes.
    """

    formats: Sequence[str] = FORMATS


@dataclass(frozen=True)
class PlotOptions:
    """Options of ``plot``.

    Args:
        blocks: which blocks, such as ``4-19``, and the boundaries around them; None = all.
        title: instead of the panel's own; an empty one removes it.
        labels: names of the runs, or of one run's curves, in their order; or pairs such as ``x=layer``.
        reduction: of effects over the tokens of a prompt: mean, p95 or max.
        prompt: of the panel ``"tokens"``, by number or id; None = the first.
        tokens: of that prompt, such as ``0-11``; None = the first 16.
        width: in inches, such as 3.3 or 6.75, which are common in journals; None = as in reports.
    """

    blocks: str | None = None
    title: str | None = None
    labels: Sequence[str] | None = None
    reduction: Literal["mean", "p95", "max"] | None = None
    prompt: str | None = None
    tokens: str | None = None
    width: float | None = None


@dataclass(frozen=True)
class ReproduceOptions:
    """Options of ``reproduce``.

    Args:
        figures: published numbers such as 3a; 3 is all of its parts; none = all.
        prompts: prompts of each set (of each level of difficulty) instead of the paper's number; or a source such as
            mine.jsonl instead of the paper's sets, but for results by level of difficulty and those of single problems.
        as_published: also reproduce the faults of the paper's published code.
        out: folder of the runs, which are PRESET/MODEL/WORK in it, and of the figures; None = runs/PAPER.
        formats: of the figures' files: png, svg, pdf.
    """

    figures: Sequence[str] = ()
    prompts: int | str | None = None
    as_published: bool = False
    out: str | None = None
    formats: Sequence[str] = ("png",)
