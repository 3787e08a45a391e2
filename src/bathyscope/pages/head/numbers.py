"""The numbers of a depth profile, read from a run once: every picture and every sentence of it uses these alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.core.text import counted, without_folders
from bathyscope.errors import BathyscopeError, StoreError
from bathyscope.labels import mean_limits
from bathyscope.measures.curves import in_blocks_done
from bathyscope.prompts.parts import clusters_in
from bathyscope.runs.by_place import ByPlace, check_whole_depth, cost_of_leaving_out, why_no_cost
from bathyscope.runs.depth_rows import MEASURE
from bathyscope.runs.kept import AGREEMENT, KEPT, token_shares
from bathyscope.runs.names import model_names
from bathyscope.runs.paired import contradiction, is_of_its_model, is_paired, paired_controls, unlike_options
from bathyscope.runs.readings import DepthReading
from bathyscope.runs.run import Run
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.sampling import Sampling

if TYPE_CHECKING:
    from bathyscope.runs.head import RunHead
    from bathyscope.runs.verdict import Verdict

CRITERIA: Final = {"kl": "KL", "cosine": "cosine", "overlap": "top-k overlap"}
"""The papers' whole-numbered criteria: estimator → its name on a picture."""


@dataclass(frozen=True)
class Points:
    """Means with intervals along the depth.

    Args:
        places: boundaries or blocks, whole numbers in order.
        mean, low, high: one for each place; NaN where it is missing.
        joint_low, joint_high: ends of intervals that hold for all places at once; empty where places are not compared.
    """

    places: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    joint_low: tuple[float, ...] = ()
    joint_high: tuple[float, ...] = ()

    def curve(self, n_blocks: int, over: float) -> list[tuple[float, float]]:
        """Return the places that have a mean, each with it, as every picture draws them.

        Args:
            n_blocks: of the model.
            over: blocks of the picture. A model of another number of blocks is drawn over the share of its own depth.
        """
        return [(place * over / n_blocks, mean) for place, mean in zip(self.places, self.mean) if not math.isnan(mean)]

    def band(self) -> list[tuple[int, float, float]]:
        """Return the places that have an interval, each with its ends; empty where a single one has."""
        ends = [end for end in zip(self.places, self.low, self.high) if not math.isnan(end[1])]
        return ends if len(ends) > 1 else []

    @classmethod
    def of(cls, quantity: ByPlace) -> Points:
        """Take the means and intervals of a quantity."""
        return cls(
            tuple(quantity.places),
            tuple(quantity.mean.tolist()),
            *zip(*quantity.intervals, strict=True),
            *zip(*quantity.joint_intervals, strict=True),
        )

    def at(self, place: int) -> float:
        """Return the mean at a place; NaN where it was not measured."""
        return self.mean[self.places.index(place)] if place in self.places else math.nan


@dataclass(frozen=True)
class Mark:
    """One depth in blocks done.

    Args:
        name: ``half`` (``readable`` in runs of earlier versions) or ``own``, the reading that it is.
        value, low, high: the reading and its interval over prompts, NaN ends without one.
    """

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ControlProfile:
    """What controls of one kind show.

    Args:
        kind: such as ``untrained``.
        curves: share of tokens by boundary, one for each seed.
        n_blocks: L of each seed's model.
        marks: depths, means over seeds, with intervals over prompts.
    """

    kind: str
    curves: tuple[Points, ...]
    n_blocks: tuple[int, ...]
    marks: tuple[Mark, ...]

    @property
    def label(self) -> str:
        """The kind in words."""
        return self.kind.replace("_", " ")


@dataclass(frozen=True)
class Profile:
    """Everything that a depth profile draws and says.

    Args:
        model, dataset: names without folders.
        n_blocks: L; 0 where the run does not tell.
        prompts, tokens: how many were measured; 0 tokens where the run does not tell.
        share: of tokens that have, and keep, their final prediction, by boundary (in runs of earlier versions: that
            have it); None without the lens.
        marks: the depths of the head, those that were measured.
        costs: loss added without one block, by block; None without drop, and where it left no block out as a whole.
        why_no_costs: the reason; empty where there are costs, and where no prompt has a loss.
        criteria: estimator → depth in blocks done, by the papers' criteria.
        controls: what controls show, by kind.
        verdict: the readings and how they are worded; None without the lens.
        notes: what could not be shown, and why.
        of_states: whether stored states of a served model were measured, which tell nothing of what its blocks do.
    """

    model: str
    dataset: str
    n_blocks: int
    prompts: int
    tokens: int
    share: Points | None = None
    marks: tuple[Mark, ...] = ()
    costs: Points | None = None
    why_no_costs: str = ""
    criteria: Mapping[str, float] = field(default_factory=dict)
    controls: tuple[ControlProfile, ...] = ()
    verdict: Verdict | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = ()
    of_states: bool = False

    @property
    def head(self) -> RunHead | None:
        """What is said first; None without the lens."""
        return None if self.verdict is None else self.verdict.head

    @property
    def losses(self) -> tuple[float, ...]:
        """Loss when the model is read out, by boundary, nats a token; empty where it is not known."""
        if self.head is None or np.isnan(self.head.loss).all():
            return ()
        return tuple(self.head.loss.tolist())

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return self.n_blocks == 0 or (self.share is None and self.costs is None and not self.marks)

    def mark(self, name: str) -> Mark | None:
        """Return a depth by the name of its reading; None where it was not measured."""
        return next((mark for mark in self.marks if mark.name == name), None)


