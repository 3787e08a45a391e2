"""What a run holds: a labelled dataset for every measure, its prompts, and what both are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.core.cycles import Cycle, cycle_of
from bathyscope.core.result import require_arrays
from bathyscope.errors import OptionError, StoreError, describe_value, did_you_mean
from bathyscope.options import convert
from bathyscope.prompts.beginnings import share_in_common
from bathyscope.prompts.parts import with_copies
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.reading import READING, recorded_reading
from bathyscope.runs.card import caption
from bathyscope.runs.manifest import Identity
from bathyscope.runs.merge import PROMPT
from bathyscope.runs.prompts import PROMPTS, decode_prompts, remembered_prompts
from bathyscope.runs.selecting import PLACES
from bathyscope.runs.table import list_variables, tidy

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class RunContents:
    """The datasets of a run with their prompts, its manifest and its controls; see ``Run``.

    Args:
        tree: a child a measure.
        manifest: the content of ``manifest.json``.
        path: the run's folder, or None where it lives in memory.
        files: content of further files, by name.
        controls: runs that the model is compared with, by name.
        cut: by what a part of a run was selected; () = the whole run.
        in_memory: the results of a run without a folder, by index in the plan; None = the run-level results.

    Raises:
        OptionError: the tree holds no labelled arrays, or the manifest no identity.
    """

    tree: xr.DataTree
    manifest: dict[str, Any]
    path: Path | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    controls: Mapping[str, Self] = field(default_factory=dict)
    cut: tuple[str, ...] = ()
    in_memory: Mapping[int | None, Mapping[str, xr.Dataset]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_arrays(self.tree, f"{type(self).__name__}: tree")
        if not isinstance(self.manifest, Mapping) or "identity" not in self.manifest:
            raise OptionError(
                f"{type(self).__name__}: manifest takes the content of a run's manifest.json, a dict with an identity; "
                f"{describe_value(self.manifest)} given. Take runs from bathyscope.survey or bathyscope.open(FOLDER)."
            )

    @property
    def data(self) -> xr.DataTree:
        """The numbers: a labelled dataset for every measure."""
        return self.tree

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
            return replace(remembered_prompts(datasets, self.identity), reading=self._reading)
        # A part of a run, or one that is not finished, has results of fewer prompts than its file.
        stored = replace(decode_prompts(self.files[PROMPTS], self.identity), reading=self._reading)
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
    def _reading(self) -> Mapping[str, Any]:
        return recorded_reading((self.manifest["record"].get("notes") or {}).get(READING))

    @property
    def copies(self) -> int:
        """How many prompts have the tokens of an earlier one; 0 where tokens are not kept."""
        return len(self._copy_of) - len(set(self._copy_of.values()))

    @cached_property
    def share_in_common(self) -> float:
        """Share of the tokens that stand in beginnings which prompts share; 0 where tokens are not kept."""
        if PROMPTS not in self.files:
            return 0.0
        try:
            return share_in_common(prompt.ids for prompt in self.prompts)
        except StoreError:  # as for copies
            return 0.0

    def clusters(self, label: str | None = None) -> NDArray[np.intp] | None:
        """The number of each prompt's cluster, [prompts], as intervals draw them; None = each prompt for itself.

        Args:
            label: prompts of one value are of one cluster, as copies always are.

        Raises:
            OptionError: no such label; a label that makes no clusters.
            StoreError: the file of prompts, which has the labels, cannot be read.
        """
        if label is not None:
            return self.prompts.clusters(convert(str, label, "label"))
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
        """Dataset of one measure, whose arrays can be read alone; ``copy(deep=True)`` can be written too.

        Raises:
            OptionError: the run has no such measure.
        """
        if measure not in self.measures and "variables" in self.cut:
            raise OptionError(
                f"None of the chosen variables is of {measure!r}; they are of {', '.join(self.measures)}. Choose one "
                f"of {measure!r}, or leave variables out."
            )
        if measure not in self.measures:
            what = f"part of a run (selected by {', '.join(self.cut)})" if self.cut else "run"
            raise OptionError(
                f"This {what} has no measure {measure!r}; it has {', '.join(self.measures)}."
                f"{did_you_mean(str(measure), self.measures)}"
            )
        dataset = with_copies(self._stored(measure), self._copy_of)
        return dataset if self.cycle is None else _label_steps(dataset, self.cycle)

    def _stored(self, measure: str) -> xr.Dataset:
        return _unchanging(self.tree.children[measure].to_dataset(inherit=False))

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

    @property
    def confirmed(self) -> bool:
        """Whether predictions are the model's own: read by it, or compared with those that were served."""
        notes = self.manifest.get("record", {}).get("notes") or {}
        # earlier versions wrote no word of it
        return self.stored is None or bool((notes.get("states") or {}).get("confirmed", True))

    @property
    def judged(self) -> bool:
        """Whether there is a verdict: a lens with the depths of tokens, which early versions did not keep."""
        return "blocks" not in self.cut and "lens" in self and "prediction_depth" in self["lens"]

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

    def to_dataframe(self, measure: str | None = None) -> pd.DataFrame:
        """Return one measure as a table, one row an index combination (see :func:`bathyscope.runs.table.tidy`).

        Args:
            measure: which one; None = what the run holds, a row for every variable of every measure.

        Raises:
            OptionError: the run has no such measure.
        """
        return list_variables({name: self[name] for name in self}) if measure is None else tidy(self[measure])

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

    @property
    def _place(self) -> str:
        return "in memory" if self.path is None else str(self.path)


def tree_of(datasets: Mapping[str, xr.Dataset]) -> xr.DataTree:
    """The datasets of a run as its children, by their names."""
    return xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in datasets.items()})


def _label_steps(dataset: xr.Dataset, cycle: Cycle) -> xr.Dataset:
    """Return a dataset with the coordinates ``loop`` and ``block_in_loop`` along its blocks.

    Along other dimensions of blocks, such as ``dropped``, the coordinates are called ``dropped_loop`` and
    ``dropped_block_in_loop``. Boundaries are between blocks and have none.
    """
    coords = {}
    for dim in PLACES:
        if dim == "boundary" or dim not in dataset.coords or dataset[dim].dtype.kind not in "iu":
            continue
        prefix = "" if dim == "block" else f"{dim}_"
        steps = dataset[dim].values
        for name, values in (("loop", cycle.loop), ("block_in_loop", cycle.block_in_loop)):
            coords[f"{prefix}{name}"] = (dim, [values[step] for step in steps])
    return dataset.assign_coords(coords)


def _unchanging(results: xr.Dataset) -> xr.Dataset:
    """Results whose arrays are not written, so that a verdict and what is stored are of one set of numbers."""
    for variable in results.variables.values():
        if isinstance(variable.data, np.ndarray):
            variable.data.flags.writeable = False
    return results
