"""Documents of a task of lm-evaluation-harness as prompts: the task's own template, and its target as the answer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from bathyscope.core.text import counted
from bathyscope.errors import OptionError, PromptError
from bathyscope.options import Range, convert
from bathyscope.prompts.files import check_exists
from bathyscope.prompts.harness.loading import (
    Benchmark,
    build_requests,
    load_benchmarks,
    require_harness,
    require_known_tasks,
)
from bathyscope.prompts.harness.task_code import require_no_task_code
from bathyscope.prompts.levels import in_turn, shares
from bathyscope.prompts.prompt import Prompt

PREFIX: Final = "lm-eval:"
"""Beginning of a source of this kind."""
LABEL: Final = "task"
"""The label of every prompt: the name of its task."""
_AS_FILE: Final = PREFIX + "{name}:N@FILE"
_CHOSEN: Final = "multiple_choice"
_CONTINUED: Final = "loglikelihood"


def require_task(task: str, path: str | None) -> None:
    """Refuse a task that is unknown, runs code or lacks its files, without reading a document.

    Args:
        task: a name that the harness knows, or the YAML file of a task.
        path: the file of its documents; None = where the task has them.

    Raises:
        PromptError: the extra is not installed, or what is wrong with the task.
    """
    try:
        require_harness()
        require_known_tasks([task])
        require_no_task_code([task], allowed=False)
    except OptionError as error:
        raise _refusal(error) from error
    if path is not None:
        check_exists(Path(path))


def harness_prompts(
    task: str, *, count: int | None = None, path: str | None = None, allow_code: bool = False
) -> tuple[Prompt, ...]:
    """Return the first documents of a task, zero-shot, as the harness puts them.

    The answer of a document is the choice that is right, or the target that is to be written or continued with; of
    several that are right the first. The tasks of a group take turns.

    Args:
        task: a name that the harness knows (a task, group or tag), or the YAML file of one task.
        count: how many prompts altogether; None = all documents.
        path: a file of documents (.jsonl, .csv or .parquet) in place of the hub's.
        allow_code: run the Python functions, and scripts of metrics and data, that a YAML file names.

    Returns:
        Prompts with an answer each, and the label ``task``.

    Raises:
        PromptError: an unknown task, fewer documents than asked for, a document without an answer, or one that is
            more than text; or the extra is not installed.

    Example:
        >>> from bathyscope.extend.prompts import harness_prompts
        >>> harness_prompts("arc_easy", count=100)  # doctest: +SKIP
    """
    if count is not None:
        convert(Annotated[int, Range(1)], count, "count")
    try:
        require_harness()
        data = None if path is None else {task: path}
        benchmarks = load_benchmarks([task], data, allow_code, as_file=_AS_FILE)
    except OptionError as error:
        raise _refusal(error) from error
    numbers = [_count_documents(benchmark) for benchmark in benchmarks]
    if count is not None and count > sum(numbers):
        name = benchmarks[0].name if len(benchmarks) == 1 else task
        raise PromptError(
            f"{name} has {counted(sum(numbers), 'document')} and {count} were asked for; ask for at most that."
        )
    # a task that runs out gives its turns to the others
    share = None if count is None else max(shares(count, len(numbers)))
    if share is not None and min(numbers) < share:
        share = count
    prompts = in_turn([list(_prompts_of(benchmark, share)) for benchmark in benchmarks])
    return tuple(prompts[:count])


def _count_documents(benchmark: Benchmark) -> int:
    try:
        return len(benchmark.task.eval_docs)
    except ValueError as error:  # it has examples alone
        raise PromptError(
            f"{benchmark.name} has no documents to be asked (test_split or validation_split). Give them as a file: "
            f"{_AS_FILE.format(name=benchmark.name)}."
        ) from error


def _refusal(error: OptionError) -> PromptError:
    """Return what ``evaluate`` says of its tasks, said of prompts."""
    text = str(error).removeprefix("tasks: ")
    advice = "give --allow-code (allow_code=True)"
    return PromptError(
        text.replace(advice, "make prompts of it with bathyscope.extend.prompts.harness_prompts(…, allow_code=True)")
    )


def _prompts_of(benchmark: Benchmark, limit: int | None) -> Iterator[Prompt]:
    build_requests(benchmark, limit)
    requests_by_document: dict[int, list[Any]] = {}
    for request in benchmark.task.instances:
        requests_by_document.setdefault(request.doc_id, []).append(request)
    for number, requests in sorted(requests_by_document.items()):
        where = f"Document {number} of {benchmark.name} ({benchmark.source or 'hub'})"
        if len(requests[0].args) > 2:
            raise PromptError(f"{where} holds images or sound; allowed are tasks of text alone, such as arc_easy.")
        context, answer = _question_and_answer(benchmark.task, requests, where)
        if not context.strip():
            raise PromptError(
                f"{where} has no question before its answer {answer!r:.40}, and what comes first in a text is not "
                "measured. Choose a task that asks something, or give texts."
            )
        yield Prompt(text=context + answer, answer=answer, labels={LABEL: benchmark.name})


def _question_and_answer(task: Any, requests: list[Any], where: str) -> tuple[str, str]:
    """Return a document's context and the right continuation, with the blank between both at the latter."""
    document, first = requests[0].doc, requests[0].args
    if task.OUTPUT_TYPE == _CHOSEN:
        # where the choices are contexts, the text says which of them is right
        right = task.doc_to_text(document) if getattr(task, "multiple_input", 0) else task.doc_to_target(document)
        choices = list(task.doc_to_choice(document))
        index = _right_choice(right, choices)
        if index is None:
            raise _without_answer(where, right)
        context, answer = requests[index].args
        return str(context), str(answer)
    target = task.doc_to_target(document)
    answer = _first_of(target)
    if isinstance(answer, int) and not isinstance(answer, bool) and task.config.doc_to_choice is not None:
        choices = list(task.doc_to_choice(document))
        answer = choices[answer] if 0 <= answer < len(choices) else None
    if answer is None or not str(answer).strip():
        raise _without_answer(where, target)
    if task.OUTPUT_TYPE == _CONTINUED:
        return str(first[0]), str(answer)
    return str(first[0]), _joined(task, document, str(answer))


def _first_of(target: Any) -> Any:
    is_list = isinstance(target, list | tuple)
    return (target[0] if target else None) if is_list else target


def _right_choice(right: Any, choices: list[Any]) -> int | None:
    """Return the place of the first right choice; None where a document tells none."""
    value = _first_of(right)
    if isinstance(value, str):
        return choices.index(value) if value in choices else None
    is_place = isinstance(value, int) and not isinstance(value, bool)
    return value if is_place and 0 <= value < len(choices) else None


def _joined(task: Any, document: Any, answer: str) -> str:
    """Return an answer as the harness joins it to a question that it shows as an example."""
    if prefix := task.doc_to_prefix(document):
        return str(importlib.import_module("lm_eval.api.utils").maybe_delimit(prefix, answer, " ")).removeprefix(prefix)
    return f"{task.config.target_delimiter}{answer}"


def _without_answer(where: str, target: object) -> PromptError:
    return PromptError(
        f"{where} tells no right answer (its target is {target!r:.40}), as where the answers of a test set are "
        f"withheld. Give rows with answers: {PREFIX}TASK:N@FILE."
    )
