"""``bathyscope survey``: its flags are the options of the Python calls and those of the measures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

import bathyscope
from bathyscope.cli import session
from bathyscope.cli.arguments import RECIPE_CODE, Quiet, make_app, take_options
from bathyscope.cli.console import quiet_libraries, say, write
from bathyscope.cli.flags import add_flags, join_options, make_flags, nest_options
from bathyscope.cli.over_ranks import leave_words_to_first
from bathyscope.cli.printing import print_result
from bathyscope.cli.stored import stored_request
from bathyscope.cli.summary import run_view
from bathyscope.core.bundles import unbundle
from bathyscope.core.conditions import require_conditions
from bathyscope.core.recipes import overlay, read_recipe, require_no_code
from bathyscope.errors import OptionError, StoreError
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.registry import MEASURES, chosen, from_elsewhere
from bathyscope.model.options import LoadOptions
from bathyscope.options import coerce
from bathyscope.surveying.options import BUNDLES, PROMPTS_HELP, StatesOptions, SurveyOptions
from bathyscope.surveying.papers.faults import FAULTS
from bathyscope.surveying.papers.presets import preset as preset_of

CALL = join_options(LoadOptions, SurveyOptions, StatesOptions)
"""What a survey takes besides the model and the measures' options."""
Sources = Annotated[list[str], Parameter(help=PROMPTS_HELP, negative=())]
"""Prompts of other commands, as ``survey`` takes them."""
_EXAMPLES = """\
Examples:
  bathyscope survey Qwen/Qwen2.5-1.5B --prompts gsm8k:10 --measures all
  bathyscope survey ./model --prompts s.txt:50 --measures drop --drop.blocks 0,1
  bathyscope survey gpt2 --prompts mine.jsonl --preset lad2024 --json | jq .
  bathyscope survey gpt2 --prompts gsm8k:20 --out runs/gpt2 --grow
  bathyscope survey --states hidden_states/ --head ./model --boundaries 0,16,32
  bathyscope survey --recipe survey.yaml --lens.k 10

Options of measures: bathyscope survey --help-measures, or --help skip for one.
Faults of the papers' published code: bathyscope survey --help-faults.
A recipe holds the arguments of the Python call, and flags override it:
  model: Qwen/Qwen2.5-1.5B
  prompts: gsm8k:10
  measures: [lens, skip]
  skip: {protect_first: 0}"""


_MODEL = Group("The model", sort_key=1)
_MEASURED = Group("What is measured", sort_key=2)
_STATES = Group("Stored states of a served model, in place of MODEL", sort_key=2)
_RUN = Group("The run", sort_key=3)
_FAULTS = Group(
    "Faults of the papers' published code",
    help="Off unless requested; --preset PAPER-as-published turns on all faults of a paper.",
    sort_key=4,
)
_GROUP_BY_OPTION = dict.fromkeys(("prompts", "measures", "preset", "schedule", "bound", "beyond_context"), _MEASURED)
_GROUP_BY_OPTION |= dict.fromkeys(("write", "temperature"), _MEASURED)
_GROUP_BY_OPTION |= dict.fromkeys(("out", "grow", "until", "budget", "part", "seed"), _RUN)
_GROUP_BY_OPTION |= dict.fromkeys(("batch_tokens", "memory", "call_tokens"), _RUN)
_GROUP_BY_OPTION |= dict.fromkeys(("states", "head", "boundaries"), _STATES)
_GROUP_BY_OPTION |= dict.fromkeys(("engine", "workers", "address", "worker_timeout"), _RUN)
_FAULTY = {(fault.measure, name) for fault in FAULTS for name in fault.options}


def call_flags() -> list[inspect.Parameter]:
    """Return the flags of a survey besides those of the measures, in groups."""
    return make_flags(CALL, "", lambda name: _GROUP_BY_OPTION.get(name, _MODEL))


def measure_flags(
    listed: Container[str] | None = None, others: Mapping[str, Declaration] | None = None, *, faults: bool = False
) -> list[inspect.Parameter]:
    """Return the flags of every measure; those that repeat published faults are in a group of their own.

    Args:
        listed: measures whose options a help lists; None = none of them.
        others: measures from outside the package, with their options.
        faults: a help lists the published faults alone.
    """
    flags: list[inspect.Parameter] = []
    for order, (name, measure) in enumerate({**MEASURES, **(others or {})}.items(), start=5):
        about = Group(f"Options of {name}", help=measure.summary, sort_key=order)
        flags += make_flags(
            measure.options_type,
            name,
            lambda option, name=name, about=about: _FAULTS if (name, option) in _FAULTY else about,  # type: ignore[misc]
            show=lambda option, name=name: (name, option) in _FAULTY if faults else name in (listed or ()),  # type: ignore[misc]
        )
    return flags


