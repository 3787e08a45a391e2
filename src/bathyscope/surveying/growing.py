"""What a smaller run has of a survey: results by shard, or by batch where its last shard gets new prompts."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from bathyscope.measures.base import Measure, ModelFacts
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.growth import Growth
from bathyscope.runs.merge import PROMPT
from bathyscope.runs.shards import Datasets
from bathyscope.surveying.assembly import NOISE, some_noise, with_labels

Cut = Callable[[range, Sequence[Measure[Any]]], list[list[int]]]
"""Prompts of a shard and measures → batches."""


@dataclass(frozen=True)
class StoredShard:
    """What a smaller run has of one shard.

    Args:
        whole: results of all its prompts.
        batches: results of some of its batches, by their prompts' numbers.
    """

    whole: Datasets = field(default_factory=dict)
    batches: Mapping[tuple[int, ...], Datasets] = field(default_factory=dict)


class EarlierResults:
    """What of a survey need not be computed, because a smaller run has it.

    A measure's results are taken over where they do not depend on the prompts that come behind: of every prompt in a
    shard that stays as it was, and in one that gets new prompts, of those that are still computed with the same others.

    Args:
        growth: the smaller run, and what it grows to.
        prompts, measures, seed: of the larger one; measures are prepared.
    """

    def __init__(
        self, growth: Growth, facts: ModelFacts, prompts: Prompts, measures: Sequence[Measure[Any]], seed: int
    ) -> None:
        self._growth, self._prompts = growth, prompts
        identity = growth.stored.identity
        observing = [measure for measure in measures if not measure.derived]
        self._before = [measure for measure in observing if measure.name in identity.measures]
        self.measures = list(self._before)
        if identity.prompts < len(prompts):
            # some measures choose positions or lengths by all prompts, so that more prompts change results of the first
            first = prompts.some(range(identity.prompts))
            self._before = [_prepared(measure, facts, first, seed) for measure in self._before]
            pairs = zip(self.measures, self._before)
            self.measures = [measure for measure, before in pairs if measure.stays_valid(before, len(first))]
        for measure in observing:
            self._compute_listeners(measure, {measure.name for measure in observing}, set(identity.measures))

    def _compute_listeners(self, measure: Measure[Any], now: set[str], then: set[str]) -> None:
        """Take over what listens to other measures only where these are the same; else compute it with all of them."""
        heard = set(measure.reads_values_of) & now
        heard_before = set(measure.reads_values_of) & then
        if heard and (heard != heard_before or measure not in self.measures):
            self.measures = [other for other in self.measures if other.name not in {*heard, measure.name}]

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the measures whose results are taken over."""
        return frozenset(measure.name for measure in self.measures)

    def shard(self, first: int, last: int, cut: Cut) -> StoredShard:
        """Return what is stored of the prompts ``first`` … ``last`` − 1.

        Raises:
            StoreError: a file is altered.
        """
        shards = self._growth.shards
        if not self.names:
            return StoredShard()
        if (first, last) in shards:
            results = self._growth.read(shards[first, last])
            return StoredShard(self._fitted(results, list(range(first, last))))
        # the last shard of the smaller run, behind which new prompts come
        shorter = next((place for place in shards if place[0] == first and place[1] < last), None)
        if shorter is None:
            return StoredShard()
        results = self._growth.read(shards[shorter])
        # as the smaller run was cut: a batch with other prompts in it may round differently
        batches = cut(range(*shorter), self._before)
        return StoredShard(
            batches={
                tuple(picked): self._fitted(
                    {name: _some(dataset, picked, first) for name, dataset in results.items()}, picked
                )
                for picked in batches
            }
        )

    def _fitted(self, stored: Datasets, numbers: list[int]) -> Datasets:
        """Return results in the form in which the larger survey gives them."""
        results = {measure.name: _padded(stored[measure.name], measure.lengths_by_dim) for measure in self.measures}
        noise = some_noise(stored[NOISE], self.names) if NOISE in stored else None
        if noise is not None:
            results[NOISE] = noise
        return {name: with_labels(dataset, self._prompts, numbers) for name, dataset in results.items()}


def _prepared(measure: Measure[Any], facts: ModelFacts, prompts: Prompts, seed: int) -> Measure[Any]:
    """Return a measure as it was prepared for fewer prompts, whose warnings were given then."""
    prepared = copy.copy(measure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared.prepare(facts, prompts, seed)
    return prepared


def _some(dataset: xr.Dataset, numbers: Sequence[int], first: int) -> xr.Dataset:
    if PROMPT not in dataset.coords:
        return dataset.isel({PROMPT: [number - first for number in numbers]}, missing_dims="ignore")
    # a measure that leaves prompts out numbers those that it has
    present = dataset[PROMPT].values.tolist()
    return dataset.isel({PROMPT: [present.index(number) for number in numbers if number in present]})


def _padded(dataset: xr.Dataset, extents: Mapping[str, int]) -> xr.Dataset:
    """Lengthen dimensions to what more prompts need: new entries are NaN, an empty text, or −1."""
    longer = {dim: (0, size - dataset.sizes[dim]) for dim, size in extents.items() if size > dataset.sizes[dim]}
    variables: dict[str, xr.Variable] = {}
    for name, values in dataset.variables.items():
        widths = {dim: ends for dim, ends in longer.items() if dim in values.dims}
        # what a survey of all prompts would have given to shorter ones
        fill: Any = {"f": np.nan, "U": ""}.get(values.dtype.kind, -1)
        variables[str(name)] = values.pad(widths, constant_values=fill) if widths else values
    variables |= {dim: variables[dim].copy(data=np.arange(extents[dim])) for dim in longer if dim in variables}
    return xr.Dataset(
        {name: variables[str(name)] for name in dataset.data_vars},
        {name: variables[str(name)] for name in dataset.coords},
        dataset.attrs,
    )
