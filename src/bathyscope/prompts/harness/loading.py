"""Tasks of lm-evaluation-harness, with their documents from the hub or from files."""

import importlib
import importlib.util
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from bathyscope.core.network import cache_alone_without_network
from bathyscope.core.paths import given_path
from bathyscope.core.text import counted
from bathyscope.errors import OptionError, PromptError, describe_value, did_you_mean, warn
from bathyscope.prompts.files import check_exists, read_rows
from bathyscope.prompts.harness.task_code import YAML_FILES, confine_templates, require_no_task_code
from bathyscope.prompts.harness.task_names import installed_names

WRITTEN = "generate_until"
_SCORED = ("loglikelihood", "multiple_choice", WRITTEN)
_NEEDED = ("lm_eval", "accelerate")
_NO_TASK = ("Expected YAML dict", "Unknown config shape")
"""What the harness says of a file that is well-formed and holds something else."""
FLAG = "--data {name}=FILE (in Python: data={{{name!r}: FILE}})"
"""How ``evaluate`` and ``prune`` are given a task's documents."""


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A task with its documents; ``source`` is the file that they come from, None = as the harness has it."""

    name: str
    task: Any
    source: str | None = None

    @property
    def written(self) -> bool:
        """Whether the model writes its answers; otherwise those of the task are scored."""
        return bool(self.task.OUTPUT_TYPE == WRITTEN)


def load_benchmarks(
    tasks: Sequence[str | Benchmark],
    data: Mapping[str, str | Path] | None = None,
    allow_code: bool = False,
    *,
    as_file: str = FLAG,
) -> tuple[Benchmark, ...]:
    """Load the tasks with these names, ready to be asked zero-shot.

    Args:
        tasks: names that the harness knows (tasks, groups, tags), YAML files of one task in the harness's form, or
            benchmarks, which are taken as they are.
        data: task → file (.jsonl, .csv or .parquet) whose rows are used instead of the hub's. HellaSwag's rows may
            have ``ctx`` alone instead of the hub's ``ctx_a`` and ``ctx_b``.
        allow_code: run the Python functions, and scripts of metrics and data, that a YAML file names.
        as_file: how the user gives the documents of ``{name}`` as a file, for messages.

    Raises:
        OptionError: the extra is not installed, a task or a file for one is not allowed, or a YAML file names code.
        PromptError: documents, or a YAML file of a task, cannot be read or do not suit.
    """
    require_harness()
    files = files_of_tasks(data)
    for path in files.values():
        check_exists(path)
    if not tasks:
        raise OptionError("tasks: none given; for example hellaswag, arc_easy, gsm8k.")
    for place, entry in enumerate(tasks):
        if not isinstance(entry, str | Benchmark):
            raise OptionError(
                f"tasks[{place}]={describe_value(entry)} is no task's name; give names of the harness, such as "
                "'hellaswag', or YAML files."
            )
    benchmarks = [task for task in tasks if isinstance(task, Benchmark)]
    texts = [task for task in tasks if isinstance(task, str)]
    require_no_task_code(texts, allow_code)
    confine_templates()
    own_tasks = {text: _read_task(Path(text).expanduser()) for text in texts if text.endswith(YAML_FILES)}
    listed = tuple(text for text in texts if text not in own_tasks)
    _require_own_names(own_tasks, listed)
    names = [own_tasks[text].name if text in own_tasks else text for text in texts]
    unused = [name for name in files if name not in names]
    if unused:
        raise OptionError(f"data: {unused[0]!r} is none of the tasks asked for: {', '.join(names)}.")
    require_known_tasks(listed)
    with quietly():
        manager: Any = _find_manager(listed) if listed else None
        for text in texts:
            task = own_tasks.get(text, _Named(text, manager, None))
            file = files.get(task.name, task.file)
            benchmarks += _load_from_hub(task, as_file) if file is None else [_load_from_file(task, file)]
    for benchmark in benchmarks:
        _require_scored(benchmark.name, benchmark.task)
    # a task may come twice, by itself and with its group
    return tuple({benchmark.name: benchmark for benchmark in benchmarks}.values())


def files_of_tasks(data: Mapping[str, str | Path] | None) -> dict[str, Path]:
    """Return the file of every task that is given one.

    Raises:
        OptionError: what is given is no dict, or a file of it no path.
    """
    if data is not None and not isinstance(data, Mapping):
        raise OptionError(
            f"data={describe_value(data)} is no dict; give one of tasks and files: {{'arc_easy': 'rows.jsonl'}}."
        )
    return {name: given_path(path, f"data[{name!r}]") for name, path in (data or {}).items()}


def _require_own_names(own_tasks: Mapping[str, "_Named"], listed: Sequence[str]) -> None:
    """Refuse files of tasks with the name of another task that is asked for; only the last of both would be run."""
    first_by_name = {name: name for name in listed}
    for text, task in own_tasks.items():
        first = first_by_name.setdefault(task.name, text)
        if Path(first).expanduser().resolve() != Path(text).expanduser().resolve():
            raise OptionError(
                f"tasks: {first} and {text} both define the task {task.name!r}, and results are stored by name. Give "
                "each a name of its own (task: NAME)."
            )


def require_known_tasks(tasks: Sequence[str | Benchmark]) -> None:
    """Refuse names that no file of the harness defines; neither the harness nor a model is needed for it.

    Raises:
        OptionError: the first unknown name, and the nearest one that is defined.
    """
    defined = installed_names()
    names = [task for task in tasks if isinstance(task, str) and not task.endswith(YAML_FILES)]
    unknown = next((name for name in names if name not in defined), None)
    if unknown is not None:
        raise OptionError(
            f"tasks: lm-evaluation-harness has no task {unknown!r}.{did_you_mean(unknown, defined)} "
            "`lm-eval ls tasks` lists them all."
        )


def require_harness() -> None:
    """Refuse to go on without the extra.

    Raises:
        OptionError: what is not installed, and how to install it.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionError(
            f"Tasks are those of lm-evaluation-harness, and {missing[0]} is not installed; install the extra: "
            "pip install 'bathyscope[eval]'."
        )


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the bars and messages of the harness, which would come once for every schedule."""
    import datasets
    from tqdm import tqdm

    logger = logging.getLogger("lm_eval")
    hidden = datasets.are_progress_bars_disabled()
    before = logger.level
    logger.setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    try:
        with patch.object(importlib.import_module("lm_eval.api.task"), "tqdm", partial(tqdm, disable=True)):
            yield
    finally:
        logger.setLevel(before)
        if not hidden:
            datasets.enable_progress_bars()


@lru_cache(maxsize=4)
def _find_manager(names: tuple[str, ...]) -> Any:
    """Return the harness's index of the folders of these tasks; of all tasks where these do not hold them all."""
    tasks: Any = importlib.import_module("lm_eval.tasks")
    files = installed_names().files
    folders = sorted({str(files[name].parent) for name in names if name in files})
    # indexing every task takes up to a minute
    if all(name in files for name in names):
        few = tasks.TaskManager(include_defaults=False, include_path=folders)
        if all(_is_complete(few.task_index, name) for name in names):
            return few
    return tasks.TaskManager()


