"""The tables of what was done with a real model, and of what surveys of it took."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from studies.real_model.acting import RULES, acts_on
from studies.real_model.models import SMOLLM2, RealModel
from studies.real_model.page import put_between
from studies.real_model.stored_plans import plan_conclusion

TIMES: Final = "times.json"

Acts = Mapping[str, Mapping[str, Any]]
"""Name of an act → its record."""


def marks(real: RealModel) -> tuple[str, str]:
    """Return the lines of the page between which the acts on a model stand."""
    whose = f" on {real.short}" if real.suffix else ""
    begin = f"<!-- acting{whose}: written by `python -m studies.real_model page`, do not edit -->"
    return begin, f"<!-- end of acting{whose} -->"


def with_acts(text: str, real: RealModel, folder: Path) -> str:
    """Return a page with the stored acts on a model between its marks.

    Raises:
        OptionError: the marks are not there, once each and in order.
    """
    return put_between(text, *marks(real), acting_markdown(load_acts(folder, real), load_times(folder), real))


def load_acts(folder: Path, real: RealModel = SMOLLM2) -> dict[str, dict[str, Any]]:
    """Read the records of all acts that were carried out."""
    files = {name: folder / f"act_{name}.json" for name in acts_on(real)}
    return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}


def load_times(folder: Path) -> list[dict[str, Any]]:
    """Read what surveys took; empty where nothing was timed."""
    file = folder / TIMES
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    return rows


def acting_markdown(acts: Acts, times: list[dict[str, Any]], real: RealModel = SMOLLM2) -> str:
    """Return the tables; an act that was not carried out yet says so."""
    sections = (
        _pruning(acts, real),
        _tasks(acts, real),
        _repair(acts, real),
        _exits(acts),
        _repeats(acts),
        _costs(acts),
        _times(times),
    )
    return "\n".join(line for section in sections for line in section)


def _table(headings: tuple[str, ...], rows: Iterator[list[str]] | list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _missing(title: str) -> Iterator[str]:
    yield from (f"### {title}", "", "Not carried out yet.", "")


def _pruning(acts: Acts, real: RealModel) -> Iterator[str]:
    title = "Leaving blocks out"
    plans = {size: acts[f"prune_{size}"] for size in real.removed if f"prune_{size}" in acts}
    if not plans:
        yield from _missing(title)
        return
    yield from (f"### {title}", "")
    for size, plan in plans.items():
        yield f"**{size} of {plan['model']['n_blocks']} blocks.** {plan_conclusion(plan)}"
        yield ""
    headings = ("blocks", "candidate", "leaves out", "nats on calibration text", "nats on test text", "top-1 kept")
    yield from _table(
        headings,
        [
            [
                str(size),
                row["candidate"],
                _blocks(row["subset"]) if row["candidate"] != "random" else row["subset"],
                f"{row['calibration_cost']:.3f}",
                _with_ends(row, "test_cost", ".3f"),
                _number(row.get("test_agreement"), ".2f"),
            ]
            for size, plan in plans.items()
            for row in plan["candidates"]
        ],
    )
    equal = [plan["reloaded"]["equal"] for plan in plans.values()]
    yield (
        f"{sum(equal)} of {len(equal)} exported checkpoints give the logits of the scheduled model to the bit, loaded "
        "by plain transformers in a process without bathyscope."
    )
    yield ""


def _blocks(subset: str) -> str:
    return subset.replace("drop:", "").replace(",", ", ")


def _tasks(acts: Acts, real: RealModel) -> Iterator[str]:
    title = "What tasks say"
    if "tasks" not in acts:
        yield from _missing(title)
        return
    yield from (f"### {title}", "")
    yield (
        f"Accuracy on the first {acts['tasks']['documents']} documents of each task, with and without the blocks that "
        "a rule leaves out; differences are paired by document, with 95 % intervals."
    )
    yield ""
    rows = acts["tasks"]["rows"]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    whole = {row["task"]: row for row in rows}
    by_place = {(row["size"], row["rule"], row["task"]): row for row in rows}
    cells = [
        ["0", "whole model", *(f"{whole[task]['full']:.2f} of {whole[task]['documents']}" for task in tasks)],
        *(
            [str(size), rule, *(_difference(by_place[size, rule, task]) for task in tasks)]
            for size in real.removed
            for rule in RULES
            if (size, rule, tasks[0]) in by_place
        ),
    ]
    yield from _table(("blocks", "rule", *tasks), cells)


def _difference(row: Mapping[str, Any]) -> str:
    return f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"


def _repair(acts: Acts, real: RealModel) -> Iterator[str]:
    title = f"Repairing the choice of {real.repaired}"
    if "repair" not in acts:
        yield from _missing(title)
        return
    record = acts["repair"]
    yield from (f"### {title}", "", record["conclusion"], "")
    if "minutes" in record:
        yield (
            f"Trained for {record['minutes']:g} minutes of one processor core on {record['windows']} pieces of 320 "
            "letters."
        )
        yield ""
    yield from _table(
        ("rung", "nats on calibration text kept aside", "nats on test text", "gain over none", "recovered"),
        [
            [
                rung["name"],
                _number(rung.get("calibration_cost"), ".3f"),
                _with_ends(rung, "cost", ".3f"),
                "–" if rung["name"] == "none" else _with_ends(rung, "gain", "+.3f"),
                "–" if rung["name"] == "none" else _with_ends(rung, "recovered", ".0%"),
            ]
            for rung in record["rungs"]
        ],
    )
    if "repair_again" in acts:
        again = acts["repair_again"]
        heal, linear = (next(rung for rung in again["rungs"] if rung["name"] == name) for name in ("heal", "linear"))
        yield (
            f"Trained for {again['minutes']:g} minutes on {again['windows']} pieces in another order, with other "
            f"pieces kept aside, it costs {_with_ends(heal, 'cost', '.3f')} nats on the test text, and recovers "
            f"{_with_ends(heal, 'recovered', '.0%')}. The map alone, fitted to these pieces, costs "
            f"{_with_ends(linear, 'cost', '.3f')} and recovers {_with_ends(linear, 'recovered', '.0%')}."
        )
        yield ""
    if "reloaded" in record:
        yield "The repaired checkpoint, too, gives equal logits in plain transformers."
        yield ""


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _with_ends(row: Mapping[str, Any], name: str, form: str) -> str:
    value, low, high = (row.get(f"{name}{end}") for end in ("", "_low", "_high"))
    if value is None:
        return "–"
    ends = "" if low is None or high is None else f" ({low:{form}} to {high:{form}})"
    return f"{value:{form}}{ends}"


def _exits(acts: Acts) -> Iterator[str]:
    title = "Stopping early"
    if "exits" not in acts:
        yield from _missing(title)
        return
    record = acts["exits"]
    yield from (f"### {title}", "", record["conclusion"], "")
    exits = record["exits"]
    last = exits[-1]["exit"]
    listed = [row for row in exits if row["exit"] % 5 == 0 or row["exit"] == last]
    yield from _table(
        (
            "exit",
            "draft",
            "tokens predicted there",
            "tokens a pass",
            "speed predicted",
            "speed measured",
            "same tokens",
        ),
        [
            [
                str(row["exit"]),
                str(row["draft"]),
                _with_ends(row, "acceptance", ".2f"),
                f"{row['tokens_per_pass']:.2f}",
                _with_ends(row, "speed", ".2f"),
                _number(row.get("measured_speed"), ".2f"),
                _number(row.get("identical"), ".0%"),
            ]
            for row in listed
        ],
    )


def _repeats(acts: Acts) -> Iterator[str]:
    title = "Running blocks twice"
    if "repeats" not in acts:
        yield from _missing(title)
        return
    record = acts["repeats"]
    yield from (f"### {title}", "", record["conclusion"], "")


def _costs(acts: Acts) -> Iterator[str]:
    if not acts:
        return
    yield from _table(
        ("act", "CPU minutes", "minutes", "peak GB"),
        [
            [
                f"`{name}`",
                f"{record['took']['cpu_seconds'] / 60:.1f}",
                f"{record['took']['wall_seconds'] / 60:.1f}",
                f"{record['took']['peak_bytes'] / 1e9:.1f}",
            ]
            for name, record in acts.items()
        ],
    )


def _threads(row: dict[str, Any]) -> str:
    return "one thread" if row["threads"] == 1 else f"{row['threads']} threads"


def _times(times: list[dict[str, Any]]) -> Iterator[str]:
    title = "What surveys take"
    if not times:
        yield from _missing(title)
        return
    yield from (f"### {title}", "")
    yield (
        f"{times[0]['prompts']} prompts of GSM8K, {times[0]['tokens']:,} tokens, {_threads(times[0])}. "
        "*Predicted*: what `estimate` says, over the measured time (CPU time with one thread, else wall time). "
        "*Peak*: of the process during the survey, weights, Python and libraries included; loading, which maps the "
        f"file next to the weights, reached {max(row['loading_peak_bytes'] for row in times) / 1e9:.1f} GB. "
        "*Readouts*: share of CPU time in reading logits and comparing them. *One forward each*: CPU time of one plain "
        "forward for every intervention, from the time of one forward of each prompt, over that of the survey."
    )
    yield ""
    yield from _table(
        ("measures", "minutes", "CPU minutes", "predicted", "peak GB", "predicted GB", "readouts", "one forward each"),
        [
            [
                ", ".join(f"`{name}`" for name in row["measures"]),
                f"{row['wall_seconds'] / 60:.1f}",
                f"{row['cpu_seconds'] / 60:.1f}",
                f"{row['predicted_over_measured']:.2f}",
                f"{row['peak_bytes'] / 1e9:.1f}",
                f"{row['predicted_peak_bytes'] / 1e9:.1f}",
                f"{row['readout_share']:.0%}",
                f"{row['forwards'] * row['forward_cpu_seconds'] / row['cpu_seconds']:.2f}",
            ]
            for row in times
        ],
    )
