"""Options of acting on depth, for calls and flags alike; importing them does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from bathyscope.options import Coverage, Positive, Range, Repeatable, Resamples, TextForm
from bathyscope.schedule import require_form

Arguments = Literal["block", "slot"]
Emit = Literal["mergekit", "layers", "json"]
How = Literal["scale", "linear", "heal"]
Joint = Literal["mean", "worst"]
Part = Literal["block", "attention", "mlp"]


@dataclass(frozen=True)
class PruneOptions:
    """Options of ``prune``.

    Args:
        drop: how many blocks go, or a share such as 25%, rounded to a whole number of at least one; one block stays.
        max_cost: instead, nats per token: as many blocks as can go while the upper end of the interval of the cost on
            the test prompts stays below it.
        parts: what may be left out: block, or attention and mlp, one of them or both.
        over: which tokens of a prompt a cost is over: all tokens, or those of the answer, for models of tasks.
        read_tokens: read out only so many tokens of each prompt, sampled at random with those of its answer among them,
            the same for every subset; intervals include what that adds. Not given = all tokens.
        budget: calls of a block, on every batch of calibration prompts, up to which all subsets are measured, or all
            pairs; beyond it the search is guided by what pairs, or single blocks, cost.
        measured: how many of the subsets that the surrogate prefers are measured.
        random: random subsets, as a baseline.
        joint: with domains (--calibration code=a.txt --calibration prose=b.txt): the choice minimises the mean cost
            over them, or that on the worst of them. Not given = mean.
        resamples: bootstrap resamples of the test prompts, and of the calibration prompts for how often the choice
            would be made again.
        level: coverage of each interval, and of all comparisons with the best together.
        cluster: label of test prompts that belong together, such as document; they are resampled as one.
        seed: of random subsets, of resampling and of generated problems.
        beyond_context: run prompts longer than the context that the model declares, as for survey.
        evaluate: tasks that the full model and the one without the choice are evaluated on, as for evaluate.
        data: rows of a task from a file instead of the hub, as NAME=FILE; may be given several times.
        limit: how many first documents of each task; not given = all.
        batch_size: of their requests in one forward.
        allow_code: run code that the YAML file of a task names (functions, scripts of metrics and data).
        out: folder of the result; finished results there are stored, the same command resumes, and tasks may be added
            to what is finished. Not given = memory alone.
    """

    drop: int | str | None = None
    max_cost: float | None = None
    parts: Sequence[Part] = ("block",)
    over: Literal["tokens", "answer"] = "tokens"
    read_tokens: Annotated[int, Range(2)] | None = None
    budget: Annotated[int, Range(0)] = 20_000
    measured: Annotated[int, Range(1)] = 32
    random: Annotated[int, Range(1)] = 16
    joint: Joint | None = None
    resamples: Resamples = 2000
    level: Coverage = 0.95
    cluster: str | None = None
    seed: int = 0
    beyond_context: bool | None = None
    evaluate: Sequence[str] = ()
    data: Annotated[Sequence[str] | None, Repeatable()] = None
    limit: Annotated[int, Range(1)] | None = None
    batch_size: Annotated[int, Range(1)] = 8
    allow_code: bool = False
    out: str | None = None


@dataclass(frozen=True)
class RepairOptions:
    """Options of ``repair``.

    Args:
        how: the last rung of the ladder that is tried.
        tokens: budget of healing; the same command resumes an interrupted healing and ends in the same weights.
        minutes: budget of healing in time instead.
        rate: highest learning rate of healing; not given = 0.001.
        state: folder that an interrupted healing is resumed from.
        resamples: bootstrap resamples of the test prompts.
        level: coverage of the intervals.
        cluster: label of test prompts that belong together, such as document; they are resampled as one.
        seed: of the split of the calibration prompts, of the order of training, and of resampling.
    """

    how: How = "linear"
    tokens: int | None = None
    minutes: float | None = None
    rate: Positive | None = None
    state: str | None = None
    resamples: Resamples = 1000
    level: Coverage = 0.95
    cluster: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class RepeatScanOptions:
    """Options of ``repeat_scan``.

    Args:
        longest: windows of at most so many blocks; not given = of any length.
        orders: further orders to try, such as order:0-1-2-1-2-3 or repeat:2+3x2.
        over: which tokens of a prompt a cost is over: all tokens, or those of the answer.
        resamples: bootstrap resamples of the prompts.
        level: coverage of all intervals together.
        cluster: label of prompts that belong together, such as document; they are resampled as one.
        seed: of resampling and of generated problems.
        beyond_context: run prompts longer than the context that the model declares, as for survey.
    """

    longest: Annotated[int, Range(1)] | None = None
    orders: Sequence[Annotated[str, TextForm(require_form)]] = ()
    over: Literal["tokens", "answer"] = "tokens"
    resamples: Resamples = 2000
    level: Coverage = 0.95
    cluster: str | None = None
    seed: int = 0
    beyond_context: bool | None = None


@dataclass(frozen=True)
class ExitAdviceOptions:
    """Options of ``exit_advice``.

    Args:
        new_tokens: tokens that a prompt is continued by, at most.
        longest: longest draft; all shorter ones are compared too.
        changed: share of tokens that may change where a token leaves at an exit for good (no check).
        resamples: bootstrap resamples of the prompts.
        level: coverage of the intervals, and of the bound on changed.
        cluster: label of prompts that belong together, such as document; they are resampled, and halved, as one.
        seed: of resampling, of halving the prompts, and of generated problems.
        beyond_context: run prompts longer than the context that the model declares, as for survey.
    """

    new_tokens: Annotated[int, Range(2)] = 64
    longest: Annotated[int, Range(1, 64)] = 8
    changed: Annotated[float, Range(0.001, 0.5)] = 0.05
    resamples: Resamples = 2000
    level: Coverage = 0.95
    cluster: str | None = None
    seed: int = 0
    beyond_context: bool | None = None


@dataclass(frozen=True)
class EvaluateOptions:
    """Options of ``evaluate``.

    Args:
        schedules: drop, swap (at every block), repeat:5 (every window of five blocks run twice), or single ones such as
            drop:5 and repeat:8+5; the normal model is always evaluated.
        data: rows of a task from a file instead of the hub, as NAME=FILE; may be given several times.
        limit: how many first documents of each task; not given = all.
        batch_size: requests in one forward; prompts with written answers share a forward with those of their own
            length, where padding would change the answers.
        arguments: masks and rotary tables follow the block or the slot.
        allow_code: run code that the YAML file of a task names (functions, scripts of metrics and data).
        out: folder of the results; finished results there are not computed again (not given = runs/MODEL-benchmarks).
    """

    schedules: Sequence[str] = ("drop", "swap")
    data: Annotated[Sequence[str] | None, Repeatable()] = None
    limit: Annotated[int, Range(1)] | None = None
    batch_size: Annotated[int, Range(1)] = 8
    arguments: Arguments = "block"
    allow_code: bool = False
    out: str | None = None


@dataclass(frozen=True)
class ExportOptions:
    """Options of ``export``.

    Args:
        emit: instead of a checkpoint, text for other tools: mergekit (a passthrough merge), layers (2,3,5) or json.
        evidence: Markdown for the model card, such as costs with their intervals.
        revision: branch, tag or commit on the hub.
        shard_bytes: largest file of weights.
    """

    emit: Emit | None = None
    evidence: str = ""
    revision: str | None = None
    shard_bytes: Annotated[int, Range(1)] = 5 * 10**9
