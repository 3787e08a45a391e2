"""Measure a tiny model of every causal type of the installed transformers: ``python docs/causal_types.py``.

Every type is built twice, loaded once, and everything that has a plain reference is compared with one forward of the
untouched model per intervention (``tests/support/brute_force.py``). A line of ``docs/causal_types.csv`` is written as
soon as a type is finished, so a run that was ended goes on where it was; ``--again`` starts over, names choose types.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bathyscope.model.anatomy.family import Family

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
TABLE: Final = ROOT / "docs" / "causal_types.csv"
CLOSE: Final = 1e-5
LENGTHS: Final = (9, 12)
MEASURED, REFUSED, NOT_BUILT, WRONG, CRASHED = "measured", "refused", "not built", "wrong", "crashed"


@dataclass(frozen=True)
class Outcome:
    """What happens to one type.

    Args:
        model_type, kind: the type, and the class of its model.
        outcome: measured (and equal to the reference), refused, not built, wrong or crashed.
        measures, variables: how many of each were compared with the reference.
        gap: the largest, relative to max(1, |expected|).
        parts, tails: what the checks at load found.
        note: the reason of a refusal, or of what failed; of a type that is measured the settings without which it
            would be refused.
    """

    model_type: str
    kind: str = ""
    outcome: str = MEASURED
    measures: int = 0
    variables: int = 0
    gap: str = ""
    parts: str = ""
    tails: str = ""
    note: str = ""


def main(arguments: Sequence[str]) -> None:
    """Measure the types that the table lacks, or those that are named."""
    from support.zoo.causal import causal_types

    parser = argparse.ArgumentParser()
    parser.add_argument("types", nargs="*")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args(arguments)
    known = {} if given.again and not given.types else read_table()
    began = time.monotonic()
    for model_type in given.types or causal_types():
        if given.types or model_type not in known:
            known[model_type] = examine(model_type)
            write_table(known)
            print(f"{time.monotonic() - began:5.0f} s  {describe(known[model_type])}", flush=True)
    print(dict(Counter(outcome.outcome for outcome in known.values())))


def describe(outcome: Outcome) -> str:
    """One line for people who wait."""
    return f"{outcome.model_type}: {outcome.outcome} {outcome.variables or ''} {outcome.gap} {outcome.note[:160]}"


def read_table(path: Path = TABLE) -> dict[str, Outcome]:
    """What is stored, by type."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = {"measures", "variables"}
    return {
        row["model_type"]: Outcome(**{key: int(value) if key in numbers else value for key, value in row.items()})  # type: ignore[arg-type]
        for row in rows
    }


def write_table(outcomes: dict[str, Outcome], path: Path = TABLE) -> None:
    """Store what was measured, in alphabetical order."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Outcome)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(outcomes[name]) for name in sorted(outcomes))


def examine(model_type: str) -> Outcome:
    """Build, load and measure a tiny model of a type."""
    from support import zoo
    from support.brute_force import compare
    from support.zoo.causal import build

    import bathyscope

    # of tiny models: blocks that cannot be dropped, prompts beyond a tiny context
    warnings.simplefilter("ignore")
    refused = declared_refusal(model_type)
    if refused:
        return Outcome(model_type, outcome=REFUSED, note=refused)
    try:
        hf, reference = build(model_type), build(model_type)
    except Exception as error:
        # whatever a type lacks here: a package, or sizes that its default configuration takes
        return Outcome(
            model_type, outcome=NOT_BUILT, note=f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        )
    kind = type(hf).__name__
    try:
        model = bathyscope.load(hf)
        if model.anatomy.loops is not None:
            return Outcome(model_type, kind, note="loops; compared in tests/model/anatomy/test_loops.py")
        prompts = zoo.prompts(reference, LENGTHS)
        result = compare(model, reference, prompts)
    except bathyscope.BathyscopeError as error:
        return Outcome(model_type, kind, REFUSED, note=" ".join(str(error).split()))
    except Exception as error:
        return Outcome(model_type, kind, CRASHED, note=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    worst = max(result.gaps, key=lambda name: result.gaps[name])
    right = result.worst <= CLOSE
    return Outcome(
        model_type,
        kind,
        MEASURED if right else WRONG,
        measures=len(result.measures),
        variables=len(result.gaps),
        gap="below 1e-5" if right else f"{result.worst:.0e}",
        parts="yes" if model.checks.parts else "no",
        tails="yes" if model.checks.tails else "no",
        note=setting_of(model.anatomy.family) if right else worst,
    )


def setting_of(family: Family) -> str:
    """Return the setting without which a family is refused, and the reason; empty where there is none."""
    if family.requires is None:
        return ""
    attribute, value, reason = family.requires
    return f"with {attribute}={value!r}; otherwise {reason}"


def declared_refusal(model_type: str) -> str:
    """Return why a type is refused before its weights are looked at; empty where it is not."""
    from support.zoo.causal import type_of_model

    from bathyscope.model.anatomy.registry import family_for

    family = family_for(type_of_model(model_type))
    return (family.refused or "") if family is not None else ""


def page(outcomes: dict[str, Outcome]) -> str:
    """The table as a page part."""
    counts = Counter(outcome.outcome for outcome in outcomes.values())
    said = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    lines = [
        f"{len(outcomes)} types: {said}.",
        "",
        "| type | outcome | compared | parts | reason |",
        "|---|---|---|---|---|",
    ]
    for name in sorted(outcomes):
        row = outcomes[name]
        compared = f"{row.variables} variables of {row.measures} measures" if row.variables else ""
        lines.append(f"| {name} | {row.outcome} | {compared} | {row.parts} | {row.note.replace('|', ' ')} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main(sys.argv[1:])
