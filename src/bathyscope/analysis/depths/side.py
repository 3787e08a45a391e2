"""One side of a comparison: a run, or some of its prompts, with its estimators and what it is called."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bathyscope.core.commands import name_command
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.measures.curves import COSINES, depth_inputs
from bathyscope.measures.of.effective_depth import DECLARATION, EffectiveDepthOptions
from bathyscope.options import require_different
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.runs.manifest import Identity
from bathyscope.runs.names import model_names, run_names
from bathyscope.runs.run import Run
from bathyscope.statistics.effective_depth import (
    ESTIMATORS,
    DepthEstimate,
    DepthInputs,
    effective_depth,
    estimators,
    measure_of,
)
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import Sampling

_OF_INTERVALS = ("resamples", "level", "cluster")
"""Options that say nothing of what was measured."""
DROP = "drop"


@dataclass(frozen=True, eq=False, repr=False)
class ComparedPrompts:
    """A run's prompts, or some of them, ready to be compared.

    Args:
        name: short and unique in the comparison.
        prompts: those of the run that count.
        options: thresholds of the estimators, the same for all sides.
        measures: those that the compared estimators are read off; the others count for nothing.
    """

    run: Run
    name: str
    prompts: Sequence[TokenizedPrompt]
    curves: DepthInputs
    options: EffectiveDepthOptions
    measures: tuple[str, ...] = DECLARATION.requires

    @property
    def identity(self) -> Identity:
        return self.run.identity

    @property
    def model(self) -> str:
        """Name of the model without folders or owner."""
        (name,) = model_names([self.identity.model])
        return name

    @property
    def n_blocks(self) -> int:
        return self.curves.n_blocks

    @property
    def prompt_ids(self) -> list[str]:
        return [prompt.id for prompt in self.prompts]

    @property
    def n_clusters(self) -> int:
        """Clusters that the prompts are in; the prompts themselves without clusters."""
        return len(self.prompts) if self.curves.cluster is None else np.unique(self.curves.cluster).size

    def where(self, chosen: NDArray[np.bool_], name: str) -> ComparedPrompts:
        """The side of some of the prompts."""
        by_prompt = {field.name: getattr(self.curves, field.name) for field in fields(self.curves)}
        cut: dict[str, Any] = {field: None if values is None else values[chosen] for field, values in by_prompt.items()}
        return replace(self, name=name, prompts=list(compress(self.prompts, chosen)), curves=DepthInputs(**cut))

    def readings(self) -> dict[str, Reading]:
        """Estimator → its reading of the ratio, for what the run has measured."""
        estimator_of = estimators(self.curves, self.options.kl_fraction, self.options.overlap_threshold)
        return {name: estimator.ratio(self.n_blocks) for name, estimator in estimator_of.items()}

    def estimates(self, sampling: Sampling) -> dict[str, DepthEstimate]:
        """Every estimator's depth with its own interval."""
        return effective_depth(
            self.curves,
            sampling,
            kl_fraction=self.options.kl_fraction,
            overlap_threshold=self.options.overlap_threshold,
        )


def sides_of(runs: Sequence[Run], chosen: Collection[str] = ESTIMATORS) -> list[ComparedPrompts]:
    """One side a run, each prompt by itself; the thresholds of the first run's effective depth serve all.

    Args:
        chosen: estimators that are compared; what the others need may be missing.
    """
    names = run_names(runs)
    for run, name in zip(runs, names):
        require_all_blocks(run, name)
    _refuse_repeated(runs)
    measures = tuple(measure for measure in DECLARATION.requires if measure in map(measure_of, chosen))
    for run, name in zip(runs, names):
        _require_measured(run, name, chosen)
    # One threshold for all: depths by different criteria could not be compared.
    options = _thresholds(runs[0])
    return [
        ComparedPrompts(run, name, run.prompts, replace(_curves(run, name, measures), cluster=None), options, measures)
        for run, name in zip(runs, names)
    ]


