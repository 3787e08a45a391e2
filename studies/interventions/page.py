"""The page of the study: expectations with what came out, and the tables behind them, from the stored results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from studies.common.arrays import FloatArray
from studies.interventions.expected import EXPECTATIONS, INFINITE, WRITE_BOUND, Expectation
from studies.interventions.measuring import VARIANTS
from studies.interventions.quantities import (
    Quantity,
    Sample,
    Stored,
    arrays_of,
    decide,
    load_stored,
    loss_of_change,
    read_quantity,
    with_interval,
)
from studies.real_model.models import REAL_MODELS, ModelKey, RealModel
from studies.real_model.page import put_between
from studies.real_model.reading import Reading

NOT_YET: Final = "not measured yet"
_MARKS: Final = "{name}: written by `python -m studies.interventions page`, do not edit"
_MOST: Final = 5
"""Pairs that are named."""


def marks_of(name: str) -> tuple[str, str]:
    """Return the lines around a part of the page."""
    return f"<!-- {_MARKS.format(name=name)} -->", f"<!-- end of {name} -->"


def with_results(text: str, results: Path) -> str:
    """Return the page with its parts written again."""
    stored = {model: load_stored(results, model) for model in REAL_MODELS}
    for name, lines in PARTS.items():
        text = put_between(text, *marks_of(name), "\n".join(lines(stored)))
    return text


def expectations_table(stored: Mapping[ModelKey, Stored]) -> Iterator[str]:
    """What was expected, what came out, and whether it holds."""
    yield "| expected | quantity | model | bound | measured | |"
    yield "|---|---|---|---|---|---|"
    for expectation in EXPECTATIONS:
        for place, model in enumerate(expectation.bounds):
            named = (expectation.text, expectation.quantity) if place == 0 else ("", "")
            reading = read_quantity(expectation.key, stored[model])
            decision = NOT_YET if reading is None else decide(expectation, model, reading)
            cells = [*named, REAL_MODELS[model].short, bound_in_words(expectation, model), shown(reading)]
            yield f"| {' | '.join(cells)} | **{decision}** |"
    yield ""
    yield _counts(stored)


def _counts(stored: Mapping[ModelKey, Stored]) -> str:
    parts = []
    for model, real in REAL_MODELS.items():
        judged = [expectation for expectation in EXPECTATIONS if model in expectation.bounds]
        readings = [read_quantity(expectation.key, stored[model]) for expectation in judged]
        decisions = [
            NOT_YET if reading is None else decide(expectation, model, reading)
            for expectation, reading in zip(judged, readings)
        ]
        counts = [f"{decisions.count(word)} {words}" for word, words in _WORDS.items()]
        parts.append(f"{real.short}: of {len(judged)} expectations {', '.join(counts)}.")
    return " ".join(parts)


_WORDS: Final = {
    "holds": "hold",
    "does not hold": "do not hold",
    "cannot be decided": "cannot be decided",
    NOT_YET: "are not measured yet",
}


def bound_in_words(expectation: Expectation, model: ModelKey) -> str:
    """Return the bound of a model, such as ``at most 0.5``."""
    low, high = expectation.bounds[model]
    if low == -INFINITE:
        return f"at most {high:g}"
    return f"at least {low:g}" if high == INFINITE else f"{low:g} to {high:g}"


def shown(reading: Reading | None, digits: int = 2) -> str:
    """Return a value with its interval; a dash where nothing was measured."""
    if reading is None:
        return "–"
    value, low, high = (f"{number:.{digits}f}".replace("-", "−") for number in reading)
    return f"{value} ({low} to {high})"


def pairs_tables(stored: Mapping[ModelKey, Stored]) -> Iterator[str]:
    """Means of the halves, the most expensive pairs, and every pair."""
    yield "| added loss, nats a token | pairs of | in parallel | swapped | one of the two removed |"
    yield "|---|---|---|---|---|"
    for real, name, label in _runs_of_pairs():
        for half in ("first half", "second half"):
            data = stored[real.key].get(name)
            cells = [
                "–" if data is None else shown(with_interval(data, _mean_of_half(kind, half)), 3)
                for kind in ("parallel", "swapped", "dropped")
            ]
            yield f"| {label} | {half} | {' | '.join(cells)} |"
    yield ""
    yield "Block 0 is left out of the first half, and so is the pair of both halves."
    for real in REAL_MODELS.values():
        if {"pairs", "pairs_untrained"} <= stored[real.key].keys():
            yield from _all_pairs(real, stored[real.key])


def _runs_of_pairs() -> Iterator[tuple[RealModel, str, str]]:
    for real in REAL_MODELS.values():
        yield real, "pairs", real.short
        yield real, "pairs_untrained", f"{real.short}, untrained"


def _mean_of_half(kind: str, half: str) -> Quantity:
    def mean(sample: Sample) -> float:
        cost = sample.added(kind)
        by_pair = (cost[:-1] + cost[1:]) / 2 if kind == "dropped" else cost
        start = (by_pair.size + 1) // 2
        return float(by_pair[start:].mean() if half == "second half" else by_pair[1 : start - 1].mean())

    return mean


def _all_pairs(real: RealModel, stored: Stored) -> Iterator[str]:
    sample, untrained = (Sample(arrays_of(stored[name])) for name in ("pairs", "pairs_untrained"))
    parallel, dropped = sample.added("parallel"), sample.added("dropped")
    costliest = np.argsort(-parallel)[:_MOST]
    share = parallel[costliest].sum() / parallel.sum()
    yield ""
    yield (
        f"**{real.short}**, {_prompts(stored['pairs'])}. The most expensive pairs in parallel are "
        f"{', '.join(f'{pair}+{pair + 1} ({parallel[pair]:.2f})' for pair in costliest)}, together {100 * share:.0f} % "
        f"of what all {parallel.size} pairs cost; the median pair costs {np.median(parallel):.3f}. "
        f"{int((parallel < np.minimum(dropped[:-1], dropped[1:])).sum())} of {parallel.size} pairs cost less in "
        "parallel than losing the cheaper of the two. Without the pairs of the last two blocks (looked at afterwards) "
        "those of the second half cost "
        f"{shown(with_interval(stored['pairs'], _share_without_the_end))} times the mean of losing one of the two."
    )
    yield ""
    yield "| pair | in parallel | swapped | first removed | second removed | in parallel, untrained |"
    yield "|---|---|---|---|---|---|"
    for pair in range(parallel.size):
        reading = with_interval(stored["pairs"], _of_pair(pair))
        others = (sample.added("swapped")[pair], dropped[pair], dropped[pair + 1], untrained.added("parallel")[pair])
        cells = [shown(reading, 3), *(_number(value) for value in others)]
        yield f"| {pair}+{pair + 1} | {' | '.join(cells)} |"


def _share_without_the_end(sample: Sample) -> float:
    """Pairs of the second half in parallel, but for those that hold one of the last two blocks, over removals."""
    parallel, dropped = sample.added("parallel"), sample.added("dropped")
    pairs = slice((parallel.size + 1) // 2, -2)
    return float(parallel[pairs].mean() / ((dropped[:-1] + dropped[1:]) / 2)[pairs].mean())


def _of_pair(pair: int) -> Quantity:
    return lambda sample: float(sample.added("parallel")[pair])


def massive_tables(stored: Mapping[ModelKey, Stored]) -> Iterator[str]:
    """The profile's readings by variant, then the curves."""
    for real in REAL_MODELS.values():
        data = stored[real.key].get("massive")
        if data is None:
            yield from (f"**{real.short}**: {NOT_YET}.", "")
            continue
        yield from _readings(real, data)
        yield from _curves(data)


