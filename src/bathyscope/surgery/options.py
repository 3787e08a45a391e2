"""Options of acting on depth, for calls and flags alike; importing them does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from bathyscope.core.common_options import (
    AllowTaskCode,
    Level,
    PromptCluster,
    PromptResamples,
    ReadingOptions,
    Revision,
    TaskLimit,
    TaskRows,
    TestCluster,
    TestResamples,
)
from bathyscope.core.conditions import Excludes, Needs
from bathyscope.core.descriptions import Unset
from bathyscope.options import Coverage, Positive, Range, Resamples, TextForm
from bathyscope.schedule import require_form

Arguments = Literal["block", "slot"]
Emit = Literal["mergekit", "layers", "json"]
How = Literal["scale", "linear", "heal"]
Joint = Literal["mean", "worst"]
Part = Literal["block", "attention", "mlp"]
_OF_TASKS: Final = Needs("evaluate", "is of tasks", ("arc_easy",))
_OF_HEALING: Final = Needs("how", "is of healing", "heal", only=True)


@dataclass(frozen=True)
class PruneOptions(ReadingOptions):
    """Options of ``prune``.

    Args:
        drop: how many blocks go, or a share such as ``25%``, taken to the nearest whole number; one block stays, and a
            share that rounds to none is refused.
        max_cost: instead, nats per token, or a share of the loss of the full model on the test prompts such as ``2%``:
            as many blocks as can go while the upper end of the interval of the cost on the test prompts stays below it.
        parts: what may be left out: ``block``, or ``attention`` and ``mlp``, one of them or both.
        over: which tokens of a prompt a cost is over: all ``tokens``, or those of the ``answer``, for models of tasks.
            Where the full model ends an answer, the token that ends it counts too, and the plan says behind how many
            answers it stays the most probable one.
        read_tokens: read out only this many tokens of each prompt, sampled at random with those of its answer among
            them, the same for every subset; intervals include what that adds. None = all tokens.
        budget: calls of a block, on every batch of calibration prompts, up to which all subsets are measured, or all
            pairs; beyond it the search is guided by what pairs, or single blocks, cost.
        measured: how many of the subsets that the surrogate prefers are measured.
        random: random subsets, as a baseline.
        joint: with domains: the choice minimises the ``mean`` cost over them, or that on the ``worst`` of them. None =
            ``mean``. Each domain's own choice is next to it.
        resamples: bootstrap resamples of the test prompts, and of the calibration prompts for how often the choice
            would be made again.
        level: coverage of each interval, and of all comparisons with the best together.
        seed: of random subsets, resampling and generated problems.
        evaluate: tasks that the full model and the one without the choice are evaluated on, as for
            ``bathyscope.evaluate``.
        batch_size: of their requests in one forward.
        out: folder of the result; finished results there are stored, the same command resumes, and tasks may be added
            to what is finished. None = in memory alone.
    """

    drop: int | str | None = None
    max_cost: float | str | None = None
    parts: Sequence[Part] = ("block",)
    over: Literal["tokens", "answer"] = "tokens"
    read_tokens: Annotated[
        int | None,
        Range(2),
        Excludes("over", "do not go together, since the tokens of the answer are always read", only="answer"),
    ] = None
    budget: Annotated[int, Range(0)] = 20_000
    measured: Annotated[int, Range(1)] = 32
    random: Annotated[int, Range(1)] = 16
    joint: Joint | None = None
    resamples: Resamples = 2000
    level: Coverage = 0.95
    cluster: TestCluster = None
    seed: int = 0
    evaluate: Sequence[str] = ()
    data: Annotated[TaskRows, _OF_TASKS] = None
    limit: Annotated[TaskLimit, _OF_TASKS] = None
    batch_size: Annotated[int, Range(1), _OF_TASKS] = 8
    allow_code: Annotated[AllowTaskCode, _OF_TASKS] = False
    out: str | None = None


@dataclass(frozen=True)
class RepairOptions(ReadingOptions):
    """Options of ``repair``.

    Args:
        how: the last rung of the ladder that is tried.
        tokens: budget of healing; the same command resumes an interrupted healing and ends in the same weights.
        minutes: budget of healing in time instead.
        rate: highest learning rate of healing; None = 0.001.
        state: folder that an interrupted healing is resumed from.
        seed: of the split of the calibration prompts, of the order of training, and of resampling.
    """

    how: How = "linear"
    tokens: Annotated[int | None, _OF_HEALING] = None
    minutes: Annotated[float | None, _OF_HEALING] = None
    rate: Annotated[Positive | None, _OF_HEALING] = None
    state: Annotated[str | None, _OF_HEALING] = None
    resamples: TestResamples = 1000
    level: Level = 0.95
    cluster: TestCluster = None
    seed: int = 0


@dataclass(frozen=True)
class RepeatScanOptions(ReadingOptions):
    """Options of ``repeat_scan``.

    Args:
        longest: windows of at most this many blocks; None = of any length.
        orders: further orders to try, such as ``order:0-1-2-1-2-3`` or ``repeat:2+3x2``.
        over: which tokens a cost is over: all ``tokens`` of a prompt, or those of its ``answer``.
        level: coverage of all intervals together.
        seed: of resampling and of generated problems.
    """

    longest: Annotated[int, Range(1)] | None = None
    orders: Sequence[Annotated[str, TextForm(require_form)]] = ()
    over: Literal["tokens", "answer"] = "tokens"
    resamples: PromptResamples = 2000
    level: Coverage = 0.95
    cluster: PromptCluster = None
    seed: int = 0


@dataclass(frozen=True)
class ExitAdviceOptions(ReadingOptions):
    """Options of ``exit_advice``.

    Args:
        new_tokens: tokens that a prompt is continued by, at most.
        longest: longest draft; all shorter ones are compared too.
        changed: share of tokens that may change where a token leaves at an exit for good (no check).
        level: coverage of the intervals, and of the bound on ``changed``.
        cluster: label of prompts that belong together, such as document; they are resampled, and halved, as one.
        seed: of resampling, of halving the prompts, and of generated problems.
    """

    new_tokens: Annotated[int, Range(2)] = 64
    longest: Annotated[int, Range(1, 64)] = 8
    changed: Annotated[float, Range(0.001, 0.5)] = 0.05
    resamples: PromptResamples = 2000
    level: Coverage = 0.95
    cluster: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class EvaluateOptions:
    """Options of ``evaluate``.

    Args:
        schedules: ``drop``, ``swap`` (at every block), ``repeat:5`` (every window of five blocks run twice), or single
            ones such as ``drop:5``, ``repeat:8+5`` and ``parallel:3+4``; the normal model is always evaluated.
        batch_size: requests in one forward; prompts with written answers share a forward with those of their own
            length, where padding would change the answers.
        arguments: masks and rotary tables follow the ``block`` or the ``slot``.
        chat: put questions in the tokenizer's chat template, as lm-evaluation-harness does with
            --apply_chat_template.
        out: folder of the results; finished results there are not computed again.
    """

    schedules: Sequence[str] = ("drop", "swap")
    data: TaskRows = None
    limit: TaskLimit = None
    batch_size: Annotated[int, Range(1)] = 8
    arguments: Arguments = "block"
    chat: bool = False
    allow_code: AllowTaskCode = False
    out: Annotated[str | None, Unset("in memory alone", shell="runs/MODEL-benchmarks")] = None


@dataclass(frozen=True)
class ExportOptions:
    """Options of ``export``.

    Args:
        emit: instead of a checkpoint, text for other tools: ``"mergekit"`` (a passthrough merge), ``"layers"`` (2,3,5)
            or ``"json"``.
        evidence: Markdown for the model card, such as costs with their intervals.
        shard_bytes: largest file of weights.
    """

    emit: Emit | None = None
    evidence: str = ""
    revision: Revision = None
    shard_bytes: Annotated[int, Range(1)] = 5 * 10**9
