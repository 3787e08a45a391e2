"""The commands, with a line of help each. Nothing heavy is imported until one runs or shows its own help."""

import importlib
from collections.abc import Mapping, Sequence
from textwrap import shorten, wrap
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from bathyscope import __version__
from bathyscope.cli import session
from bathyscope.cli.console import log_lines
from bathyscope.core.csv_text import written_safely
from bathyscope.core.plug_ins import declared
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.registry import MEASURES

_EXAMPLES = """\
Examples:
  bathyscope demo
  bathyscope check Qwen/Qwen2.5-1.5B
  bathyscope survey Qwen/Qwen2.5-1.5B --prompts gsm8k:10 --out runs/qwen
  bathyscope show runs/qwen --measure effective_depth --format csv

Exit codes: 0 done, 1 unexpected, 2 usage or options, 3 prompts, 4 model,
5 files of a run, 6 no block can go, 7 no repair helps, 130 interrupted. Every
command has its own --help."""

_EVERYWHERE = Group("With every command", sort_key=100)
EVERYWHERE = ("--debug", "--log-level", "--log-json", "--safe-csv")
"""Flags of ``launch``, which stand in front of a command or behind it."""

app = App(
    name="bathyscope",
    help="How a language model uses its depth: layer-wise measurements in one pass over the blocks.",
    help_epilogue=_EXAMPLES,
    help_format="plaintext",
    version=f"bathyscope {__version__}",
    suppress_keyboard_interrupt=False,
)
app.meta.suppress_keyboard_interrupt = False
app.register_install_completion_command()

_TASKS = {
    "Measure": {
        "demo": "Survey the bundled model on bundled prompts and write a report; offline, about a minute.",
        "survey": "Measure a model on some prompts; an interrupted survey is resumed by the same command.",
        "grid": "Many surveys from one file: models × prompts × options, each resumable.",
        "course": "Depth by step, of the checkpoints of one training.",
        "fit-lens": "Fit a Jacobian lens of a model, which survey reads with.",
        "join": "Join the parts of one survey (survey --part 3/16) to its run.",
        "estimate": "Work, memory and time of a survey, from the model's configuration alone.",
    },
    "Read": {
        "show": "Print the results of a run as a table, CSV or JSON.",
        "report": "Draw one or more runs: a self-contained HTML page, and figures as files.",
        "plot": "One panel as a file for a paper: PDF, SVG, PNG or PGF, in the width of a column.",
        "badge": "A run's depth as an SVG badge of one line.",
        "card": "A run as Markdown for a model card, with its depth profile.",
        "push": "Publish a run as a data set on the hub, where open, show and report read it.",
        "list": "Names of measures, data sets, presets, families of models and estimators of depth.",
    },
    "Compare": {
        "compare": "Differences of effective depth between runs: models, data sets, levels of difficulty.",
        "group": "Depth on each group of a run's prompts, such as those that a shallower model solves too.",
        "written": "Whether what a model writes is right more often where its tokens settle late.",
        "cka": "How alike the boundaries of two models are, on the same prompts.",
        "diff": "Where two models of one shape part: a model and its tuned, quantised or converted copy.",
        "maps": "The best affine map from every boundary of one model to every boundary of another.",
        "depth-performance": "Regression of a benchmark's score on the number of layers, from a table of models.",
    },
    "Act": {
        "prune": "Which blocks can go: chosen on some prompts, proved on others against cheap rules.",
        "repeat-scan": "Whether it helps to run some window of blocks twice in a row.",
        "exit-advice": "Whether drafting with a model's first blocks makes it generate faster, and with how many.",
        "solved": "Whether a model gives each prompt's answer, and how probable that answer is.",
        "solved-by": "Label prompts by which of two models, a shallow and a deep one, solve them.",
        "evaluate": "Benchmarks of lm-evaluation-harness with blocks dropped, swapped and repeated.",
        "export": "Write a model without some of its blocks, as a checkpoint for plain transformers.",
        "repair": "Make up for dropped blocks: a number, a map, a little training, each measured.",
        "probe": 'Linear probes on labelled data: word meaning by depth, neurons that predict "-ing".',
    },
    "Papers": {"reproduce": "Tables and figures of the papers, from the models at hand, next to what was published."},
    "Models": {"check": "Load a model and show what the checks of its anatomy measured, block by block."},
}
_WITH_MEASURES = (("survey",), ("estimate",))
_HELP_MEASURES = "--help-measures"
_HELP_FAULTS = "--help-faults"
# Ten of 32 commands, since a help longer than a screen is not read.
_FIRST = ("demo", "check", "survey", "show", "report", "compare", "estimate", "prune", "export", "evaluate")
"""Commands that people need first, which fit one screen with a line each."""
_GROUPS = {task: Group(task, sort_key=order) for order, task in enumerate(_TASKS)}

