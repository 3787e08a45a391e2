"""One worker of a survey by many: it loads the model, plans the whole survey, and computes the shards it is given.

Nothing here knows how workers are started or reached. Each plans for itself from the same call, so that prompts,
sampled positions and shards are those of a single process; what they have planned is compared before anything is
computed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import xarray as xr

from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import Source
from bathyscope.runs.difference import difference, listed, version_difference
from bathyscope.runs.manifest import library_versions
from bathyscope.runs.prompts import encode_prompts
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.controls import Control
from bathyscope.surveying.plan import SurveyPlan
from bathyscope.wavefront.engine import Wavefront

Datasets = Mapping[str, xr.Dataset]


@dataclass(frozen=True)
class Call:
    """A survey as every worker is asked for it.

    Args:
        model: its name or folder.
        loading: arguments of ``load``.
        weight_hash: of the weights that the model has to have; None = whatever the name means.
        prompts: as for ``survey``.
        controls: what is surveyed beside the model.
        folder: where relative names begin.
    """

    model: str
    loading: Mapping[str, Any]
    weight_hash: str | None
    survey: Survey
    prompts: Source | Prompts
    controls: Sequence[Control]
    folder: str


@dataclass(frozen=True)
class Planned:
    """What a worker has planned: all that the writer of the run needs to know.

    Args:
        identity, notes, versions: as the run's manifest keeps them.
        prompts: content of the run's file of prompts.
        work: of each shard, in any unit.
        is_streamed: blocks are read from disk, once for several shards.
        place: the machine, and what it computes on.
    """

    identity: Mapping[str, Any]
    notes: Mapping[str, Any]
    versions: Mapping[str, str]
    prompts: bytes = field(repr=False)
    work: Sequence[float]
    is_streamed: bool
    place: str

    def require_like(self, first: Planned) -> None:
        """Refuses a worker whose results would not be those of another.

        Raises:
            ModelError: with every difference.
        """
        lines = difference(first.identity, self.identity, first.place)
        lines = [line.replace(", asked for ", f", {self.place} ", 1) for line in lines]
        for line in version_difference(first.versions, self.versions):
            lines.append(line.replace("run has", f"{first.place} has").replace("installed is", f"{self.place}"))
        if lines:
            raise ModelError(
                f"Workers on {first.place} and on {self.place} would not compute the same:\n{listed(lines)}\n"
                "Give all machines the same model, libraries and kind of device; shards that are finished are kept."
            )


class Worker:
    """Computes what it is asked for, one thing at a time, in a process of its own."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._plans: dict[str, SurveyPlan] = {}
        self._begun: dict[str, Wavefront] = {}

    def plan(self, label: str) -> Planned:
        """The survey of the model, or of one of its controls, by its label; the model itself is "".

        Raises:
            OptionError, PromptError, ModelError: as ``survey``; other weights than asked for.
        """
        plan = self._planned(label)
        identity = plan.identity()
        place = f"{socket.gethostname()} ({identity['device']})"
        wanted = self._call.weight_hash
        if not label and wanted not in (None, identity["weight_hash"]):
            raise ModelError(
                f"The weights of {self._call.model} on {place} are not those of the model that was given: it was "
                "changed in memory, or its files were. Save it, and give the folder."
            )
        prompts = encode_prompts(plan.prompts, plan.facts.keeps_text)
        streamed = plan.model.placement == "stream"
        return Planned(identity, plan.notes, library_versions(), prompts, plan.work, streamed, place)

    def shards(self, label: str, indices: Sequence[int]) -> dict[int, Datasets]:
        """The results of some shards of a plan."""
        plan, found = self._planned(label), dict[int, Datasets]()
        if label not in self._begun:
            self._begun[label] = plan.begin()
        plan.compute(indices, found.__setitem__, progress=False, wave=self._begun[label])
        return found

    def derived(self, label: str, merged: Datasets) -> dict[str, xr.Dataset]:
        """Run-level results, from those of all shards."""
        return self._planned(label).derived(merged)

    def _planned(self, label: str) -> SurveyPlan:
        if not self._plans:
            if Path(self._call.folder).is_dir():
                os.chdir(self._call.folder)
            torch.set_num_threads(1)
            self._plans[""] = self._call.survey.plan(load(self._call.model, **self._call.loading), self._call.prompts)
            for control in self._call.controls:
                control.require(self._plans[""].model)
        if label not in self._plans:
            own = self._plans[""]
            # one control at a time: each may be a copy of the model
            self._plans, self._begun = {"": own}, {}
            [control] = [one for one in self._call.controls if one.label == label]
            self._plans[label] = self._call.survey.plan(*control.of(own.model, own.prompts))
        return self._plans[label]
