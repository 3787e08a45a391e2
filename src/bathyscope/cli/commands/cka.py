"""``bathyscope cka``: how alike the boundaries of two models are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

import bathyscope
from bathyscope.cli.arguments import LOADING, Quiet, Records, load_all
from bathyscope.cli.commands.survey import IN_A_SHELL, one_source
from bathyscope.cli.console import quiet_libraries, write_rows
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.measures.registry import MEASURES

if TYPE_CHECKING:
    import xarray as xr

_DEFAULTS: Any = MEASURES["cka"].options_type()
_OPTIONS = options_of("bathyscope:cka", leave_out=("model", "other", "prompts", "progress"))
_EXAMPLES = """\
Examples:
  bathyscope cka gpt2 gpt2-medium --prompts gsm8k:20
  bathyscope cka ./base ./tuned --prompts stories.txt:50?window=256 --format csv > cka.csv"""


def cka_command(
    model: str,
    other: str,
    /,
    *,
    prompts: Annotated[list[str], Parameter(help=IN_A_SHELL["prompts"], negative=())],
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Compare the boundaries of two models by linear CKA.

    Args:
        model: name on the hub, or a local folder.
        other: the second model.
    """
    first, second = load_all([model, other], given, quiet)
    with quiet_libraries(downloads=not quiet):
        found = bathyscope.cka(first, second, one_source(prompts), **given)
    write_rows(rows_of(found), format, f"Intervals of {given.get('level', _DEFAULTS.level):.0%}.")
    return 0


def rows_of(found: xr.Dataset) -> list[dict[str, Any]]:
    """A row for every kind of tokens and two boundaries."""
    return [
        {
            "tokens": tokens,
            "boundary": i,
            "boundary_other": j,
            **{name: float(found[name].sel(tokens=tokens).values[i, j]) for name in ("cka", "ci_low", "ci_high")},
        }
        for tokens in found["tokens"].values.tolist()
        for i in range(found.sizes["boundary"])
        for j in range(found.sizes["boundary_other"])
    ]


app = App(name="cka", help_epilogue=_EXAMPLES)
_DERIVED = [*flags(LOADING), *flags(_OPTIONS), *flags(MEASURES["cka"].options_type)]
app.default(command(cka_command, _DERIVED))
