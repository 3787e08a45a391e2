"""``bathyscope survey``: its flags are the arguments of the Python calls and the options of the measures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from bathyscope.cli import session
from bathyscope.cli.console import quiet_libraries, say, write_json
from bathyscope.cli.flags import command, flags, nested, options_of
from bathyscope.cli.main import INTERRUPTED
from bathyscope.cli.recipe import overlay, read_recipe
from bathyscope.cli.summary import print_summary, summary
from bathyscope.errors import OptionError, StoreError
from bathyscope.measures.registry import DEFAULT, MEASURES
from bathyscope.model import load
from bathyscope.options import coerce
from bathyscope.prompts.source import label_of
from bathyscope.store.run import Run, load_manifest
from bathyscope.surveying import survey

_OF_PYTHON_ONLY = ("tokenizer", "family", "progress", "command")
CALL = options_of(load, survey, leave_out=_OF_PYTHON_ONLY)
_OF_LOAD = tuple(inspect.signature(load).parameters)
_OPTIONS = [(name, Mapping[str, Any] | None, field(default=None)) for name in MEASURES]
# one text or a list; prompts of any other kind are the survey's own to refuse
_LISTS = [("prompts", Any, field(default=None)), ("measures", tuple[str, ...] | None, field(default=None))]
RECIPE = make_dataclass("Recipe", [*_LISTS, *_OPTIONS], bases=(CALL,), frozen=True)
IN_A_SHELL = {
    "prompts": "data set, generated problems or a file: gsm8k:10, gsm8k:10@rows.jsonl, problems:60?steps=1-6, "
    "stories.txt:100?window=256, mine.jsonl; given several times, all of them one after the other",
    "measures": f"names separated by commas, or all: {', '.join(MEASURES)} "
    f"(not given = {','.join(DEFAULT)}, or the preset's)",
    "out": "folder of the run; an interrupted run there is resumed (not given = runs/MODEL-PROMPTS)",
}
REPEATED = ("prompts",)
_EXAMPLES = """\
Examples:
  bathyscope survey Qwen/Qwen2.5-1.5B --prompts gsm8k:10 --measures all
  bathyscope survey ./model --prompts s.txt:50 --measures drop --drop.blocks 0,1
  bathyscope survey gpt2 --prompts mine.jsonl --preset lad2024 --json | jq .
  bathyscope survey --recipe survey.yaml --lens.k 10

A recipe holds the arguments of the Python call, and flags override it:
  model: Qwen/Qwen2.5-1.5B
  prompts: gsm8k:10
  measures: [lens, skip]
  skip: {protect_first: 0}"""


def measure_flags() -> list[inspect.Parameter]:
    """The options of every measure, each measure in a group of its own."""
    found: list[inspect.Parameter] = []
    for order, (name, measure) in enumerate(MEASURES.items(), start=1):
        about = Group(f"Options of {name}", help=measure.summary, sort_key=order)
        found += flags(measure.options_type, name, about)
    return found


def survey_command(
    model: Annotated[str | None, Parameter(show_default=False)] = None,
    /,
    *,
    recipe: Annotated[Path | None, Parameter(show_default=False)] = None,
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=(), show_default=False)] = False,
    **given: Any,
) -> int:
    """Measure a model.

    Args:
        model: name on the hub, or a local folder.
        recipe: YAML file with any of these arguments under the names of the Python call.
        quiet: no progress and no messages; warnings and errors remain.
        as_json: print a summary as JSON.
    """
    asked = with_sources(nested(given))
    call = SurveyCall.of(recipe, {"model": model, **asked} if model else asked)
    say(f"Loading {call.model}; the run goes to {call.out}.", quiet)
    try:
        run = call.survey(quiet)
    except KeyboardInterrupt:
        say(kept(call.out))
        return INTERRUPTED
    if as_json:
        write_json(summary(run))
    else:
        print_summary(run)
    return 0


@dataclass(frozen=True)
class SurveyCall:
    """A survey as asked for by a recipe and flags together: arguments of ``load`` and of ``survey``."""

    loading: Mapping[str, Any]
    surveying: Mapping[str, Any]

    @classmethod
    def of(cls, recipe: Path | None, given: Mapping[str, Any]) -> SurveyCall:
        """Both merged and checked.

        Raises:
            OptionError: unreadable recipe, unknown argument, value of another type, no model or no prompts.
        """
        read = read_recipe(recipe) if recipe is not None else {}
        asked: Any = coerce(RECIPE, overlay(read, given), "survey" if recipe is None else f"recipe {recipe}")
        values = {one.name: getattr(asked, one.name) for one in fields(asked)}
        for name, flag in (("model", "MODEL"), ("prompts", "--prompts")):
            if values[name] is None:
                raise OptionError(
                    f"No {name} given: say {flag} (for example: bathyscope survey Qwen/Qwen2.5-1.5B "
                    f"--prompts gsm8k:10), or '{name}: …' in a recipe."
                )
        if values["measures"] is not None:
            values["measures"] = ",".join(values["measures"])
        loading = {name: values.pop(name) for name in _OF_LOAD if name in values}
        if values["out"] is None:
            values["out"] = default_out(loading["model"], values["prompts"])
        options = {name: values.pop(name) for name in MEASURES}
        return cls(loading, values | {name: chosen for name, chosen in options.items() if chosen is not None})

    @property
    def model(self) -> str:
        """Name or folder of the model."""
        return str(self.loading["model"])

    @property
    def out(self) -> str:
        """Folder of the run."""
        return str(self.surveying["out"])

    def survey(self, quiet: bool) -> Run:
        """Loads the model and runs the survey, or what is left of it."""
        with quiet_libraries(downloads=not quiet):
            model = load(**self.loading)
            return survey(model, **self.surveying, progress=not quiet, command=session.current().command_line)


def with_sources(call: Mapping[str, Any]) -> dict[str, Any]:
    """The call with ``--prompts`` as the Python call takes it: one source, or the union of several."""
    prompts = call.get("prompts")
    if prompts is None:
        return dict(call)
    return {**call, "prompts": prompts[0] if len(prompts) == 1 else [{"source": one} for one in prompts]}


def default_out(model: str, prompts: Any) -> str:
    """``runs/Qwen2.5-1.5B-gsm8k-10`` for the model's name and the prompts' label.

    Raises:
        PromptError: the prompts are no source.
    """
    name = re.sub(r"[^\w.-]+", "-", f"{Path(model).name}-{label_of(prompts)}").strip("-.")
    return str(Path("runs") / name)


def kept(out: str) -> str:
    """What an interrupted survey leaves behind, and how to go on."""
    try:
        manifest = load_manifest(Path(out).expanduser())
    except StoreError:
        return "Interrupted before anything was computed; nothing is kept."
    done, planned = len(manifest.record.shards), len(manifest.identity.plan)
    command_line = manifest.record.command or session.current().command_line
    return f"Interrupted: {done} of {planned} shards are kept in {out}. To resume: {command_line}"


app = App(name="survey", help_epilogue=_EXAMPLES)
app.default(
    command(
        survey_command,
        [p for p in flags(CALL, texts=IN_A_SHELL, repeated=REPEATED) if p.name != "model"] + measure_flags(),
    )
)