def _is_complete(index: Mapping[str, Any], name: object) -> bool:
    """Return whether an index holds a task, or a group and all that belongs to it."""
    entry = index.get(name) if isinstance(name, str) else None
    if entry is None:
        return False
    members = (entry.cfg or {}).get("task") if entry.kind.name == "GROUP" else []
    return all(_is_complete(index, member) for member in (members if isinstance(members, list) else [members]))


class _Named(NamedTuple):
    """A task by its name, with the harness's manager that knows it.

    ``file`` holds its documents, where it is one of this disk's; None = the harness has to find them. ``problem`` says
    why it cannot.
    """

    name: str
    manager: Any
    file: Path | None
    problem: str = ""


def _read_task(path: Path) -> _Named:
    """Read a task of the user's own.

    Raises:
        PromptError: the file cannot be read, or defines no task.
    """
    check_exists(path)
    tasks: Any = importlib.import_module("lm_eval.tasks")
    index, loader = (importlib.import_module(f"lm_eval.tasks.{name}") for name in ("_index", "_yaml_loader"))
    try:
        entry = index.TaskIndex.entry_from_path(path)
        config = loader.load_yaml(path, resolve_func=False)
    except Exception as error:  # whatever is wrong with a file, it defines no task
        if any(words in str(error) for words in _NO_TASK):
            raise PromptError(_tells_no_task(path)) from error
        raise PromptError(f"{path} cannot be read as a task ({describe_error(error)}).") from error
    if entry is None or not isinstance(config.get("task"), str):
        raise PromptError(_tells_no_task(path))
    manager = tasks.TaskManager(include_defaults=False)
    manager.task_index[entry.name] = entry
    problem = _missing_split(config)
    return _Named(entry.name, manager, _find_documents(config, path.parent), problem and f"{path}: {problem}")


def _tells_no_task(path: Path) -> str:
    return f"{path} defines no task; a task's file has task: NAME, as lm-evaluation-harness reads it."


