"""A trial: a model, prompts that choose, other prompts that judge, and how sure their judgement is.

``prune``, ``repair``, ``repeat_scan`` and ``exit_advice`` begin with one. What could not judge is refused here, before
any compute, and every result describes model, prompts and intervals in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bathyscope.core.cycles import LOOPS, joined_blocks
from bathyscope.measures.costs import Over
from bathyscope.model import Model
from bathyscope.model.identity import identity_of
from bathyscope.model.reading import AS_IT_STANDS, PromptReading
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.samples import judging, require_answers, require_apart, token_hashes
from bathyscope.runs.folder import Kind
from bathyscope.runs.pieces import Pieces
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.trial.domains import Domains, DomainSources, read_domains, require_judges
from bathyscope.surgery.trial.ends import with_ends
from bathyscope.surgery.trial.ledger import Role


@dataclass(frozen=True, eq=False)
class Trial:
    """What an acting command is tried on.

    Args:
        model: the model as it is.
        test: prompts that judge, each once.
        sampling: of the test prompts, for intervals.
        calibration: prompts that choose; None = nothing is chosen, or by the test prompts.
        cluster: label of test prompts that are resampled as one; None = each for itself.
        folder: where finished work is stored, to be resumed; None = nowhere.
        domains: of both kinds of prompts; None = they are of no named domains.
        chosen_by: ``token_hashes`` of the calibration prompts as they were read; empty = nothing is chosen by them.
    """

    model: Model
    test: Prompts
    sampling: Sampling
    calibration: Prompts | None = None
    cluster: str | None = None
    folder: Path | None = None
    domains: Domains | None = None
    chosen_by: frozenset[str] = frozenset()

    @property
    def samples(self) -> dict[Role, Prompts]:
        """Prompts by the role that they have."""
        chosen: dict[Role, Prompts] = {} if self.calibration is None else {"calibration": self.calibration}
        return {**chosen, "test": self.test}

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of a result: the model, and how intervals were made."""
        numbers = self.sampling.cluster
        clusters = {} if numbers is None else {"cluster": self.cluster, "clusters": int(np.unique(numbers).size)}
        return {**model_record(self.model), **self.sampling.record, **clusters}

    @property
    def identity(self) -> dict[str, Any]:
        """Everything about a trial that could change a number, as a stored folder is recognised by it."""
        return {
            **model_record(self.model),
            # The same model rounds differently on another kind of device.
            "device": str(self.model.device.type),
            **{f"{role}_hash": prompts.hash for role, prompts in self.samples.items()},
            **self.sampling.record,
            **({} if self.cluster is None else {"cluster": self.cluster}),
            **({} if self.domains is None else {"joint": self.domains.joint}),
        }

    def until_ends(self) -> Trial:
        """Return the trial with the tokens by which the full model ends its prompts' answers among theirs."""
        calibration = None if self.calibration is None else with_ends(self.model, self.calibration)
        return replace(self, test=with_ends(self.model, self.test), calibration=calibration)

    def pieces(self, kind: Kind, settings: dict[str, Any]) -> AbstractContextManager[Pieces | None]:
        """Open the folder for finished pieces of work; None inside where there is no folder.

        Args:
            settings: what could change a number beyond the trial itself.

        Raises:
            StoreError: the folder holds something else, or another process writes it.
        """
        return nullcontext() if self.folder is None else Pieces(self.folder, kind, {**self.identity, **settings})


def read_trial(
    model: Model,
    test: Source | Prompts | DomainSources,
    calibration: Source | Prompts | DomainSources | None = None,
    *,
    sampling: Sampling,
    domains: Domains | None = None,
    cluster: str | None = None,
    over: Over = "tokens",
    reading: PromptReading = AS_IT_STANDS,
    folder: Path | None = None,
    title: str = "test prompts",
    prepare: Callable[[Prompts], Prompts] | None = None,
) -> Trial:
    """Read the prompts of a trial, and refuse those that cannot judge.

    Args:
        sampling: of the test prompts; its clusters are read here.
        domains: of both kinds of prompts, which are then given by domain.
        over: the tokens that count; where they are those of answers, every prompt has one.
        reading: how prompts are read.
        title: what messages call the prompts that judge.
        prepare: changes the prompts that judge before copies among them are counted.

    Raises:
        PromptError: fewer than two different prompts that judge, or one that chooses too; nothing to predict.
        OptionError: the prompts cannot be clustered by this label.
    """
    read = partial(reading.read, model, seed=sampling.seed)

    def read_role(source: Source | Prompts | DomainSources, role: str) -> Prompts:
        return read_domains(read, source, role) if isinstance(source, Mapping) else read(source)

    choosing = None if calibration is None else read_role(calibration, "calibration")
    whole = read_role(test, "test")
    # Copies are counted after the change, since different prompts may become the same one.
    judges = judging(whole if prepare is None else prepare(whole), title)
    if choosing is not None:
        require_apart(choosing, judges)
    if domains is not None:
        require_judges(domains, judges)
    hashes = frozenset[str]() if choosing is None else token_hashes(choosing)
    trial = Trial(model, judges, sampling, choosing, cluster, folder, domains, hashes)
    if over == "answer":
        require_answers(trial.samples)
    return replace(trial, sampling=replace(sampling, cluster=judges.clusters(cluster)))


def model_record(model: Model) -> dict[str, Any]:
    """Return what a result says of a model: its identity, and of a looped one the block of each step."""
    cycle = model.anatomy.cycle
    return {
        **identity_of(model).record(),
        **({} if cycle is None else {LOOPS: joined_blocks(cycle)}),
    }


def prompts_record(prompts: Prompts) -> dict[str, Any]:
    """Return what a record says of some prompts."""
    return {"name": prompts.dataset, "hash": prompts.hash, "prompts": len(prompts), "tokens": sum(prompts.lengths)}