for _task, _commands in _TASKS.items():
    # The import path is a text: cyclopts imports a command when it is typed, and not to list it.
    for _name, _help in _commands.items():
        _module = f"bathyscope.cli.commands.{_name.replace('-', '_')}:app"
        app.command(_module, name=_name, help=_help, group=_GROUPS[_task])

# Other packages, such as the laboratory, add commands: entry point NAME = "module:app", described by its summary.
for _entry in declared("bathyscope.commands"):
    _summary = _entry.dist.metadata["Summary"] if _entry.dist else ""
    app.command(_entry.value, name=_entry.name, help=_summary, group=_GROUPS["Models"])


def short_help() -> str:
    """Return the help of the program on one screen; ``--help-all`` has every command with its line."""
    lines = {name: line for commands in _TASKS.values() for name, line in commands.items()}
    first = [f"  {name:<9} {shorten(lines[name], 68, placeholder=' …')}" for name in _FIRST]
    others = [
        f"  {task:<9} {', '.join(names)}"
        for task, commands in _TASKS.items()
        if (names := [name for name in commands if name not in _FIRST])
    ]
    installed = [name for name in app if not name.startswith("-") and name not in lines]
    others += [f"  {'Installed':<9} {', '.join(installed)}"] if installed else []
    wrapped = [row for line in others for row in wrap(line, 80, subsequent_indent=" " * 12)]
    head = [
        "Usage: bathyscope COMMAND",
        "",
        *wrap(str(app.help), 80),
        "",
        "First commands:",
        *first,
        "",
        "More:",
        *wrapped,
        "",
    ]
    flags = f"Options: --help, --help-all (all commands), --version, {', '.join(EVERYWHERE)}"
    return "\n".join([*head, *wrap(flags, 80), "", _EXAMPLES])


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Annotated[bool, Parameter(negative=(), show_default=False, group=_EVERYWHERE)] = False,
    log_level: Annotated[session.Level | None, Parameter(show_default=False, group=_EVERYWHERE)] = None,
    log_json: Annotated[bool, Parameter(negative=(), show_default=False, group=_EVERYWHERE)] = False,
    safe_csv: Annotated[bool, Parameter(negative=(), show_default=False, group=_EVERYWHERE)] = False,
) -> Any:
    """Run one command.

    Args:
        debug: show tracebacks, and what libraries print (also: BATHYSCOPE_DEBUG=1).
        log_level: the least urgent messages on standard error; progress is among those of info.
        log_json: messages as JSON, one a line, with time and level.
        safe_csv: in CSV, texts that a spreadsheet would run as a formula stand behind an apostrophe.
    """
    if log_level is not None or log_json:
        log_lines(log_level or "info", log_json)
    if debug:
        session.log("debug", log_json)
    with written_safely(safe_csv):
        return _run(tokens)


def _run(tokens: Sequence[str]) -> Any:
    if tokens[:1] in _WITH_MEASURES and _HELP_MEASURES in tokens:
        from bathyscope.cli.commands.survey import show_measures

        names = [token for token in tokens[1:] if not token.startswith("-")]
        return show_measures(tokens[0], names or list(MEASURES))
    if tokens[:1] in _WITH_MEASURES and _HELP_FAULTS in tokens:
        from bathyscope.cli.commands.survey import show_faults

        return show_faults(tokens[0])
    if tokens[:1] in _WITH_MEASURES:
        from bathyscope.cli.commands.survey import typed_measures

        # Measures of a file or package have flags that exist only once their module is imported.
        if others := typed_measures(tokens):
            return _run_with_flags_of(others, tokens)
    return app(tokens)


def _run_with_flags_of(others: Mapping[str, Declaration], tokens: Sequence[str]) -> Any:
    """Run the command with flags for measures from outside the package; its errors reach ``main`` like all others."""
    command = importlib.import_module(f"bathyscope.cli.commands.{tokens[0]}").build_app(others)
    program = App(name=app.name[0], help_format="plaintext", suppress_keyboard_interrupt=False)
    program.command(command)
    return program(tokens, exit_on_error=False, print_error=False, result_action="return_value")


def expand_measures_help(tokens: list[str]) -> list[str]:
    """Turn ``survey --help skip`` into ``survey --help-measures skip``: the parser drops what follows ``--help``."""
    for place, token in enumerate(tokens[:-1]):
        # a word that names no measure is refused there, too
        if token in ("--help", "-h") and tuple(tokens[:1]) in _WITH_MEASURES and not tokens[place + 1].startswith("-"):
            return [tokens[0], _HELP_MEASURES, tokens[place + 1]]
    return tokens
