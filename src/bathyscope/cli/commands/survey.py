"""``bathyscope survey``: its flags are the arguments of the Python calls and the options of the measures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

import bathyscope
from bathyscope.cli import session
from bathyscope.cli.arguments import Quiet, as_app, taken
from bathyscope.cli.console import quiet_libraries, say, write_json
from bathyscope.cli.flags import command, flags, nested, options_of
from bathyscope.cli.summary import print_summary, summary
from bathyscope.core.recipes import overlay, read_recipe
from bathyscope.errors import OptionError, StoreError
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.registry import DEFAULT, MEASURES, chosen, from_elsewhere
from bathyscope.options import coerce
from bathyscope.surveying.papers.faults import FAULTS
from bathyscope.surveying.papers.presets import preset as preset_of

_OF_PYTHON_ONLY = ("tokenizer", "family", "loading", "progress", "command")
LOAD = options_of("bathyscope:load", leave_out=_OF_PYTHON_ONLY)
CALL = options_of("bathyscope:load", "bathyscope:survey", leave_out=_OF_PYTHON_ONLY)
# one text or a list; prompts of any other kind are the survey's own to refuse
_LISTS = [("prompts", Any, field(default=None)), ("measures", tuple[str, ...] | None, field(default=None))]
IN_A_SHELL = {
    "prompts": "data set, generated problems or a file: gsm8k:10, gsm8k:10@rows.jsonl, problems:60?steps=1-6, "
    "stories.txt:100?window=256, mine.jsonl; given several times, all of them one after the other",
    "measures": f"names separated by commas, or all: {', '.join(MEASURES)} "
    f"(not given = {','.join(DEFAULT)}, or the preset's)",
    "out": "folder of the run; an interrupted run there is resumed (not given = runs/MODEL-PROMPTS)",
}
Sources = Annotated[list[str], Parameter(help=IN_A_SHELL["prompts"], negative=())]
"""Prompts of other commands, as ``survey`` takes them."""
REPEATED = ("prompts", "measures")
_EXAMPLES = """\
Examples:
  bathyscope survey Qwen/Qwen2.5-1.5B --prompts gsm8k:10 --measures all
  bathyscope survey ./model --prompts s.txt:50 --measures drop --drop.blocks 0,1
  bathyscope survey gpt2 --prompts mine.jsonl --preset lad2024 --json | jq .
  bathyscope survey gpt2 --prompts gsm8k:20 --out runs/gpt2 --grow
  bathyscope survey --recipe survey.yaml --lens.k 10

Options of measures: bathyscope survey --help-measures, or --help skip for one.
Faults of the papers' published code: bathyscope survey --help-faults.
A recipe holds the arguments of the Python call, and flags override it:
  model: Qwen/Qwen2.5-1.5B
  prompts: gsm8k:10
  measures: [lens, skip]
  skip: {protect_first: 0}"""


_MODEL = Group("The model", sort_key=1)
_ASKED = Group("What is measured", sort_key=2)
_RUN = Group("The run", sort_key=3)
_FAULTS = Group(
    "Faults of the papers' published code",
    help="Off unless asked; --preset PAPER-as-published gives all of a paper's together.",
    sort_key=4,
)
_PLACES = dict.fromkeys(("prompts", "measures", "preset", "schedule", "beyond_context"), _ASKED)
_PLACES |= dict.fromkeys(("out", "grow", "part", "seed", "batch_tokens", "memory", "call_tokens"), _RUN)
_PLACES |= dict.fromkeys(("engine", "workers", "address", "worker_timeout"), _RUN)
_FAULTY = {(fault.measure, name) for fault in FAULTS for name in fault.options}


def call_flags(options_type: type) -> list[inspect.Parameter]:
    """What a survey takes besides the measures' options, in groups."""
    own = flags(options_type, "", lambda name: _PLACES.get(name, _MODEL), IN_A_SHELL, REPEATED)
    return [p for p in own if p.name != "model"]


