"""The verdict: how deep in a model its predictions are made, as three readings and at most three sentences.

The readings (``runs.readings``) are means over prompts in *blocks done*, x of L in [0, L], with bootstrap intervals;
clusters of prompts are resampled whole. Where *readable* and *own* lie within one block of each other, one depth is
stated, the mean of the two; else the verdict says that the readings disagree, and why that may be.

Where controls were surveyed with the model (``survey(control="untrained:3")``), each reading is compared with theirs,
and only the difference, paired by prompt, is put down to training: an untrained model has depths too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.core.cycles import Cycle
from bathyscope.core.text import capitalised
from bathyscope.errors import OptionError
from bathyscope.measures.curves import one_norm
from bathyscope.runs.departures import Departure, Settings, departures, protected_tokens, reads_later_tokens
from bathyscope.runs.readings import (
    CLOSE,
    LEVEL,
    Datasets,
    DepthReading,
    Null,
    mean_of,
    readings_by_prompt,
)
from bathyscope.statistics.bootstrap import Interval, bootstrap_interval
from bathyscope.statistics.reduce import weighted_mean
from bathyscope.statistics.sample_size import FEWEST, units_needed
from bathyscope.statistics.sampling import cluster_weights

__all__ = ["CLOSE", "DepthReading", "Null", "Verdict", "verdict_of"]

Row = dict[str, str | float]

EFFECT_DONE = "90 % of the effect on output is done by"
"""How the reading *own* is worded, in sentences and on pages alike."""
NO_EFFECT = "leaving out single blocks changes no output"
"""How it is worded where it is 0."""
_SUBJECTS = {"readable": "the depth of tokens", "own": "the work of blocks"}
_REASONS = {
    "sharpened": "blocks go on changing the output after the top-1 token is final, as where they sharpen "
    "probabilities, or where blocks share weights",
    "hidden": "leaving out one block shows less than the lens, as where blocks back each other up",
    "missing": "lens and skip effects of blocks were not both measured",
}


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a run says of its model's use of depth.

    Args:
        readable, own, later: the three readings, NaN where they were not measured.
        n_blocks: L.
        changed_by_last: share of tokens whose top-1 token the last block changes; NaN where the lens does not tell.
        departed: options under which a reading is not the definition's.
        skipped_parts: what was left out, such as ``("block",)``; empty where skip effects were not measured.
        cut: whether skip effects were measured and this part of the run is without them.
        has_means: whether the change of the output was reduced to means over tokens, which are what is read.
        cycle: which loop and block each step is, of a model that runs blocks several times; None for others.
    """

    readable: DepthReading
    own: DepthReading
    later: DepthReading
    n_blocks: int
    changed_by_last: float = math.nan
    departed: tuple[Departure, ...] = ()
    skipped_parts: tuple[str, ...] = ("block",)
    cut: bool = False
    has_means: bool = True
    cycle: Cycle | None = None

    @property
    def agree(self) -> bool:
        """Whether readable and own lie within one block of each other."""
        return abs(self.readable.value - self.own.value) <= CLOSE

    @property
    def depth(self) -> float | None:
        """The one depth, the mean of readable and own; None where they disagree."""
        return self._middle if self.agree else None

    @property
    def interval(self) -> Interval:
        """The interval of the mean of readable and own over prompts, or clusters; NaN where either has none."""
        # Two means of the same prompts: their own intervals say nothing of how far they go together.
        if math.isnan(self.readable.low) or math.isnan(self.own.low):
            return Interval(math.nan, math.nan)
        both = self.readable, self.own
        sampling = self.readable.sampling
        # One draw of prompts serves both readings, which are of the same prompts and go together.
        counts_RP = sampling.counts(self.readable.by_prompt.size)
        # each reading over the prompts that have it, as it is printed; a resample without any of them says nothing
        resampled = [weighted_mean(reading.by_prompt[:, None], counts_RP)[:, 0] for reading in both]
        fewest = min(both, key=lambda reading: reading.units)
        has_value = ~np.isnan(fewest.by_prompt)
        return bootstrap_interval(
            self._middle,
            np.asarray((resampled[0] + resampled[1]) / 2),
            cluster_weights(np.ones(has_value.sum()), sampling.take(has_value).cluster),
            level=sampling.level,
            limits=(0.0, float(self.n_blocks)),
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why no single depth is stated; empty where one is."""
        if self.agree:
            return ()
        difference = self.own.value - self.readable.value
        return (_REASONS["missing" if math.isnan(difference) else "sharpened" if difference > 0 else "hidden"],)

    @property
    def advice(self) -> str:
        """What would make the verdict say more; empty where nothing is needed."""
        return self._missing_advice() or self._interval_advice() or self._precision_advice()

    @property
    def text(self) -> str:
        """At most three short sentences."""
        second = self._later_sentence() if self.agree else self._disagreement_sentence()
        last = self._control_sentence() or self.advice
        return " ".join(sentence for sentence in (self._depth_sentence(), second, last) if sentence)

    @property
    def details(self) -> tuple[str, ...]:
        """What stands under the text, a sentence each: why readings differ, the third reading, what would tell more."""
        why = [f"Why they may differ: {reason}." for reason in self.reasons if not math.isnan(self.own.value)]
        departed = [f"With {departure.option}, {departure.meaning}." for departure in self.departed]
        sentences = [*why, self._later_sentence(), *departed, self._coverage_sentence(), self.advice]
        return tuple(sentence for sentence in sentences if sentence and sentence not in self.text)

    def rows(self) -> list[Row]:
        """A row for every reading and kind of control, for tables; one a reading where there are no controls."""
        rows: list[Row] = []
        for reading in (self.readable, self.own, self.later):
            head: Row = {
                "reading": reading.name,
                "blocks": reading.value,
                "low": reading.low,
                "high": reading.high,
                "ratio": reading.ratio,
            }
            controls = [self._null_row(kind, null) for kind, null in reading.nulls.items()]
            rows += [{**head, **control} for control in controls or [{}]]
        return rows

    @staticmethod
    def _null_row(kind: str, null: Null) -> Row:
        low, high = null.interval
        row: Row = {"control": kind, "seeds": null.seeds, "null": null.value}
        return row | {"difference": null.moved, "difference_low": low, "difference_high": high}

    @property
    def _middle(self) -> float:
        return (self.readable.value + self.own.value) / 2

    def in_loops(self, depth: float) -> str:
        """Return a depth in loops, in brackets, such as `` (2.6 of 4 loops)``; empty for a model without loops."""
        text = "" if self.cycle is None else self.cycle.in_loops(depth)
        return f" ({text})" if text else ""

    def _depth_sentence(self) -> str:
        counted = _counted(self.n_blocks, "block")
        last = f"; the last block still changes {_percent(self.changed_by_last)}" if self._last_block_matters else ""
        if self.agree:
            depth = f"{self._middle:.1f}{_between(self.interval)}"
            return (
                f"The prediction settles after about {depth} of {counted}{self.in_loops(self._middle)} on average"
                f"{f'{last} of tokens' if last else ''}{self._caveats()}."
            )
        if math.isnan(self.own.value) and math.isnan(self.readable.value):
            return f"No depth was read: no prompt has one{self._caveats()}."
        if math.isnan(self.own.value):
            loops = self.in_loops(self.readable.value)
            return f"A token is final after {self.readable} of {counted}{loops} on average{last}{self._caveats()}."
        if math.isnan(self.readable.value):
            if self.own.value == 0:
                return f"{capitalised(NO_EFFECT)}{self._caveats()}."
            loops = self.in_loops(self.own.value)
            return f"{EFFECT_DONE} {self.own} of {counted}{loops} on average{self._caveats()}."
        return self._both_sentence()

    def _disagreement_sentence(self) -> str:
        """That the readings disagree; empty where one is missing, since the first sentence then has the other."""
        if math.isnan(self.own.value) or math.isnan(self.readable.value):
            return ""
        return f"The two readings disagree{self._caveats()}."

    def _both_sentence(self) -> str:
        """Both readings in one sentence, where they disagree."""
        last = f" (the last block still changes {_percent(self.changed_by_last)})" if self._last_block_matters else ""
        loops, done = self.in_loops(self.readable.value), f"{self.own}{self.in_loops(self.own.value)}"
        token = f"A token is final after {self.readable} of {_counted(self.n_blocks, 'block')}{loops} on average{last}"
        if self.own.value == 0:
            return f"{token}; {NO_EFFECT}."
        already = "" if self.own.value > self.readable.value else "already "
        return f"{token}; {already}{EFFECT_DONE} {done}."

    @property
    def _last_block_matters(self) -> bool:
        return not math.isnan(self.changed_by_last) and round(100 * self.changed_by_last) > 0

    def _caveats(self) -> str:
        """What a reader must know to read the number right, in brackets: no control, departures from the definition."""
        caveats = []
        if self._untrained is None:
            other = "untrained " if self.readable.nulls else ""
            caveats.append(f"no {other}control: an untrained model has depths too")
        if self.departed:
            caveats.append(f"not the standard definition: {', '.join(departure.option for departure in self.departed)}")
        return f" ({'; '.join(caveats)})" if caveats else ""

    def _later_sentence(self) -> str:
        if math.isnan(self.later.value):
            return ""
        return f"90 % of the effect on later tokens is done by {self.later}."

    def _coverage_sentence(self) -> str:
        """How many prompts have each reading, where it is not all of them."""
        partial = [
            f"{reading.name} for {reading.units} of {_counted(reading.all_units, self._unit)}"
            for reading in (self.readable, self.own, self.later)
            if 0 < reading.units < reading.all_units
        ]
        return f"Readings that not all {self._unit}s have: {', '.join(partial)}." if partial else ""

    @property
    def _unit(self) -> str:
        return "prompt" if self.readable.cluster is None else "cluster"

    @property
    def _untrained(self) -> Null | None:
        return self.readable.null

    def _control_sentence(self) -> str:
        """What of the depth is due to training; empty without untrained controls."""
        if self._untrained is None:
            return ""
        seeds = self._untrained.seeds
        nulls = {
            reading.name: reading.null
            for reading in (self.readable, self.own)
            if reading.null is not None and not math.isnan(reading.null.moved)
        }
        models = _counted(seeds, "untrained model")
        if not nulls:
            return f"Nothing can be said of training: no prompt has a reading here and in the {models} of this shape."
        if seeds == 1:  # which shows nothing of how far untrained models lie apart
            values = " and ".join(f"{null.value:.1f} ({_SUBJECTS[name]})" for name, null in nulls.items())
            return f"One untrained model of this shape reads {values}; at least three would tell what training moved."
        moved = [f"{_SUBJECTS[name]} by {null}" for name, null in nulls.items() if null.differs]
        same = [_SUBJECTS[name] for name, null in nulls.items() if null.same and not null.differs]
        unclear = [
            f"{_SUBJECTS[name]} ({null.in_brackets})"
            for name, null in nulls.items()
            if not null.same and not null.differs
        ]
        if not moved and not unclear:
            verb = "is" if len(same) == 1 else "are"
            return f"In {models} of this shape {' and '.join(same)} {verb} the same within a block."
        clauses = [f"training moved {' and '.join(moved)} blocks"] if moved else []
        if same:
            clauses.append(f"{same[0]} is the same within a block")
        if unclear:
            clauses.append(f"whether training moved {' and '.join(unclear)} is open")
        return f"Against {models} of this shape, {'; '.join(clauses)}."

    def _missing_advice(self) -> str:
        """What to survey for a reading that the run does not have."""
        if not math.isnan(self.readable.value) and not math.isnan(self.own.value):
            return ""
        if self.cut:
            return "This part of the run is without skip effects on the output: ask the whole run."
        if not self.skipped_parts:
            return "To learn how long blocks change the output, survey with skip too (--measures lens,skip)."
        if "block" not in self.skipped_parts:
            parts = ", ".join(self.skipped_parts)
            return f"Skip left out {parts} alone: leave out whole blocks too (--skip.parts block)."
        if not self.has_means:
            return "Skip was asked for no means of the output: survey with them too (--skip.output_reductions mean)."
        lacking = [reading.name for reading in (self.readable, self.own) if math.isnan(reading.value)]
        return f"No prompt has the reading {' or '.join(lacking)}: survey longer prompts."

    def _interval_advice(self) -> str:
        """Why a reading has no interval; empty where both have one."""
        lacking = next((reading for reading in (self.readable, self.own) if math.isnan(reading.low)), None)
        if lacking is None:
            return ""
        unit, prompts = self._unit, self.readable.by_prompt.size
        needed = f"an interval needs at least two {unit}s, better ten or more"
        if lacking.units < lacking.all_units:
            return f"Only {lacking.units} of {lacking.all_units} {unit}s has the reading {lacking.name}: {needed}."
        if unit == "cluster" and prompts > 1:
            return f"All {prompts} prompts belong to one cluster: {needed}."
        return f"Only one {unit}: {needed}."

    def _precision_advice(self) -> str:
        """How many prompts would make the interval a block wide; empty where it is."""
        ends = (
            [self.interval]
            if self.agree
            else [Interval(reading.low, reading.high) for reading in (self.readable, self.own)]
        )
        # Intervals shrink with the root of the prompts; the wider of two depths decides how many are needed.
        widest = max(high - low for low, high in ends)
        if widest <= CLOSE:
            return ""
        what = "the depth" if self.agree else "both depths"
        units, plural = min(self.readable.units, self.own.units), f"{self._unit}s"
        if self._unit == "cluster":
            plural = "clusters of prompts"
        if units < FEWEST:
            return (
                f"{units} {plural} are too few to tell how many would give {what} to within one block: "
                "survey ten or more."
            )
        fewest, most = units_needed(widest, units, CLOSE, LEVEL)
        return f"To know {what} to within one block, survey about {fewest} to {most} {plural}."

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def verdict_of(
    measures: Datasets,
    controls: Mapping[str, Datasets] | None = None,
    seed: int = 0,
    cluster: IntArray | None = None,
    n_blocks: int | None = None,
    settings: Settings | None = None,
    cycle: Cycle | None = None,
) -> Verdict:
    """The verdict from the datasets of a run; only ``lens`` and ``skip`` are looked at.

    Args:
        measures: the run's datasets by name.
        controls: those of its controls, under names such as ``untrained-0``; on the same prompts in the same order.
        seed: of resampling.
        cluster: [P], prompts of one number are resampled as one; None = each for itself.
        n_blocks: L; None = as the lens's boundaries tell.
        settings: measure → its options, as they were surveyed; None = the defaults.
        cycle: which loop and block each step is, of a model that runs blocks several times.

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
    settings = settings or {}
    n_blocks = measures["lens"].sizes["boundary"] - 1 if n_blocks is None else n_blocks

    def by_prompt(datasets: Datasets) -> dict[str, FloatArray]:
        return readings_by_prompt(
            datasets, later_is_read=reads_later_tokens(settings), protect_first=protected_tokens(settings)
        )

    controls_by_kind: dict[str, list[dict[str, FloatArray]]] = {}
    for label, datasets in (controls or {}).items():
        controls_by_kind.setdefault(label.rpartition("-")[0], []).append(by_prompt(datasets))
    readings: dict[str, DepthReading] = {}
    for name, values in by_prompt(measures).items():
        rows = {kind: np.stack([seed_of[name] for seed_of in seeds]) for kind, seeds in controls_by_kind.items()}
        nulls = {kind: Null(row, values - row, cluster) for kind, row in rows.items()}
        readings[name] = DepthReading(name, values, n_blocks, seed, nulls, cluster)
    skip = measures.get("skip")
    return Verdict(
        readable=readings["readable"],
        own=readings["own"],
        later=readings["later"],
        n_blocks=n_blocks,
        changed_by_last=_changed_by_last(measures["lens"]),
        departed=departures(settings, has_skip=skip is not None),
        skipped_parts=() if skip is None or "part" not in skip.coords else tuple(map(str, skip["part"].values)),
        cut="skip" in settings and (skip is None or "output_all" not in skip),
        has_means="mean" in ((settings.get("skip") or {}).get("output_reductions") or ["mean"]),
        cycle=cycle,
    )


def _changed_by_last(lens: xr.Dataset) -> float:
    """Share of tokens whose top-1 token before the last block is not the final one, a mean over prompts."""
    if "top1_agreement" not in lens or lens.sizes["boundary"] < 2:
        return math.nan
    agreement = one_norm(lens)["top1_agreement"].isel(boundary=-2)
    return mean_of(1 - np.asarray(agreement.values, dtype=np.float64))


def _between(interval: Interval) -> str:
    """`` (low to high)``, empty where there is no interval."""
    return "" if math.isnan(interval.low) else f" ({interval.low:.1f} to {interval.high:.1f})"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
