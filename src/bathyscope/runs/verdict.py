"""The verdict: how deep in a model its predictions are made, as a head, its readings, and at most three sentences.

The head (``runs.head``) says where half of the tokens keep their prediction and where 90 % of the effect on the output
is done, in *blocks done*, x of L in [0, L], with bootstrap intervals over prompts; clusters of prompts are resampled
whole. Tokens and effects are compared at equal quantiles, 90 % of each, with an interval of their difference: within
one block of each other, different, or open.

Where controls were surveyed with the model (``survey(control="untrained:3")``), each number of the head is compared
with theirs, and only the difference, paired by prompt, is put down to training: an untrained model has depths too.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from bathyscope.core.estimates import Estimate
from bathyscope.core.text import capitalised, counted, signed, written_out
from bathyscope.prompts.beginnings import MOSTLY
from bathyscope.prompts.prompts import copies_in_words
from bathyscope.runs.departures import Departure
from bathyscope.runs.head import NO_EFFECT, RunHead, percent
from bathyscope.runs.kept import QUANTILES
from bathyscope.runs.readings import CLOSE, LEVEL, RESAMPLES, DepthReading, Null
from bathyscope.statistics.difference import Contrast, paired_difference
from bathyscope.statistics.sample_size import FEWEST, units_needed
from bathyscope.statistics.sampling import Sampling

__all__ = ["CLOSE", "DepthReading", "Null", "Verdict"]

Row = dict[str, str | float]

_SUBJECTS: Final = {"half": "the prediction", "readable": "the prediction", "own": "the effect"}
"""What training moves, in a word; the sentence says in brackets which depth of it is meant."""
_DEPTHS: Final = {
    "half": "the depth from which half of the tokens keep their prediction",
    "readable": "the mean depth from which tokens keep their prediction",
    "own": "the depth by which 90 % of the effect is done",
}
_REASONS: Final = {
    "sharpened": "blocks go on changing the output after the top-1 token is final, as where they sharpen "
    "probabilities, or where blocks share weights",
    "hidden": "leaving out one block shows less than the lens, as where blocks back each other up",
}
WITHIN: Final = "within"
DIFFERENT: Final = "different"
OPEN: Final = "open"
UNKNOWN: Final = "unknown"
_STATES: Final = "states of a served model, which tell no effect of its blocks"
_UNCONFIRMED: Final = "predictions as the head gives them, not compared with those that were served"
_OLD: Final = "When half of the tokens keep theirs is not stored in this run: survey again."


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a run says of its model's use of depth.

    Args:
        half, tokens_90: from where half, and 90 %, of all tokens keep their prediction; NaN where the run does not
            store it.
        readable, own, later: means over prompts, NaN where they were not measured.
        head: what is said first.
        departed: options under which a reading is not the definition's.
        skipped_parts: what was left out, such as ``("block",)``; empty where skip effects were not measured.
        cut: whether skip effects were measured and this part of the run is without them.
        has_means: whether the change of the output was reduced to means over tokens, which are what is read.
        copies: prompts that have the tokens of others, with which intervals take them as one.
        in_common: share of the tokens of the readings that stand in beginnings which prompts share.
        stored: boundaries of the stored states that were measured; None = the model was run.
        confirmed: whether the predictions are known to be the model's: not where a head reads stored states that do not
            tell what was served.
    """

    half: DepthReading
    tokens_90: DepthReading
    readable: DepthReading
    own: DepthReading
    later: DepthReading
    head: RunHead
    departed: tuple[Departure, ...] = ()
    skipped_parts: tuple[str, ...] = ("block",)
    cut: bool = False
    has_means: bool = True
    copies: int = 0
    in_common: float = 0.0
    stored: tuple[int, ...] | None = None
    confirmed: bool = True

    @property
    def n_blocks(self) -> int:
        """L, the number of blocks."""
        return self.head.n_blocks

    @property
    def changed_by_last(self) -> float:
        """Share of tokens whose top-1 token the last block changes; NaN where the lens does not tell."""
        return self.head.changed_by_last

    @cached_property
    def apart(self) -> Contrast:
        """Blocks until 90 % of the effect on the output, less those until 90 % of tokens keep their prediction.

        Paired by prompt, with an interval; NaN where no prompt has both.
        """
        both = (self.tokens_90.statistic, self.own.statistic)
        if not np.logical_and(*(reading.has_value for reading in both)).any():
            return Contrast(math.nan, (), ())
        return paired_difference(*both, Sampling(RESAMPLES, LEVEL, self.own.seed))

    @cached_property
    def agreement(self) -> str:
        """Tokens and effects at 90 % of each: ``within`` a block, ``different``, ``open``, or ``unknown``.

        Within where the interval of ``apart`` lies within one block of 0, different where it leaves out 0 and does not,
        else open; unknown where one of them was not measured.
        """
        if math.isnan(self.apart.estimate):
            return UNKNOWN
        low, high = self.apart.ci_low, self.apart.ci_high
        if low > -CLOSE and high < CLOSE:
            return WITHIN
        return DIFFERENT if low > 0 or high < 0 else OPEN

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why tokens and effects may lie apart; empty where they are not shown to."""
        if self.agreement != DIFFERENT:
            return ()
        return (_REASONS["sharpened" if self.apart.estimate > 0 else "hidden"],)

    @property
    def advice(self) -> str:
        """What would make the verdict say more; empty where nothing is needed."""
        return self._missing_advice() or self._interval_advice() or self._precision_advice()

    @property
    def text(self) -> str:
        """At most three short sentences, the head first."""
        last = self._control_sentence() or self.advice
        return " ".join(sentence for sentence in (*self._head_sentences(), last) if sentence)

    @property
    def details(self) -> tuple[str, ...]:
        """What is under the text, a sentence each: equal quantiles, what stopping costs, what would tell more."""
        departed = [f"With {departure.option}, {departure.meaning}." for departure in self.departed]
        sentences = [
            self._agreement_sentence(),
            *(f"Why they may differ: {reason}." for reason in self.reasons),
            self.head.stopping_sentence,
            self._later_sentence(),
            _OLD if self.head.is_mean and not math.isnan(self.head.tokens.value) else "",
            *departed,
            self._coverage_sentence(),
            self.advice,
        ]
        return tuple(sentence for sentence in sentences if sentence and sentence not in self.text)

    def rows(self) -> list[Row]:
        """A row for every reading and kind of control, for tables; one a reading where there are no controls."""
        rows: list[Row] = []
        for reading in (self.half, self.tokens_90, self.readable, self.own, self.later):
            if reading.name in QUANTILES and math.isnan(reading.value):
                continue
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

    def _head_sentences(self) -> list[str]:
        """The head's sentences; what a reader must know to read them right is at the end."""
        sentences = [text for text in (self.head.tokens_sentence, self.head.effect_sentence) if text]
        if not sentences:
            sentences = ["No depth was read: no prompt has one"]
        *first, last = sentences
        caveats = f" ({'; '.join(self.caveats)})" if self.caveats else ""
        return [*(f"{sentence}." for sentence in first), f"{last}{caveats}."]

    def _agreement_sentence(self) -> str:
        """How far tokens and effects lie apart at 90 % of each; empty where one was not measured."""
        if self.agreement == UNKNOWN:
            return ""
        # each from the prompts that have both, as the difference is
        tokens, effect = self.apart.estimates
        apart = Estimate(self.apart.estimate, self.apart.ci_low, self.apart.ci_high)
        agreement_words = {
            WITHIN: "within one block of each other",
            DIFFERENT: "different",
            OPEN: "whether they differ is open",
        }[self.agreement]
        return (
            f"At equal shares, 90 % of the tokens keep their prediction from {tokens:.1f} on and 90 % of the effect is "
            f"done by {effect:.1f}: {agreement_words} ({apart.write_in_brackets(signed)})."
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader must know to read the numbers right: no control, departures from the definition, copies."""
        caveats = []
        if self.stored is not None:
            caveats.append(_STATES)
            if not self.confirmed:
                caveats.append(_UNCONFIRMED)
            if self._lacks_boundaries:
                caveats.append(f"read at boundaries {written_out(self.stored)} alone: a depth is the first of these")
        if self._untrained is None:
            other = "untrained " if self.head.tokens.nulls else ""
            caveats.append(f"no {other}control: an untrained model has depths too")
        if self.departed:
            caveats.append(f"not the standard definition: {', '.join(departure.option for departure in self.departed)}")
        if self.copies:
            caveats.append(copies_in_words(self.copies, self.readable.by_prompt.size))
        if self.in_common >= MOSTLY:
            caveats.append(f"{percent(self.in_common)} of the tokens stand in beginnings that prompts share")
        return tuple(caveats)

    def _later_sentence(self) -> str:
        if math.isnan(self.later.value):
            return ""
        if self.later.value == 0:
            return f"{capitalised(NO_EFFECT)} at later tokens."
        return f"90 % of the effect on later tokens is done by {self.later}."

    def _coverage_sentence(self) -> str:
        """How many prompts have each reading, where it is not all of them."""
        partial = [
            f"{reading.name} for {reading.units} of {counted(reading.all_units, self._unit)}"
            for reading in (self.head.tokens, self.own, self.later)
            if 0 < reading.units < reading.all_units
        ]
        return f"Readings that not all {self._unit}s have: {', '.join(partial)}." if partial else ""

    @property
    def _deciding(self) -> tuple[DepthReading, ...]:
        """The two numbers of the head; of stored states the first, since nothing tells the other."""
        return (self.head.tokens,) if self.stored is not None else (self.head.tokens, self.head.effect)

    @property
    def _lacks_boundaries(self) -> bool:
        """Whether some boundaries of the model were not stored."""
        return self.stored is not None and len(self.stored) <= self.n_blocks

    @property
    def _unit(self) -> str:
        if self.readable.cluster is None:
            return "prompt"
        # where copies alone are drawn together there is a cluster for every prompt that is none
        are_copies = np.unique(self.readable.cluster).size == self.readable.by_prompt.size - self.copies
        return "different prompt" if are_copies else "cluster"

    @property
    def _untrained(self) -> Null | None:
        return self.head.tokens.null

    def _control_sentence(self) -> str:
        """What of the depth is due to training; empty without untrained controls."""
        if self._untrained is None:
            return ""
        seeds = self._untrained.seeds
        nulls = {
            reading.name: reading.null
            for reading in self._deciding
            if reading.null is not None and not math.isnan(reading.null.moved)
        }
        models = counted(seeds, "untrained model")
        if not nulls:
            return f"Nothing can be said of training: no prompt has a reading here and in the {models} of this shape."
        if seeds == 1:  # which shows nothing of how far untrained models lie apart
            values = " and ".join(f"{null.value:.1f} ({_DEPTHS[name]})" for name, null in nulls.items())
            return f"One untrained model of this shape reads {values}; at least three would tell what training moved."
        subjects = {name: f"{_SUBJECTS[name]} ({_DEPTHS[name]})" for name in nulls}
        moved = [f"{subjects[name]} {null.in_words}" for name, null in nulls.items() if null.differs]
        same = [subjects[name] for name, null in nulls.items() if null.same and not null.differs]
        unclear = [
            f"{_SUBJECTS[name]} ({_DEPTHS[name]}: {null.in_brackets} blocks)"
            for name, null in nulls.items()
            if not null.same and not null.differs
        ]
        if not moved and not unclear:
            verb = "is" if len(same) == 1 else "are"
            return f"In {models} of this shape {' and '.join(same)} {verb} the same within a block."
        clauses = [f"training moved {' and '.join(moved)}"] if moved else []
        if same:
            clauses.append(f"{same[0]} is the same within a block")
        if unclear:
            clauses.append(f"whether training moved {' and '.join(unclear)} is open")
        return f"Against {models} of this shape, {'; '.join(clauses)}."

    def _missing_advice(self) -> str:
        """What to survey for a reading that the run does not have."""
        if not any(math.isnan(reading.value) for reading in self._deciding):
            return ""
        if self.stored is not None:
            return "No prompt has a reading: store longer prompts."
        if self.cut:
            return "This part of the run is without skip effects on the output: ask the whole run."
        if not self.skipped_parts:
            return "To learn how long blocks change the output, survey with skip too (--measures lens,skip)."
        if "block" not in self.skipped_parts:
            parts = ", ".join(self.skipped_parts)
            return f"Skip left out {parts} alone: leave out whole blocks too (--skip.parts block)."
        if not self.has_means:
            return "Skip was asked for no means of the output: survey with them too (--skip.output_reductions mean)."
        lacking = [reading.name for reading in self._deciding if math.isnan(reading.value)]
        return f"No prompt has the reading {' or '.join(lacking)}: survey longer prompts."

    def _interval_advice(self) -> str:
        """Why a reading has no interval; empty where both have one."""
        lacking = next((reading for reading in self._deciding if math.isnan(reading.low)), None)
        if lacking is None:
            return ""
        unit, prompts = self._unit, self.readable.by_prompt.size
        needed = f"an interval needs at least two {unit}s, better ten or more"
        if lacking.units < lacking.all_units:
            return f"Only {lacking.units} of {lacking.all_units} {unit}s has the reading {lacking.name}: {needed}."
        if unit != "prompt" and prompts > 1:
            together = "belong to one cluster" if unit == "cluster" else "are copies of one"
            return f"All {prompts} prompts {together}: {needed}."
        return f"Only one {unit}: {needed}."

    def _precision_advice(self) -> str:
        """How many prompts would make the interval a block wide; empty where enough of them show that it is."""
        # Intervals shrink with the root of the prompts; the wider of two depths decides how many are needed.
        widest = max(reading.high - reading.low for reading in self._deciding)
        what = "both depths" if self.stored is None else "this depth"
        if self._lacks_boundaries:
            return "To know the depth between these boundaries, store those between them too."
        units, plural = min(reading.units for reading in self._deciding), f"{self._unit}s"
        if self._unit == "cluster":
            plural = "clusters of prompts"
        if widest <= CLOSE:
            too_few = f"{units} {plural} are too few to trust intervals this narrow: survey ten or more."
            return too_few if units < FEWEST else ""
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
