"""The page of the study: claims with what came out, and the numbers behind them, from the stored results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from studies.real_model.page import put_between
from studies.saved_depth.differences import (
    Difference,
    Interval,
    Record,
    Stored,
    between_seeds,
    decide,
    difference,
    load_stored,
    over_models,
)
from studies.saved_depth.expected import (
    BLOCKS,
    BOUND,
    CLAIMS,
    CONTROLS,
    LEAST_PROBLEMS,
    LEAST_SOLVED,
    PRIMARY,
    READINGS,
    SEEDS,
    STEPS,
    Claim,
)
from studies.saved_depth.trainings import MIXING, WRITING

NOT_YET: Final = "not measured yet"
_MARKS: Final = "{name}: written by `python -m studies.saved_depth page`, do not edit"


def marks_of(name: str) -> tuple[str, str]:
    """Return the lines around a part of the page."""
    return f"<!-- {_MARKS.format(name=name)} -->", f"<!-- end of {name} -->"


def with_results(text: str, results: Path) -> str:
    """Return the page with its parts written again."""
    stored = load_stored(results)
    for name, lines in PARTS.items():
        text = put_between(text, *marks_of(name), "\n".join(lines(stored)))
    return text


def claims_table(stored: Stored) -> Iterator[str]:
    """What was claimed, what came out, and what follows."""
    yield f"| expected | by seed | mean, blocks | bound ±{BOUND:g} | untrained | less untrained |"
    yield "|---|---|---|---|---|---|"
    for claim in CLAIMS:
        result = difference(stored, claim, PRIMARY)
        cells = [NOT_YET, *[""] * 4] if result is None else _cells(result, claim)
        yield f"| {claim.text} | {' | '.join(cells)} |"


def _cells(result: Difference, claim: Claim) -> list[str]:
    seeds = [f"{_number(value)} ({count})" for value, count in zip(result.by_seed, result.shared)]
    null = (
        ["0, the same models", "as the mean"] if claim.same_prompts else [shown(result.untrained), shown(result.excess)]
    )
    return [", ".join(seeds), shown(result.trained), f"**{decide(result.trained)}**", *null]


def conclusions(stored: Stored) -> Iterator[str]:
    """A sentence for each claim: what follows, and what does not."""
    for claim in CLAIMS:
        result = difference(stored, claim, PRIMARY)
        if result is not None:
            yield f"- {sentence(claim, result)}"


def sentence(claim: Claim, result: Difference) -> str:
    """Return what follows of a claim from its difference."""
    decision = decide(result.trained)
    start = f"*{claim.subject}*:"
    if not math.isfinite(result.trained.low):
        few = ", ".join(str(count) for count in result.shared)
        return (
            f"{start} nothing follows. Both models of a seed solve {few} problems; at least {LEAST_PROBLEMS} are "
            f"needed, and each model must solve {100 * LEAST_SOLVED:.0f} %."
        )
    if decision == "cannot be decided":
        return f"{start} nothing follows. The interval holds 0 and reaches beyond the bound, {shown(result.trained)}."
    if decision == "less than the bound apart":
        return f"{start} the two depths are equal to within {BOUND:g} blocks, {shown(result.trained)}."
    text = f"{start} {decision}, {shown(result.trained)}."
    if claim.same_prompts:
        return text
    low, high = result.excess.low, result.excess.high
    if low <= 0 <= high:
        return f"{text} That training does it does not follow: untrained models differ by {shown(result.untrained)}."
    return f"{text} It is not only the longer prompt: untrained models differ by {shown(result.untrained)}."


def conditions_table(stored: Stored) -> Iterator[str]:
    """Accuracy and depth of every condition."""
    heads = [READINGS[name] for name in READINGS]
    yield f"| trained on | problems solved, by seed | {' | '.join(heads)} | untrained: {heads[0]} |"
    yield f"|---|---|{'---|' * (len(heads) + 1)}"
    for condition in (*WRITING, *MIXING):
        records = stored.get(condition.name)
        if records is None:
            yield f"| {condition.name} | {NOT_YET} |{' |' * (len(heads) + 1)}"
            continue
        shares = ", ".join(f"{np.mean(record['solved']):.2f}" for record in records)
        depths = [_possible(over_models([solved_mean(record, name) for record in records])) for name in READINGS]
        null = [float(np.nanmean(np.array(values, float))) for values in records[0]["untrained"][PRIMARY]]
        depths.append(_possible(over_models(null)))
        yield f"| {condition.name} | {shares} | {' | '.join(depths)} |"


def solved_mean(record: Record, reading: str) -> float:
    """Return the mean of a reading over the problems that a model solves."""
    values = np.array(record[reading], float)[np.array(record["solved"], bool)]
    return float(np.nanmean(values)) if np.isfinite(values).any() else math.nan


def others_table(stored: Stored) -> Iterator[str]:
    """The same differences by the other readings and by level; not judged."""
    yield "| difference, blocks | reading | trained, mean over seeds | untrained | less untrained |"
    yield "|---|---|---|---|---|"
    for claim in CLAIMS:
        for name, title in READINGS.items():
            if name == PRIMARY:
                continue
            result = difference(stored, claim, name)
            cells = ["–"] * 3 if result is None else _plain(result, claim)
            yield f"| {claim.subject} | {title} | {' | '.join(cells)} |"
        for level in claim.levels:
            result = difference(stored, claim, PRIMARY, level)
            cells = ["–"] * 3 if result is None else _plain(result, claim)
            yield f"| {claim.subject} | {READINGS[PRIMARY]}, k = {level} | {' | '.join(cells)} |"


def _plain(result: Difference, claim: Claim) -> list[str]:
    null = ["0", "as trained"] if claim.same_prompts else [shown(result.untrained), shown(result.excess)]
    return [shown(result.trained), *null]


def chance_lines(stored: Stored) -> Iterator[str]:
    """How far two seeds of one condition lie apart."""
    yield f"| trained on | {READINGS[PRIMARY]}: two seeds of the same condition differ by, blocks |"
    yield "|---|---|"
    for condition in (*WRITING, *MIXING):
        records = stored.get(condition.name)
        cells = NOT_YET if records is None else ", ".join(_number(v, "") for v in between_seeds(records, PRIMARY))
        yield f"| {condition.name} | {cells} |"
    yield ""
    seconds = [sum(record["cpu_seconds"].values()) for records in stored.values() for record in records]
    if seconds:
        yield (
            f"{len(seconds)} models, {sum(seconds) / 60:.0f} CPU minutes with all measurements; {CONTROLS} untrained "
            f"models of each shape; seeds {', '.join(map(str, SEEDS))}; optimiser steps: "
            f"{', '.join(f'{name} {count}' for name, count in STEPS.items())}."
        )


def losses_of_texts(stored: Stored) -> Iterator[str]:
    """Held-out losses of texts, which say whether they were learned at all."""
    yield "| trained on | loss of held-out text, nats a token, by seed | of frequencies of single tokens |"
    yield "|---|---|---|"
    for condition in MIXING:
        rows = [record["held_out"] for record in stored.get(condition.name, [])]
        if not rows:
            yield f"| {condition.name} | {NOT_YET} | |"
            continue
        losses = ", ".join(f"{row['text_loss']:.2f}" for row in rows)
        yield f"| {condition.name} | {losses} | {rows[0]['unigram_loss']:.2f} |"


def shown(interval: Interval, sign: str = "+") -> str:
    """Return a mean with its interval; a dash where it was not measured."""
    if not math.isfinite(interval.mean):
        return "–"
    mean, low, high = (_number(value, sign) for value in interval)
    return f"{mean} ({low} to {high})"


def _possible(depth: Interval) -> str:
    """Return a depth with its interval, whose ends are no further than a depth can be."""
    low, high = (min(max(end, 0.0), float(BLOCKS)) for end in (depth.low, depth.high))
    return shown(Interval(depth.mean, low, high), "")


def _number(value: float, sign: str = "+") -> str:
    return "–" if not math.isfinite(value) else f"{value:{sign}.2f}".replace("-", "−")


Part = Callable[[Stored], Iterator[str]]
PARTS: Final[Mapping[str, Part]] = {
    "claims": claims_table,
    "conclusions": conclusions,
    "conditions": conditions_table,
    "texts": losses_of_texts,
    "others": others_table,
    "chance": chance_lines,
}
"""Name between the marks → its lines."""
