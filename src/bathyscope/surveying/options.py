"""Options of surveys, for calls, flags and recipes alike; importing them does not import torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from bathyscope.core.common_options import (
    OF_A_RUN,
    AddSpecialTokens,
    BeyondContext,
    Chat,
    KeepText,
    Preset,
    ReadingOptions,
    Revision,
    TrustRemoteCode,
)
from bathyscope.core.conditions import Excludes, Needs
from bathyscope.core.descriptions import Unset
from bathyscope.core.write_bound import WriteBound
from bathyscope.measures.registry import DEFAULT, MEASURES
from bathyscope.options import Range, Repeatable, TextForm
from bathyscope.schedule import require_form

PROMPTS_HELP: Final = (
    "data set, generated problems or a file: gsm8k:10, gsm8k:10@rows.jsonl, problems:60?steps=1-6, "
    "stories.txt:100?window=256, mine.jsonl; if given several times, all of them, one after the other"
)
_PROMPTS: Final = {"help": PROMPTS_HELP}
_MEASURES: Final = {
    "help": f"names separated by commas, or all: {', '.join(MEASURES)} "
    f"(not given = {','.join(DEFAULT)}, or the preset's)"
}
_EXPORT_FIRST: Final = (
    "export the model (bathyscope export MODEL --schedule ORDER --out FOLDER), and survey the exported checkpoint so"
)
_BOUND_HERE: Final = "survey the bounded model whole, in this process"
_OF_AN_ENGINE: Final = Needs("engine", "is of an engine", "ray")
_GROWS: Final = Needs("out", "lets a run in a folder grow", "runs/x")
_WHOLE: Final = Excludes("part", "do not go together, since this needs a whole run", "join all parts first")
_OF_TEXTS: Final = Excludes("tokens", "do not go together, since only texts are written so")
_ALONE: Final = Excludes("engine", "do not go together, since this process alone computes such a run")


@dataclass(frozen=True)
class _MeasuringOptions:
    """Options of ``survey`` but those that are bundled.

    Args:
        seed: of sampled positions and of resampling; None = 0, or the preset's.
        batch_tokens: tokens of prompts in one shard, the unit that is stored when a run is interrupted. None = 2048, or
            more where a small model computes them in less than a few seconds; never more than one to two minutes of
            work, as predicted when a run begins.
        memory: what a survey may take on the model's device besides the weights, such as ``20GB``; None = on an
            accelerator, what is free there. It decides how large calls are.
        call_tokens: tokens in one call of a block, instead of those that memory allows. A call that runs out of memory
            is split. Results change by rounding alone.
        control: what to compare the model with, surveyed on the same prompts: ``untrained`` (the architecture freshly
            initialised), ``shuffled_blocks`` or ``shuffled_text``, each with a number of seeds if wanted
            (``untrained:3``); several are separated by commas.
        schedule: measure the model with its blocks in another order, such as ``drop:7`` or ``swap:3,repeat:8+2``, as
            if it had been exported with it and loaded again. Its blocks are then numbered in that order.
        bound: measure the model with what its attention and MLP add to the residual stream bounded in every coordinate:
            ``clamp:1000`` = larger numbers become 1000 with their sign, ``zero:1000`` = they become 0. Massive
            activations go with it, and the rest stays to the bit. What ``residual`` calls ``norm_block_max`` and
            ``largest`` says which bound is above the rest.
    """

    prompts: Annotated[Any, Repeatable()] = field(default=None, metadata=_PROMPTS)
    measures: Annotated[tuple[str, ...] | None, Repeatable()] = field(default=None, metadata=_MEASURES)
    out: Annotated[str | None, Unset("in memory alone", shell="runs/MODEL-PROMPTS"), OF_A_RUN] = None
    seed: int | None = None
    batch_tokens: Annotated[int, Range(1)] | None = None
    preset: Preset = None
    memory: str | int | None = None
    call_tokens: Annotated[int, Range(1)] | None = None
    control: str | Sequence[str] | None = None
    schedule: Annotated[
        Annotated[str, TextForm(require_form)] | None,
        Excludes("part", instead=_EXPORT_FIRST),
        Excludes("engine", instead=_EXPORT_FIRST),
    ] = None
    bound: Annotated[
        Annotated[str, TextForm(WriteBound.parse)] | None,
        Excludes("part", instead=_BOUND_HERE),
        Excludes("engine", instead=_BOUND_HERE),
    ] = None


@dataclass(frozen=True)
class GrowthOptions:
    """Options of ``survey`` of runs that become whole in several steps: in parts, larger, or until it is sure.

    Args:
        part: compute only this part of the survey, such as ``3/16``, the third of sixteen; ``out`` then holds an
            unfinished run, and ``bathyscope.join`` makes one run of all parts. For machines that share no memory.
        grow: let the run in ``out`` become the larger one that is requested: more measures, more prompts after its
            own, or both. Stored results stay, and only what is missing is computed.
        until: survey the prompts in order, in growing batches, until the readings of the verdict have intervals that
            reach no further than this many blocks from them, such as 0.5, in two batches in a row. The run in ``out``
            grows, and can be grown on.
        budget: time after which ``until`` begins no further batch: seconds, or a text such as ``10min``.
    """

    part: Annotated[
        str | None,
        Needs("out", "is computed into a folder, to be joined from there", "runs/part-3"),
        Excludes("engine", "are two ways to share a survey out"),
    ] = None
    grow: Annotated[bool, _GROWS, _WHOLE, _ALONE] = False
    until: Annotated[float | None, Range(0.01), _GROWS, _WHOLE, _ALONE] = None
    budget: Annotated[str | float | None, Needs("until", "is for a survey until it is sure", 0.5)] = None


@dataclass(frozen=True)
class WritingOptions:
    """Options of ``survey`` of what the model writes itself.

    Args:
        write: let the model continue each prompt by up to this many tokens, in place of its answer, and measure what it
            wrote. ``lens.positions`` is then ``answer`` and ``tokens.length`` 4096, unless given. Prompts get the
            labels written, ended and, where they have answers, right.
        temperature: of what it writes; None = the most probable token each time.
    """

    write: Annotated[int | None, Range(1), _WHOLE, _ALONE] = None
    temperature: Annotated[float | None, Range(0), Needs("write", "is of what the model writes", 200)] = None


@dataclass(frozen=True)
class WorkerOptions:
    """Options of ``survey`` of who computes it.

    Args:
        engine: who computes: None = this process; ``ray`` = workers on a Ray cluster, each with a GPU where there are
            any and else with one core. Each loads the model by its name and plans for itself; this process writes.
        workers: of the engine; None = one for each GPU.
        address: ``host:port`` of a Ray cluster, or ``auto`` on a machine that belongs to one; None = workers on this
            machine alone.
        worker_timeout: seconds after which a worker that loads the model or computes a shard counts as hanging, and is
            replaced.
    """

    engine: Literal["ray"] | None = None
    workers: Annotated[int | None, Range(1), _OF_AN_ENGINE] = None
    address: Annotated[str | None, _OF_AN_ENGINE] = None
    worker_timeout: Annotated[float | None, Range(1, none="3600"), _OF_AN_ENGINE] = None


@dataclass(frozen=True)
class _TextOptions:
    """Options of ``survey`` of how its prompts are read and stored."""

    beyond_context: BeyondContext = None
    add_special_tokens: AddSpecialTokens = True
    chat: Chat = False
    keep_text: KeepText = True


@dataclass(frozen=True)
class SurveyOptions(_TextOptions, WorkerOptions, WritingOptions, GrowthOptions, _MeasuringOptions):
    """Options of ``survey``, from the last class that it is derived from to the first."""


BUNDLES: Final[Mapping[str, type]] = {"growing": GrowthOptions, "writing": WritingOptions, "placement": WorkerOptions}
"""Arguments of ``survey`` that hold several options each; the options are keywords too."""


@dataclass(frozen=True)
class StatesOptions:
    """Options of ``survey_states``.

    Args:
        states: folder of hidden states that vLLM, speculators or your own code has stored, in place of running a model.
        head: folder or hub name of the model that was served; only its configuration, final norm and unembedding are
            read.
        boundaries: layer ids that the states are of, ascending: 0 is the embedding, and the number of blocks stands
            behind the last one, in front of the final norm. None = as ``states.json`` says, or all where all are there.
        dtype: of the head, and of the states when they are read; None = the states' own.
        seed: of what is sampled, and of resampling.
        batch_tokens: tokens of prompts whose states are read, measured and stored at a time.
    """

    states: str | None = None
    head: Annotated[str | None, Needs("states", "reads stored states", "hidden_states/")] = None
    boundaries: Annotated[tuple[int, ...] | None, Needs("states", "are those of stored states", "hidden_states/")] = (
        None
    )
    prompts: Annotated[Any, Repeatable()] = field(default=None, metadata=_PROMPTS)
    measures: Annotated[tuple[str, ...] | None, Repeatable()] = field(default=None, metadata=_MEASURES)
    out: Annotated[str | None, Unset("in memory alone", shell="runs/HEAD-STATES"), OF_A_RUN] = None
    seed: int | None = None
    dtype: str | None = None
    revision: Revision = None
    trust_remote_code: TrustRemoteCode = False
    batch_tokens: Annotated[int, Range(1, none="4096")] | None = None
    add_special_tokens: AddSpecialTokens = True
    chat: Chat = False
    keep_text: KeepText = True


@dataclass(frozen=True)
class EstimateOptions:
    """Options of ``estimate``.

    Args:
        tokens: instead of prompts, the length of each (no tokenizer is needed).
        count: how many prompts of that length.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"`` or ``"float64"``; None = the checkpoint's.
        device: where rates are measured, such as ``"cpu"``; None = on the first accelerator, or on the CPU without one.
    """

    prompts: Annotated[Any, Repeatable()] = field(default=None, metadata=_PROMPTS)
    measures: Annotated[tuple[str, ...] | None, Repeatable()] = field(default=None, metadata=_MEASURES)
    tokens: Annotated[int, Range(2, 1_000_000)] | None = None
    count: Annotated[
        int | None, Range(1, 1_000_000_000, none="10"), Needs("tokens", "is for prompts of a length", 200)
    ] = None
    preset: Preset = None
    beyond_context: Annotated[BeyondContext, _OF_TEXTS] = None
    add_special_tokens: Annotated[AddSpecialTokens, _OF_TEXTS] = True
    chat: Annotated[Chat, _OF_TEXTS] = False
    dtype: str | None = None
    device: str | None = None
    revision: Revision = None
    trust_remote_code: TrustRemoteCode = False


@dataclass(frozen=True)
class CourseOptions(ReadingOptions):
    """Options of ``course``.

    Args:
        revisions: of one model on the hub, such as ``step1000`` or ``stage1-step1000-tokens5B``; the numbers behind
            "step" are the steps.
        measures: names separated by commas; lens, skip and drop are what a course tells of.
        seed: of sampled positions and of resampling.
    """

    revisions: Annotated[tuple[str, ...], Repeatable()] = ()
    measures: Annotated[tuple[str, ...], Repeatable()] = ("lens", "skip", "drop")
    seed: int = 0
