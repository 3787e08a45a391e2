"""The list of all commands, with a line of help each; nothing of them is imported."""

from collections.abc import Mapping
from typing import Final

from bathyscope.core.commands import PLACES

TASKS: Final = {
    "Measure": {
        "demo": "Survey the bundled model on bundled prompts and write a report; offline, about a minute.",
        "survey": "Measure a model on some prompts; an interrupted survey is resumed by the same command.",
        "course": "Depth by step, of the checkpoints of one training.",
        "fit-lens": "Fit a Jacobian lens of a model, which survey reads with.",
        "estimate": "Work, memory and time of a survey, from the model's configuration alone.",
    },
    "Read": {
        "show": "Print a run's results: a table, CSV, JSON, a badge or a model card.",
        "report": "Draw one or more runs: a self-contained HTML page, and figures as files.",
        "push": "Publish a run as a data set on the hub, where open, show and report read it.",
    },
    "Compare": {
        "compare": "Differences of effective depth between runs: models, data sets, levels of difficulty.",
        "diff": "Where two models of one shape part: a model and its tuned, quantised or converted copy.",
    },
    "Act": {
        "prune": "Which blocks can go: chosen on some prompts, proved on others against cheap rules.",
        "evaluate": "Benchmarks of lm-evaluation-harness with blocks dropped, swapped and repeated.",
        "export": "Write a model without some of its blocks, as a checkpoint for plain transformers.",
        "repair": "Make up for dropped blocks: a number, a map, a little training, each measured.",
        "probe": 'Linear probes on labelled data: word meaning by depth, neurons that predict "-ing".',
    },
    "Papers": {"reproduce": "Tables and figures of the papers, from the models at hand, next to what was published."},
    "Models": {"check": "Load a model and show what the checks of its anatomy measured, block by block."},
}
"""Task → command → line of help."""
# Ten of the commands, since a help longer than a screen is not read.
FIRST: Final = ("demo", "check", "survey", "show", "report", "compare", "estimate", "prune", "export", "evaluate")
"""Commands that people need first, which fit one screen with a line each."""
QUESTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "survey": {
        "grid": "Many surveys from one file: models × prompts × options, each resumable.",
        "join": "Join the parts of one survey (--part 3/16) to its run.",
    },
    "show": {"names": "Names of measures, data sets, presets, families of models, estimators of depth and panels."},
    "report": {"plot": "One panel as a file for a paper: PDF, SVG, PNG or PGF, in the width of a column."},
    "compare": {
        "group": "Depth on each group of a run's prompts, such as those that a shallower model solves too.",
        "solved": "Whether a model gives each prompt's answer, and how probable that answer is.",
        "solved-by": "Label prompts by which of two models, a shallow and a deep one, solve them.",
        "written": "Whether what a model writes is right more often where its tokens settle late.",
        "depth-performance": "Regression of a benchmark's score on the number of layers, from a table of models.",
    },
    "diff": {
        "cka": "How alike the boundaries of two models are, on the same prompts.",
        "maps": "The best affine map from every boundary of one model to every boundary of another.",
    },
    "prune": {
        "repeat-scan": "Whether it helps to run some window of blocks twice in a row.",
        "exit-advice": "Whether drafting with a model's first blocks makes it generate faster, and with how many.",
    },
}
"""Command → further commands inside of it → line of help."""


def every_command() -> list[tuple[str, ...]]:
    """Return the words of each command of this package, those inside of others too."""
    names = [name for commands in TASKS.values() for name in commands]
    return [*((name,) for name in names), *((name, inner) for name in names for inner in QUESTIONS.get(name, ()))]


def words_inside(command: str) -> dict[str, str]:
    """Return what a command is called for: names, those of the version before too, and the words that call each."""
    before = {verb: place for verb, place in PLACES.items() if place.startswith(f"{command} ")}
    return {**before, **{inner: f"{command} {inner}" for inner in QUESTIONS.get(command, ())}}
