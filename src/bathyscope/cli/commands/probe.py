"""``bathyscope probe``: linear probes of hidden states (wic) and of single neurons (ing), on labelled data.

Also heads that gather the tokens of a word at its last one (subjoiner).
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from cyclopts import App, Parameter

import bathyscope
from bathyscope.analysis.options import IngOptions, SubjoinerOptions, WicOptions
from bathyscope.cli.arguments import (
    LOADING,
    ModelName,
    OptionalText,
    Picture,
    Quiet,
    ResultFormat,
    check_picture,
    fold_help,
    make_app,
    refuse_word,
    run_on_models,
    write_picture,
)
from bathyscope.cli.printing import View, print_result
from bathyscope.core.tables import TextTable, frame_table

PROBES = ("wic", "ing", "subjoiner")
_EXAMPLES = """\
Examples:
  bathyscope probe wic Qwen/Qwen2.5-1.5B
  bathyscope probe wic ./checkpoint --data train.jsonl --validation validation.jsonl --train-rows 800
  bathyscope probe ing gpt2 --data corpus.txt --format csv > ing.csv"""
_SUBJOINER_EXAMPLES = """\
Examples:
  bathyscope probe subjoiner gpt2 --words book.txt
  bathyscope probe subjoiner ./model --words list.txt --pieces 3 --out heads.png
  bathyscope probe subjoiner gpt2 --words book.txt --format csv > heads.csv"""


def wic_command(
    model: ModelName,
    /,
    *,
    data: OptionalText = None,
    validation: OptionalText = None,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Probe at every boundary whether a word means the same in two sentences.

    Args:
        data: training rows, a JSONL, CSV or parquet file with the columns of SuperGLUE's WiC (not given = the hub's).
        validation: rows that accuracy is measured on (not given = the hub's).
    """
    verb = partial(bathyscope.probe, "wic")
    result = run_on_models(verb, [model], data, validation, options=options, quiet=quiet)
    print_result(result, format)
    return 0


def ing_command(
    model: ModelName, /, *, data: str, format: ResultFormat = "table", quiet: Quiet = False, **options: Any
) -> int:
    """Probe single neurons and ensembles for whether the next token ends in "ing".

    Args:
        data: a text file, gzipped where its name ends in .gz.
    """
    verb = partial(bathyscope.probe, "ing")
    result = run_on_models(verb, [model], data, options=options, quiet=quiet)
    print_result(result, format)
    return 0


def subjoiner_command(
    model: ModelName,
    /,
    *,
    words: str,
    out: Annotated[Picture, Parameter(help="also write a figure of all heads (.png, .svg, .pdf).")] = None,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Find heads that gather the tokens of a word.

    Args:
        words: a text file, gzipped where its name ends in .gz; its different words are taken.
    """
    check_picture(out)
    verb = partial(bathyscope.probe, "subjoiner")
    result = run_on_models(verb, [model], words, options=options, quiet=quiet)

    def make_view() -> View:
        table = frame_table(result.to_dataframe())
        # Scores of heads are close to each other, so they need more digits than three significant ones.
        rows = [[f"{cell:.3f}" if isinstance(cell, float) else cell for cell in row] for row in table.rows]
        return View([TextTable(table.headings, rows)])

    print_result(result, format, make_view)
    write_picture(out, result, quiet)
    return 0


app = App(name="probe", help_epilogue=fold_help(_EXAMPLES))
app.command(make_app(wic_command, None, WicOptions, loading=LOADING), name="wic")
app.command(make_app(ing_command, None, IngOptions, loading=LOADING), name="ing")
app.command(make_app(subjoiner_command, _SUBJOINER_EXAMPLES, SubjoinerOptions, loading=LOADING), name="subjoiner")


@app.default
def refuse_unknown(*words: Annotated[str, Parameter(show=False)]) -> int:
    """Probe a model with labelled data."""
    raise refuse_word(words, "probe", PROBES)
