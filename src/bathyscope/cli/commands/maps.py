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
from bathyscope.cli.printing import print_result
from bathyscope.core.own_files import require_own, require_own_picture
from bathyscope.core.paths import require_writable
from bathyscope.errors import OptionError

if TYPE_CHECKING:
    pass

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
    print_result(result, format)
    for file in files:
        if file.suffix == ARRAYS:
            from bathyscope.analysis.between.map_results import encode_maps
            from bathyscope.core.output import write_output

            write_output(file, encode_maps(result.data))
            say(f"Written: {file}", quiet)
        else:
            write_picture(file, result, quiet)
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


app = make_app(maps_command, _EXAMPLES, MapsOptions, loading=LOADING_SEVERAL)
