"""Code that the YAML file of a task would run: functions that it names, scripts of metrics and data, templates."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bathyscope.core.foreign import read_text
from bathyscope.core.recipes import MOST_RECIPE, require_allowed
from bathyscope.core.strict import YamlScalar, yaml_scalars
from bathyscope.core.text import elided
from bathyscope.errors import PromptError, did_you_mean
from bathyscope.prompts.files import check_exists

YAML_FILES: Final = (".yaml", ".yml")
_MOST_FILES: Final = 64
"""Files that include each other, at most."""
_OFF: Final = ("false", "null", "~", "", "no", "off")
_LONGEST_REASON: Final = 120


def require_no_task_code(tasks: Sequence[object], allowed: bool) -> None:
    """Refuse files of tasks that run code, unless the user says that they may; nothing of them is run for it.

    Tasks by their names are the harness's own, with the code that is installed with it.

    Args:
        tasks: as for ``load_benchmarks``.
        allowed: the user has said so.

    Raises:
        OptionError: names the code.
        PromptError: a file of a task, or one that it includes, cannot be read.
    """
    for task in tasks:
        if isinstance(task, str) and task.endswith(YAML_FILES):
            path = Path(task).expanduser()
            check_exists(path)
            codes = list(dict.fromkeys(_codes_of(path)))
            require_allowed(f"The task {task!r}", codes, allowed, "give --allow-code (allow_code=True)")


def confine_templates() -> None:
    """Let the harness fill templates in a sandbox, where they reach values of the document and nothing behind them.

    The harness has one environment of templates for the whole process, without a sandbox; a template could reach any
    function of Python by the attributes of what it is given. All that is set there stays.
    """
    sandboxed: Any = importlib.import_module("jinja2.sandbox").SandboxedEnvironment
    utils: Any = importlib.import_module("lm_eval.utils")
    open_environment = utils.env
    if isinstance(open_environment, sandboxed):
        return
    environment = sandboxed(
        loader=open_environment.loader,
        undefined=open_environment.undefined,
        keep_trailing_newline=open_environment.keep_trailing_newline,
    )
    environment.filters.update(open_environment.filters)
    environment.globals.update(open_environment.globals)
    utils.env = environment


def _codes_of(path: Path) -> Iterator[str]:
    """Yield what a file and the files that it includes would run; files of the harness itself are installed code."""
    waiting, seen = [path.resolve()], set[Path]()
    installed = _folder_of_harness()
    while waiting:
        file = waiting.pop()
        if file in seen or (installed is not None and file.is_relative_to(installed)):
            continue
        seen.add(file)
        if len(seen) > _MOST_FILES:
            raise PromptError(f"{path} includes more than {_MOST_FILES} files, as no task does. Write it in one file.")
        for scalar in _scalars_of(file, path):
            if scalar.key == "include":
                # as the harness looks for it; an absolute path replaces the folder
                waiting.append((file.parent / scalar.text).resolve())
            elif code := _code_of(scalar):
                yield code


def _scalars_of(file: Path, task: Path) -> list[YamlScalar]:
    try:
        return list(yaml_scalars(read_text(file, most=MOST_RECIPE)))
    except OSError as error:
        raise PromptError(f"{task} cannot be read as a task: {file.name}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise PromptError(f"{file} is not UTF-8 text ({error.reason}); convert it to UTF-8.") from error
    except ValueError as error:
        reason = elided(error, _LONGEST_REASON)
        raise PromptError(f"{task} cannot be read as a task ({file.name}: {reason}).") from error


def _code_of(scalar: YamlScalar) -> str:
    """Return the code that one value names; empty where it is plain data."""
    key, text = scalar.key, scalar.text
    if scalar.tag:
        return f"{scalar.tag} {text}".strip()
    names_code = (
        # the harness looks for other metrics in the package evaluate, which loads scripts
        (key == "metric" and text not in _metrics())
        or (key in ("hf_evaluate", "trust_remote_code") and text.lower() not in _OFF)
        # readers of pickles, and scripts
        or (key == "dataset_path" and (text == "pandas" or text.endswith(".py")))
        # files of prompts are read by a loader that makes objects
        or (key == "use_prompt" and ":" in text and not text.startswith("qa-basic:"))
    )
    if names_code and key == "metric":
        return f"metric: {text}, which the harness does not have.{did_you_mean(text, _metrics())}"
    return f"{key}: {text}" if names_code else ""


def _metrics() -> Any:
    importlib.import_module("lm_eval.api.metrics")  # registers them
    return importlib.import_module("lm_eval.api.registry").metric_registry


def _folder_of_harness() -> Path | None:
    spec = importlib.util.find_spec("lm_eval")
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve().parent / "tasks"
