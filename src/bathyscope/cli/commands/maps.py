"""``bathyscope diff maps``: the best affine map from every boundary of one model to every boundary of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.analysis.options import MapsOptions
from bathyscope.cli.arguments import LOADING_SEVERAL, Quiet, ResultFormat, make_app, run_on_models, write_picture
from bathyscope.cli.commands.survey import read_source
from bathyscope.cli.console import say
from bathyscope.cli.printing import TextTable, View, print_result
from bathyscope.core.estimates import Estimate
from bathyscope.core.own_files import require_own, require_own_picture
from bathyscope.core.paths import require_writable
from bathyscope.errors import OptionError

if TYPE_CHECKING:
    import xarray as xr

ARRAYS = ".nc"

_EXAMPLES = """\
Examples:
  bathyscope diff maps Qwen/Qwen2.5-1.5B Qwen/Qwen2.5-14B --prompts "corpus.txt:400?window=512" --out m.nc --out m.png
  bathyscope diff maps gpt2 gpt2-medium --prompts "corpus.txt:200?window=256" --memory 2 --format csv > maps.csv

Both models must have one vocabulary, and the text many times as many tokens as the
source model is wide."""


def maps_command(
    source: str,
    target: str,
    /,
    *,
    prompts: str,
    out: Annotated[list[Path] | None, Parameter(show_default=False, negative=())] = None,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Map every boundary of one model to every boundary of another.

    Args:
        source: model that is mapped from: name on the hub, or a local folder.
        target: model that is mapped to.
        prompts: data set or file, as for survey.
        out: also write the arrays (.nc) or a figure (.png, .svg, .pdf); may be given several times.
    """
    files = list(out or ())
    _check_kinds(files)
    result = run_on_models(
        bathyscope.maps,
        [source, target],
        read_source([prompts], *files),
        options=options,
        quiet=quiet,
    )
    print_result(result, format, lambda: View([_table(result.data)]))
    for file in files:
        if file.suffix == ARRAYS:
            from bathyscope.analysis.between.map_results import encode_maps
            from bathyscope.core.output import write_output

            write_output(file, encode_maps(result.data))
            say(f"Written: {file}", quiet)
        else:
            write_picture(file, "maps", result.data, quiet)
    return 0


def _check_kinds(files: Sequence[Path]) -> None:
    from bathyscope.pages.options import FORMATS

    kinds = (ARRAYS, *(f".{name}" for name in FORMATS))
    for file in files:
        if file.suffix not in kinds:
            raise OptionError(f"--out {str(file)!r} names no kind of file; allowed: {', '.join(kinds)}.")
        require_writable(file)
        if file.suffix == ARRAYS:
            from bathyscope.analysis.between.map_results import open_maps

            require_own(file, "a file of maps", open_maps)
        else:
            require_own_picture(file)


def _table(data: xr.Dataset) -> TextTable:
    """Return a table of every source with its best target."""
    from bathyscope.statistics.diagonal import NONE

    # One line a source: all pairs would be thousands of lines, which are in the CSV.
    rows: list[list[str]] = []
    for source, target in enumerate(data["best_target"].values.tolist()):
        source_depth = f"{float(data['relative_depth_source'][source]):.2f}"
        if target == NONE:
            rows.append([str(source), source_depth, "–", "–", "–", "–"])
            continue
        pair = data.isel(source=source, target=target)
        target_depth = f"{float(pair['relative_depth_target']):.2f}"
        interval = f"{Estimate.of(pair, 'relative_error'):.3g}"
        rows.append([str(source), source_depth, str(target), target_depth, interval, f"{float(pair['r2']):.3f}"])
    headings = ("source", "relative depth", "best target", "relative depth", "relative error", "R²")
    return TextTable(headings, rows)


app = make_app(maps_command, _EXAMPLES, MapsOptions, loading=LOADING_SEVERAL)
