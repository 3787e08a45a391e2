"""The commands, with a line of help each. Nothing heavy is imported until one runs or shows its own help."""

import importlib
from collections.abc import Mapping, Sequence
from textwrap import shorten, wrap
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from bathyscope import __version__
from bathyscope.cli import session
from bathyscope.cli.console import log_lines, say
from bathyscope.cli.contents import FIRST, QUESTIONS, TASKS
from bathyscope.cli.renamed import refuse_misspelt
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
command has its own --help, which lists the commands inside of it."""

_EVERYWHERE = Group("With every command", sort_key=100)
EVERYWHERE = ("--debug", "--log-level", "--log-json", "--safe-csv")
"""Flags of ``launch``, which are in front of a command or behind it."""

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

_WITH_MEASURES = ("survey", "estimate")
_HELP_MEASURES = "--help-measures"
_HELP_FAULTS = "--help-faults"
_GROUPS = {task: Group(task, sort_key=order) for order, task in enumerate(TASKS)}

for _task, _commands in TASKS.items():
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
    lines = {name: line for commands in TASKS.values() for name, line in commands.items()}
    first = [f"  {name:<9} {shorten(lines[name], 68, placeholder=' …')}" for name in FIRST]
    others = [
        f"  {task:<9} {', '.join(names)}"
        for task, commands in TASKS.items()
        if (names := [name for name in commands if name not in FIRST])
    ]
    installed = [name for name in app if not name.startswith("-") and name not in lines]
    others += [f"  {'Installed':<9} {', '.join(installed)}"] if installed else []
    wrapped = [row for line in others for row in wrap(line, 80, subsequent_indent=" " * 12)]
    inside = ", ".join(f"{name} {inner}" for name, commands in QUESTIONS.items() for inner in commands)
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
        *wrap(f"Inside of these: {inside}.", 80, break_on_hyphens=False),
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
        safe_csv: in CSV, texts that a spreadsheet would run as a formula begin with an apostrophe.
    """
    if log_level is not None or log_json:
        log_lines(log_level or "info", log_json)
    if debug:
        session.log("debug", log_json)
    # Said here and not where the old name was read, since the flags above say whether and how.
    if warning := session.current().renamed:
        say(warning, level="warning")
    with written_safely(safe_csv):
        return _run(tokens)


def _run(tokens: Sequence[str]) -> Any:
    refuse_misspelt(tokens)
    if not _takes_measures(tokens):
        return app(tokens)
    from bathyscope.cli.commands.survey import show_faults, show_measures, typed_measures

    if _HELP_MEASURES in tokens:
        names = [token for token in tokens[1:] if not token.startswith("-")]
        return show_measures(tokens[0], names or list(MEASURES))
    if _HELP_FAULTS in tokens:
        return show_faults(tokens[0])
    # Measures of a file or package have flags that exist only once their module is imported.
    if others := typed_measures(tokens):
        return _run_with_flags_of(others, tokens)
    return app(tokens)


def _takes_measures(tokens: Sequence[str]) -> bool:
    """Return whether a command line has flags of measures; commands inside of such a command have none."""
    command, word = (*tokens[:2], "", "")[:2]
    return command in _WITH_MEASURES and word not in QUESTIONS.get(command, ())


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
        if token in ("--help", "-h") and _takes_measures(tokens) and not tokens[place + 1].startswith("-"):
            return [tokens[0], _HELP_MEASURES, tokens[place + 1]]
    return tokens