def measure_flags(
    shown: Container[str] | None = None, others: Mapping[str, Declaration] | None = None, *, faults: bool = False
) -> list[inspect.Parameter]:
    """The options of every measure; those that repeat published faults stand in a group of their own.

    Args:
        shown: measures whose options a help lists; None = none of them.
        others: measures from outside the package, with their options.
        faults: a help lists the published faults alone.
    """
    found: list[inspect.Parameter] = []
    for order, (name, measure) in enumerate({**MEASURES, **(others or {})}.items(), start=5):
        about = Group(f"Options of {name}", help=measure.summary, sort_key=order)
        found += flags(
            measure.options_type,
            name,
            lambda option, name=name, about=about: _FAULTS if (name, option) in _FAULTY else about,  # type: ignore[misc]
            show=lambda option, name=name: (name, option) in _FAULTY if faults else name in (shown or ()),  # type: ignore[misc]
        )
    return found


def show_measures(command_name: str, names: Sequence[str]) -> int:
    """The help of ``--help-measures``, or of ``--help MEASURE``."""
    others = from_elsewhere(names)
    about = App(name=f"bathyscope {command_name}", help_format="plaintext", help_flags=(), version_flags=())
    about.default(command(lambda **given: 0, measure_flags([*names, *others], others)))
    about.help_print([])
    return 0


def show_faults(command_name: str) -> int:
    """Print the help of ``--help-faults``."""
    about = App(name=f"bathyscope {command_name}", help_format="plaintext", help_flags=(), version_flags=())
    about.default(command(lambda **given: 0, measure_flags(faults=True)))
    about.help_print([])
    return 0


def survey_command(
    model: Annotated[str | None, Parameter(show_default=False, group=_MODEL)] = None,
    /,
    *,
    recipe: Annotated[Path | None, Parameter(show_default=False, group=_RUN)] = None,
    quiet: Annotated[Quiet, Parameter(group=_RUN)] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=(), show_default=False, group=_RUN)] = False,
    **given: Any,
) -> int:
    """Measure a model.

    Args:
        model: name on the hub, or a local folder.
        recipe: YAML file with any of these arguments under the names of the Python call.
        as_json: print a summary as JSON.
    """
    flagged = with_sources(nested(given))
    name, loading, surveying = asked_for(recipe, {"model": model, **flagged} if model else flagged)
    out = str(surveying["out"])
    say(f"Loading {name}; the run goes to {out}.", quiet)
    told: Any = {"progress": not quiet, "command": session.current().command_line}
    try:
        with quiet_libraries(downloads=not quiet):
            # a model is loaded when everything else that was asked for is known to be right
            run = bathyscope.survey(name, **surveying, loading=loading, **told)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(kept(out)) from stop
    if as_json:
        write_json(summary(run))
    else:
        print_summary(run)
    return 0