def _missing_split(config: Mapping[str, Any]) -> str:
    """Return in words which split a task asks for that none of its files holds; empty where they hold it."""
    files = (config.get("dataset_kwargs") or {}).get("data_files")
    setting = "test_split" if config.get("test_split") else "validation_split"
    split = config.get(setting)
    if not isinstance(files, Mapping) or not isinstance(split, str) or split in files:
        return ""
    splits = [str(name) for name in files]
    return (
        f"{setting}: {split!r} is none of its data_files; they hold {', '.join(splits)}.{did_you_mean(split, splits)} "
        "Correct one of both."
    )


def _find_documents(config: Mapping[str, Any], folder: Path) -> Path | None:
    """Return the one file that holds a task's documents, where it is next to the task's own."""
    file = (config.get("dataset_kwargs") or {}).get("data_files")
    if isinstance(file, Mapping):
        file = file.get(config.get("test_split") or config.get("validation_split"))
    return folder / file if isinstance(file, str) and (folder / file).is_file() else None


def _load_from_hub(named: _Named, as_file: str) -> list[Benchmark]:
    if named.problem:
        raise PromptError(named.problem)
    try:
        with cache_alone_without_network():
            loaded = named.manager.load([named.name])["tasks"]
    except Exception as error:  # whatever the hub's clients raise, the answer is the same
        raise PromptError(
            f"The documents of {named.name} cannot be loaded from the hub ({describe_error(error)}). Give them as a "
            f"file: {as_file.format(name=named.name)}."
        ) from error
    return [Benchmark(name, task) for name, task in loaded.items()]


def _load_from_file(named: _Named, path: Path) -> Benchmark:
    from datasets import Dataset

    rows = [dict(row) for row in read_rows(path)]
    if not rows:
        raise PromptError(f"{path} holds no row.")
    columns = sorted({column for row in rows for column in row})
    changes: dict[str, Any] = {
        "task": named.name,
        "custom_dataset": lambda **_: {"test": Dataset.from_list(rows)},
        **dict.fromkeys(("dataset_kwargs", "training_split", "validation_split", "fewshot_split")),
        "test_split": "test",
    }
    try:
        if named.name == "hellaswag" and "ctx_a" not in columns:
            rows, changes["process_docs"] = [hellaswag_from_ctx(row) for row in rows], None
        # as the member of a group a known task may be changed
        (task,) = named.manager.load([{"group": f"{named.name} from a file", "task": [changes]}])["tasks"].values()
        _require_scored(named.name, task)
        task.build_all_requests(limit=1)
    except OptionError:
        raise
    except Exception as error:  # templates and processing functions fail in many ways on missing columns
        raise PromptError(
            f"{path} does not suit the task {named.name} ({describe_error(error)}); its columns are "
            f"{', '.join(columns)}."
        ) from error
    return Benchmark(named.name, task, str(path))


def build_requests(benchmark: Benchmark, limit: int | None, **options: Any) -> None:
    """Let the harness fill the task's templates with its first documents, or with all of them.

    Args:
        options: further ones of the harness's own call, such as a chat template.

    Raises:
        PromptError: a document that does not suit the task, or the template.
    """
    with quietly():
        try:
            benchmark.task.build_all_requests(limit=limit, **options)
        except Exception as error:  # templates fail in many ways on documents that lack something
            raise PromptError(
                f"A document of {benchmark.name} ({benchmark.source or 'hub'}) does not suit the task "
                f"({describe_error(error)})."
            ) from error


def describe_error(error: Exception) -> str:
    """Return what the harness, or what it calls, says of a failure, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def hellaswag_from_ctx(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return HellaSwag's document from a row that holds the whole context as ``ctx``.

    The harness joins ``ctx_a`` and ``ctx_b``, the latter with a capital; where only their joint text is left, it is
    taken as it stands.
    """
    tidy = importlib.import_module("lm_eval.tasks.hellaswag.utils").preprocess
    return {
        **row,
        "query": tidy(f"{row['activity_label']}: {row['ctx']}"),
        "choices": [tidy(ending) for ending in row["endings"]],
    }


def _require_scored(name: str, task: Any) -> None:
    if task.OUTPUT_TYPE not in _SCORED:
        raise OptionError(
            f"tasks: {name} is scored by {task.OUTPUT_TYPE}; allowed are tasks scored by the log-likelihood of given "
            f"answers or by answers that are written ({', '.join(_SCORED)}), such as hellaswag, lambada_openai, gsm8k."
        )
    if examples := task.config.num_fewshot:
        warn(
            f"tasks: {name} is asked zero-shot, and its own file puts {counted(examples, 'example')} before each "
            "question: scores are not to be compared with published ones."
        )
    task.set_config("num_fewshot", 0)