def closer_table(stored: Mapping[ModelKey, Stored]) -> Iterator[str]:
    """The loss under each change of single contributions."""
    data = stored["smollm2"].get("closer")
    if data is None:
        yield f"{NOT_YET}."
        return
    yield "| SmolLM2, what its MLPs add | loss, nats a token | added |"
    yield "|---|---|---|"
    for place, change in enumerate(data["change"].values.tolist()):
        loss = shown(with_interval(data, loss_of_change(place)))
        added = shown(with_interval(data, _added_by_change(place))) if place else ""
        yield f"| {change} | {loss} | {added} |"


def _added_by_change(place: int) -> Quantity:
    return lambda sample: loss_of_change(place)(sample) - loss_of_change(0)(sample)


def _readings(real: RealModel, data: xr.Dataset) -> Iterator[str]:
    bound = f"{WRITE_BOUND[real.key]:g}"
    yield f"**{real.short}**, {_prompts(data)}; contributions bounded by {bound}."
    yield ""
    yield f"| | {' | '.join(VARIANTS)} |"
    yield f"|---|{'---|' * len(VARIANTS)}"
    half = data.sizes["boundary"] // 2
    rows: tuple[tuple[str, Callable[[Sample], FloatArray], int], ...] = (
        ("largest number of the stream", lambda sample: sample.most("residual.largest"), 0),
        ("loss, nats a token", lambda sample: sample.mean("drop.baseline_loss"), 2),
        (f"norm of the stream at boundary {half}", lambda sample: _norms(sample, "norm_resid")[:, half], 0),
        ("… without the first token", lambda sample: _norms(sample, "norm_resid_rest")[:, half], 0),
        ("mean effect on the output of skipping a block", lambda sample: sample.mean("skip.output_all").mean(1), 3),
        ("mean added loss of removing a block", lambda sample: sample.removals().mean(1), 2),
        ("median added loss of removing a block", lambda sample: np.median(sample.removals(), 1), 2),
    )
    for label, function, digits in rows:
        readings = [with_interval(data, _entry(function, place)) for place in range(len(VARIANTS))]
        yield f"| {label} | {' | '.join(shown(reading, digits) for reading in readings)} |"
    heads = json.loads(data.attrs["heads"])
    for label, name in (("half of the tokens kept from", "half"), ("90 % of the effect done by", "own")):
        yield f"| {label} (blocks) | {' | '.join(_head_reading(heads[variant], name) for variant in VARIANTS)} |"
    yield ""


