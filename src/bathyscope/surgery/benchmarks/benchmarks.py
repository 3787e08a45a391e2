"""Tasks of lm-evaluation-harness, with their documents from the hub or from files."""

import importlib
import importlib.util
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from bathyscope.errors import OptionError, PromptError, did_you_mean
from bathyscope.prompts.files import check_exists, read_rows

WRITTEN = "generate_until"
_SCORED = ("loglikelihood", "multiple_choice", WRITTEN)
_YAML = (".yaml", ".yml")
_NEEDED = ("lm_eval", "accelerate")


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A task with its documents; ``source`` is the file that they come from, None = as the harness has it."""

    name: str
    task: Any
    source: str | None = None

    @property
    def written(self) -> bool:
        """The model writes its answers; otherwise given ones are scored."""
        return bool(self.task.OUTPUT_TYPE == WRITTEN)


def load_benchmarks(
    tasks: Sequence[str | Benchmark], data: Mapping[str, str | Path] | None = None
) -> tuple[Benchmark, ...]:
    """The tasks with these names, ready to be asked zero-shot.

    Args:
        tasks: names that the harness knows (tasks, groups, tags), YAML files of one task in the harness's form, or
            benchmarks, which are taken as they are. Python functions that a YAML file names are run, as by the harness.
        data: task → file (.jsonl, .csv or .parquet) whose rows are used instead of the hub's. HellaSwag's rows may
            have ``ctx`` alone instead of the hub's ``ctx_a`` and ``ctx_b``.

    Raises:
        OptionError: the extra is not installed, or a task or a file for one is not allowed.
        PromptError: documents, or a YAML file of a task, cannot be had or do not suit.
    """
    require_harness()
    files = {name: Path(path).expanduser() for name, path in (data or {}).items()}
    for path in files.values():
        check_exists(path)
    if not tasks:
        raise OptionError("tasks: none given; for example hellaswag, arc_easy, gsm8k.")
    found = [one for one in tasks if isinstance(one, Benchmark)]
    texts = [one for one in tasks if isinstance(one, str)]
    own = {text: _own(Path(text).expanduser()) for text in texts if text.endswith(_YAML)}
    known = tuple(text for text in texts if text not in own)
    names = [own[text].name if text in own else text for text in texts]
    unused = [name for name in files if name not in names]
    if unused:
        raise OptionError(f"data: {unused[0]!r} is none of the tasks asked for: {', '.join(names)}.")
    with quietly():
        manager: Any = _manager(known) if known else None
        for name in known:
            if manager.task_index.get(name) is None:
                raise OptionError(
                    f"tasks: lm-evaluation-harness has no task {name!r}.{did_you_mean(name, _manager(()).all_tasks)} "
                    "`lm-eval ls tasks` lists them all."
                )
        for text in texts:
            one = own.get(text, _Named(text, manager, None))
            file = files.get(one.name, one.file)
            found += _from_hub(one) if file is None else [_from_file(one, file)]
    for benchmark in found:
        _require_scored(benchmark.name, benchmark.task)
    return tuple({one.name: one for one in found}.values())


def require_harness() -> None:
    """Raises OptionError where the extra is not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionError(
            f"Benchmarks are run by lm-evaluation-harness, and {missing[0]} is not installed; install the extra: "
            "pip install 'bathyscope[eval]'."
        )


@contextmanager
def quietly() -> Iterator[None]:
    """Without the bars and messages of the harness, which would come once for every schedule."""
    import datasets
    from tqdm import tqdm

    logger, hidden = logging.getLogger("lm_eval"), datasets.are_progress_bars_disabled()
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
def _manager(names: tuple[str, ...]) -> Any:
    """The harness's index of these tasks; of all of them where their files do not carry their names."""
    tasks: Any = importlib.import_module("lm_eval.tasks")
    everything = Path(tasks.__file__).parent
    # indexing every task takes ten seconds
    plain = [name for name in names if re.fullmatch(r"[\w.-]+", name)]
    folders = {str(path.parent) for name in plain for path in everything.rglob(f"{name}.yaml")}
    if names and folders:
        few = tasks.TaskManager(include_defaults=False, include_path=sorted(folders))
        if all(few.task_index.get(name) is not None for name in names):
            return few
    return tasks.TaskManager()


