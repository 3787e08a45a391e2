"""Survey, prune and export a tiny checkpoint of every kind of quantisation: ``python docs/quantised.py``.

Each kind that is unpacked is packed number by number (``tests/support/quantised.py``), and everything is compared with
the plain folder of the weights that the numbers stand for. Kinds that are left to transformers are loaded as they are.
``docs/quantised.csv`` is written again.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from support.quantised import Checkpoint

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
TABLE: Final = ROOT / "docs" / "quantised.csv"
MEASURED, REFUSED, OTHER = "measured", "refused", "other numbers"
TO_TRANSFORMERS: Final = ("aqlm", "hqq", "vptq", "quanto", "spqr", "higgs", "eetq", "fbgemm_fp8")
"""Methods that are not unpacked, by ``quant_method``."""
IDS: Final = [
    [1, 5, 9, 7, 3, 8, 6, 4, 11, 10, 12, 15, 13, 14],
    [3, 8, 6, 4, 1, 5, 9, 7, 13, 14, 10, 12, 15, 11],
    [9, 7, 3, 8, 1, 5, 12, 15, 6, 4, 11, 10, 14, 13],
    [6, 4, 11, 10, 12, 15, 13, 14, 1, 5, 9, 7, 3, 8],
]


@dataclass(frozen=True)
class Outcome:
    """What happens to one kind of checkpoint.

    Args:
        kind: a short name.
        weights: what a run says of them.
        survey, prune, export: measured (and equal to the bit to the plain folder), refused, or other numbers.
        note: the reason of a refusal.
    """

    kind: str
    weights: str = ""
    survey: str = MEASURED
    prune: str = MEASURED
    export: str = MEASURED
    note: str = ""


def main() -> None:
    """Examine every kind, and write the table."""
    outcomes = {}
    for kind in kinds():
        outcomes[kind] = examine(kind)
        print(outcomes[kind], flush=True)
    write_table(outcomes)


def kinds() -> list[str]:
    """Every kind of the table, those that are unpacked first."""
    from support.quantised import KINDS

    return [*KINDS, *TO_TRANSFORMERS]


def read_table(path: Path = TABLE) -> dict[str, Outcome]:
    """Return what is stored, by kind."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["kind"]: Outcome(**row) for row in csv.DictReader(file)}


def write_table(outcomes: dict[str, Outcome], path: Path = TABLE) -> None:
    """Store what was measured."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Outcome)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(outcome) for outcome in outcomes.values())


def examine(kind: str) -> Outcome:
    """Write a checkpoint of a kind, and do everything with it."""
    from support.quantised import KINDS, write

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as place:
        if kind in KINDS:
            return _compare(kind, write(KINDS[kind], Path(place)))
        return _refused(kind, Path(place))


def _compare(kind: str, written: Checkpoint) -> Outcome:
    import bathyscope

    packed, plain = (bathyscope.load(folder) for folder in (written.packed, written.plain))
    outcomes = {
        name: MEASURED if act(packed, written.packed) == act(plain, written.plain) else OTHER
        for name, act in ACTS.items()
    }
    return Outcome(kind, f"unpacked from {packed.packing}", **outcomes)


def _survey(model: Any, folder: Path) -> object:
    import bathyscope

    run = bathyscope.survey(model, IDS, ["residual", "lens", "skip", "drop"], progress=False)
    return [(name, {key: value.values.tobytes() for key, value in run[name].items()}) for name in run.measures]


def _prune(model: Any, folder: Path) -> object:
    import bathyscope

    plan = bathyscope.prune(model, IDS[:2], IDS[2:], drop=1, progress=False, resamples=50)
    return str(plan.schedule), {
        key: value.values.tobytes() for key, value in plan.data.items() if value.dtype.kind == "f"
    }


def _export(model: Any, folder: Path) -> object:
    import bathyscope

    copy = Path(bathyscope.export(folder if model.packing else model, "drop:1", folder.parent / f"{folder.name}-copy"))
    return [(copy / name).read_bytes() for name in ("model.safetensors", "config.json")]


ACTS: Final[dict[str, Callable[[Any, Path], object]]] = {"survey": _survey, "prune": _prune, "export": _export}


def _refused(kind: str, place: Path) -> Outcome:
    """Load a kind that is left to transformers; without its package and GPU it is refused, and so is its export."""
    from support import zoo
    from support.quantised import declare

    import bathyscope

    zoo.build("llama").save_pretrained(place / "model")
    declare(place / "model", quantization_config={"quant_method": kind, **_SETTINGS.get(kind, {})})
    reasons = []
    for act in (
        lambda: bathyscope.load(place / "model"),
        lambda: bathyscope.export(place / "model", "drop:1", place / "copy"),
    ):
        try:
            act()
        except bathyscope.BathyscopeError as error:
            reasons.append(" ".join(str(error).replace(str(place / "model"), "MODEL").split()))
        else:
            reasons.append("")
    if not all(reasons):
        return Outcome(kind, "", *(MEASURED if not reason else REFUSED for reason in (reasons[0], *reasons)), "")
    return Outcome(kind, "", REFUSED, REFUSED, REFUSED, reasons[0])


_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "quanto": {"weights": "int8"},
    "higgs": {"bits": 4},
    "fbgemm_fp8": {"activation_scale_ub": 1200.0},
}


def page(outcomes: dict[str, Outcome]) -> str:
    """Return the table as a page part."""
    lines = ["| kind | the run says of its weights | survey | prune | export | reason |", "|---|---|---|---|---|---|"]
    for row in outcomes.values():
        cells = (row.kind, row.weights, row.survey, row.prune, row.export, row.note.replace("|", " "))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
