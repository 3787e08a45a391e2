"""What a smaller run has of a survey: results by shard, or by batch where its last shard goes on with new prompts."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
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
There = tuple[Datasets, Mapping[tuple[int, ...], Datasets]]
"""Of a shard: results of all its prompts, and of some of its batches by their prompts' numbers."""


class Kept:
    """What of a survey need not be computed.

    A measure's results are kept where they do not depend on the prompts that come behind: of every prompt in a shard
    that stays as it was, and in one that goes on, of those that are still computed with the same others.

    Args:
        growth: the smaller run, and what it grows to.
        prompts, measures, seed: of the larger one; measures are prepared.
    """

    def __init__(
        self, growth: Growth, facts: ModelFacts, prompts: Prompts, measures: Sequence[Measure[Any]], seed: int
    ) -> None:
        self._growth, self._prompts = growth, prompts
        identity = growth.stored.identity
        observing = [m for m in measures if not m.derived]
        self._before = [m for m in observing if m.name in identity.measures]
        self.measures = list(self._before)
        if identity.prompts < len(prompts):
            first = prompts.some(range(identity.prompts))
            self._before = [_prepared(m, facts, first, seed) for m in self._before]
            self.measures = [m for m, was in zip(self.measures, self._before) if m.stands(was, len(first))]
        for measure in observing:
            self._leave_heard(measure, {m.name for m in observing}, set(identity.measures))

    def _leave_heard(self, measure: Measure[Any], now: set[str], then: set[str]) -> None:
        """What listens to others is as it was where these are the same; else it is computed, and they beside it."""
        heard, before = set(measure.listens) & now, set(measure.listens) & then
        if heard and (heard != before or measure not in self.measures):
            self.measures = [m for m in self.measures if m.name not in {*heard, measure.name}]

    @cached_property
    def names(self) -> frozenset[str]:
        """Of the measures whose results are kept."""
        return frozenset(m.name for m in self.measures)

    def shard(self, first: int, last: int, cut: Cut) -> There:
        """What is there of the prompts ``first`` … ``last`` − 1.

        Raises:
            StoreError: a file is altered.
        """
        there = self._growth.shards
        if not self.names:
            return {}, {}
        if (first, last) in there:
            return self._fitted(self._growth.read(there[first, last]), list(range(first, last))), {}
        shorter = next((place for place in there if place[0] == first and place[1] < last), None)
        if shorter is None:
            return {}, {}
        found = self._growth.read(there[shorter])
        batches = cut(range(*shorter), self._before)
        some = {tuple(b): {name: _some(dataset, b, first) for name, dataset in found.items()} for b in batches}
        return {}, {picked: self._fitted(own, list(picked)) for picked, own in some.items()}

    def _fitted(self, found: Datasets, numbers: list[int]) -> Datasets:
        """Results in the form in which the larger survey gives them."""
        kept = {m.name: _padded(found[m.name], m.extents) for m in self.measures}
        noise = some_noise(found[NOISE], self.names) if NOISE in found else None
        if noise is not None:
            kept[NOISE] = noise
        return {name: with_labels(dataset, self._prompts, numbers) for name, dataset in kept.items()}


def _prepared(measure: Measure[Any], facts: ModelFacts, prompts: Prompts, seed: int) -> Measure[Any]:
    """A measure as it was prepared for fewer prompts, whose warnings were given then."""
    own = copy.copy(measure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own.prepare(facts, prompts, seed)
    return own


def _some(dataset: xr.Dataset, numbers: Sequence[int], first: int) -> xr.Dataset:
    if PROMPT not in dataset.coords:
        return dataset.isel({PROMPT: [number - first for number in numbers]}, missing_dims="ignore")
    own = dataset[PROMPT].values.tolist()
    return dataset.isel({PROMPT: [own.index(number) for number in numbers if number in own]})


def _padded(dataset: xr.Dataset, extents: Mapping[str, int]) -> xr.Dataset:
    """Dimensions at the length that more prompts need: what is not there is NaN, an empty text, or −1."""
    longer = {dim: (0, size - dataset.sizes[dim]) for dim, size in extents.items() if size > dataset.sizes[dim]}
    variables: dict[str, xr.Variable] = {}
    for name, values in dataset.variables.items():
        own = {dim: ends for dim, ends in longer.items() if dim in values.dims}
        fill: Any = {"f": np.nan, "U": ""}.get(values.dtype.kind, -1)
        variables[str(name)] = values.pad(own, constant_values=fill) if own else values
    variables |= {dim: variables[dim].copy(data=np.arange(extents[dim])) for dim in longer if dim in variables}
    return xr.Dataset(
        {name: variables[str(name)] for name in dataset.data_vars},
        {name: variables[str(name)] for name in dataset.coords},
        dataset.attrs,
    )
