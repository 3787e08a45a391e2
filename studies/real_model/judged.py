"""The claims judged: which hold for which model, and which an untrained model of its shape meets as well."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import xarray as xr

from studies.real_model.claims import Claim
from studies.real_model.gemma3_bounds import claims_about
from studies.real_model.jobs import SHUFFLED, UNTRAINED
from studies.real_model.models import REAL_MODELS, ModelKey, RealModel
from studies.real_model.quantities import read
from studies.real_model.reading import LEVEL, QUANTITIES, Reading, decide

NOT_YET: Final = "not measured yet"
_PAPERS: Final = {"csordas2025": "C", "hu2025": "H", "lad2024": "L"}
_HEADINGS: Final = (
    "claim",
    "quantity",
    "model",
    "bound",
    "measured",
    "untrained",
    "untrained passes",
    "shuffled",
    "decision",
)

Stored = Mapping[str, Mapping[str, xr.Dataset]]
"""Name of a model or of a control of it → job → what was stored."""


class Row(NamedTuple):
    """A claim about a model: by its bound there, what was read of the model and of its controls."""

    real: RealModel
    claim: Claim
    by_model: Mapping[str, Reading]
    corrected: Reading | None = None
    """The model's reading with an interval that holds together with those of all other claims; None = not measured."""

    @property
    def decision(self) -> str:
        """The decision in words."""
        return decision(self.claim, self.by_model, self.real.key)

    @property
    def corrected_decision(self) -> str:
        """The decision in words by the interval that holds together with those of all other claims."""
        by_model: dict[str, Reading] = {} if self.corrected is None else {self.real.key: self.corrected}
        return decision(self.claim, by_model, self.real.key)

    @property
    def untrained(self) -> list[float]:
        """The quantity of every untrained model that was measured; NaN = undefined there."""
        return [self.by_model[name].value for name in UNTRAINED if name in self.by_model]

    @property
    def passes(self) -> str:
        """How many untrained models meet the bound."""
        return untrained_passes(self.claim, self.untrained)

    @property
    def stands_apart(self) -> bool:
        """Whether all untrained models read less than the model's whole interval, or all of them more."""
        model, present = self.by_model[self.real.key], [value for value in self.untrained if value == value]
        return bool(present) and (max(present) < model.low or model.high < min(present))


def rows_of(real: RealModel, stored: Stored) -> list[Row]:
    """Return every claim about a model, with what is stored of it."""
    claims = claims_about(real)
    # Bonferroni: as many intervals as there are claims hold together with the level of one
    level = 1 - (1 - LEVEL) / len(claims)
    own = stored.get(real.key, {})
    return [
        Row(real, claim, readings(claim, stored), readings(claim, {real.key: own}, level).get(real.key))
        for claim in claims
    ]


def readings(claim: Claim, stored: Stored, level: float = LEVEL) -> dict[str, Reading]:
    """Model → what a claim's quantity reads there, of the models whose surveys are all there.

    Args:
        level: coverage of the intervals.
    """
    if claim.key not in QUANTITIES:
        return {}
    jobs = QUANTITIES[claim.key][0]
    return {model: read(claim.key, surveys, level) for model, surveys in stored.items() if set(jobs) <= set(surveys)}


def decision(claim: Claim, by_model: Mapping[str, Reading], model: str = "smollm2") -> str:
    """In words, with the reason where there is none."""
    reading = by_model.get(model)
    if reading is None:
        return NOT_YET
    if reading.value != reading.value:
        return "cannot be decided, because the quantity is undefined"
    outcome = decide(claim, reading)
    return f"{outcome}, because the interval crosses the bound" if outcome == "cannot be decided" else outcome


def untrained_passes(claim: Claim, values: Sequence[float]) -> str:
    """Return whether all, some or no untrained models meet a bound.

    A bound that all of them meet is no sign of training, though the quantity may be (``Row.stands_apart``). Values of
    few prompts are compared without an interval. The number of models is said where it is below three.
    """
    if not values:
        return "–"
    present = [value for value in values if value == value]
    if not present:
        return "undefined"
    met = [decide(claim, Reading(value, value, value)) == "holds" for value in present]
    words = "all" if all(met) and len(present) == len(values) else "some" if any(met) else "none"
    return words if len(values) >= len(UNTRAINED) else f"{words} of {len(values)}"


