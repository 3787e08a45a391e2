"""``bathyscope probe``: linear probes of hidden states (wic) and of single neurons (ing), on labelled data; sub-joiner
heads have a file of their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

import bathyscope
from bathyscope.cli.arguments import (
    LOADING,
    Given,
    ModelName,
    Quiet,
    Records,
    as_app,
    choose_one,
    folded,
    on_models,
    records,
)
from bathyscope.cli.console import write_rows

if TYPE_CHECKING:
    import xarray as xr

Row = dict[str, Any]

PROBES = ("wic", "ing", "subjoiner")
_EXAMPLES = """\
Examples:
  bathyscope probe wic Qwen/Qwen2.5-1.5B
  bathyscope probe wic ./checkpoint --data train.jsonl --validation validation.jsonl --train-rows 800
  bathyscope probe ing gpt2 --data corpus.txt --format csv > ing.csv"""


def wic_command(
    model: ModelName,
    /,
    *,
    data: Given = None,
    validation: Given = None,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Whether a word means the same in two sentences: a linear probe at every boundary.

    Args:
        data: training rows, a JSONL, CSV or parquet file with the columns of SuperGLUE's WiC (not given = the hub's).
        validation: rows that accuracy is measured on (not given = the hub's).
    """
    found = on_models(partial(bathyscope.probe, "wic"), [model], data, validation, given=given, quiet=quiet)
    columns = ("features", "boundary", "accuracy", "ci_low", "ci_high", "train_accuracy", "C")
    rows = records(found, columns, ("features", "boundary"))
    write_rows(rows, format, f"Majority label: {float(found['majority']):.3f}.")
    return 0


def ing_command(
    model: ModelName, /, *, data: str, format: Records = "table", quiet: Quiet = False, **given: Any
) -> int:
    """Whether the next token ends in "ing": probes of single neurons and of ensembles.

    Args:
        data: a text file, gzipped where its name ends in .gz.
    """
    found = on_models(partial(bathyscope.probe, "ing"), [model], data, given=given, quiet=quiet)
    write_rows(ing_rows(found), format, "Accuracies on the held-out half; ensembles were put together on the other.")
    return 0


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


app = App(name="probe", help_epilogue=folded(_EXAMPLES))
for _name, _body, _call, _data in (
    ("wic", wic_command, "bathyscope.probing.wic:wic_probe", "train"),
    ("ing", ing_command, "bathyscope.probing.ing:ing_probe", "corpus"),
):
    app.command(as_app(_body, None, _call, loading=LOADING, leave_out=(_data,)), name=_name)
app.command("bathyscope.cli.commands.subjoiner:app", name="subjoiner", help="Heads that gather the tokens of a word.")


@app.default
def unknown(*words: Annotated[str, Parameter(show=False)]) -> int:
    """Linear probes on labelled data."""
    raise choose_one(words, "probe", PROBES)