def read_profile(run: Run, cluster: str | None = None) -> Profile:
    """Read the numbers of a run's profile.

    Args:
        cluster: label of prompts that intervals resample as one.

    Raises:
        OptionError: a run with only some of its blocks; a label that makes no clusters.
    """
    check_whole_depth(run)
    verdict = run.verdict_by(cluster) if run.judged else None
    costs = cost_of_leaving_out(run, cluster)
    readings = () if verdict is None else (verdict.head.tokens, verdict.head.effect)
    cost_points = None if costs is None or np.isnan(costs.mean).all() else Points.of(costs)
    return Profile(
        model=model_names([run.identity.model])[0],
        dataset=without_folders(run.identity.dataset),
        n_blocks=count_blocks(run),
        prompts=_count_prompts(run),
        tokens=_count_tokens(run),
        share=_read_share(run, cluster),
        marks=_read_marks(readings),
        costs=cost_points,
        why_no_costs=why_no_cost(run),
        criteria=_read_criteria(run),
        controls=_read_controls(run, verdict, cluster),
        verdict=verdict,
        notes=tuple(_note_unpaired(run)),
        of_states=run.stored is not None,
    )


def _note_unpaired(run: Run) -> list[str]:
    """Count the controls that are not compared with the run, by the reason."""
    unpaired = run.controls.keys() - set(paired_controls(run))
    if not unpaired or not run.judged:
        return []
    misnamed = [label for label in unpaired if contradiction(run, label)]
    others = [label for label in unpaired if label not in misnamed and not is_of_its_model(run, label)]
    copies = [label for label in unpaired if is_paired(run, label)]
    explained = {*others, *copies, *misnamed}
    unlike = [label for label in unpaired if label not in explained and unlike_options(run, label)]
    reasons = {
        "of another model": len(others),
        "copied from the run or another control": len(copies),
        "not what the name says": len(misnamed),
        "measured with other options": len(unlike),
        "of other prompts or without depths": len(unpaired) - len(explained) - len(unlike),
    }
    counts = {
        reason: f"{counted(number, 'control')} {'is' if number == 1 else 'are'}"
        for reason, number in reasons.items()
        if number
    }
    return [f"{subject} {reason}, and left out of every difference from the run." for reason, subject in counts.items()]


def _read_share(run: Run, cluster: str | None) -> Points | None:
    if "lens" not in run or AGREEMENT not in run["lens"]:
        return None
    name = KEPT if KEPT in run["lens"] else AGREEMENT
    shares = token_shares(run["lens"], name)
    if shares is None or shares.by_prompt.size == 0 or np.isnan(shares.by_prompt).all():
        return None
    values = run["lens"][name]
    # Tokens are pooled, so that the curve passes one half where the head says so.
    intervals = mean_intervals(
        shares.by_prompt,
        Sampling(seed=run.identity.seed, cluster=clusters_in(values, cluster)),
        limits=mean_limits(name, shares.by_prompt),
        weights=shares.tokens,
    )
    return Points(
        tuple(int(place) for place in values["boundary"].values),
        tuple(shares.pooled.tolist()),
        tuple(interval.low for interval in intervals),
        tuple(interval.high for interval in intervals),
    )


def _read_marks(readings: tuple[DepthReading, ...]) -> tuple[Mark, ...]:
    return tuple(
        Mark(reading.name, reading.value, reading.low, reading.high)
        for reading in readings
        if not math.isnan(reading.value)
    )


def _read_criteria(run: Run) -> dict[str, float]:
    if MEASURE not in run:
        return {}
    depths = in_blocks_done(run[MEASURE])["depth"]
    depth_by_name = dict(zip(depths["estimator"].values.tolist(), depths.values.tolist()))
    return {name: depth_by_name[name] for name in CRITERIA if not math.isnan(depth_by_name.get(name, math.nan))}


def _read_controls(run: Run, verdict: Verdict | None, cluster: str | None) -> tuple[ControlProfile, ...]:
    runs_by_kind: dict[str, list[Run]] = {}
    for label, control in run.controls.items():
        runs_by_kind.setdefault(label.rpartition("-")[0] or label, []).append(control)
    controls = []
    for kind, control_runs in runs_by_kind.items():
        shares = [(_read_share(control, cluster), control.n_blocks) for control in control_runs]
        present = [(share, n_blocks) for share, n_blocks in shares if share is not None]
        readings = () if verdict is None else (verdict.head.tokens, verdict.head.effect)
        # The mean over seeds is a reading of its own, with an interval over the same prompts as the run's.
        marks = [
            Mark(r.name, r.nulls[kind].value, *r.nulls[kind].interval_of_value(r.sampling, r.n_blocks))
            for r in readings
            if kind in r.nulls
        ]
        controls.append(
            ControlProfile(
                kind,
                tuple(share for share, _ in present),
                tuple(n_blocks for _, n_blocks in present),
                tuple(mark for mark in marks if not math.isnan(mark.value)),
            )
        )
    return tuple(controls)


def count_blocks(run: Run) -> int:
    """Return the number of blocks; 0 of a run that does not tell it."""
    try:
        return run.n_blocks
    except StoreError:
        return 0


def _count_prompts(run: Run) -> int:
    sizes = [run[name].sizes["prompt"] for name in run if "prompt" in run[name].sizes and name != "tokens"]
    return sizes[0] if sizes else run.identity.prompts


def _count_tokens(run: Run) -> int:
    for name in run:
        if name != "tokens" and "n_tokens" in run[name].coords:
            return int(run[name]["n_tokens"].sum())
    try:
        return sum(len(prompt) for prompt in run.prompts)
    # A run that stored neither lengths nor prompts still has a profile.
    except (BathyscopeError, TypeError):
        return 0
