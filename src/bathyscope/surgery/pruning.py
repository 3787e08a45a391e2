"""``prune``: which blocks can go, chosen on some prompts and proved on others, beside what cheap rules would choose."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Final, get_args

from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.errors import ModelError, OptionError, PruningError, did_you_mean, warn
from bathyscope.measures.costs import Over
from bathyscope.measures.token_samples import TokenSampler
from bathyscope.model import AnyModel, Model, alone, config_hash, loaded
from bathyscope.model.place import here
from bathyscope.model.reading import tokenized
from bathyscope.options import Coverage, Range, Resamples, checked
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.samples import judging, require_answers, require_apart, told_clusters
from bathyscope.prompts.source import Source
from bathyscope.runs.folder import folder_path
from bathyscope.runs.pieces import Pieces
from bathyscope.schedule import Schedule
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.benchmarks.evaluating import evaluate as evaluated
from bathyscope.surgery.benchmarks.evaluating import require_answerable
from bathyscope.surgery.benchmarks.result import against_full
from bathyscope.surgery.choosing import Search, Subset
from bathyscope.surgery.judging import Proof
from bathyscope.surgery.ledger import Ledger, Role
from bathyscope.surgery.options import Part
from bathyscope.surgery.outline import sizes_after
from bathyscope.surgery.plan import (
    PRUNING,
    RESULT,
    SPEED,
    TASKS,
    Plan,
    decoded,
    encoded,
    with_speeds,
    with_tasks,
)
from bathyscope.surgery.plan_text import refusal
from bathyscope.surgery.timing import measure_speeds
from bathyscope.surgery.zeroing import require_writable
from bathyscope.wavefront.histories import Unit

_BENCHMARKS: Final = "benchmarks"


@checked
def prune(
    model: AnyModel,
    calibration: Source | Prompts,
    test: Source | Prompts,
    *,
    drop: int | str | None = None,
    max_cost: float | None = None,
    parts: Sequence[Part] = ("block",),
    over: Over = "tokens",
    read_tokens: Annotated[int, Range(2)] | None = None,
    budget: Annotated[int, Range(0)] = 20_000,
    measured: Annotated[int, Range(1)] = 32,
    random: Annotated[int, Range(1)] = 16,
    resamples: Resamples = 2000,
    level: Coverage = 0.95,
    cluster: str | None = None,
    seed: int = 0,
    beyond_context: bool | None = None,
    evaluate: Sequence[str] = (),
    data: Mapping[str, str | Path] | None = None,
    limit: int | None = None,
    batch_size: int = 8,
    out: str | Path | None = None,
    progress: bool = True,
) -> Plan:
    """Chooses blocks to leave out on some prompts, and says what that costs on others.

    cost(S) of a prompt is the mean over its tokens of loss(without S) − loss(full). Beside the choice stand, on the
    same tokens, block influence (ShortGPT), the angular distance of a window (Gromov et al.), one-shot loss, greedy
    dropping (SLEB), the surrogate from pairs alone, the last blocks, and random ones.

    Args:
        model: what ``load`` returns or takes.
        calibration: prompts that choose, as for ``survey``.
        test: other prompts, which judge; a prompt that stands in both is refused.
        drop: how many blocks go, or a share such as ``"25%"``, taken to the nearest whole number.
        max_cost: instead, nats per token: as many blocks as can go while the upper end of the interval of the cost on
            the test prompts stays below it.
        parts: what may be left out: ``block``, or ``attention`` and ``mlp``, one of them or both.
        over: which tokens of a prompt a cost is over: all ``tokens``, or those of the ``answer``, for models of tasks.
        read_tokens: read out only so many tokens of each prompt, drawn at random with those of its answer among them,
            the same for every subset; intervals hold what that adds. None = all tokens.
        budget: calls of a block, on every batch of calibration prompts, up to which all subsets are measured, or all
            pairs; beyond it the search is led by what pairs, or single blocks, cost.
        measured: how many subsets that the surrogate favours are measured.
        random: subsets drawn at random, as a baseline.
        resamples: bootstrap resamples of the test prompts.
        level: coverage of each interval, and of all comparisons with the best together.
        cluster: label of test prompts that belong together, such as document; they are resampled as one.
        seed: of random subsets, of resampling and of generated problems.
        beyond_context: as for ``survey``.
        evaluate: tasks, as for ``bathyscope.evaluate``, that the full model and the one without the choice are asked.
        data: task → file whose rows are used instead of the hub's.
        limit: how many first documents of each task; None = all.
        batch_size: of their requests in one forward.
        out: folder of the result; what is finished there is kept, and the same call goes on where it was; tasks may be
            added to what is finished. None = memory alone.
        progress: show a progress bar on standard error when it takes long.

    Returns:
        ``plan.schedule``, ``plan.table``, ``plan.tasks``, ``plan.text``, ``plan.export(folder)``.

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
        if not evaluate and (data or limit is not None):
            raise OptionError("data and limit are of tasks, and none is asked; name some by evaluate=['arc_easy'].")
        kinds = kinds_of(parts)
        ready = loaded(model)
        units = units_of(ready, kinds)
        size = None if drop is None else size_of(drop, len(units), "blocks" if kinds == ("block",) else "parts")
        samples: dict[Role, Prompts] = {
            "calibration": tokenized(ready, calibration, seed=seed, beyond_context=beyond_context),
            "test": judging(tokenized(ready, test, seed=seed, beyond_context=beyond_context)),
        }
        require_apart(samples["calibration"], samples["test"])
        if over == "answer":
            if read_tokens is not None:
                raise OptionError(
                    f"read_tokens={read_tokens} samples the tokens of a prompt, and over='answer' looks at those of "
                    "the answer, which are always read; leave one of them out."
                )
            require_answers(samples)
        samplers: dict[Role, TokenSampler] | None = None
        if read_tokens is not None:
            samplers = {role: TokenSampler(read_tokens, own, seed, f"prune ({role})") for role, own in samples.items()}
        together = None if cluster is None else samples["test"].clusters(cluster)
        benchmarks = require_answerable(ready, evaluate, data, limit, batch_size) if evaluate else ()
        if kinds != ("block",):
            _say_what_cannot_be_written(ready, units)
        if benchmarks and kinds != ("block",):
            raise OptionError("evaluate: tasks are run without whole blocks; choose among them (parts='block').")
        asked = {
            "model": ready.name,
            "weight_hash": ready.weight_hash,
            "config_hash": config_hash(ready.hf),
            "precision": str(ready.dtype).removeprefix("torch."),
            "device": str(ready.device.type),
            "n_blocks": ready.n_blocks,
            **{f"{role}_hash": own.hash for role, own in samples.items()},
            "drop": size,
            "max_cost": max_cost,
            "parts": list(kinds),
            "over": over,
            "budget": budget,
            "measured": measured,
            "random": random,
            "resamples": resamples,
            "level": level,
            "seed": seed,
            **({} if cluster is None else {"cluster": cluster}),
            **({} if read_tokens is None else {"read_tokens": read_tokens}),
        }
        folder = nullcontext() if out is None else Pieces(folder_path(out, "out"), PRUNING, asked)
        with ended_as_interrupted(), folder as kept:
            finished = None if kept is None else kept.find(RESULT)
            if finished is None:
                ledger = Ledger(ready, samples, kept, over, progress, samplers)
                search = Search(ledger, units, budget=budget, measured=measured, random=random, seed=seed)
                proof = Proof(ledger, search, Sampling(resamples, level, seed, together))
                fitting = proof.largest(max_cost) if size is None else size
                tells: dict[str, str | float] = {"max_cost": max_cost or 0.0, "parts": ",".join(kinds), "over": over}
                tells |= _written(calibration=calibration, test=test)
                tells |= {"fits": int(fitting > 0), "config_hash": str(asked["config_hash"])}
                tells |= {"weight_hash": ready.weight_hash, "precision": str(asked["precision"])}
                tells |= told_clusters(cluster, together)
                place = here(ready.name, ready.revision)
                tells |= {} if place is None else {"folder": str(place.resolve())}
                # where not even one fits, the numbers of the cheapest one say why
                tried = max(fitting, 1)
                candidates = search.find(tried)
                finished = proof.judged(candidates, tried, {**tells, **_sizes(ready, candidates.choice)})
                if kept is not None:
                    kept.put(RESULT, finished)
            plan = decoded(finished, ready if isinstance(model, Model) else model)
            if not plan.fits:
                raise PruningError(refusal(plan.data), plan)
            plan = _with_speeds(plan, ready, samples["test"], kept, progress)
            asked_tasks = None if kept is None else kept.find(TASKS)
            if benchmarks:
                shelf = None if kept is None else kept.path / _BENCHMARKS
                schedule = plan.left_out
                found = evaluated(
                    *(ready, benchmarks, [schedule]), limit=limit, batch_size=batch_size, out=shelf, progress=progress
                )
                asked_tasks = encoded(against_full(found, schedule, resamples=resamples, level=level, seed=seed))
                if kept is not None:
                    kept.put(TASKS, asked_tasks)
        return plan if asked_tasks is None else with_tasks(plan, asked_tasks)


