"""The commands, with a line of help each. Nothing heavy is imported until one runs or shows its own help."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from bathyscope import __version__
from bathyscope.cli import session

_EXAMPLES = """\
Examples:
  bathyscope demo
  bathyscope check Qwen/Qwen2.5-1.5B
  bathyscope survey Qwen/Qwen2.5-1.5B --prompts gsm8k:10 --out runs/qwen
  bathyscope show runs/qwen --measure effective_depth --format csv

Exit codes: 0 done, 1 unexpected, 2 usage or options, 3 prompts, 4 model,
5 files of a run, 130 interrupted. Every command has its own --help."""

_EVERYWHERE = Group("With every command", sort_key=100)

app = App(
    name="bathyscope",
    help="How a language model uses its depth: layer-wise measurements in one pass over the blocks.",
    help_epilogue=_EXAMPLES,
    help_format="plaintext",
    version=f"bathyscope {__version__}",
    suppress_keyboard_interrupt=False,
)
app.meta.suppress_keyboard_interrupt = False

for _name, _help in {
    "demo": "Survey the bundled model on bundled prompts and write a report; offline, about a minute.",
    "survey": "Measure a model on some prompts; an interrupted survey is resumed by the same command.",
    "show": "Print the results of a run as a table, CSV or JSON.",
    "report": "Draw one or more runs: a self-contained HTML page, and figures as files.",
    "compare": "Differences of effective depth between runs: models, data sets, levels of difficulty.",
    "group": "Depth on each group of a run's prompts, such as those that a shallower model solves too.",
    "solved-by": "Label prompts by which of two models, a shallow and a deep one, solve them.",
    "depth-performance": "Regression of a benchmark's score on the number of layers, from a table of models.",
    "reproduce": "Tables and figures of the papers, from the models at hand, beside what was published.",
    "evaluate": "Benchmarks of lm-evaluation-harness with blocks dropped, swapped and repeated.",
    "maps": "The best affine map from every boundary of one model to every boundary of another.",
    "probe": 'Linear probes on labelled data: word meaning by depth, neurons that foretell "-ing".',
    "check": "Load a model and show what the checks of its anatomy measured, block by block.",
    "estimate": "Work, memory and time of a survey, from the model's configuration alone.",
}.items():
    app.command(f"bathyscope.cli.commands.{_name.replace('-', '_')}:app", name=_name, help=_help)

# commands of other packages, such as the laboratory's: entry point NAME = "module:app", described by their summaries
for _entry in entry_points(group="bathyscope.commands"):
    _summary = _entry.dist.metadata["Summary"] if _entry.dist else ""
    app.command(_entry.value, name=_entry.name, help=_summary)


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Annotated[bool, Parameter(negative=(), show_default=False, group=_EVERYWHERE)] = False,
) -> Any:
    """Run one command.

    Args:
        debug: show tracebacks, and what libraries print (also: BATHYSCOPE_DEBUG=1).
    """
    if debug:
        session.debug()
    return app(tokens)
