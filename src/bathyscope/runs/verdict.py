"""The verdict: how many of its blocks a model uses, in three numbers on one scale, and in three sentences.

Every depth is stated in *blocks done*, x of L in [0, L]. Each prompt has three:

- readable: the mean over its tokens of the boundary from which on the likeliest token is the final one (lens);
- own: the blocks until 90 % of the summed effect on the output of leaving out one block (skip, ``output_all``);
- later: the same of the effect on the output at later tokens only (skip, ``output_future``).

The run's readings are means over prompts with bootstrap intervals (clusters drawn whole where they are named). Where
*readable* and *own* lie within one block of each other, one depth is stated, the mean of the two; else the verdict
says that the readings disagree, and why that may be. How often these readings are right on models of known depth:
docs/design/planted_depth.md.

Where controls were surveyed beside the model (``survey(control="untrained:3")``), each reading stands beside what they
read, and only the difference, paired by prompt, is put down to training.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy import stats

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.errors import OptionError
from bathyscope.measures.curves import one_norm
from bathyscope.statistics.bootstrap import Interval, mean_interval, mean_variance

Datasets = Mapping[str, xr.Dataset]
Row = dict[str, str | float]

SHARE = 0.9
"""Of the summed effect, until which blocks are counted."""
CLOSE = 1.0
"""Blocks by which two readings may differ and still agree; also the width of an interval that says enough."""
RESAMPLES = 1000
LEVEL = 0.95
"""Coverage of every interval."""

_SAYS = {"readable": "the point where the likeliest token stands", "own": "the work of blocks on the output"}
_OPEN = {
    "sharpened": "blocks go on changing the output after the likeliest token stands, as where they sharpen "
    "probabilities, or where blocks share weights",
    "hidden": "leaving out one block shows less than the lens, as where blocks back each other up",
    "missing": "lens and skip effects of blocks were not both measured",
}


@dataclass(frozen=True)
class Null:
    """What controls of one kind read, and how far the run is from it.

    Args:
        by_control: [S, P], a row a seed.
        difference: [S, P], the run less its control, paired by prompt.
        cluster: [P], prompts of one number count as one; None = each for itself.
    """

    by_control: FloatArray
    difference: FloatArray
    cluster: IntArray | None = None

    @property
    def seeds(self) -> int:
        """S, the number of controls."""
        return len(self.by_control)

    @property
    def value(self) -> float:
        """The mean reading of the controls, in blocks done."""
        return _mean(self.by_control)

    @property
    def moved(self) -> float:
        """The mean difference: the run less its controls."""
        return _mean(self.difference)

    @cached_property
    def interval(self) -> Interval:
        """Student's interval of the difference between the run's model and untrained ones.

        Were the model untrained too, it would be one draw more: its variance is that of a mean over prompts plus
        (1 + 1/S) times that between seeds, with Satterthwaite's degrees of freedom. One seed shows no spread between
        seeds, so that the interval then speaks of that one control.
        """
        there = ~np.isnan(self.difference).any(0)
        known, cluster = self.difference[:, there], None if self.cluster is None else self.cluster[there]
        of_prompts, freedom_of_prompts = mean_variance(known.mean(0) if known.size else [], cluster)
        if math.isnan(of_prompts):
            return Interval(math.nan, math.nan)
        parts = [(of_prompts, freedom_of_prompts)]
        if self.seeds > 1:
            parts.append(((1 + 1 / self.seeds) * float(known.mean(1).var(ddof=1)), self.seeds - 1.0))
        total = sum(variance for variance, _ in parts)
        if total == 0:
            return Interval(self.moved, self.moved)
        freedom = total**2 / sum(variance**2 / own for variance, own in parts)
        reach = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(total)
        return Interval(self.moved - reach, self.moved + reach)

    @property
    def differs(self) -> bool:
        """The interval leaves out 0."""
        return self.interval.low > 0 or self.interval.high < 0

    @property
    def same(self) -> bool:
        """The interval lies within one block of 0: as good as no difference."""
        return self.interval.low > -CLOSE and self.interval.high < CLOSE

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.moved:+z.1f}" if math.isnan(low) else f"{self.moved:+z.1f} ({low:+z.1f} to {high:+z.1f})"


@dataclass(frozen=True)
class Reading:
    """One depth of a run, in blocks done.

    Args:
        name: ``readable``, ``own`` or ``later``.
        by_prompt: [P], NaN for a prompt that has none.
        n_blocks: L.
        seed: of the resampling.
        nulls: what controls read, by kind.
        cluster: [P], prompts of one number are resampled as one; None = each for itself.
    """

    name: str
    by_prompt: FloatArray
    n_blocks: int
    seed: int = 0
    nulls: Mapping[str, Null] = field(default_factory=dict)
    cluster: IntArray | None = None

    @property
    def null(self) -> Null | None:
        """What untrained models of this shape read; None where none was surveyed."""
        return self.nulls.get("untrained")

    @property
    def value(self) -> float:
        """The mean over prompts, 0 … L; NaN where no prompt has one."""
        return _mean(self.by_prompt)

    @cached_property
    def _interval(self) -> Interval:
        there, limits = ~np.isnan(self.by_prompt), (0.0, float(self.n_blocks))
        cluster = None if self.cluster is None else self.cluster[there]
        known = self.by_prompt[there]
        return mean_interval(known, resamples=RESAMPLES, level=LEVEL, seed=self.seed, limits=limits, cluster=cluster)

    @property
    def low(self) -> float:
        """Lower end of the interval over prompts; NaN with fewer than two."""
        return self._interval.low

    @property
    def high(self) -> float:
        """Upper end of the interval over prompts."""
        return self._interval.high

    @property
    def ratio(self) -> float:
        """The value as a share of L."""
        return self.value / self.n_blocks

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "not measured"
        return f"{self.value:.1f}" if math.isnan(self.low) else f"{self.value:.1f} ({self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a run says of its model's use of depth.

    Args:
        readable, own, later: the three readings, causal ones NaN where skip effects were not measured.
        n_blocks: L.
    """

    readable: Reading
    own: Reading
    later: Reading
    n_blocks: int

    @property
    def agree(self) -> bool:
        """Whether readable and own lie within one block of each other."""
        return abs(self.readable.value - self.own.value) <= CLOSE

    @property
    def depth(self) -> float | None:
        """The one depth, the mean of readable and own; None where they disagree."""
        return self._joint.value if self.agree else None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why no single depth is stated; empty where one is."""
        if self.agree:
            return ()
        difference = self.own.value - self.readable.value
        return (_OPEN["missing" if math.isnan(difference) else "sharpened" if difference > 0 else "hidden"],)

    @property
    def advice(self) -> str:
        """What would make the verdict say more; empty where nothing is needed."""
        if math.isnan(self.readable.value) or math.isnan(self.own.value):
            return "Survey with the measures lens and skip."
        # NaN where one of the two has no interval
        widest = float(np.max([self.readable.high - self.readable.low, self.own.high - self.own.low]))
        cluster = self.readable.cluster
        units = self.readable.by_prompt.size if cluster is None else np.unique(cluster).size
        if math.isnan(widest):
            return "One prompt has no interval: survey at least ten."
        if widest > CLOSE:
            wanted = math.ceil(units * (widest / CLOSE) ** 2)
            which = "the depth" if self.agree else "both depths"
            what = "prompts" if cluster is None else "clusters of prompts"
            return f"To know {which} within a block, survey about {wanted} {what}."
        return ""

    @property
    def text(self) -> str:
        """At most three short sentences."""
        rest = self._later_sentence() if self.agree else ""
        last = self._control_sentence() or self.advice
        return " ".join(part for part in (self._depth_sentence(), rest, last) if part)

    @property
    def details(self) -> tuple[str, ...]:
        """What stands under the text, a sentence each: why readings differ, the third reading, what would tell more."""
        why = [f"Why they may differ: {reason}." for reason in self.reasons if not math.isnan(self.own.value)]
        found = [*why, self._later_sentence(), self.advice]
        return tuple(part for part in found if part and part not in self.text)

    def rows(self) -> list[Row]:
        """A row for every reading and kind of control, for tables; one a reading where there are no controls."""
        found: list[Row] = []
        for one in (self.readable, self.own, self.later):
            head: Row = {"reading": one.name, "blocks": one.value, "low": one.low, "high": one.high, "ratio": one.ratio}
            beside = [self._null_row(kind, null) for kind, null in one.nulls.items()]
            found += [{**head, **null} for null in beside or [{}]]
        return found

    @staticmethod
    def _null_row(kind: str, null: Null) -> Row:
        low, high = null.interval
        found: Row = {"control": kind, "seeds": null.seeds, "null": null.value}
        return found | {"difference": null.moved, "difference_low": low, "difference_high": high}

    @property
    def _joint(self) -> Reading:
        both = (self.readable.by_prompt + self.own.by_prompt) / 2
        return replace(self.readable, name="depth", by_prompt=both, nulls={})

    def _depth_sentence(self) -> str:
        counted = f"its {self.n_blocks} blocks" if self.n_blocks > 1 else "its one block"
        if self.agree:
            return f"This model uses about {self._joint} of {counted} to reach its prediction."
        if math.isnan(self.own.value):
            return f"The next token can be read after {self.readable} of {counted}."
        read, matter = f"the next token can be read after {self.readable}", f"until {self.own}"
        found = (
            f"{read} blocks, and the output still changes {matter}"
            if self.own.value > self.readable.value
            else f"leaving out a block matters {matter}, and {read} blocks only"
        )
        return f"Two ways to count disagree on how many of {counted} this model uses. {found[:1].upper()}{found[1:]}."

    def _later_sentence(self) -> str:
        if math.isnan(self.later.value):
            return ""
        return f"What later tokens use of a token is done after {self.later} blocks."

    def _control_sentence(self) -> str:
        """What of the depth is due to training; empty without untrained controls."""
        nulls = {one.name: one.null for one in (self.readable, self.own) if one.null is not None}
        if not nulls:
            return ""
        seeds = next(iter(nulls.values())).seeds
        models = f"{seeds} untrained models of its shape"
        listed = " and ".join(f"{_SAYS[name]} by {null}" for name, null in nulls.items())
        if seeds == 1:  # which shows nothing of how far untrained models lie apart
            return (
                f"It differs from one untrained model of its shape in {listed} blocks; three would tell what training "
                "moved."
            )
        if any(null.differs for null in nulls.values()):
            return f"Against {models}, training moved {listed} blocks."
        if all(null.same for null in nulls.values()):
            return f"Nothing here depends on training: {models} differ by less than a block."
        return f"Whether training matters here is open: against {models}, it moved {listed} blocks."

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def verdict_of(
    measures: Datasets,
    controls: Mapping[str, Datasets] | None = None,
    seed: int = 0,
    cluster: IntArray | None = None,
    n_blocks: int | None = None,
) -> Verdict:
    """The verdict from the datasets of a run; only ``lens`` and ``skip`` are looked at.

    Args:
        measures: the run's datasets by name.
        controls: those of its controls, under names such as ``untrained-0``; on the same prompts in the same order.
        seed: of resampling.
        cluster: [P], prompts of one number are resampled as one; None = each for itself.
        n_blocks: L; None = as the lens's boundaries tell.

    Raises:
        OptionError: there is no lens, or one without depths of tokens.
    """
    if "lens" not in measures:
        raise OptionError(
            "A verdict needs the lens, and skip effects of blocks; this run has "
            f"{', '.join(measures) or 'no measure'}. Survey with measures=['lens', 'skip']."
        )
    if "prediction_depth" not in measures["lens"]:
        raise OptionError(
            "A verdict needs prediction_depth of the lens, which this run is without: an early version wrote it, or "
            "some variables were selected. Survey again with measures=['lens', 'skip'], or ask the whole run."
        )
    found = _by_prompt(measures)
    beside: dict[str, list[dict[str, FloatArray]]] = {}
    for label, datasets in (controls or {}).items():
        beside.setdefault(label.rpartition("-")[0], []).append(_by_prompt(datasets))
    n_blocks = measures["lens"].sizes["boundary"] - 1 if n_blocks is None else n_blocks
    readings = {}
    for name, values in found.items():
        rows = {kind: np.stack([one[name] for one in every]) for kind, every in beside.items()}
        nulls = {kind: Null(row, values - row, cluster) for kind, row in rows.items()}
        readings[name] = Reading(name, values, n_blocks, seed, nulls, cluster)
    return Verdict(**readings, n_blocks=n_blocks)


def _by_prompt(measures: Datasets) -> dict[str, FloatArray]:
    """Each reading of every prompt, [P]."""
    lens, skip = one_norm(measures["lens"]), measures.get("skip")
    readable = np.asarray(lens["prediction_depth"].values, dtype=np.float64)
    effects = dict.fromkeys(("own", "later"), np.full(readable.shape, np.nan))
    if skip is not None and "block" in skip["part"].values:
        for name, variable in (("own", "output_all"), ("later", "output_future")):
            if variable in skip:
                effect_PL = skip[variable].sel(part="block", reduction="mean").transpose("prompt", "skipped")
                effects[name] = blocks_until(effect_PL.values)
    return {"readable": readable, **effects}


def blocks_until(effect: ArrayLike, share: float = SHARE) -> FloatArray:
    """Blocks until ``share`` of the summed effect ``[..., L]`` is reached, [...]: 0 … L, between blocks by proportion.

    NaN where an effect is not known, and where they sum to nothing.
    """
    values = np.asarray(effect, dtype=np.float64)
    total = values.sum(-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        done = np.cumsum(values, -1) / total
    last = np.argmax(done >= share, axis=-1)
    reached = np.take_along_axis(done, last[..., None], -1)[..., 0]
    own = np.take_along_axis(values / np.where(total > 0, total, 1.0), last[..., None], -1)[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        place = last + 1 - (reached - share) / own
    return np.asarray(np.where(total[..., 0] > 0, place, np.nan), dtype=np.float64)


def _mean(values: FloatArray) -> float:
    """Of the values that are there; NaN where none is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan
