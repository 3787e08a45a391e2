"""A run as its reader sees it: what it holds, what that means, and how it looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import xarray as xr

from bathyscope.core.above import from_above
from bathyscope.core.calls import checked
from bathyscope.core.common_options import PromptCluster
from bathyscope.core.tables import TextTable, frame_table
from bathyscope.core.text import legible
from bathyscope.errors import OptionError, StoreError, warn
from bathyscope.prompts.continued import source_of_questions
from bathyscope.prompts.spec import with_count
from bathyscope.runs.contents import RunContents, tree_of
from bathyscope.runs.depth_rows import MEASURE, effective_depth_rows
from bathyscope.runs.depth_table import depth_table
from bathyscope.runs.folder import folder_path
from bathyscope.runs.hub import listing, push_folder
from bathyscope.runs.paired import paired_controls
from bathyscope.runs.selecting import Some, of_all_prompts, of_places, of_prompts, of_variables, prompts_named
from bathyscope.runs.stored_run import read_run, without_places, write_run

if TYPE_CHECKING:
    from anywidget import AnyWidget

    from bathyscope.runs.verdict import Verdict


@dataclass(frozen=True, repr=False)
class Run(RunContents):
    """The results of one model on one prompt set.

    Args:
        tree: a child a measure, each a dataset with the variables and dimensions of its measure.
        manifest: the content of ``manifest.json``: schema, identity (the configuration), record (how it came
            about).
        path: the run's folder, or None where it lives in memory.
        files: content of the files that a run stores in addition to its datasets, by name.
        controls: runs that the model is compared with, such as ``untrained-0``, on the same prompts.
        cut: by what a part of a run was selected, of ``prompts``, ``variables`` and ``blocks``; () = the whole run.
        in_memory: the results of a run without a folder, by index in the plan; None = the run-level results.

    Example:
        >>> run.measures
        ('residual', 'lens', 'skip', 'drop', 'noise', 'effective_depth')
        >>> run["skip"].effect_future.dims
        ('prompt', 'part', 'reduction', 'skipped', 'block')
        >>> run.identity.n_blocks == run.n_blocks == 4
        True
        >>> len(run.prompts), run.to_dataframe("drop").columns.tolist()[:2]
        (12, ['prompt', 'dropped'])
        >>> 0 <= run.verdict.readable.value <= 4
        True
        >>> run.verdict_by("level").readable.low < run.verdict_by("level").readable.high
        True
        >>> run.judged, run.cycle is None, run.copies, run.clusters() is None
        (True, True, 0, True)
        >>> 0 <= run.share_in_common < 1  # of its tokens: beginnings that prompts share
        True
        >>> print(run.headline())
        Half of the tokens keep their final prediction from ... of 4 blocks on...
        >>> print(run.caption())
        model on prompts.jsonl: 12 prompts, ... tokens, float32; noise floor ...
        >>> run.noise_holds
        True
        >>> run.beside_controls("lens").control.values.tolist()
        ['none', 'untrained-0']
        >>> run.text == run.headline(), list(run.data.children)[:2], list(run.record())[:2]
        (True, ['residual', 'lens'], ['run', 'verdict'])
        >>> run.stopped  # no survey with until
        ''
        >>> run.stored is None, run.confirmed  # a model was run
        (True, True)
        >>> run.source == run.identity.dataset, run.unread  # all prompts of the source
        (True, 0)
        >>> run.save("runs/copy").path.name
        'copy'
    """

    @property
    def stopped(self) -> str:
        """Why a survey with ``until=`` ended, and whether it reached what was asked; empty for others and for parts."""
        return str((self._until or {}).get("text", ""))

    @property
    def source(self) -> str:
        """The source of its prompts, or of the questions that the model continued.

        Of the first ones alone where ``until=`` ended before the source did.
        """
        source = source_of_questions(self.identity.dataset)
        return with_count(source, self.identity.prompts) if self.unread else source

    @property
    def unread(self) -> int:
        """How many prompts of its source a survey with ``until=`` had no need of; 0 for others and for parts."""
        until = self._until or {}
        measured, offered = (until.get(name) for name in ("prompts", "offered"))
        return max(0, offered - measured) if isinstance(measured, int) and isinstance(offered, int) else 0

    @property
    def _until(self) -> Mapping[str, Any] | None:
        # its intervals are of all prompts and all blocks, and a part has others
        stored = None if self.cut else (self.manifest["record"].get("notes") or {}).get("until")
        return stored if isinstance(stored, Mapping) else None

    def save(self, path: str | Path) -> Run:
        """The run in a folder, as if it had been surveyed with ``out=path``: a run in memory is kept, another copied.

        Args:
            path: a folder that is empty, or not there yet.

        Returns:
            The run as ``bathyscope.open`` reads it there.

        Raises:
            OptionError: ``path`` is no path.
            StoreError: the folder holds something, or cannot be written; the run is not finished, or a part of one
                (``select``), or its files are altered.
        """
        folder = folder_path(path)
        if self.cut:
            raise StoreError(
                f"This is a part of a run (selected by {', '.join(self.cut)}), and only whole runs are saved "
                "or pushed; keep a part by to_dataframe() or as its datasets."
            )
        write_run(self, folder)
        return read_run(type(self), folder)

    @checked
    def push(self, to: str, *, private: bool = True, keep_paths: bool = False, dry_run: bool = False) -> str:
        """The run as a data set on the hub, and the address that ``bathyscope.open`` takes; see ``bathyscope.push``.

        Example:
            >>> run.push("user/name")  # doctest: +SKIP
            'hf://datasets/user/name'
        """
        with TemporaryDirectory(prefix="bathyscope-") as temporary:
            folder = Path(temporary) / "run"
            self.save(folder)
            if not keep_paths:
                folder = without_places(folder, Path(temporary) / "published")
            if dry_run:
                return listing(folder, to)
            return push_folder(folder, to, private)

    @checked
    def select(self, *, prompts: Some | None = None, variables: Some | None = None, blocks: Some | None = None) -> Run:
        """A part of the run.

        Args:
            prompts: by number, by id or by a label: ``"0-4,7"``, ``"level=2"``. Of several, separated by commas, all
                that any of them names; call ``select`` again for those that both name. Results that are of all
                prompts together, such as ``effective_depth``, are left out, with a warning that names them.
            variables: names such as ``"kl,entropy"``, of whichever measures have them.
            blocks: numbers of blocks, and of boundaries, such as ``"0-5"``.

        Raises:
            OptionError: nothing is called so.

        Example:
            >>> dict(run.select(prompts="level=2", blocks="0-1")["drop"].loss.sizes)
            {'prompt': 4, 'dropped': 2}
        """
        numbers = None if prompts is None else prompts_named(self.prompts, prompts)
        part = self._part(numbers, variables, blocks)
        left = [] if numbers is None else of_all_prompts({name: self[name] for name in self})
        if left:
            warn(f"Of all prompts together, and so not of some of them: {', '.join(left)}.")
        return part

    def _part(self, prompts: list[int] | None, variables: Some | None, blocks: Some | None) -> Run:
        """As ``select``, of the run and of its controls, whose prompts have the same numbers."""
        selections = {"prompts": prompts, "variables": variables, "blocks": blocks}
        datasets = {name: self[name] for name in self.measures}
        datasets = datasets if prompts is None else of_prompts(datasets, prompts)
        datasets = datasets if variables is None else of_variables(datasets, variables)
        datasets = datasets if blocks is None else of_places(datasets, blocks)
        return replace(
            self,
            tree=tree_of(datasets),
            controls={label: control._part(prompts, variables, blocks) for label, control in self.controls.items()},
            cut=tuple(dict.fromkeys((*self.cut, *(name for name, some in selections.items() if some is not None)))),
        )

    @property
    def text(self) -> str:
        """The verdict; of a run without one, what it is of."""
        return self.headline() or self.caption()

    def record(self) -> dict[str, Any]:
        """Return the run for programs: where it is, what it is of, what it holds, its verdict and depths, if any."""
        return {
            "run": None if self.path is None else str(self.path),
            "verdict": self.headline() or None,
            "head": self.verdict.head.record() if self.judged else None,
            "caption": self.caption(),
            "until": self._until,
            "model": self.identity.model,
            "dataset": self.identity.dataset,
            "prompts": self.identity.prompts,
            "measures": {name: list(map(str, self[name].data_vars)) for name in self.measures},
            "effective_depth": effective_depth_rows(self) if MEASURE in self.measures else None,
        }

    @property
    def verdict(self) -> Verdict:
        """How many of its blocks the model uses: its head, the readings behind it, and what they say together.

        Raises:
            OptionError: the run has no lens.
        """
        return self.verdict_by()

    @checked
    def verdict_by(self, cluster: str | None = None) -> Verdict:
        """The verdict with intervals over clusters of prompts.

        Args:
            cluster: label of prompts that belong together, such as document; they are resampled as one, as copies
                always are. None = each prompt that is no copy for itself, which is ``verdict``.

        Raises:
            OptionError: the run has no lens, or is cut to some blocks; no such label; a label that makes no clusters.
        """
        from bathyscope.runs.judging import verdict_of  # what it counts with takes longer to import than all of reading

        if "blocks" in self.cut:
            raise OptionError("A verdict is of all blocks, and this part of a run has some of them; ask the whole run.")
        if cluster in self._verdicts:
            return self._verdicts[cluster]
        member = self.clusters(cluster)
        measures = {name: self[name] for name in self}
        runs = {label: self.controls[label] for label in paired_controls(self)}
        controls = {label: {name: run[name] for name in run} for label, run in runs.items()}
        # A page, a card and a terminal ask again and again, and each time means resampling every reading.
        self._verdicts[cluster] = verdict_of(
            measures,
            controls,
            seed=self.identity.seed,
            cluster=member,
            n_blocks=self.n_blocks,
            settings=self.identity.measures,
            cycle=self.cycle,
            copies=self.copies,
            in_common=self.share_in_common,
            stored=self.stored,
            confirmed=self.confirmed,
        )
        return self._verdicts[cluster]

    @cached_property
    def _verdicts(self) -> dict[str | None, Verdict]:
        """The verdicts that were computed, by label of clusters; a part of a run has its own."""
        return {}

    def beside_controls(self, measure: str) -> xr.Dataset:
        """A measure of the run and of its controls, along the dimension ``control`` (``none`` is the run itself).

        Raises:
            OptionError: the run has no such measure, or no controls.
        """
        if not self.controls:
            raise OptionError("This run has no controls; survey with control='untrained:3'.")
        every = {"none": self, **self.controls}
        parts = [run[measure].drop_attrs(deep=False) for run in every.values()]
        if "control" in parts[0].coords:  # a label of the prompts
            parts = [part.rename({"control": "prompt_control"}) for part in parts]
        return xr.concat(parts, xr.Variable("control", list(every)), join="outer", coords="minimal", compat="override")

    @checked
    def headline(self) -> str:
        """The verdict's text; empty where the run has no lens to judge by, or not all blocks."""
        return self.verdict.text if self.judged else ""

    @checked
    def explore(
        self, *others: Run, names: Sequence[str] | None = None, text: bool = True, cluster: PromptCluster = None
    ) -> AnyWidget:
        """The views of a page (blocks, prompts, tokens, lens, maps) in a notebook, with the selection in Python.

        Args:
            others: runs that can be switched to.
            names: of the runs, in place of their models and data.
            text: show the words of prompts and predictions; False leaves them out and shows token ids.

        Returns:
            The widget; its ``selection`` is what is chosen, such as ``{"block": 3, "prompt": 0, "token": 7}``.

        Raises:
            OptionError: anywidget is not installed; not as many names as runs; a run cut to some blocks; a
                label that makes no clusters.

        Example:
            >>> views = run.explore()  # doctest: +SKIP
            >>> views.selection = {"block": 3}  # doctest: +SKIP
        """
        # What draws runs lies above this room, and nothing here waits for it.
        widget: AnyWidget = from_above("explore")([self, *others], names=names, text=text, cluster=cluster)
        return widget

    def plot(self, panel: str, ax: Any = None, **choices: Any) -> Any:
        """Draw one panel of the run, in your axes or as a new figure; see ``bathyscope.plot``.

        Args:
            panel: such as ``lens.kl``, ``skip.effect_future``, ``profile`` or ``tokens``.
            ax: axes to draw in; None = a new figure.
            choices: further arguments of ``bathyscope.plot``, such as ``blocks=slice(4, 20)`` or ``width=``.

        Returns:
            The new figure; with ``ax``, the list of artists that were added.

        Raises:
            OptionError: as for ``bathyscope.plot``.

        Example:
            >>> run.plot("lens.kl", width=3.3).savefig("kl.pdf")
        """
        return from_above("plot")(self, panel, ax, **choices)

    def among(self) -> Any:
        """Where the model is among those whose depths papers print, and among those measured for the package.

        Returns:
            A result: ``text`` says it in sentences, ``to_dataframe()`` has a row for every model and depth, each with
            what it was measured on, and ``picture()`` is a strip. Depths are shares of a model's blocks.

        Raises:
            OptionError: neither lens nor stream was measured, or some blocks alone.

        Example:
            >>> run.among().to_dataframe().kind.unique().tolist()
            ['run', 'trained', 'untrained', 'published']
        """
        return from_above("among")(self)

    def tables(self) -> list[TextTable]:
        """Return what people read of it: every estimate of effective depth, or what it holds where it has none.

        Example:
            >>> run.tables()[0].title
            'Effective depth'
        """
        return [depth_table(self) if MEASURE in self.measures else frame_table(self.to_dataframe())]

    def picture(self) -> Any:
        """Return the depth profile as matplotlib draws it; None for a run without lens, skip and drop.

        Example:
            >>> run.picture().savefig("profile.pdf")
        """
        return self.plot("profile") if any(name in self for name in ("lens", "skip", "drop")) else None

    def __repr__(self) -> str:
        headline = f"{self.headline()} " if self.headline() else ""
        return legible(f"<Run {headline}{self.caption()} Measures: {', '.join(self.measures)}. {self._place}>")

    def _repr_html_(self) -> str:
        html: str = from_above("card")(self, self._place)
        return html
