"""A paper's tables and figures from the models at hand, next to what was published."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bathyscope.core.calls import takes
from bathyscope.core.paths import given_path, require_writable
from bathyscope.core.result import TabledResult
from bathyscope.errors import ArgumentError, OptionError, describe_value, did_you_mean
from bathyscope.model import load
from bathyscope.model.options import require_one_process
from bathyscope.options import items_of
from bathyscope.pages.figures.render import check_formats
from bathyscope.pages.options import PaperData, PaperTarget, ReproduceOptions
from bathyscope.pages.papers.cells import Outcome, measured, plan_cells
from bathyscope.pages.papers.data import local_data, read_prompts_option
from bathyscope.pages.papers.figures import Drawn, chosen_figures, draw, measures_of
from bathyscope.pages.papers.models import NamedModel, chosen_models, require_whole_folders
from bathyscope.pages.papers.rows import Rows, drawn_rows, flatten, missing_rows, pair_rows, summarise_pairs
from bathyscope.pages.papers.tables import TableEntry, pairs
from bathyscope.pages.papers.verbs import WorkCell
from bathyscope.surveying.papers.presets import AS_PUBLISHED
from bathyscope.surveying.papers.reproduction import Figure, Reproduction, Table
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@takes(ReproduceOptions)
def reproduce(
    target: Annotated[str, PaperTarget],
    models: Sequence[str] = (),
    *,
    data: Annotated[Sequence[str], PaperData] = (),
    figures: Sequence[str] | Sequence[int] = (),
    prompts: int | str | Path | None = None,
    as_published: bool = False,
    out: str | Path | None = None,
    formats: Sequence[str] = ("png",),
    progress: bool = True,
    **loading: Any,
) -> Reproduced:
    """Repeat a paper's tables or figures. Every result is stored; finished results are only read.

    Args:
        models: names of the paper, other hub names, folders, or NAME=FOLDER, which stands for the paper's model of
            that name; several in one text are separated by commas (none = all of the paper's).
        ...: the options of ``ReproduceOptions``.
        progress: show a progress bar for each run.
        **loading: as for ``load``.

    Raises:
        OptionError, PromptError: an unknown target, figure, model or data set.
        ModelError: a folder that holds no model. The result reports other failed measurements.

    Example:
        >>> bathyscope.reproduce("hu2025-table1", "DeepSeek-R1-Distill-Qwen-1.5B", out="runs/table1")  # doctest: +SKIP
    """
    _require_known(loading)
    plan = ReproductionPlan.of(
        target, models, data=data, figures=figures, prompts=prompts, as_published=as_published, out=out, formats=formats
    )
    return plan.result([*measured(plan.cells, loading, progress)], loading)


def _require_known(loading: Mapping[str, Any]) -> None:
    """Refuse options that ``load`` lacks before anything is planned."""
    require_one_process(loading, "reproduce")
    of_reproduce, of_load = ([*inspect.signature(function).parameters] for function in (reproduce, load))
    for name in loading:
        if name not in of_load[1:]:
            near = did_you_mean(name, [*of_reproduce, *of_load])
            raise ArgumentError(
                f"reproduce(): got an unexpected keyword argument {name!r}.{near} See help(bathyscope.reproduce)."
            )


@dataclass(frozen=True)
class Target:
    """What to repeat: a table of a paper, or the whole paper."""

    paper: Reproduction
    table: str | None

    @classmethod
    def of(cls, text: str) -> Target:
        """Return the target of a paper's key, or of one of its tables (``-table1``, ``-table2``)."""
        targets = {key: cls(paper, None) for key, paper in REPRODUCTIONS.items()}
        for key, paper in REPRODUCTIONS.items():
            targets |= {f"{key}-table{number}": cls(paper, number) for number in paper.tables}
        if not isinstance(text, str) or text not in targets:
            raise OptionError(
                f"{describe_value(text)} cannot be reproduced.{did_you_mean(str(text), targets)} Allowed: "
                f"{', '.join(targets)}."
            )
        return targets[text]

    def figures(self, numbers: Sequence[object]) -> tuple[Figure, ...]:
        """Return the requested figures; a table has none, and refuses numbers."""
        texts = [str(number) for number in items_of(numbers, "figures")]
        if self.table is None:
            return chosen_figures(self.paper, texts)
        if texts:
            raise OptionError(
                f"--figures needs a paper, not a table; give {self.paper.paper} --figures {','.join(texts)}."
            )
        return ()

    def tables(self, numbers: Sequence[object]) -> dict[str, Table]:
        """Return the requested tables; none where figures were chosen."""
        if self.table is not None:
            return {self.table: self.paper.tables[self.table]}
        return {} if numbers else dict(self.paper.tables)


@dataclass(frozen=True)
class ReproductionPlan:
    """All decisions of a reproduction: what is computed, and what is drawn.

    Args:
        entries: the numbers of the requested tables, by number of the table.
        place: folder of the runs.
        pictures: folder of the figures' files.
    """

    target: Target
    models: tuple[NamedModel, ...]
    cells: list[WorkCell]
    figures: tuple[Figure, ...]
    tables: Mapping[str, Table]
    place: Path
    pictures: Path
    formats: Sequence[str]

    @classmethod
    def of(
        cls,
        target: str,
        models: Sequence[str] = (),
        *,
        data: Sequence[str] = (),
        figures: Sequence[object] = (),
        prompts: int | str | Path | None = None,
        as_published: bool = False,
        out: str | Path | None = None,
        formats: Sequence[str] = ("png",),
    ) -> ReproductionPlan:
        """Decide and check everything before anything is loaded (see :func:`reproduce`)."""
        named_target = Target.of(target)
        paper, chosen, tables = named_target.paper, named_target.figures(figures), named_target.tables(figures)
        check_formats(formats)
        named = chosen_models(models, paper.listed, paper.models if named_target.table else paper.listed)
        count, source = read_prompts_option(prompts)
        place = Path("runs") / paper.paper if out is None else given_path(out, "out")
        require_writable(place, holds="runs and figures")
        preset = paper.paper + (AS_PUBLISHED if as_published else "")
        used = {name for figure in chosen for name in figure.data}
        used |= {name for table in tables.values() for name in table.data}
        works = {work.name: measures_of(paper, work.name) for work in paper.works if work.name in used}
        cells = plan_cells(named, paper, chosen, works, preset, place, local_data(data), count, source)
        if source is not None and not any(cell.own_prompts for cell in cells):
            raise OptionError(
                f"prompts={source!r}: these figures measure prompts by level of difficulty or single problems. Leave "
                "prompts out, or choose other figures (--figures)."
            )
        # of a model whose results are all stored nothing is loaded
        require_whole_folders(
            dict.fromkeys(model for cell in cells if cell.finished() is None for model in cell.models)
        )
        return cls(named_target, named, cells, chosen, tables, place, place / "figures" / preset, formats)

    def result(self, outcomes: Sequence[Outcome], loading: Mapping[str, Any]) -> Reproduced:
        """Return tables and figures of the computed results.

        Args:
            loading: as for ``load``; configurations are read by it too.
        """
        figure_files = draw(self.target.paper, self.figures, outcomes, self.pictures, self.formats)
        trust = bool(loading.get("trust_remote_code", False))
        rows = {
            number: pairs(table, self.models, outcomes, trust_remote_code=trust)
            for number, table in self.tables.items()
        }
        planned_works = {cell.work.name for cell in self.cells}
        lacking = [figure for figure in self.figures if figure.needs and not planned_works & set(figure.data)]
        return Reproduced(self.target, outcomes, figure_files, rows, lacking)


@dataclass(frozen=True, repr=False)
class Reproduced(TabledResult):
    """The outcome of a reproduction.

    Args:
        outcomes: results of all cells, or the reasons for their absence.
        drawn: files of figures.
        entries: the numbers of the requested tables, by number of the table.
        lacking: figures of models that nobody can load.
    """

    target: Target
    outcomes: Sequence[Outcome]
    drawn: Sequence[Drawn]
    entries: Mapping[str, Sequence[TableEntry]]
    lacking: Sequence[Figure] = ()

    @property
    def data(self) -> xr.Dataset:
        """The table as arrays over rows."""
        import xarray as xr

        return xr.Dataset.from_dataframe(self.to_dataframe())

    @property
    def text(self) -> str:
        """How many numbers of tables are as published, and how many figures were drawn."""
        sentences = (
            [summarise_pairs([pair for pairs in self.entries.values() for pair in pairs])] if self.entries else []
        )
        if self.target.table is None:
            count = len(self.drawn)
            sentences.append(f"{count} figure{'' if count == 1 else 's'} drawn.")
        return " ".join(sentences)

    @property
    def missing(self) -> Rows:
        """What could not be measured, one row a reason."""
        return missing_rows(self.outcomes, self.entries, self.lacking, is_table=self.target.table is not None)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the numbers of the table; of a whole paper the files of its figures."""
        import pandas as pd

        table = self.target.table
        rows = flatten(drawn_rows(self.drawn)) if table is None else pair_rows(self.entries[table])
        return pd.DataFrame(rows, dtype=object)

    def record(self) -> dict[str, Any]:
        """Return tables, files of figures, and what could not be measured."""
        tables = {f"table{number}": pair_rows(pairs) for number, pairs in self.entries.items()}
        figures = {"figures": drawn_rows(self.drawn)} if self.target.table is None else {}
        return {**tables, **figures, "missing": self.missing}
