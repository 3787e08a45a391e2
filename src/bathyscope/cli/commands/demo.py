"""``bathyscope demo``: the bundled model on the bundled prompts, without any network."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from bathyscope.bundled import model_path, prompts_path
from bathyscope.cli import session
from bathyscope.cli.console import quiet_libraries, say
from bathyscope.errors import ModelError

if TYPE_CHECKING:
    from bathyscope.store.run import Run

MEASURES = ("residual", "lens", "skip", "drop", "swap", "repeat", "effective_depth")
_EXAMPLES = """\
Examples:
  bathyscope demo
  bathyscope demo --out runs/first
  bathyscope show runs/demo --measure skip --format csv | head"""

app = App(name="demo", help_epilogue=_EXAMPLES)


@app.default
def demo(
    *,
    out: Path = Path("runs/demo"),
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Show what a survey gives.

    Args:
        out: folder of the run and its report.
        quiet: no progress and no messages.
    """
    # transformers reads this when it is first imported, which is below
    os.environ["HF_HUB_OFFLINE"] = "1"
    from bathyscope.cli.summary import print_summary
    from bathyscope.report.page import report

    folder = model_path()
    if not (folder / "config.json").is_file() or not prompts_path().is_file():
        raise ModelError(
            f"The bundled model is not in {folder}: this installation is incomplete. Install it again, "
            "or survey a model of your own (bathyscope survey --help)."
        )
    say(f"Surveying the bundled model: {', '.join(MEASURES)}.", quiet)
    run = _survey(out, quiet)
    page = report([run], out / "report.html")
    print_summary(run)
    print(f"Report: {page}")
    print(run.headline())
    return 0


def _survey(out: Path, quiet: bool) -> Run:
    from bathyscope.model import load
    from bathyscope.prompts.source import resolve
    from bathyscope.prompts.tokenizer import load_tokenizer
    from bathyscope.surveying import survey

    with quiet_libraries(downloads=False):
        # in bfloat16 rounding would outweigh some effects; the name is the same wherever it is installed
        loaded = load(model_path(), dtype="float32", tokenizer=load_tokenizer(model_path()))
        model = replace(loaded, name="bundled model")
        prompts = replace(resolve(prompts_path()), dataset="bundled prompts")
        return survey(model, prompts, MEASURES, out, progress=not quiet, command=session.current().command_line)
