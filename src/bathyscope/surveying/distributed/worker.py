"""One worker of a survey by many: it loads the model, plans the whole survey, and computes the shards it is given.

Nothing here knows how workers are started or reached. Each plans for itself from the same order, so that prompts,
sampled positions and shards are those of a single process; plans are compared before anything is computed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.model.identity import ModelIdentity, compare_models
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.difference import difference, listed, version_difference
from bathyscope.runs.manifest import library_versions
from bathyscope.runs.prompts import encode_prompts
from bathyscope.runs.shards import Datasets
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.computing import Computation
from bathyscope.surveying.controls import Control
from bathyscope.surveying.execution import derive
from bathyscope.surveying.plan import SurveyPlan


@dataclass(frozen=True)
class WorkOrder:
    """A survey as every worker is ordered to plan it.

    Args:
        model: its name or folder.
        loading: arguments of ``load``.
        identity: of the model that it has to be; None = whatever the name means.
        prompts: as for ``survey``.
        controls: what is surveyed besides the model.
        folder: where relative names begin.
    """

    model: str
    loading: Mapping[str, Any]
    identity: ModelIdentity | None
    survey: Survey
    prompts: Source | Prompts
    controls: Sequence[Control]
    folder: str


@dataclass(frozen=True)
class Planned:
    """What a worker has planned: all that the writer of the run needs to know.

    Args:
        identity, notes, versions: as in the run's manifest.
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
        """Refuse a worker whose results would not be those of another.

        Raises:
            ModelError: with every difference.
        """
        # written for a stored run and a request; here both are machines
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
    """Plans and computes on demand, one thing at a time, in a process of its own."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order
        self._plans: dict[str, SurveyPlan] = {}
        self._computations: dict[str, Computation] = {}

    def plan(self, label: str) -> Planned:
        """Plan the survey of the model, or of one of its controls, by its label; the model itself is "".

        Raises:
            OptionError, PromptError, ModelError: as ``survey``; other weights than asked for.
        """
        plan = self._planned(label)
        identity = plan.identity()
        place = f"{socket.gethostname()} ({identity['device']})"
        expected = self._order.identity
        if not label and expected is not None:
            agreement = compare_models(expected, ModelIdentity.of_record(identity), "the model", "its files")
            if agreement.differences:
                what = "weights" if "weights" in agreement.differences else "settings"
                raise ModelError(
                    f"The {what} of {self._order.model} on {place} are not those of the model that was given: "
                    f"it was changed in memory, or its files were ({agreement.text}). Save it, and give the folder."
                )
        prompts = encode_prompts(plan.prompts, plan.facts.keeps_text)
        streamed = plan.model.placement == "stream"
        return Planned(identity, plan.notes, library_versions(), prompts, plan.work, streamed, place)

    def shards(self, label: str, indices: Sequence[int]) -> dict[int, Datasets]:
        """Compute some shards of a plan."""
        plan = self._planned(label)
        if label not in self._computations:
            self._computations[label] = Computation(plan)
        results: dict[int, Datasets] = {}
        self._computations[label].compute(indices, results.__setitem__, progress=False)
        return results

    def derived(self, label: str, merged: Datasets) -> Datasets:
        """Derive run-level results from those of all shards."""
        return derive(self._planned(label), merged)

    def _planned(self, label: str) -> SurveyPlan:
        if not self._plans:
            if Path(self._order.folder).is_dir():
                os.chdir(self._order.folder)
            # of several workers on one machine each has a core; and sums over threads round by their number
            torch.set_num_threads(1)
            self._plans[""] = self._order.survey.plan(
                load(self._order.model, **self._order.loading), self._order.prompts
            )
            for control in self._order.controls:
                control.require(self._plans[""].model)
                control.require_prompts(self._plans[""].prompts)
        if label not in self._plans:
            model_plan = self._plans[""]
            # one control at a time: each may be a copy of the model
            self._plans, self._computations = {"": model_plan}, {}
            control = next(entry for entry in self._order.controls if entry.label == label)
            self._plans[label] = self._order.survey.plan(*control.of(model_plan.model, model_plan.prompts))
        return self._plans[label]