def _say_what_cannot_be_written(model: Model, units: Sequence[Unit]) -> None:
    """Warn, before anything runs, where a choice among parts could not be exported afterwards."""
    try:
        require_writable(model, units)
    except ModelError as error:
        warn(f"prune: the choice can be measured, but not exported. {error}")


def _written(**sources: object) -> dict[str, str]:
    """Return the sources of prompts that were given as text, so that other commands can read them again."""
    texts = {role: str(source) if isinstance(source, Path) else source for role, source in sources.items()}
    return {
        f"{role}_source": json.dumps(text)
        for role, text in texts.items()
        if isinstance(text, str) or _names_sources(text)
    }


def _names_sources(source: object) -> bool:
    """Return whether a list names data sets or files, one an item."""
    return isinstance(source, list) and all(isinstance(item, dict) and set(item) == {"source"} for item in source)


def _sizes(model: Model, choice: Subset) -> dict[str, int]:
    """Return parameters and bytes of the model, with and without the blocks of a choice; zeroed parts stay.

    What is kept outside of blocks may have entries for each of them (embeddings by block), and has fewer then too.
    """
    gone = {unit.block for unit in choice if unit.part == "block"}
    kept = Schedule(tuple(block for block in range(model.n_blocks) if block not in gone), model.n_blocks)
    after_of = sizes_after(model.hf, kept) if gone else {}
    of_blocks = [{id(value) for value in block.parameters()} for block in model.anatomy.blocks]
    left = set().union(*(ids for block, ids in enumerate(of_blocks) if block not in gone))
    dropped = set().union(*of_blocks) - left
    whole = dict(model.hf.named_parameters())  # names a tied one once
    after = {
        name: value.numel() if id(value) in left else after_of.get(name, value.numel())
        for name, value in whole.items()
        if id(value) not in dropped
    }
    return {
        "parameters": sum(value.numel() for value in whole.values()),
        "parameters_after": sum(after.values()),
        "bytes": sum(value.numel() * value.element_size() for value in whole.values()),
        "bytes_after": sum(size * whole[name].element_size() for name, size in after.items()),
    }