class _Named(NamedTuple):
    """A task by its name, with the harness's manager that knows it.

    ``file`` holds its documents, where it is one of this disk's; None = the harness has to find them.
    """

    name: str
    manager: Any
    file: Path | None


def _own(path: Path) -> _Named:
    check_exists(path)
    tasks: Any = importlib.import_module("lm_eval.tasks")
    index, loader = (importlib.import_module(f"lm_eval.tasks.{name}") for name in ("_index", "_yaml_loader"))
    try:
        entry, config = index.TaskIndex.entry_from_path(path), loader.load_yaml(path, resolve_func=False)
    except Exception as error:  # whatever is wrong with a file, it tells no task
        raise PromptError(f"{path} cannot be read as a task ({told(error)}).") from error
    if entry is None or not isinstance(config.get("task"), str):
        raise PromptError(f"{path} tells no task; a task's file has task: NAME, as lm-evaluation-harness reads it.")
    manager = tasks.TaskManager(include_defaults=False)
    manager.task_index[entry.name] = entry
    return _Named(entry.name, manager, _documents(config, path.parent))


def _documents(config: Mapping[str, Any], folder: Path) -> Path | None:
    """The one file that holds a task's documents, looked for beside the task's own."""
    found = (config.get("dataset_kwargs") or {}).get("data_files")
    if isinstance(found, Mapping):
        found = found.get(config.get("test_split") or config.get("validation_split"))
    return folder / found if isinstance(found, str) and (folder / found).is_file() else None


def _from_hub(one: _Named) -> list[Benchmark]:
    try:
        loaded = one.manager.load([one.name])["tasks"]
    except Exception as error:  # whatever the hub's clients raise, the answer is the same
        raise PromptError(
            f"The documents of {one.name} cannot be loaded from the hub ({told(error)}). Give them as a file: --data "
            f"{one.name}=FILE (in Python: data={{{one.name!r}: FILE}})."
        ) from error
    return [Benchmark(own, task) for own, task in loaded.items()]


def _from_file(one: _Named, path: Path) -> Benchmark:
    from datasets import Dataset

    rows = [dict(row) for row in read_rows(path)]
    if not rows:
        raise PromptError(f"{path} holds no row.")
    columns = sorted({column for row in rows for column in row})
    changes: dict[str, Any] = {
        "task": one.name,
        "custom_dataset": lambda **_: {"test": Dataset.from_list(rows)},
        **dict.fromkeys(("dataset_kwargs", "training_split", "validation_split", "fewshot_split")),
        "test_split": "test",
        "num_fewshot": 0,
    }
    try:
        if one.name == "hellaswag" and "ctx_a" not in columns:
            rows, changes["process_docs"] = [hellaswag_from_ctx(row) for row in rows], None
        # as the member of a group a known task may be changed
        (task,) = one.manager.load([{"group": f"{one.name} from a file", "task": [changes]}])["tasks"].values()
        _require_scored(one.name, task)
        task.build_all_requests(limit=1)
    except OptionError:
        raise
    except Exception as error:  # templates and processing functions fail in many ways on missing columns
        raise PromptError(
            f"{path} does not suit the task {one.name} ({told(error)}); its columns are {', '.join(columns)}."
        ) from error
    return Benchmark(one.name, task, str(path))


def told(error: Exception) -> str:
    """What the harness, or what it calls, says of a failure, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def hellaswag_from_ctx(row: Mapping[str, Any]) -> dict[str, Any]:
    """HellaSwag's document from a row that holds the whole context as ``ctx``.

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
    task.set_config("num_fewshot", 0)
