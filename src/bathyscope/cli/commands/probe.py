"""``bathyscope probe``: linear probes of hidden states (wic) and of single neurons (ing), on labelled data; sub-joiner
heads have a file of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_table
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.model import load
from bathyscope.probing.ing import ing_probe
from bathyscope.probing.wic import wic_probe

if TYPE_CHECKING:
    import xarray as xr

Row = dict[str, Any]
Given = Annotated[str | None, Parameter(show_default=False)]

PROBES = ("wic", "ing", "subjoiner")
_LOADING = options_of(load, leave_out=("model", "tokenizer", "family"))
_OF_LOADING = ("dtype", "device", "revision", "trust_remote_code")
_LEFT_OUT = ("model", "train", "validation", "corpus", "progress")
_EXAMPLES = """\
Examples:
  bathyscope probe wic Qwen/Qwen2.5-1.5B
  bathyscope probe wic ./checkpoint --data train.jsonl --validation validation.jsonl --train-rows 800
  bathyscope probe ing gpt2 --data corpus.txt --format csv > ing.csv"""


def wic_command(
    model: str,
    /,
    *,
    data: Given = None,
    validation: Given = None,
    format: Format = "table",
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    **given: Any,
) -> int:
    """Whether a word means the same in two sentences: a linear probe at every boundary.

    Args:
        model: name on the hub, or a local folder.
        data: training rows, a JSONL, CSV or parquet file with the columns of SuperGLUE's WiC (not given = the hub's).
        validation: rows that accuracy is measured on (not given = the hub's).
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    found = _probed(wic_probe, model, (data, validation), given, quiet)
    _show(wic_rows(found), format, f"Majority label: {float(found['majority']):.3f}.")
    return 0


def ing_command(
    model: str,
    /,
    *,
    data: str,
    format: Format = "table",
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    **given: Any,
) -> int:
    """Whether the next token ends in "ing": probes of single neurons and of ensembles.

    Args:
        model: name on the hub, or a local folder.
        data: a text file, gzipped where its name ends in .gz.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    found = _probed(ing_probe, model, (data,), given, quiet)
    _show(ing_rows(found), format, "Accuracies on the held-out half; ensembles were put together on the other.")
    return 0


def wic_rows(found: xr.Dataset) -> list[Row]:
    """A row for every kind of features and boundary."""
    columns = ("accuracy", "ci_low", "ci_high", "train_accuracy", "C")
    return [
        {"features": name, "boundary": boundary, **{c: float(found[c][i, boundary]) for c in columns}}
        for i, name in enumerate(found["features"].values.tolist())
        for boundary in found["boundary"].values.tolist()
    ]


def ing_rows(found: xr.Dataset) -> list[Row]:
    """A row for the model's own guess, every neuron alone, and every ensemble."""
    top1 = {name: float(found[f"top1_{name}"]) for name in ("accuracy", "ci_low", "ci_high")}
    blank = dict.fromkeys(("kind", "size", "block", "neuron", "effect", "skew", "train_accuracy"))
    rows = [{"probe": "the model's top-1", **blank, **top1}]
    for kind in found["kind"].values.tolist():
        one = found.sel(kind=kind)
        for rank in _filled(one["block"].values >= 0):
            named = {name: one[name].values[rank].item() for name in ("block", "neuron", "effect", "skew")}
            rows.append({"probe": "neuron", **blank, "kind": kind, **named, **_judged(one, "", rank)})
        for size in _filled(one["added"].values >= 0):
            rows.append(
                {"probe": "ensemble", **blank, "kind": kind, "size": size + 1, **_judged(one, "ensemble_", size)}
            )
    return rows


def _filled(there: Any) -> range:
    """Places that hold something: the first so many."""
    return range(int(there.sum()))


def _judged(one: xr.Dataset, prefix: str, place: int) -> Row:
    columns = ("accuracy", "ci_low", "ci_high", "train_accuracy")
    return {column: float(one[f"{prefix}{column}"].values[place]) for column in columns}


def _probed(
    probe: Callable[..., xr.Dataset], model: str, data: Sequence[str | None], given: dict[str, Any], quiet: bool
) -> xr.Dataset:
    loading = {name: given.pop(name) for name in _OF_LOADING if name in given}
    say(f"Loading {model}.", quiet)
    with quiet_libraries(downloads=not quiet):
        return probe(load(model, **loading), *data, progress=not quiet, **given)


def _show(rows: Sequence[Row], format_: Format, remark: str) -> None:
    if not write_data(rows, format_):
        table = Table(box=SIMPLE_HEAD)
        for heading in rows[0]:
            table.add_column(heading.replace("_", " "))
        for row in rows:
            table.add_row(*map(_cell, row.values()))
        write_table(table)
        write(remark)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


app = App(name="probe", help_epilogue=_EXAMPLES)
app.command(command(wic_command, flags(_LOADING) + flags(options_of(wic_probe, leave_out=_LEFT_OUT))), name="wic")
app.command(command(ing_command, flags(_LOADING) + flags(options_of(ing_probe, leave_out=_LEFT_OUT))), name="ing")
app.command("bathyscope.cli.commands.subjoiner:app", name="subjoiner", help="Heads that gather the tokens of a word.")


@app.default
def unknown(*words: Annotated[str, Parameter(show=False)]) -> int:
    """Linear probes on labelled data."""
    if not words:
        raise OptionError(f"Say which probe: {', '.join(PROBES)}.")
    raise OptionError(f"Unknown probe {words[0]!r}.{did_you_mean(words[0], PROBES)} Allowed: {', '.join(PROBES)}.")