def readable_estimators(run: Run) -> tuple[str, ...]:
    """Return the estimators of which a run has measured all that they are read off."""
    if run.stored is not None and len(run.stored) <= run.n_blocks:
        return ()
    measured = {measure for measure in DECLARATION.requires if measure in run.measures}
    if run.stored is not None and not _tells_parts(run):
        measured.discard("residual")
    return tuple(estimator for estimator in ESTIMATORS if measure_of(estimator) in measured)


def _require_measured(run: Run, name: str, chosen: Collection[str]) -> None:
    """Refuse a run that lacks what a chosen estimator is read off."""
    needed = {estimator: measure_of(estimator) for estimator in chosen}
    lacking = [estimator for estimator, measure in needed.items() if measure not in run.measures]
    missing = [measure for measure in DECLARATION.requires if measure in {needed[each] for each in lacking}]
    if run.stored is None:
        if missing:
            possible = [each for each in ESTIMATORS if measure_of(each) in run.measures]
            others = f"Choose among the others (estimators=, --estimators): {', '.join(possible)}; or survey"
            raise OptionError(
                f"{name} lacks {', '.join(missing)} (it holds: {', '.join(run.measures) or 'nothing'}); "
                f"{', '.join(lacking)} {_are(lacking)} read off what is missing. {others if possible else 'Survey'} "
                "again with measures=[..., 'effective_depth']."
            )
        return
    if len(run.stored) <= run.n_blocks:
        raise OptionError(
            f"{name} is of stored states at {len(run.stored)} of {run.n_blocks + 1} boundaries, and a depth that is "
            "compared is of all of them. Survey states of all boundaries, or the model itself."
        )
    of_parts = [each for each, measure in needed.items() if measure == "residual" and not _tells_parts(run)]
    untold = [estimator for estimator in needed if estimator in lacking or estimator in of_parts]
    if untold:
        parts = [f"the parts of blocks ({', '.join(COSINES)})"] if set(of_parts) - set(lacking) else []
        possible = [estimator for estimator in ESTIMATORS if measure_of(estimator) == "lens"]
        raise OptionError(
            f"{name} is of stored states and lacks {', '.join([*missing, *parts])}, which {', '.join(untold)} "
            f"{_are(untold)} read off; states tell no effect and no part of a block. Choose among estimators of the "
            f"lens (estimators=, --estimators): {', '.join(possible)}. Survey the model itself where it can be run."
        )


def _tells_parts(run: Run) -> bool:
    return "residual" in run.measures and all(
        name in run["residual"] and bool(run["residual"][name].notnull().any()) for name in COSINES
    )