def asked_for(recipe: Path | None, given: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """What a recipe and flags ask for together: the model, and arguments of ``load`` and of ``survey``, checked.

    Raises:
        OptionError: unreadable recipe, unknown argument, value of another type, no model or no prompts.
    """
    read = overlay(read_recipe(recipe) if recipe is not None else {}, given)
    measures = (*MEASURES, *from_elsewhere(_names(read.get("measures"))))
    of_measures = [(name, Mapping[str, Any] | None, field(default=None)) for name in measures]
    allowed = make_dataclass("Recipe", [*_LISTS, *of_measures], bases=(CALL,), frozen=True)
    asked: Any = coerce(allowed, read, "survey" if recipe is None else f"recipe {recipe}")
    values = {one.name: getattr(asked, one.name) for one in fields(asked)}
    for name, flag in (("model", "MODEL"), ("prompts", "--prompts")):
        if values[name] is None:
            raise OptionError(
                f"No {name} given: say {flag} (for example: bathyscope survey Qwen/Qwen2.5-1.5B "
                f"--prompts gsm8k:10), or '{name}: …' in a recipe."
            )
    given_options = {name: values.pop(name) for name in measures}
    options = {name: given for name, given in given_options.items() if given is not None}
    options = checked_options(values["measures"], values["preset"], options)
    if values["measures"] is not None:
        values["measures"] = ",".join(values["measures"])
    loading = taken(LOAD, values)
    model = str(loading.pop("model"))
    if values["out"] is None:
        values["out"] = default_out(model, values["prompts"], values["part"])
    return model, loading, {**values, **options}


def _names(measures: object) -> list[str]:
    """The names in a recipe's or a command line's ``measures``; whatever else is given there is refused elsewhere."""
    listed = [measures] if isinstance(measures, str) else measures if isinstance(measures, Sequence) else []
    return [name.strip() for one in listed if isinstance(one, str) for name in one.split(",") if name.strip()]


def typed_measures(tokens: Sequence[str]) -> dict[str, Declaration]:
    """The measures from outside the package that a command line names: what ``--measures`` stands before."""
    following = [after for token, after in pairwise(tokens) if token == "--measures"]
    joined = [token.partition("=")[2] for token in tokens if token.startswith("--measures=")]
    return from_elsewhere(_names([*following, *joined]))


def checked_options(measures: Sequence[str] | None, preset: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, each an instance of its class that nothing checks again.

    Raises:
        OptionError: no such measure, option or preset; raised before a library that takes seconds is imported.
    """
    paper = preset_of(preset)
    found = chosen(_names(measures or paper.measures), options, paper.options)
    return {name: found[name][1] for name in options}


def with_sources(call: Mapping[str, Any]) -> dict[str, Any]:
    """The call with what may be given several times as the Python call takes it."""
    reads = {"prompts": one_source, "measures": ",".join}
    return {name: reads[name](value) if name in reads else value for name, value in call.items()}


def one_source(prompts: Sequence[str]) -> Any:
    """What was given by ``--prompts``, once or several times, as the Python calls take it.

    Raises:
        PromptError: no such data set or file; told before a model is loaded.
    """
    from bathyscope.prompts.source import require_there

    source = prompts[0] if len(prompts) == 1 else [{"source": one} for one in prompts]
    require_there(source)
    return source


def default_out(model: str, prompts: Any, part: str | None = None) -> str:
    """``runs/Qwen2.5-1.5B-gsm8k-10`` for the model's name and the prompts' label; a part has a folder of its own."""
    from bathyscope.prompts.source import label_of

    of = "" if part is None else f"-part-{part}"
    name = re.sub(r"[^\w.-]+", "-", f"{Path(model).name}-{label_of(prompts)}{of}").strip("-.")
    return str(Path("runs") / name)


def kept(out: str) -> str:
    """What an interrupted survey leaves behind, and how to go on."""
    from bathyscope.runs.growth import GROWING
    from bathyscope.runs.manifest import load_manifest

    folder, what = Path(out).expanduser(), "shards"
    # the run's own record may hold an older command, such as the one before --grow
    again = f"To resume: {session.current().command_line}"
    if (folder / GROWING).exists():
        folder, what = folder / GROWING, "shards of what the run, which is as it was, grows to"
    try:
        manifest = load_manifest(folder)
    except StoreError:
        return f"Interrupted before anything was computed; nothing is saved. {again}"
    if manifest.record.finished is not None:
        return f"Interrupted before anything new was computed; the run in {out} is as it was. {again}"
    done, planned = len(manifest.record.shards), len(manifest.identity.plan)
    return f"Interrupted: {done} of {planned} {what} are kept in {out}. {again}"


def application(others: Mapping[str, Declaration] | None = None) -> App:
    """The command, with flags for the options of measures from outside the package."""
    return as_app(
        survey_command,
        _EXAMPLES,
        beside=[*call_flags(CALL), *measure_flags(others=others)],
        usage="Usage: bathyscope survey MODEL --prompts STR... [OPTIONS]",
    )


app = application()