def show_measures(command_name: str, names: Sequence[str]) -> int:
    """Print the help of ``--help-measures``, or of ``--help MEASURE``."""
    others = from_elsewhere(names)
    exit_code = _print_flags(command_name, measure_flags([*names, *others], others))
    declarations = {**{name: MEASURES[name] for name in names if name in MEASURES}, **others}
    for name, declaration in declarations.items():
        if not fields(declaration.options_type):
            write(f"{name} has no options. {declaration.summary}")
    return exit_code


def show_faults(command_name: str) -> int:
    """Print the help of ``--help-faults``."""
    return _print_flags(command_name, measure_flags(faults=True))


def _print_flags(command_name: str, flags: list[inspect.Parameter]) -> int:
    about = App(name=f"bathyscope {command_name}", help_format="plaintext", help_flags=(), version_flags=())
    about.default(add_flags(lambda **options: 0, flags))
    about.help_print([])
    return 0


def survey_command(
    model: Annotated[str | None, Parameter(show_default=False, group=_MODEL)] = None,
    /,
    *,
    recipe: Annotated[Path | None, Parameter(show_default=False, group=_RUN)] = None,
    quiet: Annotated[Quiet, Parameter(group=_RUN)] = False,
    allow_code: Annotated[bool, Parameter(negative=(), show_default=False, group=_RUN), RECIPE_CODE] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=(), show_default=False, group=_RUN)] = False,
    **options: Any,
) -> int:
    """Measure a model.

    Args:
        model: name on the hub, or a local folder.
        recipe: YAML file with any of these arguments under the names of the Python call.
        as_json: print a summary as JSON.
    """
    typed = read_sources(nest_options(options))
    name, loading, surveying = read_request(recipe, {"model": model, **typed} if model else typed, allow_code)
    leave_words_to_first(loading.get("tensor_parallel"))
    out = str(surveying["out"])
    source = f"Reading {surveying['states']} by the head of {name}" if "states" in surveying else f"Loading {name}"
    say(f"{source}; the run goes to {out}.", quiet)
    command_line = session.current().command_line
    try:
        with quiet_libraries(downloads=not quiet):
            # The verb loads the model only after every other argument has been checked.
            run = (
                bathyscope.survey_states(**surveying, progress=not quiet, command=command_line)
                if "states" in surveying
                else bathyscope.survey(name, **surveying, loading=loading, progress=not quiet, command=command_line)
            )
    except KeyboardInterrupt as stop:
        # another rank of the same survey says what is left
        if session.current().silent:
            raise
        raise KeyboardInterrupt(describe_interruption(out)) from stop
    print_result(run, "json" if as_json else "table", lambda: run_view(run))
    return 0


