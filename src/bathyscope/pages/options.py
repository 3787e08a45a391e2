"""Options of pages and files, for calls and flags alike; importing them does not import torch or matplotlib."""

from collections.abc import Sequence
from dataclasses import dataclass

FORMATS = ("png", "svg", "pdf")
"""Formats of a figure's file."""


@dataclass(frozen=True)
class PageOptions:
    """Options of ``report``.

    Args:
        out: the HTML file; it appears under its name when it is complete.
        title: of the page; not given = model and data.
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
class ReproduceOptions:
    """Options of ``reproduce``.

    Args:
        figures: published numbers such as 3a; 3 is all of its parts (not given = all).
        prompts: prompts of each set (of each level of difficulty) instead of the paper's number; or a source such as
            mine.jsonl instead of the paper's sets, but for results by level of difficulty and those of single problems.
        as_published: also reproduce the faults of the paper's published code.
        out: folder of the runs, which are OUT/PRESET/MODEL/WORK, and of the figures; not given = runs/PAPER.
        formats: of the figures' files: png, svg, pdf.
    """

    figures: Sequence[str] = ()
    prompts: int | str | None = None
    as_published: bool = False
    out: str | None = None
    formats: Sequence[str] = ("png",)
