"""What a run says of each block or boundary: means over prompts, each counting the same, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bathyscope.core.arrays import FloatArray, IntArray, mean_of_known
from bathyscope.errors import OptionError
from bathyscope.labels import mean_limits
from bathyscope.prompts.parts import clusters_in
from bathyscope.runs.selecting import PLACES
from bathyscope.statistics.bootstrap import Interval, joint_mean_intervals, joint_sampling, mean_intervals
from bathyscope.statistics.rare import ENOUGH_OF_FEW, FEWEST_OF_SHAPE, bounded_intervals, carried_by_few, n_draws
from bathyscope.statistics.sampling import Sampling

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.runs.run import Run

LOSS_FALLS: Final = (
    "this text may be foreign to the model, or what is left out may harm it: measure on text like its training text "
    "before you decide"
)
"""What may follow where leaving something out surely lowers the loss; the losses alone do not tell which."""
MANY: Final = ("token", "head", "distance", "sample")
"""Dimensions that are not summed up place by place."""


def check_whole_depth(run: Run) -> None:
    """Raises OptionError for a part of a run with some of its blocks, which pictures would take for all of them."""
    if "blocks" in run.cut:
        raise OptionError(
            "Pictures are of the whole depth, and this part of a run has some of its blocks; draw the run itself, or "
            "some prompts or variables of it. The numbers of some blocks: bathyscope show RUN --measure MEASURE "
            "--blocks 0-5, or run.select(blocks=...) in Python."
        )


@dataclass(frozen=True)
class ByPlace:
    """One quantity along the depth.

    Args:
        key: its name on a page, letters and hyphens.
        label, units: what it is.
        places: [X], whole numbers.
        by_prompt: [P, X]; NaN where a prompt has no value.
        seed: of the resampling.
        cluster: [P], prompts of one number are resampled as one; None = each for itself.
        limits: smallest and largest mean there can be; intervals are cut to them.
        dim: the dimension of the places, such as ``block`` or ``boundary``.
        is_cost: nats of loss, which a few prompts may make up most of.
    """

    key: str
    label: str
    units: str
    places: tuple[int, ...]
    by_prompt: FloatArray
    seed: int = 0
    cluster: IntArray | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)
    dim: str = "block"
    is_cost: bool = False

    @cached_property
    def mean(self) -> FloatArray:
        """[X], over the prompts that have a value; NaN where none has."""
        return mean_of_known(self.by_prompt, axis=0)

    @cached_property
    def intervals(self) -> list[Interval]:
        """95 % intervals over prompts, or clusters; NaN ends with fewer than two, and where a cost is ``unbounded``."""
        intervals = mean_intervals(self.by_prompt, self._sampling, limits=self.limits)
        return self._bounded(intervals, self._sampling) if self.is_cost else intervals

    @cached_property
    def joint_intervals(self) -> list[Interval]:
        """95 % intervals that hold for all places at once, for what is said of places picked by their values.

        A cost that has no interval of its own has the lower end alone: few prompts understate it.
        """
        intervals = joint_mean_intervals(self.by_prompt, self._sampling, limits=self.limits)
        if not self.is_cost:
            return intervals
        bounded = self._bounded(intervals, joint_sampling(self.by_prompt, self._sampling))
        return [
            Interval(plain.low if math.isnan(ends.low) else ends.low, ends.high)
            for plain, ends in zip(intervals, bounded)
        ]

    @cached_property
    def unbounded(self) -> tuple[int, ...]:
        """The places whose cost is known and has no interval, though there are prompts for one of another quantity."""
        if not self.is_cost or n_draws(self.by_prompt, self._sampling) < 2:
            return ()
        is_open = np.isnan([ends.high for ends in self.intervals]) & ~np.isnan(self.mean)
        return tuple(place for place, which in zip(self.places, is_open) if which)

    @property
    def enough_prompts(self) -> int:
        """How many different prompts, or clusters, would give ``unbounded`` places an interval."""
        few = n_draws(self.by_prompt, self._sampling) < FEWEST_OF_SHAPE
        return FEWEST_OF_SHAPE if few and not carried_by_few(self.by_prompt).any() else ENOUGH_OF_FEW

    @property
    def why_unbounded(self) -> str:
        """Why ``unbounded`` places have no interval, and what would give one; empty without such places."""
        if not self.unbounded:
            return ""
        if self.enough_prompts == FEWEST_OF_SHAPE:
            return f"intervals of costs need {FEWEST_OF_SHAPE} different prompts or clusters, better ten or more"
        return (
            "few of the prompts make up most of such costs, and others may cost more; "
            f"their intervals need {ENOUGH_OF_FEW} different prompts or clusters"
        )

    def _bounded(self, intervals: list[Interval], sampling: Sampling) -> list[Interval]:
        return bounded_intervals(intervals, carried_by_few(self.by_prompt), self.by_prompt, sampling)

    @property
    def _sampling(self) -> Sampling:
        return Sampling(seed=self.seed, cluster=self.cluster)


def by_block(run: Run, cluster: str | None = None) -> list[ByPlace]:
    """What is known of each block, the cost of leaving it out first.

    Args:
        cluster: label of prompts that are resampled as one.
    """
    seed = run.identity.seed
    return [
        ByPlace(
            key,
            label,
            units,
            *_both(values, dim),
            seed,
            clusters_in(values, cluster),
            mean_limits(key.replace("-", "_"), values.values),
            is_cost=units == "nats",
        )
        for key, label, units, dim, values in _of_blocks(run)
    ]


def cost_of_leaving_out(run: Run, cluster: str | None = None) -> ByPlace | None:
    """The loss that leaving out one block adds; None without drop, and where it left no block out as a whole."""
    if why_no_cost(run):
        return None
    return next((quantity for quantity in by_block(run, cluster) if quantity.key == "drop"), None)


def why_no_cost(run: Run) -> str:
    """Say why a run does not tell what leaving out one block adds to the loss; empty where it does.

    A mean in the place of a contribution, or first tokens that keep it, may cost next to nothing where leaving the
    block out, as a schedule and an exported checkpoint do, costs much.
    """
    if "drop" not in run:
        return "drop was not measured"
    options = run.identity.measures.get("drop") or {}
    if is_filled(run):
        return "with drop.replace=mean a mean takes the place of each contribution, and no block is left out"
    if options.get("protect_first"):
        first = _first_tokens(options)
        return f"with drop.protect_first={options['protect_first']} each block still acts on the {first} of a prompt"
    return ""


def is_filled(run: Run) -> bool:
    """Whether drop put a mean in the place of what each block contributes, and so left no block out."""
    return (run.identity.measures.get("drop") or {}).get("replace") == "mean"


def _first_tokens(options: Mapping[str, Any]) -> str:
    """Name the tokens that a block is left to act on."""
    count = int(options["protect_first"])
    return "first token" if count == 1 else f"first {count} tokens"


def by_place(dataset: xr.Dataset, seed: int, cluster: str | None = None) -> Iterator[ByPlace]:
    """Every variable of a measure that has a value for each prompt and place, and no other dimension of places.

    Where it has more dimensions (parts, reductions, norms), each of their places is a quantity of its own.

    Args:
        cluster: label of prompts that are resampled as one.
    """
    for name, values in dataset.data_vars.items():
        along = [str(dim) for dim in values.dims if dim in PLACES]
        others = [str(dim) for dim in values.dims if dim not in (*PLACES, "prompt")]
        if len(along) != 1 or "prompt" not in values.dims or values.dtype.kind not in "fiu":
            continue
        if str(values.attrs.get("formula", "")).startswith("argmax"):  # a token's or a channel's number is no size
            continue
        if any(dim not in values.coords or dim in MANY for dim in others):
            continue
        label, units = str(values.attrs.get("long_name", name)), str(values.attrs.get("units", ""))
        # One quantity for each part, reduction or norm: a curve over blocks has one meaning.
        for chosen in product(*(values[dim].values.tolist() for dim in others)):
            by_prompt = values.sel(dict(zip(others, chosen, strict=True)))
            description = ", ".join([label, *(f"{dim} {place}" for dim, place in zip(others, chosen))])
            member, limits = clusters_in(values, cluster), mean_limits(str(name), by_prompt)
            yield ByPlace(str(name), description, units, *_both(by_prompt, along[0]), seed, member, limits, along[0])


def variables_at_boundaries(dataset: xr.Dataset) -> frozenset[str]:
    """Return the variables of a measure whose places are boundaries between blocks, and not blocks."""
    return frozenset(str(name) for name, values in dataset.data_vars.items() if "boundary" in values.dims)


def _of_blocks(run: Run) -> Iterator[tuple[str, str, str, str, xr.DataArray]]:
    """Key, label and units of each quantity, its dimension of blocks, and its values."""
    options = run.identity.measures.get("drop") or {}
    without = "with a mean in the place of the block's contribution" if is_filled(run) else "without the block"
    if options.get("protect_first"):
        without += f", but for the {_first_tokens(options)}"
    costs = {
        "drop": ("dropped", f"loss added {without}"),
        "swap": ("swapped", "loss added by swapping the block with the next"),
    }
    for measure, (dim, label) in costs.items():
        if measure in run and {"loss", "baseline_loss"} <= set(run[measure]):
            yield measure, label, "nats", dim, run[measure]["loss"] - run[measure]["baseline_loss"]
    for name, what in (("output_all", "output"), ("output_future", "output at later tokens")):
        if "skip" in run and name in run["skip"]:
            values = run["skip"][name]
            # Runs of earlier versions have neither dimension, and no means to read.
            has_dims = {"part", "reduction"} <= set(values.dims)
            if has_dims and "block" in values["part"].values and "mean" in values["reduction"].values:
                means = values.sel(part="block", reduction="mean")
                if bool(means.notnull().any()):  # a survey may have been asked for other reductions alone
                    label = f"change of the {what} without the block (L2 of probabilities, mean over tokens)"
                    yield name.replace("_", "-"), label, "1", "skipped", means
    for part, what in (("block", "block's"), ("attn", "attention's"), ("mlp", "MLP's")):
        if "residual" in run and f"norm_{part}" in run["residual"]:
            label = f"norm of the {what} contribution"
            yield f"norm-{part}", label, "1", "block", run["residual"][f"norm_{part}"]


def _both(values: xr.DataArray, dim: str) -> tuple[tuple[int, ...], FloatArray]:
    """The places along a dimension, and the values, [prompt, place]."""
    places = tuple(int(place) for place in values[dim].values)
    return places, np.asarray(values.transpose("prompt", dim).values, dtype=np.float64)