def read_request(
    recipe: Path | None, typed: Mapping[str, Any], allow_code: bool = False
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return what a recipe and flags request together: the model, and arguments of ``load`` and of ``survey``, checked.

    Of stored states: their head, nothing, and arguments of ``survey_states``.

    Raises:
        OptionError: unreadable recipe, one that runs code, unknown argument, value of another type, no model or no
            prompts.
    """
    read = {} if recipe is None else read_recipe(recipe)
    if recipe is not None:
        # before a measure's file is looked at, which runs it
        require_no_code({name: value for name, value in read.items() if name not in typed}, recipe, allow_code)
    # Flags are laid over the recipe, so that one recipe serves many runs with small changes.
    arguments = overlay(unbundle(BUNDLES, read), typed)
    measures = (*MEASURES, *from_elsewhere(split_names(arguments.get("measures"))))
    extra_fields: list[tuple[str, Any, Any]] = [("model", str | None, field(default=None))]
    extra_fields += [(name, Mapping[str, Any] | None, field(default=None)) for name in measures]
    allowed = make_dataclass("Recipe", extra_fields, bases=(CALL,), frozen=True)
    request: Any = coerce(allowed, arguments, "survey" if recipe is None else f"recipe {recipe}")
    values = {option.name: getattr(request, option.name) for option in fields(request)}
    if values["states"] is not None:
        return stored_request(values, measures)
    for name, flag in (("model", "MODEL"), ("prompts", "--prompts")):
        if values[name] is None:
            raise OptionError(
                f"No {name} given: say {flag} (for example: bathyscope survey Qwen/Qwen2.5-1.5B "
                f"--prompts gsm8k:10), or '{name}: …' in a recipe."
            )
    options_by_measure = {name: values.pop(name) for name in measures}
    options = {name: values for name, values in options_by_measure.items() if values is not None}
    options = check_options(values["measures"], values["preset"], options)
    if values["measures"] is not None:
        values["measures"] = ",".join(values["measures"])
    model = str(values.pop("model"))
    loading = take_options(LoadOptions, values)
    # without states the others mean nothing
    require_conditions(StatesOptions, {name: values.pop(name) for name in ("states", "head", "boundaries")})
    if values["out"] is None:
        values["out"] = default_out(model, values["prompts"], values["part"])
    require_conditions(LoadOptions, loading)
    require_conditions(SurveyOptions, values)
    return model, loading, {**values, **options}


def split_names(measures: object) -> list[str]:
    """Return the names in ``measures`` of a recipe or command line; anything else in there is refused elsewhere."""
    listed = [measures] if isinstance(measures, str) else measures if isinstance(measures, Sequence) else []
    return [name.strip() for text in listed if isinstance(text, str) for name in text.split(",") if name.strip()]


def typed_measures(tokens: Sequence[str]) -> dict[str, Declaration]:
    """Return the measures from outside the package that a command line names after ``--measures``."""
    following = [after for token, after in pairwise(tokens) if token == "--measures"]
    joined = [token.partition("=")[2] for token in tokens if token.startswith("--measures=")]
    return from_elsewhere(split_names([*following, *joined]))


def check_options(measures: Sequence[str] | None, preset: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of measures, each an instance of its class that nothing checks again.

    Raises:
        OptionError: no such measure, option or preset; raised before a library that takes seconds is imported.
    """
    paper = preset_of(preset)
    checked = chosen(split_names(measures or paper.measures), options, paper.options)
    return {name: checked[name][1] for name in options}


def read_sources(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call with everything that may be typed several times as the Python call takes it."""
    readers: dict[str, Callable[[Any], Any]] = {"prompts": read_source, "measures": ",".join}
    return {name: readers[name](value) if name in readers else value for name, value in call.items()}


def read_source(prompts: Sequence[str], *files: Path | None) -> Any:
    """Return the prompts of ``--prompts``, typed once or several times, as the Python calls take them.

    Args:
        files: that will be written.

    Raises:
        PromptError: no such data set or file; raised before a model is loaded.
        OptionError: one of ``files`` is where the prompts are read from.
    """
    from bathyscope.prompts.source import require_apart, require_there

    source: Any = prompts[0] if len(prompts) == 1 else [{"source": text} for text in prompts]
    require_there(source)
    for file in files:
        if file is not None:
            require_apart(file, source)
    return source


def default_out(model: str, prompts: Any, part: str | None = None) -> str:
    """``runs/Qwen2.5-1.5B-gsm8k-10`` for the model's name and the prompts' label; a part has a folder of its own."""
    from bathyscope.prompts.source import label_of

    # Parts of one survey must not share a folder: each is a run with one writer.
    suffix = "" if part is None else f"-part-{part}"
    name = re.sub(r"[^\w.-]+", "-", f"{Path(model).name}-{label_of(prompts)}{suffix}").strip("-.")
    return str(Path("runs") / name)


def describe_interruption(out: str) -> str:
    """Return what an interrupted survey leaves behind, and how to resume it."""
    from bathyscope.runs.growth import GROWING
    from bathyscope.runs.manifest import load_manifest

    folder, shards = Path(out).expanduser(), "shards"
    # The run's own record may hold an earlier command, such as the one without --grow.
    resume = f"To resume: {session.current().command_line}"
    if (folder / GROWING).exists():
        folder, shards = folder / GROWING, "shards of the larger run"
    try:
        manifest = load_manifest(folder)
    except StoreError:
        return f"Interrupted before anything was computed; nothing is saved. {resume}"
    # An interrupted --grow leaves the finished run untouched until the larger one is complete.
    if manifest.record.finished is not None:
        return f"Interrupted before anything new was computed; the run in {out} is unchanged. {resume}"
    done, planned = len(manifest.record.shards), len(manifest.identity.plan)
    return f"Interrupted: {done} of {planned} {shards} are saved in {out}. {resume}"


def build_app(others: Mapping[str, Declaration] | None = None) -> App:
    """Return the command, with flags for the options of measures from outside the package."""
    return make_app(
        survey_command,
        _EXAMPLES,
        extra_flags=[*call_flags(), *measure_flags(others=others)],
        usage="Usage: bathyscope survey MODEL --prompts STR... [OPTIONS]",
    )


app = build_app()
