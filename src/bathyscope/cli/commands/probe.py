"""``bathyscope probe``: linear probes of hidden states (wic) and of single neurons (ing), on labelled data; heads that
gather the tokens of a word at its last one (subjoiner)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

import bathyscope
from bathyscope.cli.arguments import (
    LOADING,
    Given,
    ModelName,
    Picture,
    Quiet,
    Records,
    as_app,
    check_picture,
    choose_one,
    folded,
    on_models,
    records,
    write_picture,
)
from bathyscope.cli.console import write, write_data, write_rows, write_table

if TYPE_CHECKING:
    import xarray as xr

Row = dict[str, Any]

PROBES = ("wic", "ing", "subjoiner")
_EXAMPLES = """\
Examples:
  bathyscope probe wic Qwen/Qwen2.5-1.5B
  bathyscope probe wic ./checkpoint --data train.jsonl --validation validation.jsonl --train-rows 800
  bathyscope probe ing gpt2 --data corpus.txt --format csv > ing.csv"""
_OF_SUBJOINER = """\
Examples:
  bathyscope probe subjoiner gpt2 --words book.txt
  bathyscope probe subjoiner ./model --words list.txt --pieces 3 --out heads.png
  bathyscope probe subjoiner gpt2 --words book.txt --format csv > heads.csv"""
_OF_A_HEAD = ("rank", "top_block", "top_head", "top_score", "ci_low", "ci_high", "top_split", "top_whole")
COLUMNS = {name: name.removeprefix("top_") for name in _OF_A_HEAD}
"""Variable of a head → column."""


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
    judged = ("accuracy", "ci_low", "ci_high", "train_accuracy")
    top1 = {name: float(found[f"top1_{name}"]) for name in judged[:-1]}
    blank = dict.fromkeys(("kind", "size", "block", "neuron", "effect", "skew", "train_accuracy"))
    rows = [{"probe": "the model's top-1", **blank, **top1}]
    for kind in found["kind"].values.tolist():
        one = found.sel(kind=kind)
        alone, together = one.isel(rank=one["block"].values >= 0), one.isel(size=one["added"].values >= 0)
        named = ("kind", "block", "neuron", "effect", "skew", *judged)
        rows += [{"probe": "neuron", **blank, **row} for row in records(alone, named, ("rank",))]
        of_several = {"kind": "kind", "size": "size", **{f"ensemble_{name}": name for name in judged}}
        rows += [{"probe": "ensemble", **blank, **row} for row in records(together, of_several, ("size",))]
    return rows


def subjoiner_command(
    model: ModelName,
    /,
    *,
    words: str,
    out: Annotated[Picture, Parameter(help="also write a figure of all heads (.png, .svg, .pdf).")] = None,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Heads that gather the tokens of a word.

    Args:
        words: a text file, gzipped where its name ends in .gz; its different words are taken.
    """
    check_picture(out)
    found = on_models(partial(bathyscope.probe, "subjoiner"), [model], words, given=given, quiet=quiet)
    rows = records(found, COLUMNS, ("rank",))
    if not write_data(rows, format):
        headings = [name.replace("_", " ") for name in rows[0]]
        write_table(headings, [[f"{v:.3f}" if isinstance(v, float) else v for v in row.values()] for row in rows])
        write(subjoiner_remark(found))
    write_picture(out, "subjoiner", found, quiet)
    return 0


def subjoiner_remark(found: xr.Dataset) -> str:
    """What the numbers are of, and how many words they come from."""
    n, held_out, split = found.attrs["pieces"], found["held_out"].values, found["split"].values
    return (
        f"Attention of a word's last token to the {n - 1} tokens before it: in words of {n} tokens (split), in words "
        f"of one (whole), and the difference (score), on {int((held_out & split).sum())} and "
        f"{int((held_out & ~split).sum())} held-out words. The order is that of the other half of the words."
    )


app = App(name="probe", help_epilogue=folded(_EXAMPLES))
for _name, _body, _call, _data, _shown in (
    ("wic", wic_command, "bathyscope.analysis.probes.wic:wic_probe", ("train",), None),
    ("ing", ing_command, "bathyscope.analysis.probes.ing:ing_probe", ("corpus",), None),
    ("subjoiner", subjoiner_command, "bathyscope.analysis.probes.subjoiner:subjoiner", (), _OF_SUBJOINER),
):
    app.command(as_app(_body, _shown, _call, loading=LOADING, leave_out=_data), name=_name)


@app.default
def unknown(*words: Annotated[str, Parameter(show=False)]) -> int:
    """Linear probes on labelled data."""
    raise choose_one(words, "probe", PROBES)
