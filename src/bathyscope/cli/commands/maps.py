"""``bathyscope maps``: the best affine map from every boundary of one model to every boundary of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import LOADING_SEVERAL, Quiet, Records, as_app, on_models, records, write_picture
from bathyscope.cli.commands.survey import one_source
from bathyscope.cli.console import say, write, write_data, write_table
from bathyscope.errors import OptionError

if TYPE_CHECKING:
    import xarray as xr

ARRAYS = ".nc"
PAIR = ("source", "target")
COLUMNS = ("relative_error", "relative_error_low", "relative_error_high", "summed_error", "r2", "ridge")

_IN_A_SHELL = {"ridge": "penalties to choose from, such as 0,1e-4,1; 1 is the mean variance of standardised features"}
_EXAMPLES = """\
Examples:
  bathyscope maps Qwen/Qwen2.5-1.5B Qwen/Qwen2.5-14B --prompts "corpus.txt:400?window=512" --out maps.nc --out maps.png
  bathyscope maps gpt2 gpt2-medium --prompts "corpus.txt:200?window=256" --memory 2 --format csv > maps.csv

Both models must have one vocabulary, and the text many times as many tokens as the
source model is wide."""


def maps_command(
    source: str,
    target: str,
    /,
    *,
    prompts: str,
    out: Annotated[list[Path] | None, Parameter(show_default=False, negative=())] = None,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Map every boundary of one model to every boundary of another.

    Args:
        source: model that is mapped from: name on the hub, or a local folder.
        target: model that is mapped to.
        prompts: data set or file, as for survey.
        out: also write the arrays (.nc) or a figure (.png, .svg, .pdf); may be given several times.
    """
    files = list(out or ())
    _check(files)
    if "ridge" in given:
        given["ridge"] = _numbers(given["ridge"])
    found = on_models(bathyscope.maps, [source, target], one_source([prompts]), given=given, quiet=quiet)
    if not write_data(records(found, (*PAIR, *COLUMNS), PAIR), format):
        _show_table(found)
    for file in files:
        if file.suffix == ARRAYS:
            from bathyscope.analysis.between.map_results import encode_maps
            from bathyscope.pages.export import write_output

            write_output(file, encode_maps(found))
            say(f"Written: {file}", quiet)
        else:
            write_picture(file, "maps", found, quiet)
    return 0


def _check(files: Sequence[Path]) -> None:
    from bathyscope.pages.render import FORMATS

    known = (ARRAYS, *(f".{one}" for one in FORMATS))
    for file in files:
        if file.suffix not in known:
            raise OptionError(f"--out {str(file)!r} says no kind of file; allowed: {', '.join(known)}.")


def _show_table(found: xr.Dataset) -> None:
    """Every source with its best target; then how best partners go with depth."""
    from bathyscope.statistics.diagonal import NONE

    rows: list[list[str]] = []
    for s, t in enumerate(found["best_target"].values.tolist()):
        if t == NONE:
            rows.append([str(s), f"{float(found['relative_depth_source'][s]):.2f}", "–", "–", "–", "–"])
            continue
        depths = (found["relative_depth_source"].values[s], found["relative_depth_target"].values[t])
        error, low, high = (float(found[name].values[s, t]) for name in COLUMNS[:3])
        said = f"{error:.3g} ({low:.3g} to {high:.3g})"
        rows.append([str(s), f"{depths[0]:.2f}", str(t), f"{depths[1]:.2f}", said, f"{float(found['r2'][s, t]):.3f}"])
    write_table(("source", "relative depth", "best target", "relative depth", "relative error", "R²"), rows)
    for direction, text in (
        ("best_target", "Best target of each source"),
        ("best_source", "Best source of each target"),
    ):
        one = found.sel(direction=direction)
        slope, deviation, rank = (
            f"{float(one[name]):.2f} ({float(one[f'{name}_low']):.2f} to {float(one[f'{name}_high']):.2f})"
            for name in ("slope", "deviation", "rank_correlation")
        )
        write(
            f"{text}, by relative depth: slope {slope}; mean distance {deviation}, by chance "
            f"{float(one['deviation_chance']):.2f}; rank correlation {rank}."
        )
    attrs = found.attrs
    write(
        f"Slope 1: at the same relative depth. Intervals of {attrs['level']:.0%} over {attrs['test_prompts']} test "
        f"prompts; maps fitted to {attrs['fit_tokens']} tokens, ridge chosen on {attrs['choose_tokens']}."
    )


def _numbers(texts: Sequence[Any]) -> list[float]:
    try:
        return [float(text) for text in texts]
    except (TypeError, ValueError) as error:
        raise OptionError(f"--ridge takes numbers separated by commas, such as 0,1e-4,1; {texts!r} given.") from error


app = as_app(maps_command, _EXAMPLES, "bathyscope:maps", loading=LOADING_SEVERAL, texts=_IN_A_SHELL)
