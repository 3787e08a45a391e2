"""``bathyscope lab``: small models made by recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from bathyscope.cli import session
from bathyscope.cli.arguments import Quiet, WholeNumber, fold_help, refuse_word
from bathyscope.cli.console import (
    quiet_libraries,
    say,
    write,
    write_json,
)
from bathyscope.cli.flags import add_flags, make_flags
from bathyscope.cli.table_printing import write_table
from bathyscope.core.interrupts import INTERRUPTED
from bathyscope_lab.options import TrainOptions

if TYPE_CHECKING:
    from bathyscope_lab.train import Trained

COMMANDS = ("train", "recipes")
_EXAMPLES = """\
Examples:
  bathyscope lab train smallest --out models/smallest
  bathyscope lab train depth_12 --data texts --out models/depth_12
  bathyscope lab train pointer_chasing --set model.num_hidden_layers=8 --seed 2 --out models/pointers_8
  bathyscope lab train fine_tune --set from=models/base --out models/tuned
  bathyscope compare models/tuned/before models/tuned/after
  bathyscope report models/tuned/before models/tuned/after --out tuned.html

The same command resumes an interrupted run."""


def train_command(
    recipe: str,
    /,
    *,
    out: Path,
    set: Annotated[list[str] | None, Parameter(metavar="KEY=VALUE", negative=(), show_default=False)] = None,
    seed: WholeNumber = None,
    format: Literal["table", "json"] = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Train a model by a recipe, from nothing or further from a checkpoint.

    Args:
        recipe: the name of a recipe of the package (bathyscope lab recipes lists them), or a YAML file.
        out: folder of the checkpoint.
        set: change an option of the recipe, by its path with dots; may be given several times.
        seed: in place of the recipe's.
        format: of the result.
    """
    from bathyscope_lab.recipes import read_recipe
    from bathyscope_lab.train import train

    overrides = [*(set or []), *([] if seed is None else [f"seed={seed}"])]
    chosen = read_recipe(recipe, overrides)
    say(f"Training {chosen.name}: {chosen.total_steps:,} steps.", quiet)
    try:
        with quiet_libraries(downloads=not quiet):
            trained = train(chosen, out, progress=not quiet, **given)
    except KeyboardInterrupt:
        say(_interrupted(out, chosen.total_steps))
        return INTERRUPTED
    if format == "json":
        write_json(trained.summary)
    else:
        _show(trained, chosen.given)
    say(f"Written: {trained.folder}", quiet)
    return 0


def recipes_command() -> int:
    """List the recipes of the package."""
    from bathyscope_lab.recipes import shipped

    for name, path in shipped().items():
        remark = path.read_text(encoding="utf-8").splitlines()[0]
        write(f"{name}: {remark.removeprefix('# ')}")
    return 0


def _interrupted(out: Path, planned: int) -> str:
    """What an interrupted run leaves behind, and how to resume it."""
    from bathyscope_lab.checkpoint import latest, load_progress

    newest = latest(out / "checkpoints")
    if newest is None:
        return "Interrupted before the first checkpoint."
    done = load_progress(newest)["step"]
    return f"Interrupted: {done:,} of {planned:,} steps are saved in {out}. To resume: {session.current().command_line}"


def _show(trained: Trained, given: str) -> None:
    summary = trained.summary
    held_out = [[score.replace("_", " "), f"{value:.4f}"] for score, value in summary["held_out"].items()]
    write_table(("Held out", "Value"), held_out)
    write(
        f"{summary['steps']:,} steps, {summary['tokens']:,} tokens, {summary['minutes']:.1f} minutes; "
        f"{summary['parameters']:,} parameters. Losses are in nats per token, accuracies are shares of exact "
        f"answers{given}."
    )


app = App(name="lab", help_epilogue=fold_help(_EXAMPLES))
app.command(add_flags(train_command, make_flags(TrainOptions)), name="train")
app.command(recipes_command, name="recipes")


@app.default
def unknown(*words: Annotated[str, Parameter(show=False)]) -> int:
    """Small models, made by recipe."""
    raise refuse_word(words, "command", COMMANDS)