def _with_speeds(plan: Plan, model: Model, test: Prompts, kept: Pieces | None, progress: bool) -> Plan:
    """Return the plan with speeds before and after: those in its folder, or timed now; without where none can be.

    They are a file of their own, since the rest of a plan is the same to the bit whenever it is computed.
    """
    content = None if kept is None else kept.find(SPEED)
    if content is None:
        if model.blocks is not None or not plan.leaves_blocks:
            return plan  # a streamed model reads its files, and a zeroed part runs as before
        longest = max(test, key=len)
        try:
            speeds = measure_speeds(model, plan.schedule, longest.ids, progress=progress)
        except ModelError as error:
            warn(f"prune: the speed without the blocks is not known. {error}")
            return plan
        content = json.dumps(speeds.record()).encode()
        if kept is not None:
            kept.put(SPEED, content)
    return with_speeds(plan, content)


def size_of(drop: int | str, units: int, what: str) -> int:
    """How many of ``units`` are meant by a number or by a share such as "25%".

    Raises:
        OptionError: neither, or out of range.
    """
    number, share = _number_of(drop)
    if share:
        return min(max(1, math.ceil(units * number / 100 - 0.5)), units - 1)
    if not 1 <= number < units:
        raise OptionError(
            f"drop={drop} is out of range: {units} {what} may be left out, and one has to stay; allowed: 1 to "
            f"{units - 1}, or a share such as '25%'."
        )
    return int(number)


