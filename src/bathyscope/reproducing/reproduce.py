"""A paper's tables and figures, from the models at hand, beside what was published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.papers.presets import AS_PUBLISHED
from bathyscope.papers.reproduction import DepthTable, Figure, Reproduction
from bathyscope.papers.reproductions import REPRODUCTIONS
from bathyscope.report.render import check_format
from bathyscope.reproducing.cells import Cell, Outcome, measured, planned
from bathyscope.reproducing.data import local_data
from bathyscope.reproducing.depths import DepthPair, depth_pairs
from bathyscope.reproducing.figures import Drawn, chosen_figures, draw, surveys_of, wanted
from bathyscope.reproducing.models import NamedModel, chosen_models
from bathyscope.reproducing.sizes import SizePair, size_pairs


def reproduce(
    target: str,
    models: Sequence[str] = (),
    *,
    data: Sequence[str] = (),
    figures: Sequence[int] = (),
    prompts: int | None = None,
    as_published: bool = False,
    out: str | Path | None = None,
    formats: Sequence[str] = ("png",),
    progress: bool = True,
    **loading: Any,
) -> Reproduced:
    """Repeats a paper's tables or figures. Every run is kept, and what is finished is only read.

    Args:
        target: csordas2025, hu2025, hu2025-table1 (effective depths), hu2025-table2 (sizes of the models) or lad2024.
        models: names of the paper, other hub names, folders, or NAME=FOLDER, which stands for the paper's model of
            that name (none = all of the paper's).
        data: NAME=FILE, or a folder of files named after data sets, in place of the hub's copies; lad2024's corpus
            is a text file, pile=FILE.txt.
        figures: published numbers (none = all).
        prompts: prompts of each set (of each level of difficulty) in place of the paper's number.
        as_published: also reproduce the faults of the paper's published code.
        out: folder of the runs, which are out/PRESET/MODEL/SURVEY, and of the figures; None = runs/PAPER.
        formats: of the figures' files: png, svg, pdf.
        progress: show a progress bar for each run.
        **loading: as for ``load``.

    Raises:
        OptionError, PromptError: what is asked for is not there. What cannot be measured is told in the result.
    """
    plan = plan_reproduction(target, models, data, figures, prompts, as_published, out, formats)
    return plan.result([*measured(plan.cells, loading, progress)])


@dataclass(frozen=True)
class Target:
    """What is to be repeated: a table of a paper, or all of the paper."""

    paper: Reproduction
    table: str | None

    @classmethod
    def of(cls, text: str) -> Target:
        """A paper's key, with ``-table1`` or ``-table2`` for a table.

        Raises:
            OptionError: no such paper or table.
        """
        targets = {key: cls(paper, None) for key, paper in REPRODUCTIONS.items()}
        for key, paper in REPRODUCTIONS.items():
            tables = {"table1": paper.depths, "table2": paper.sizes}
            targets |= {f"{key}-{table}": cls(paper, table) for table, there in tables.items() if there}
        if text not in targets:
            raise OptionError(
                f"{text!r} cannot be reproduced.{did_you_mean(text, targets)} Allowed: {', '.join(targets)}."
            )
        return targets[text]

    @property
    def depths(self) -> DepthTable | None:
        """The table of effective depths that is asked for."""
        return self.paper.depths if self.table != "table2" else None

    def figures(self, numbers: Sequence[int]) -> tuple[Figure, ...]:
        """The figures that are asked for; a table has none.

        Raises:
            OptionError: numbers with a table, or one that the paper does not have here.
        """
        if self.table is None:
            return chosen_figures(self.paper, numbers)
        if numbers:
            listed = ",".join(map(str, numbers))
            raise OptionError(
                f"--figures goes with a paper, not with a table; give {self.paper.paper} --figures {listed}."
            )
        return ()


@dataclass(frozen=True)
class Plan:
    """What is measured and drawn.

    Args:
        depths: the table of effective depths that is asked for.
        with_sizes: the table of sizes is.
        pictures: folder of the figures' files.
    """

    target: Target
    models: tuple[NamedModel, ...]
    cells: list[Cell]
    figures: tuple[Figure, ...]
    depths: DepthTable | None
    with_sizes: bool
    place: Path
    pictures: Path
    formats: Sequence[str]

    def result(self, outcomes: Sequence[Outcome]) -> Reproduced:
        """Tables and figures of what was measured."""
        drawn = draw(self.figures, outcomes, self.pictures, self.formats)
        pairs = [] if self.depths is None else depth_pairs(self.depths, self.models, outcomes)
        sizes = size_pairs(self.target.paper.sizes, self.models) if self.with_sizes else []
        return Reproduced(self.target, outcomes, drawn, self.depths, pairs, sizes)


@dataclass(frozen=True)
class Reproduced:
    """What came of it: runs or reasons, files, and the tables that are asked for."""

    target: Target
    outcomes: Sequence[Outcome]
    drawn: Sequence[Drawn]
    depths: DepthTable | None
    depth_pairs: Sequence[DepthPair]
    sizes: Sequence[SizePair]


def plan_reproduction(
    target: str,
    models: Sequence[str],
    data: Sequence[str],
    figures: Sequence[int],
    prompts: int | None,
    as_published: bool,
    out: str | Path | None,
    formats: Sequence[str],
) -> Plan:
    """All decisions and checks, before anything is loaded (see ``reproduce``)."""
    asked = Target.of(target)
    paper = asked.paper
    chosen = asked.figures(figures)
    for one in formats:
        check_format(one)
    named = chosen_models(models, paper.models)
    if prompts is not None and prompts < 1:
        raise OptionError(f"--prompts {prompts} is out of range; give a whole number, 1 or more.")
    place = Path("runs") / paper.paper if out is None else Path(out)
    depths = None if figures else asked.depths
    preset = paper.paper + (AS_PUBLISHED if as_published else "")
    every = planned(named, paper.surveys, preset, place, local_data(data), prompts)
    cells = [] if asked.table == "table2" else _needed(paper, depths, chosen, every)
    with_sizes = bool(paper.sizes) and not figures
    return Plan(asked, named, cells, chosen, depths, with_sizes, place, place / "figures" / preset, formats)


def _needed(paper: Reproduction, depths: DepthTable | None, figures: Sequence[Figure], every: list[Cell]) -> list[Cell]:
    """The cells that a table or a figure shows."""
    tabled = () if depths is None else depths.surveys
    drawn = surveys_of(paper, figures)
    return [cell for cell in every if cell.survey.name in tabled or (cell.survey in drawn and wanted(figures, cell))]