def _are(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


def require_all_blocks(run: Run, name: str) -> None:
    """Refuses a part of a run (``select``) that lacks some of the blocks."""
    if "blocks" in run.cut:
        raise OptionError(
            f"{name} is cut to some of its blocks, and a depth is of all of them; give the whole run, or some of its "
            "prompts."
        )


def chosen_estimators(names: Iterable[str], available: Collection[str], beginning: str) -> tuple[str, ...]:
    """Return names of estimators; ``beginning`` starts the sentence that refuses unknown ones.

    Raises:
        OptionError: an unknown name, one given twice, or none.
    """
    chosen = tuple(names)
    listed = ", ".join(available)
    for name in chosen:
        if name not in available:
            raise OptionError(f"{beginning} no estimator {name!r}.{did_you_mean(name, available)} Allowed: {listed}.")
    if not chosen:
        raise OptionError(f"No estimator was chosen; give at least one of: {listed}.")
    require_different(chosen, "estimators")
    return chosen


def differing_options(sides: Sequence[ComparedPrompts]) -> list[str]:
    """How runs were measured unlike the first, one sentence each: precision, how weights were stored, seed, options.

    Options of drop count where all runs have it, because costs of blocks are compared too.
    """
    measures = [*sides[0].measures, *([DROP] if all(DROP in side.run.measures for side in sides) else [])]
    first = _flat(sides[0].identity, measures)
    sentences = []
    for side in sides[1:]:
        settings = _flat(side.identity, measures)
        unlike = [
            f"{key} {first.get(key)!r} and {settings.get(key)!r}"
            for key in first | settings
            if first.get(key) != settings.get(key)
        ]
        if unlike and side.run is not sides[0].run:
            sentences.append(f"{sides[0].name} and {side.name} were measured differently: {'; '.join(unlike)}")
    return sentences


def _flat(identity: Identity, measures: Iterable[str]) -> dict[str, Any]:
    weights = "plain numbers" if identity.unpacked_from is None else f"unpacked from {identity.unpacked_from}"
    settings: dict[str, Any] = {"dtype": identity.dtype, "weights": weights, "seed": identity.seed}
    # depths are read off runs that were not asked for them too, with the usual thresholds
    usual = {DECLARATION.name: asdict(EffectiveDepthOptions())}
    for measure in (*measures, DECLARATION.name):
        measure_options = {**usual.get(measure, {}), **(identity.measures.get(measure) or {})}
        settings |= {f"{measure}.{key}": value for key, value in measure_options.items()}
    return {key: value for key, value in settings.items() if key.split(".")[-1] not in _OF_INTERVALS}


def _curves(run: Run, name: str, measures: Collection[str]) -> DepthInputs:
    try:
        return depth_inputs(*(run[measure] if measure in measures else None for measure in DECLARATION.requires))
    except KeyError as error:
        quoted = re.search(r"'\w+'", str(error))
        missing = quoted[0] if quoted else str(error)
        raise OptionError(
            f"{name} was measured without the variable {missing}, which effective depths are read off (by an earlier "
            "bathyscope, or without that option). Survey again with measures=[..., 'effective_depth']."
        ) from error


def _thresholds(run: Run) -> EffectiveDepthOptions:
    saved_options = run.identity.measures.get(DECLARATION.name) or {}
    option_names = {field.name for field in fields(EffectiveDepthOptions)}
    return EffectiveDepthOptions(**{name: value for name, value in saved_options.items() if name in option_names})


def _refuse_repeated(runs: Sequence[Run]) -> None:
    # Two objects may be one folder, opened twice or by a link.
    places = [id(run) if run.path is None else run.path.resolve() for run in runs]
    for run, place in zip(runs, places):
        if places.count(place) > 1:
            if any("prompts" in other.cut for other, its in zip(runs, places) if its == place):
                raise _parts_of_one(run)
            raise OptionError(
                f"The same run was given twice ({_place_of(run)}); a run does not differ from itself. Give each run "
                "once."
            )
    # parts of a run in memory, or of a copied folder, are other objects in other places
    for run, other in combinations(runs, 2):
        if "prompts" in (*run.cut, *other.cut) and run.manifest["identity"] == other.manifest["identity"]:
            raise _parts_of_one(run)
    _refuse_parts(runs)


def _place_of(run: Run) -> str:
    return "one in memory" if run.path is None else repr(str(run.path))


def _parts_of_one(run: Run) -> OptionError:
    return OptionError(
        f"Parts of one run were given ({_place_of(run)}), which can differ in their prompts alone. Compare groups of "
        f"its prompts by a label: group(run, by=...) ({name_command('group')} RUN --by LABEL)."
    )


def _refuse_parts(runs: Sequence[Run]) -> None:
    """Parts of one survey are one run, whose halves differ in their prompts alone."""
    unfinished = [run for run in runs if run.manifest["record"].get("finished", "") is None]
    for run, other in combinations(unfinished, 2):
        if run.manifest["identity"] == other.manifest["identity"]:
            folders = [shlex.quote(str(part.path)) for part in (run, other)]
            first_shards, others = (part.manifest["record"]["shards"] for part in (run, other))
            raise OptionError(
                f"{folders[0]} and {folders[1]} hold {len(first_shards)} and {len(others)} of the "
                f"{len(run.identity.plan)} shards of one survey (--part): they are one run, of one model on one set "
                f"of prompts. Join them ({name_command('join')} {' '.join(folders)} --out RUN), and compare that run "
                f"with others, or groups of its prompts with each other ({name_command('group')} RUN --by LABEL)."
            )