def _norms(sample: Sample, name: str) -> FloatArray:
    return sample.mean(f"residual.{name}", over_all_tokens=name == "norm_resid")


def _entry(function: Callable[[Sample], FloatArray], place: int) -> Quantity:
    return lambda sample: float(function(sample)[place])


def _head_reading(head: Mapping[str, Any], name: str) -> str:
    values = [head[f"{name}{end}"] for end in ("", "_low", "_high")]
    return "–" if None in values else shown(Reading(*values), 1)


def _curves(data: xr.Dataset) -> Iterator[str]:
    sample = Sample(arrays_of(data))
    cost, effect = sample.removals(), sample.mean("skip.output_all")
    norm, rest = _norms(sample, "norm_resid"), _norms(sample, "norm_resid_rest")
    heads = [
        f"{name}, {variant}"
        for name in ("norm behind it", "without the first token")
        for variant in ("as it is", "left out")
    ]
    removed = [f"removed, {variant}" for variant in VARIANTS]
    skipped = [f"skipped, {variant}" for variant in VARIANTS]
    yield f"| block | {' | '.join([*heads, *removed, *skipped])} |"
    yield f"|---|{'---|' * (len(heads) + len(removed) + len(skipped))}"
    for block in range(cost.shape[1]):
        cells = [f"{curve[variant, block + 1]:.0f}" for curve in (norm, rest) for variant in (0, 2)]
        cells += [_number(value, 2) for value in cost[:, block]]
        cells += [_number(value) for value in effect[:, block]]
        yield f"| {block} | {' | '.join(cells)} |"
    yield ""


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _prompts(data: xr.Dataset) -> str:
    averaged = data["n_averaged"]
    tokens = averaged if "variant" not in averaged.dims else averaged.isel(variant=0)
    minutes = data.attrs["cpu_seconds"] / 60
    count = int(tokens.sum()) + tokens.size
    return f"{tokens.size} prompts, {count} tokens ({minutes:.1f} CPU minutes)"


Part = Callable[[Mapping[ModelKey, Stored]], Iterator[str]]
PARTS: Final[Mapping[str, Part]] = {
    "expectations": expectations_table,
    "parallel neighbours": pairs_tables,
    "massive activations": massive_tables,
    "a closer look": closer_table,
}
"""Name between the marks → its lines."""
__all__: Sequence[str] = ("PARTS", "marks_of", "with_results")
