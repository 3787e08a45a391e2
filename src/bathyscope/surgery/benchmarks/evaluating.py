"""``evaluate``: benchmarks of the normal model and of the model under schedules, resumable at every result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bathyscope.core.calls import takes
from bathyscope.core.csv_text import csv_text
from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.core.paths import require_writable
from bathyscope.core.progress import ProgressBar
from bathyscope.core.strict import DAMAGED
from bathyscope.core.text import elided
from bathyscope.errors import ModelError, OptionError, PromptError, StoreError, describe_value, warn
from bathyscope.model import Model, alone, loaded
from bathyscope.options import items_of, require_no_dict
from bathyscope.prompts.harness.loading import Benchmark, files_of_tasks, load_benchmarks
from bathyscope.runs.folder import folder_path
from bathyscope.runs.shards import encode_results
from bathyscope.surgery.benchmarks.result import Evaluation, assemble, warn_of_cut_answers
from bathyscope.surgery.benchmarks.shelf import Score, Shelf, read_evaluation
from bathyscope.surgery.benchmarks.variants import NORMAL, Variant, require_forms, runnable, variants
from bathyscope.surgery.options import Arguments, EvaluateOptions
from bathyscope.surgery.order.model_of_plan import in_its_precision, require_same_model
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.scheduled.running import require_runnable, scheduled
from bathyscope.surgery.trial.trial import model_record

if TYPE_CHECKING:
    from bathyscope.surgery.benchmarks.harness import LoadedLM

TABLE, ARRAYS = "evaluation.csv", "evaluation.nc"


@takes(EvaluateOptions)
def evaluate(
    model: Model,
    tasks: Sequence[str | Benchmark],
    schedules: Sequence[str] | Sequence[str | Plan] = ("drop", "swap"),
    data: Mapping[str, str | Path] | None = None,
    limit: int | None = None,
    batch_size: int = 8,
    arguments: Arguments = "block",
    chat: bool = False,
    out: str | Path | None = None,
    progress: bool = False,
    allow_code: bool = False,
) -> Evaluation:
    """Run tasks of lm-evaluation-harness zero-shot, under the normal model and under every schedule asked for.

    Each schedule is applied to the model itself (``bathyscope.scheduled``) and the harness scores it as it scores
    any model. Answers that a model writes are written greedily, in batches and on caches, each as if its document stood
    alone. Source: lad2024, layer interventions (HellaSwag, ARC-Easy and LAMBADA under drop, swap and repeat).

    Args:
        model: a loaded model with a tokenizer.
        tasks: names of the harness's tasks, such as ``hellaswag,arc_easy,gsm8k``, or the YAML file of one's own; scored
            by log-likelihoods of given answers, or by answers that the model writes.
        ...: the options of ``EvaluateOptions``.
        schedules: Plans that ``prune`` made are allowed too.
        arguments: As in ``bathyscope.scheduled``.
        data: Given as a dict from each task to its file.
        progress: show a progress bar.

    Raises:
        OptionError: the extra is missing, an unknown task or schedule, a limit or batch size below 1, a schedule that
            cannot be run by slot, a file of a task that would run code.
        PromptError: the model has no tokenizer, or documents cannot be had.
        ModelError: a schedule cannot run, or gives NaN or Inf.
        StoreError: the folder holds another evaluation, cannot be written, or has a damaged file.

    Example:
        >>> bathyscope.evaluate(model, ["hellaswag"], ["drop"], limit=100, out="runs/hellaswag")  # doctest: +SKIP
    """
    # called for its refusals, before a model is looked at
    files_of_tasks(data)
    require_no_dict(tasks, "tasks")
    if not isinstance(schedules, Iterable | Plan):
        raise OptionError(f"schedules={describe_value(schedules)} is no list; give one, such as ['drop', 'swap'].")
    require_forms(schedules)
    place = None if out is None else folder_path(out, "out")
    if place is not None:
        require_writable(place, holds="an evaluation")
    with alone(model):
        entries: Sequence[object] = schedules
        plans = [entry for entry in entries if isinstance(entry, Plan)]
        model = in_its_precision(plans[0], model) if plans else loaded(model)
        for plan_of_model in plans:
            require_same_model(plan_of_model, model)
        requested = variants(schedules, model.n_blocks)
        benchmarks = require_answerable(model, tasks, data, limit, batch_size, allow_code, chat=chat)
        # Imported late: the harness takes seconds to import, and the refusals above need none of it.
        from bathyscope.surgery.benchmarks import harness

        plan = runnable(requested, model.checks, schedules)
        for variant in plan:
            require_runnable(model, variant.schedule, arguments)
        requests = {benchmark.name: harness.prepared(benchmark, model) for benchmark in benchmarks}
        settings = {
            **model_record(model),
            "arguments": arguments,
            "limit": limit,
            "harness": harness.VERSION,
            # absent in folders of earlier versions
            **({"chat": 1} if chat else {}),
        }
        total = len(plan) * sum(count for count, _ in requests.values())
        folder = nullcontext() if place is None else Shelf(place, settings)
        with ended_as_interrupted(), folder as shelf, ProgressBar("Evaluating", total, quiet=not progress) as bar:
            for benchmark in benchmarks:
                if shelf is not None:
                    shelf.begin(benchmark.name, requests[benchmark.name][1], benchmark.source)
            counts = {name: count for name, (count, _) in requests.items()}
            work = _Work(model, benchmarks, arguments, limit, chat, counts, bar, shelf)
            scores = work.run(plan, batch_size)
            if shelf is not None:
                # Written last, so that an interruption never leaves a table that lacks results which are stored.
                # table and arrays of everything that is on disk, also from earlier calls
                everything = open_evaluation(shelf.path)
                shelf.put(TABLE, csv_text(everything.to_dataframe()).encode())
                shelf.put(ARRAYS, encode_results({"evaluation": everything.data}))
        evaluation = assemble(plan, scores, settings)
        warn_of_cut_answers(evaluation)
        return evaluation


def _no_tokenizer(name: str) -> str:
    """Return that a model has no tokenizer, and what helps where it was loaded from a folder."""
    if Path(name).is_dir():
        return (
            f"The folder {name!r} holds no tokenizer, and tasks are texts; put its files there (tokenizer.json), or "
            "load the model with load(..., tokenizer=...)."
        )
    return "This model has no tokenizer; give one: load(..., tokenizer=...)."


def require_answerable(
    model: Model,
    tasks: Sequence[str | Benchmark],
    data: Mapping[str, str | Path] | None,
    limit: int | None,
    batch_size: int,
    allow_code: bool = False,
    *,
    chat: bool = False,
) -> tuple[Benchmark, ...]:
    """Load the tasks, and refuse without a forward what ``evaluate`` refuses of them."""
    for name, value in (("limit", limit), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise OptionError(f"{name}={value} is out of range; allowed: 1 or more.")
    listed = [tasks] if isinstance(tasks, Benchmark) else items_of(tasks)
    benchmarks = load_benchmarks(listed, data, allow_code)
    if model.tokenizer is None:
        raise PromptError(_no_tokenizer(model.name))
    if model.tokenizer.bos_token_id is None and model.tokenizer.eos_token_id is None:
        raise PromptError(
            "The tokenizer has neither a beginning-of-text nor an end-of-text token, one of which the harness puts "
            "before an empty context; set tokenizer.bos_token."
        )
    if chat and not getattr(model.tokenizer, "chat_template", None):
        raise PromptError(
            f"The tokenizer of {model.name} has no chat template, and chat=True puts questions in it. Leave chat out "
            "(--chat), or give a tokenizer with one: load(..., tokenizer=...)."
        )
    from bathyscope.surgery.benchmarks import harness

    for benchmark in benchmarks:
        harness.prepare(benchmark, limit, model.max_tokens, model.tokenizer, as_chat=chat)
        # prune has asked before, and gives what it was told of
        if benchmark not in listed:
            harness.warn_of_repeats(benchmark)
            harness.warn_of_few(benchmark, limit)
    return benchmarks


def open_evaluation(folder: str | Path) -> Evaluation:
    """Open all finished results of an evaluation on disk, also of one that was interrupted.

    Args:
        folder: what ``evaluate(out=)`` wrote.

    Raises:
        OptionError: ``folder`` is no path.
        StoreError: no evaluation, or a damaged file.

    Example:
        >>> bathyscope.open("runs/hellaswag")  # doctest: +SKIP
    """
    settings, scores = read_evaluation(folder)
    try:
        names = sorted({score["schedule"] for score in scores}, key=_sort_key)
        evaluation = assemble(variants(names, settings["n_blocks"]), scores, settings)
        _ = repr(evaluation), evaluation.record()
    except DAMAGED as error:
        raise StoreError(
            f"The evaluation in {str(folder)!r} does not hold what it says ({type(error).__name__}: "
            f"{elided(error, 80)}). Restore it from a copy, or evaluate again in another folder."
        ) from error
    return evaluation


@dataclass
class _Work:
    """The results of a plan: read where they are finished, else computed."""

    model: Model
    benchmarks: Sequence[Benchmark]
    arguments: Arguments
    limit: int | None
    chat: bool
    requests: Mapping[str, int]
    bar: ProgressBar
    shelf: Shelf | None
    done: int = 0
    answering: int = 0

    def run(self, plan: Sequence[Variant], batch_size: int) -> list[Score]:
        """Return the results, schedule by schedule, so that a schedule is applied once for all its tasks."""
        from bathyscope.surgery.benchmarks.harness import LoadedLM

        lm: LoadedLM | None = None
        fitting = batch_size
        if (
            batch_size > 1
            and self.model.anatomy.equal_lengths
            and not all(benchmark.written for benchmark in self.benchmarks)
        ):
            warn("Results of this model depend on how long the other texts of a batch are; batch_size is taken as 1.")
            # The harness pads prompts to the longest of a batch, which changes what such a model computes.
            fitting = 1
        scores: list[Score] = []
        for variant in plan:
            names = [benchmark.name for benchmark in self.benchmarks]
            finished = {name: self.shelf.score(variant.name, name) if self.shelf else None for name in names}
            missing = [benchmark for benchmark in self.benchmarks if finished[benchmark.name] is None]
            self._advance(sum(self.requests[name] for name, score in finished.items() if score is not None))
            if missing:
                # Made only where something is missing; it scores whatever order of blocks the model runs at the time.
                lm = lm or LoadedLM(self.model, fitting, self._count_answers, batch_size)
                finished |= self._compute(lm, variant, missing)
            scores += [score for score in finished.values() if score is not None]
        return scores

    def _compute(self, lm: LoadedLM, variant: Variant, missing: Sequence[Benchmark]) -> dict[str, Score]:
        from bathyscope.surgery.benchmarks.harness import score

        scores: dict[str, Score] = {}
        # nothing of this program is between the normal model and the harness
        is_normal = variant.name == NORMAL
        with nullcontext() if is_normal else scheduled(self.model, variant.schedule, self.arguments):
            for benchmark in missing:
                scores[benchmark.name] = {
                    "schedule": variant.name,
                    "task": benchmark.name,
                    **score(lm, benchmark, self.limit, as_chat=self.chat),
                }
                _require_finite(scores[benchmark.name])
                if self.shelf is not None:
                    self.shelf.keep(variant.name, benchmark.name, scores[benchmark.name])
                self._advance(self.requests[benchmark.name])
        return scores

    def _count_answers(self, requests: int) -> None:
        """Count within a task; answers of one token may share a forward, so that the task's end corrects the count."""
        self.answering += requests
        self.bar.advance_to(self.done + self.answering)

    def _advance(self, requests: int) -> None:
        self.done += requests
        self.answering = 0
        self.bar.advance_to(self.done)


def _require_finite(score: Score) -> None:
    values = [value for document in score["documents"] for value in document["loglikelihoods"]]
    if not all(map(math.isfinite, values)):
        raise ModelError(
            f"{score['task']} under the schedule {score['schedule']}: the model gives NaN or Inf log-likelihoods; load "
            "it with a wider dtype (dtype='float32')."
        )


def _sort_key(name: str) -> tuple[str, int, str]:
    """Return a key that sorts ``drop:10`` after ``drop:9``, and the normal model first."""
    kind, _, rest = name.partition(":")
    # Numbers are compared as numbers, or drop:10 would be before drop:2.
    number = rest.partition("+")[0].partition(",")[0]
    return ("" if name == NORMAL else kind, int(number) if number.isdecimal() else -1, name)