def summary(rows: Mapping[ModelKey, list[Row]]) -> Iterator[str]:
    for key, real in REAL_MODELS.items():
        words = [row.decision.partition(",")[0] for row in rows[key]]
        counts = {word: words.count(word) for word in ("holds", "does not hold", "cannot be decided", NOT_YET)}
        corrected = [row.corrected_decision for row in rows[key]]
        yield (
            f"**{real.short}.** Of {len(rows[key])} claims {counts['holds']} hold, {counts['does not hold']} do not "
            f"hold, {counts['cannot be decided']} cannot be decided, and {counts[NOT_YET]} are not measured yet. "
            f"{_next_to_untrained([row for row in rows[key] if row.decision == 'holds'])} "
            f"With intervals that hold for all {len(rows[key])} claims together (Bonferroni), "
            f"{corrected.count('holds')} hold and {corrected.count('does not hold')} do not hold."
        )
        yield ""


def _next_to_untrained(holding: Sequence[Row]) -> str:
    """Return how many claims that hold are met by untrained models too, and where their numbers differ all the same."""
    passes = [row.passes for row in holding]
    apart = sum(row.stands_apart for row in holding if row.passes == "all")
    return (
        f"Of the {len(passes)} that hold, {passes.count('all')} are met by all three untrained models too, so that "
        f"meeting the bound says nothing of training (the quantity may: in {apart} of them every untrained model reads "
        f"a value outside of the interval), {passes.count('some')} by some, {passes.count('none')} by none; "
        f"the rest: fewer than three untrained models {sum(' of ' in words for words in passes)}, undefined in them "
        f"{passes.count('undefined')}, no untrained model {passes.count('–')}."
    )


def claims_table(rows: Mapping[ModelKey, list[Row]]) -> Iterator[str]:
    yield f"| {' | '.join(_HEADINGS)} |"
    yield f"|{'---|' * len(_HEADINGS)}"
    for same_claim in zip(*rows.values(), strict=True):
        for place, row in enumerate(same_claim):
            named = (f"{_PAPERS[row.claim.paper]} {row.claim.figure}: {row.claim.text}", row.claim.quantity)
            cells = [
                *(named if place == 0 else ("", "")),
                row.real.short,
                row.claim.bound,
                describe_reading(row.by_model.get(row.real.key)),
                describe_range(row.untrained),
                row.passes,
                describe_range([row.by_model[SHUFFLED].value] if SHUFFLED in row.by_model else []),
                f"**{row.decision}**",
            ]
            yield f"| {' | '.join(cells)} |"
    yield ""


def agreement_table(rows: Mapping[ModelKey, list[Row]]) -> Iterator[str]:
    """Where the papers' statements hold on both models, on one, on none; of the claims that both decide."""
    first, second = REAL_MODELS.values()
    headings = ("paper", "holds on both", f"on {first.short} alone", f"on {second.short} alone", "on neither", "open")
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for paper, letter in _PAPERS.items():
        pairs = [pair for pair in zip(*rows.values(), strict=True) if pair[0].claim.paper == paper]
        decided = [tuple(row.decision for row in pair) for pair in pairs]
        counts = [
            sum(words == (one, other) for words in decided)
            for one, other in itertools.product(("holds", "does not hold"), repeat=2)
        ]
        yield f"| {letter} | {' | '.join(map(str, [*counts, len(pairs) - sum(counts)]))} |"
    yield ""
    yield "*Open*: not decided, or not measured yet, on one of the two models or on both."
    yield ""


def describe_reading(reading: Reading | None) -> str:
    """Return a value with its interval; a dash where nothing was measured."""
    if reading is None:
        return "–"
    if reading.value != reading.value:
        return "undefined"
    if reading.low == reading.high:
        return f"{reading.value:.2f}"
    return f"{reading.value:.2f} ({reading.low:.2f} to {reading.high:.2f})"


def describe_range(values: list[float]) -> str:
    """Return the smallest and the largest of some values; a dash where nothing was measured."""
    present = [value for value in values if value == value]
    if not present:
        return "undefined" if values else "–"
    low, high = f"{min(present):.2f}", f"{max(present):.2f}"
    return low if low == high else f"{low} to {high}"
