"""A run as its reader sees it: one labelled dataset a measure, and where it all came from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.core.above import from_above
from bathyscope.core.calls import checked
from bathyscope.core.cycles import Cycle, cycle_of
from bathyscope.core.tables import TextTable, frame_table
from bathyscope.core.text import shown
from bathyscope.errors import OptionError, StoreError, did_you_mean, warn
from bathyscope.prompts.parts import with_copies
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.card import caption
from bathyscope.runs.depth_rows import MEASURE, effective_depth_rows
from bathyscope.runs.depth_table import depth_table
from bathyscope.runs.folder import Folder, folder_path, reason, require_own_folder, verified
from bathyscope.runs.hub import HUB, listing, pulled, push_folder
from bathyscope.runs.loops import label_steps
from bathyscope.runs.manifest import RUN, FileEntry, Identity, Manifest, load_manifest, part_file
from bathyscope.runs.merge import PROMPT, merge
from bathyscope.runs.paired import (
    contradiction,
    is_of_its_shape,
    paired_controls,
    read_other_prompts,
    unlike_options,
)
from bathyscope.runs.prompts import PROMPTS, PROMPTS_FILE, decode_prompts, remembered_prompts
from bathyscope.runs.publishing import write_without_places
from bathyscope.runs.selecting import Some, of_all_prompts, of_places, of_prompts, of_variables, prompts_named
from bathyscope.runs.shards import encode, read_shard
from bathyscope.runs.table import list_variables, tidy

if TYPE_CHECKING:
    from anywidget import AnyWidget
    from numpy.typing import NDArray

    from bathyscope.runs.verdict import Verdict

CONTROLS = "controls"
_OWN = "the controls of a run are folders of its own"
"""The folder of a run in which its controls lie, each a run of its own."""


@dataclass(frozen=True, repr=False)
class Run:
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
        >>> run.stored is None  # a model was run
        True
        >>> run.save("runs/copy").path.name
        'copy'
    """

    tree: xr.DataTree
    manifest: dict[str, Any]
    path: Path | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    controls: Mapping[str, Run] = field(default_factory=dict)
    cut: tuple[str, ...] = ()
    in_memory: Mapping[int | None, Mapping[str, xr.Dataset]] = field(default_factory=dict)

    @property
    def stopped(self) -> str:
        """Why a survey with ``until=`` ended, and whether it reached what was asked; empty for others and for parts."""
        return str((self._until or {}).get("text", ""))

    @property
    def _until(self) -> Mapping[str, Any] | None:
        # its intervals are of all prompts and all blocks, and a part has others
        stored = None if self.cut else (self.manifest["record"].get("notes") or {}).get("until")
        return stored if isinstance(stored, Mapping) else None

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the datasets that are there."""
        return tuple(str(name) for name in self.tree.children)

    @property
    def identity(self) -> Identity:
        """The configuration: model and hashes, prompts, measures with all their options, precision, seed."""
        return Identity.from_mapping(self.manifest["identity"])

    @cached_property
    def prompts(self) -> Prompts:
        """What was measured: token ids, texts, answers, labels and their hash, in the order of ``prompt``.

        A run written before prompts were kept tells their names, lengths and labels; its token ids and texts are a
        StoreError.

        Raises:
            StoreError: the file of prompts cannot be read.
        """
        datasets = [self._stored(name) for name in self.measures]
        if PROMPTS not in self.files:
            return remembered_prompts(datasets, self.identity)
        # A part of a run, or one that is not finished, has results of fewer prompts than its file.
        stored = decode_prompts(self.files[PROMPTS], self.identity)
        coordinates = (dataset["prompt_id"] for dataset in datasets if "prompt_id" in dataset.coords)
        names = next(coordinates, None)
        if names is not None and names.dims != (PROMPT,):
            raise StoreError(
                f"The results of a run of {self.identity.model} have a prompt_id that is not one for each prompt. Its "
                "files are damaged: restore them from a copy, or survey again."
            )
        measured = None if names is None else set(names.values.tolist())
        if measured is None or len(measured) == len(stored):
            return stored
        return stored.some([number for number, name in enumerate(stored.names) if name in measured])

    @property
    def copies(self) -> int:
        """How many prompts have the tokens of an earlier one; 0 where tokens are not kept."""
        return len(self._copy_of) - len(set(self._copy_of.values()))

    def clusters(self, label: str | None = None) -> NDArray[np.intp] | None:
        """The number of each prompt's cluster, [prompts], as intervals draw them; None = each prompt for itself.

        Args:
            label: prompts of one value are of one cluster, as copies always are.

        Raises:
            OptionError: no such label; a label that makes no clusters.
            StoreError: the file of prompts, which has the labels, cannot be read.
        """
        if label is not None:
            return self.prompts.clusters(label)
        return np.array(list(self._copy_of.values()), dtype=np.intp) if self._copy_of else None

    @cached_property
    def _copy_of(self) -> dict[str, int]:
        if PROMPTS not in self.files:
            return {}
        try:
            return self.prompts.copy_of
        except StoreError:  # results may be read where the file of prompts is damaged
            return {}

    @property
    def n_blocks(self) -> int:
        """L of the model: how many blocks run, a shared one as often as it runs.

        Raises:
            StoreError: an earlier bathyscope wrote the run, and none of its measures tells.
        """
        if self.identity.n_blocks is not None:
            return self.identity.n_blocks
        extents = (("block", 0), ("boundary", 1))
        sizes = [self[name].sizes for name in self.measures]
        # Blocks may have been left out of one measure: the largest extent is that of the whole model.
        block_counts = [extent_of[dim] - beyond for extent_of in sizes for dim, beyond in extents if dim in extent_of]
        if not block_counts:
            raise StoreError(
                f"An earlier bathyscope wrote this run, and its measures ({', '.join(self.measures) or 'none'}) do not "
                "tell how many blocks the model has. Survey again with residual or lens among them."
            )
        return max(block_counts)

    def __contains__(self, measure: object) -> bool:
        """Whether the run has a measure."""
        return measure in self.measures

    def __iter__(self) -> Iterator[str]:
        """The names of the measures."""
        return iter(self.measures)

    def __getitem__(self, measure: str) -> xr.Dataset:
        """Dataset of one measure.

        Raises:
            OptionError: the run has no such measure.
        """
        if measure not in self.measures:
            what = f"part of a run (selected by {', '.join(self.cut)})" if self.cut else "run"
            raise OptionError(
                f"This {what} has no measure {measure!r}; it has {', '.join(self.measures)}."
                f"{did_you_mean(str(measure), self.measures)}"
            )
        dataset = with_copies(self._stored(measure), self._copy_of)
        return dataset if self.cycle is None else label_steps(dataset, self.cycle)

    def _stored(self, measure: str) -> xr.Dataset:
        return self.tree.children[measure].to_dataset(inherit=False)

    @cached_property
    def cycle(self) -> Cycle | None:
        """Which loop and block each step is, of a model that runs blocks several times; None for others."""
        blocks = self.manifest.get("identity", {}).get("loops")
        return None if blocks is None else cycle_of(tuple(blocks))

    @property
    def stored(self) -> tuple[int, ...] | None:
        """The boundaries of the stored states that were measured in the place of a model; None where one was run."""
        states = self.manifest.get("identity", {}).get("states")
        return None if states is None else tuple(states["boundaries"])

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
        manifest = Manifest.from_tree(self.manifest, "the run's manifest")
        if manifest.record.finished is None:
            raise StoreError("Only finished runs are saved: finish it first, by the survey that began it.")
        with Folder(folder, RUN) as target:
            if target.manifest() is not None:
                raise StoreError(f"There is a run in {str(folder)!r} already; save into another folder.")
            try:
                target.save(self._written(target, manifest).to_dict())
            except OSError as error:
                raise StoreError(
                    f"Saving the run to {str(folder)!r} failed: {reason(error)}. Free some space (or make the folder "
                    "writable), delete that folder, and save again."
                ) from error
        for label, control in self.controls.items():
            control.save(folder / CONTROLS / label)
        return open_run(folder)

    def _written(self, folder: Folder, manifest: Manifest) -> Manifest:
        """The manifest of the run whose files it writes: copies of its own, or what it holds in memory."""
        if self.path is not None:
            record = manifest.record
            derived = [] if record.derived is None else [record.derived]
            for entry in (*record.shards.values(), *record.files.values(), *derived):
                folder.write(entry.file, verified(self.path, entry.file, entry.sha256))
            return manifest
        for index, datasets in self.in_memory.items():
            content = encode(datasets, manifest.identity.marks(index))
            manifest = manifest.with_part(index, folder.write(part_file(index), content))
        entries = {}
        for name, content in self.files.items():
            file = PROMPTS_FILE if name == PROMPTS else name
            entries[name] = FileEntry(file, folder.write(file, content))
        return manifest.with_record(files=entries)

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
                folder = _without_places(folder, Path(temporary) / "published")
            if dry_run:
                return listing(folder, to)
            return push_folder(folder, to, private)

    @checked
    def select(self, *, prompts: Some | None = None, variables: Some | None = None, blocks: Some | None = None) -> Run:
        """A part of the run.

        Args:
            prompts: by number, by id or by a label: ``"0-4,7"``, ``"level=2"``. Results that are of all prompts
                together, such as ``effective_depth``, are left out, with a warning that names them.
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
    def data(self) -> xr.DataTree:
        """The numbers: a labelled dataset for every measure."""
        return self.tree

    @property
    def text(self) -> str:
        """The verdict; of a run without one, what it is of."""
        return self.headline() or self.caption()

    def to_dataframe(self, measure: str | None = None) -> pd.DataFrame:
        """Return one measure as a table, one row an index combination (see :func:`bathyscope.runs.table.tidy`).

        Args:
            measure: which one; None = what the run holds, a row for every variable of every measure.

        Raises:
            OptionError: the run has no such measure.
        """
        return list_variables({name: self[name] for name in self}) if measure is None else tidy(self[measure])

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
    def judged(self) -> bool:
        """Whether there is a verdict: a lens with the depths of tokens, which early versions did not keep."""
        return "blocks" not in self.cut and "lens" in self and "prediction_depth" in self["lens"]

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
        from bathyscope.runs.verdict import verdict_of  # what it counts with takes longer to import than all of reading

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
            stored=self.stored,
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

    def caption(self, noise: bool = True) -> str:
        """Return a sentence for figures and tables: model, data, prompts and tokens, precision, noise floor.

        Args:
            noise: also write the noise floor of each measure, which the heading of a picture has no room for.
        """
        return caption(self.identity, {name: self[name] for name in self}, self.noise_holds, noise)

    @property
    def noise_holds(self) -> bool:
        """Say whether effects beyond the noise floor are more than rounding.

        Below float32 they may be rounding: a changed row rounds differently, while the control row equals the plain
        forward and rounds as it does.
        """
        return self.identity.dtype in ("float32", "float64")

    def explore(
        self, *others: Run, names: Sequence[str] | None = None, text: bool = True, cluster: str | None = None
    ) -> AnyWidget:
        """The views of a page (blocks, prompts, tokens, lens, maps) in a notebook, with the selection in Python.

        Args:
            others: runs that can be switched to.
            names: of the runs, in place of their models and data.
            text: show the words of prompts and predictions; False leaves them out and shows token ids.
            cluster: label of prompts that belong together, such as document; intervals resample them as one.

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

    def keys(self) -> tuple[str, ...]:
        """Return the names of the measures, so that a run is read as a dictionary is.

        Example:
            >>> run.keys()[:2]
            ('residual', 'lens')
        """
        return self.measures

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.measures)

    def __getattr__(self, name: str) -> xr.Dataset:
        """Return the dataset of a measure that no attribute of the class hides: ``run.skip`` is ``run["skip"]``."""
        # Copying and notebooks look attributes up before the fields are set, where a look-up would never end.
        tree = self.__dict__.get("tree")
        if tree is not None and not name.startswith("_") and name in tree.children:
            return self[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.measures})

    def __repr__(self) -> str:
        headline = f"{self.headline()} " if self.headline() else ""
        return shown(f"<Run {headline}{self.caption()} Measures: {', '.join(self.measures)}. {self._place}>")

    def _repr_html_(self) -> str:
        html: str = from_above("card")(self, self._place)
        return html

    @property
    def _place(self) -> str:
        return "in memory" if self.path is None else str(self.path)


def open_run(path: str | Path, *, partial: bool = False) -> Run:
    """Read a run from its folder; every file's checksum is verified.

    Args:
        path: the folder that a survey wrote, or ``hf://datasets/owner/name`` (``@revision``), what ``push`` wrote.
        partial: accept an unfinished run: the prompts whose shards are there, without run-level results.

    Raises:
        OptionError: ``path`` is no path.
        StoreError: no run; a file altered or cut short; unfinished and not ``partial``; nothing there yet.

    Example:
        >>> bathyscope.open("runs/model").n_blocks
        4
    """
    folder = pulled(path) if isinstance(path, str) and path.startswith(HUB) else folder_path(path)
    run = replace(_open_alone(folder, partial), controls=controls_in(folder, partial=partial))
    for label, control in run.controls.items():
        if not is_of_its_shape(run, label):
            warn(
                f"The control {label} in {str(folder)!r} is of another model ({control.caption()}), and nothing is "
                "compared with it."
            )
        elif actual := contradiction(run, label):
            warn(
                f"The control {label} in {str(folder)!r} is {actual}, whatever its folder is called, and nothing is "
                "compared with it."
            )
        elif unlike := unlike_options(run, label):
            warn(
                f"The control {label} in {str(folder)!r} was measured with other options than the run "
                f"({', '.join(unlike)}), and nothing is compared with it."
            )
        elif read_other_prompts(run, label):
            warn(f"The control {label} in {str(folder)!r} read other prompts, and nothing is compared with it.")
    return run


def _open_alone(folder: Path, partial: bool) -> Run:
    """Read a run without its controls."""
    manifest = load_manifest(folder)
    identity, record = manifest.identity, manifest.record
    present = {i: entry for i, entry in record.shards.items() if (folder / entry.file).exists()}
    complete = record.finished is not None and len(present) == len(identity.plan)
    if not complete and (not partial or not present):
        raise StoreError(manifest.unfinished(folder, len(present)))
    datasets = merge([read_shard(folder, e.file, e.sha256, identity.marks(i)) for i, e in present.items()])
    if complete and record.derived is not None:
        # a run-level dataset takes the place of its namesake
        datasets |= read_shard(folder, record.derived.file, record.derived.sha256, identity.marks(None))
    files = {name: verified(folder, entry.file, entry.sha256) for name, entry in record.files.items()}
    return Run(tree_of(datasets), manifest.to_dict(), folder, files)


def controls_in(folder: Path, *, partial: bool = False, besides: Collection[str] = ()) -> dict[str, Run]:
    """The controls that lie in a run's folder, by name; an unfinished one is left out with a warning.

    Args:
        partial: as for ``open_run``: also what there is of unfinished ones.
        besides: names of controls that are not read.

    Raises:
        StoreError: a file altered or cut short, or a link in place of a control.
    """
    controls: dict[str, Run] = {}
    for path in control_folders(folder):
        if path.name in besides or not (path / RUN.manifest).exists():
            continue
        if partial or load_manifest(path).record.finished is not None:
            # a control has none of its own
            controls[path.name] = _open_alone(path, partial)
        else:
            warn(f"The control {path.name} of the run in {str(folder)!r} is not finished, and is left out.")
    return controls


def control_folders(folder: Path) -> list[Path]:
    """List what lies among the controls of a run, by name; nothing where it has none.

    Raises:
        StoreError: a link in place of a control, or of the folder that holds them.
    """
    room = folder / CONTROLS
    # a link is refused before anything behind it is looked at
    require_own_folder(room, _OWN)
    paths = sorted(room.glob("*"))
    for path in paths:
        require_own_folder(path, _OWN)
    return paths


def _without_places(folder: Path, target: Path) -> Path:
    """Copy a run and its controls without the places of their files; gives the copy."""
    write_without_places(folder, load_manifest(folder), target)
    for control in (path for path in control_folders(folder) if path.is_dir()):
        write_without_places(control, load_manifest(control), target / CONTROLS / control.name)
    return target


def tree_of(datasets: Mapping[str, xr.Dataset]) -> xr.DataTree:
    """The datasets of a run as its children, by their names."""
    return xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in datasets.items()})


@checked
def push(
    run: Run | str | Path, to: str, *, private: bool = True, keep_paths: bool = False, dry_run: bool = False
) -> str:
    """Publishes a run as a data set on the Hugging Face hub, texts of its prompts included where it keeps them.

    Args:
        run: a run, or its folder.
        to: ``owner/name`` of the data set; made where it is not there yet.
        private: whether only its owner can read it.
        keep_paths: publish absolute paths too, such as those of a local model and of files of prompts; else their last
            names alone.
        dry_run: list what would be published, and publish nothing.

    Returns:
        The address that ``bathyscope.open`` takes, ``hf://datasets/owner/name``; of a dry run the list.

    Raises:
        OptionError: ``to`` is no name.
        StoreError: the run is not finished or altered; there is a run already; no token, no network, no such owner.

    Example:
        >>> bathyscope.push("runs/model", "user/name")  # doctest: +SKIP
        'hf://datasets/user/name'
    """
    return (run if isinstance(run, Run) else open_run(run)).push(
        to, private=private, keep_paths=keep_paths, dry_run=dry_run
    )
