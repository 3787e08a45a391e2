"""``prune``: which blocks can go, chosen on some prompts and proved on others, next to the choices of cheap rules."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress
from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.core.paths import require_writable
from bathyscope.errors import ModelError, OptionError, PruningError, warn
from bathyscope.measures.costs import Over
from bathyscope.model import Model, ModelArgument, alone, loaded
from bathyscope.model.reading import PromptReading
from bathyscope.model.writing import ends_of
from bathyscope.prompts.harness.loading import Benchmark, require_harness, require_known_tasks
from bathyscope.prompts.harness.task_code import require_no_task_code
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.folder import folder_path, require_own_folder
from bathyscope.runs.pieces import Pieces
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.benchmarks.evaluating import evaluate as evaluate_tasks
from bathyscope.surgery.benchmarks.evaluating import open_evaluation, require_answerable
from bathyscope.surgery.benchmarks.result import Evaluation, against_full
from bathyscope.surgery.choosing.deciding import Request, choose
from bathyscope.surgery.choosing.removable import BLOCKS, kinds_of, require_size, size_of, units_of, warn_of_unwritable
from bathyscope.surgery.options import Joint, Part, PruneOptions
from bathyscope.surgery.plan.arrays import encoded
from bathyscope.surgery.plan.bound import CostBound
from bathyscope.surgery.plan.departure import WritingDeparture
from bathyscope.surgery.plan.opening import (
    DEPARTURE,
    PRUNING,
    RESULT,
    SPEED,
    TASKS,
    decoded,
    with_departure,
    with_speeds,
    with_tasks,
)
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.plan.text import refusal
from bathyscope.surgery.scheduled.running import scheduled
from bathyscope.surgery.scheduled.timing import measure_speeds
from bathyscope.surgery.trial.domains import DomainSources, domains_of, each_source, require_calibration
from bathyscope.surgery.trial.trial import Trial, read_trial
from bathyscope.surgery.trial.written import WrittenCalibration, require_plain, written_calibration

_BENCHMARKS: Final = "benchmarks"


@takes(PruneOptions)
def prune(
    model: ModelArgument,
    calibration: Source | Prompts | DomainSources,
    test: Source | Prompts | DomainSources,
    *,
    drop: int | str | None = None,
    max_cost: float | str | None = None,
    parts: Sequence[Part] = ("block",),
    over: Over = "tokens",
    read_tokens: int | None = None,
    budget: int = 20_000,
    measured: int = 32,
    random: int = 16,
    joint: Joint | None = None,
    resamples: int = 2000,
    level: float = 0.95,
    cluster: str | None = None,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    evaluate: Sequence[str] = (),
    data: Mapping[str, str | Path] | None = None,
    limit: int | None = None,
    batch_size: int = 8,
    allow_code: bool = False,
    out: str | Path | None = None,
    progress: Progress = True,
) -> Plan:
    """Choose blocks to leave out on some prompts, and say what that costs on others.

    cost(S) of a prompt is the mean over its tokens of loss(without S) − loss(full). Next to the choice stand, on
    the same tokens, block influence (ShortGPT), the angular distance of a window (Gromov et al.), one-shot loss, greedy
    dropping (SLEB), the surrogate from pairs alone, the last blocks, and random ones.

    Args:
        calibration: prompts that choose, as for ``survey``; or several domains by name, ``{"code": …, "prose": …}``.
            ``written:40?tokens=512``: 40 of the test prompts, which the full model continues by up to 512 tokens, as it
            does the others; costs are over what it writes, and the plan says where the pruned model departs from it.
        test: other prompts, which judge; a prompt that is in both is refused. Of the same domains, by the same names.
        ...: the options of ``PruneOptions``.
        data: Given as a dict from each task to its file.

    Returns:
        ``plan.schedule``, ``plan.table``, ``plan.tasks``, ``plan.text``, ``plan.export(folder)``; how sure the choice
        is: ``plan.chosen_again``, ``plan.blocks_again`` and, with domains, ``plan.transfer``.

    Raises:
        OptionError, PromptError, ModelError: what is asked for cannot be done; raised before any compute.
        PruningError: not even one block can go within ``max_cost``; its ``plan`` holds the numbers, as does ``out``.
        StoreError: the folder holds something else, or cannot be written.

    Example:
        >>> plan = bathyscope.prune("model", "prompts.jsonl", "test.jsonl", drop=1, resamples=200)
        >>> len(plan.schedule)
        3
    """
    with alone(model):
        require_size(drop, max_cost)
        require_calibration(calibration)
        written = written_calibration(calibration)
        if written is not None:
            require_plain([calibration, test], read_tokens)
            over = "answer"
        domains = domains_of(calibration, test, joint)
        bound = None if max_cost is None else CostBound.parse(max_cost)
        if bound is not None and bound.is_share and joint == "worst":
            raise OptionError(
                f"max_cost={max_cost!r} with joint='worst': domains have losses of their own. Give nats per token, "
                "such as max_cost=0.05."
            )
        if evaluate:
            require_harness()
            require_known_tasks(evaluate)
            require_no_task_code(evaluate, allow_code)
        kinds = kinds_of(parts)
        folder = None if out is None else folder_path(out, "out")
        if folder is not None:
            require_writable(folder, holds="a pruning")
            require_own_folder(folder / _BENCHMARKS, "the evaluation of a pruning is a folder of its own")
        reading = PromptReading(beyond_context, add_special_tokens, chat)
        ready = loaded(model, *([] if written is not None else each_source(calibration)), *each_source(test))
        units = units_of(ready, kinds)
        if written is not None and kinds != BLOCKS:
            raise OptionError(
                f"calibration={str(written)!r}: where the pruned model departs is known of whole blocks; choose among "
                "them (parts='block')."
            )
        sources = {**_source_texts(calibration=calibration, test=test), **reading.record}
        if written is not None:
            whole = reading.read(ready, cast(Source | Prompts, test), seed=seed)
            calibration, test = written.continued(ready, whole, progress=progress)
            # what these prompts are is no text that could be read again
            sources = {"written": str(written), **reading.record}
        trial = read_trial(
            ready,
            test,
            calibration,
            sampling=Sampling(resamples, level, seed),
            domains=domains,
            cluster=cluster,
            over=over,
            reading=reading,
            folder=folder,
        )
        tasks = require_answerable(ready, evaluate, data, limit, batch_size, allow_code) if evaluate else ()
        if tasks and chat is not False:
            warn(
                "evaluate: tasks are asked without the chat template that the prompts are put in (chat). "
                "bathyscope evaluate PLAN --tasks NAMES --chat asks them in it."
            )
        # what the model wrote ends where it ended it, or where the limit cut it
        if over == "answer" and written is None:
            trial = trial.until_ends()
        if kinds != BLOCKS:
            warn_of_unwritable(ready, units)
            if tasks:
                raise OptionError("evaluate: tasks are run without whole blocks; choose among them (parts='block').")
        request = Request(
            units=units,
            kinds=kinds,
            size=None if drop is None else size_of(drop, len(units), "blocks" if kinds == BLOCKS else "parts"),
            max_cost=bound,
            over=over,
            read_tokens=read_tokens,
            budget=budget,
            measured=measured,
            random=random,
        )
        with ended_as_interrupted(), trial.pieces(PRUNING, request.settings) as pieces:
            content = _find_piece(pieces, RESULT)
            if content is None:
                content = choose(trial, request, sources, pieces, progress)
                _put_piece(pieces, RESULT, content)
            plan = replace(decoded(content, ready if isinstance(model, Model) else model), stored_in=trial.folder)
            if not plan.fits:
                raise PruningError(refusal(plan.data), plan)
            plan = _add_speeds(plan, trial, pieces, progress)
            if written is not None:
                plan = _add_departure(plan, trial, written, pieces, progress)
            return _add_tasks(plan, trial, tasks, limit, batch_size, pieces, progress)


def _source_texts(**sources: object) -> dict[str, str]:
    """Return the sources of prompts that were given as text, so that other commands can read them again."""
    texts = {
        role: str(source) if isinstance(source, Path) else _joined_sources(source) for role, source in sources.items()
    }
    return {
        f"{role}_source": json.dumps(text)
        for role, text in texts.items()
        if isinstance(text, str) or _names_sources(text)
    }


def _joined_sources(source: object) -> object:
    """Return domains as one list of sources, where all of them are texts or such lists; anything else as it is."""
    if not isinstance(source, Mapping):
        return source
    joined_list: list[object] = []
    for part in source.values():
        text = str(part) if isinstance(part, str | Path) else part
        joined_list += [{"source": text}] if isinstance(text, str) else text if _names_sources(text) else [text]
    return joined_list


def _names_sources(source: object) -> bool:
    """Return whether a list names data sets or files, one an item."""
    return isinstance(source, list) and all(isinstance(item, dict) and set(item) == {"source"} for item in source)


def _add_speeds(plan: Plan, trial: Trial, pieces: Pieces | None, progress: bool) -> Plan:
    """Return the plan with speeds before and after: those in its folder, or timed now; without where none can be."""
    # A file of their own, since the rest of a plan is the same to the bit whenever it is computed.
    content = _find_piece(pieces, SPEED)
    if content is None:
        if trial.model.blocks is not None or not plan.leaves_blocks:
            return plan  # a streamed model reads its files, and a zeroed part runs as before
        longest = max(trial.test, key=len)
        try:
            speeds = measure_speeds(trial.model, plan.schedule, longest.ids, progress=progress)
        except ModelError as error:
            warn(f"prune: the speed without the blocks is not known. {error}")
            return plan
        content = json.dumps(speeds.record()).encode()
        _put_piece(pieces, SPEED, content)
    return with_speeds(plan, content)


def _add_departure(
    plan: Plan, trial: Trial, written: WrittenCalibration, pieces: Pieces | None, progress: bool
) -> Plan:
    """Return the plan with where the pruned model departs from what the full one wrote to the test prompts."""
    content = _find_piece(pieces, DEPARTURE)
    if content is None:
        with scheduled(trial.model, plan.schedule):
            texts = written.writing.texts(
                trial.model, trial.test, title=f"Writing under {plan.left_out}", progress=progress
            )
        full = [prompt.ids[-(prompt.answer_tokens or 0) :] for prompt in trial.test]
        departure = WritingDeparture.of(written.writing.tokens, ends_of(trial.model), list(zip(full, texts)))
        content = json.dumps(departure.record()).encode()
        _put_piece(pieces, DEPARTURE, content)
    return with_departure(plan, content)


def _add_tasks(
    plan: Plan,
    trial: Trial,
    tasks: Sequence[Benchmark],
    limit: int | None,
    batch_size: int,
    pieces: Pieces | None,
    progress: bool,
) -> Plan:
    """Return the plan with what tasks say of it: those asked now, else those in its folder."""
    if tasks:
        evaluation = evaluate_tasks(
            trial.model,
            tasks,
            [plan.left_out],
            limit=limit,
            batch_size=batch_size,
            out=None if pieces is None else pieces.path / _BENCHMARKS,
            progress=progress,
        )
        if pieces is not None:
            evaluation = _with_earlier(evaluation, pieces.path / _BENCHMARKS)
        content = encoded(against_full(evaluation, plan.left_out, **trial.sampling.record))
        _put_piece(pieces, TASKS, content)
        return with_tasks(plan, content)
    stored = _find_piece(pieces, TASKS)
    return plan if stored is None else with_tasks(plan, stored)


def _with_earlier(evaluation: Evaluation, folder: Path) -> Evaluation:
    """Return an evaluation with the finished tasks that its folder holds from earlier calls behind its own."""
    tasks = {score["task"] for score in evaluation.scores}
    schedules = {score["schedule"] for score in evaluation.scores}
    earlier = [score for score in open_evaluation(folder).scores if score["task"] not in tasks]
    stored = {(score["schedule"], score["task"]) for score in earlier}
    # a task that was interrupted has no result of the choice
    whole = [score for score in earlier if all((schedule, score["task"]) in stored for schedule in schedules)]
    return replace(evaluation, scores=(*evaluation.scores, *whole))


def _find_piece(pieces: Pieces | None, name: str) -> bytes | None:
    return None if pieces is None else pieces.find(name)


def _put_piece(pieces: Pieces | None, name: str, content: bytes) -> None:
    if pieces is not None:
        pieces.put(name, content)