def _number_of(drop: int | str) -> tuple[float, bool]:
    """The number in what was asked for, and whether it is a share in hundredths."""
    text = str(drop).strip()
    share = text.endswith("%")
    try:
        number = float(text[:-1]) if share else int(text)
    except ValueError as error:
        raise OptionError(f"drop={drop!r} is neither a number of blocks nor a share such as '25%'.") from error
    if share and not 0 < number < 100:
        raise OptionError(f"drop={drop!r} is out of range; a share lies between 0 % and 100 %, such as '25%'.")
    if not share and number < 1:
        raise OptionError(f"drop={drop!r} is out of range; give 1 or more, or a share such as '25%'.")
    return number, share


def require_size(drop: int | str | None, max_cost: float | None) -> None:
    """Refuses what does not say in one way how much may go; it asks for no model."""
    if (drop is None) == (max_cost is None):
        both = "both were given" if drop is not None else "neither was given"
        raise OptionError(f"Say how much may go: drop=6, drop='25%', or max_cost=0.05 in nats per token; {both}.")
    if drop is not None:
        _number_of(drop)
    if max_cost is not None and not 0 < max_cost < math.inf:
        raise OptionError(f"max_cost={max_cost:g} is out of range; give nats per token above 0, such as 0.05.")


def kinds_of(parts: Sequence[str] | str) -> tuple[str, ...]:
    """Which parts may be left out; refuses what is none. It asks for no model."""
    found = tuple(part.strip() for part in parts.split(",")) if isinstance(parts, str) else tuple(parts)
    unknown = next((part for part in found if part not in get_args(Part)), None)
    if unknown is not None:
        raise OptionError(
            f"parts: {unknown!r} is unknown.{did_you_mean(str(unknown), get_args(Part))} Allowed: block, or "
            "attention and mlp."
        )
    if not found or len(set(found)) < len(found) or ("block" in found and len(found) > 1):
        raise OptionError(
            f"parts={list(found)} is not allowed: a block is both of its parts, and would be counted twice. Give "
            "block, or attention, or mlp, or attention and mlp."
        )
    return found


def units_of(model: Model, kinds: Sequence[str]) -> tuple[Unit, ...]:
    """What may be left out of a model; blocks whose keys and values others take stay."""
    n_blocks = model.n_blocks
    if kinds != ("block",):
        from bathyscope.measures.base import ModelFacts

        ModelFacts(model.anatomy, model.checks).require_parts("prune of attention or mlp")
        found = tuple(Unit(block, part) for block in range(n_blocks) for part in kinds)
        if len(found) < 2:
            raise ModelError(f"No {kinds[0]} of this model can be left out: it has one, and one has to stay.")
        return found
    standard = Schedule.standard(n_blocks)
    kept = [block for block in range(n_blocks) if model.checks.lacking(standard.drop(block)) is None]
    if len(kept) < n_blocks:
        others = ", ".join(str(block) for block in range(n_blocks) if block not in kept)
        warn(f"prune: blocks {others} stay, since later blocks take their keys and values.")
    if len(kept) < 2:
        raise ModelError(f"No block of this model can be left out: it has {n_blocks}, and one has to stay.")
    return tuple(Unit(block) for block in kept)
