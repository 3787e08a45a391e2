"""What a survey will cost: work, memory and time, from a model's configuration alone.

The model is built without weights (on the meta device), so that nothing is downloaded but its configuration
and, for text, its tokenizer. Work is counted in floating-point operations of matrix products, and in readouts;
prompts that a measure leaves out cost it nothing. The time follows from what this machine does in a second on the
model's own shapes.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd
import torch
import xarray as xr

from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm
from bathyscope.core.result import TabledResult
from bathyscope.core.text import duration, in_bytes, scaled
from bathyscope.errors import ModelError, OptionError, PromptError, describe_value, warn
from bathyscope.model import Model, as_device
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.memory import KEPT_BYTES, bytes_per_token, free_bytes
from bathyscope.prompts.in_memory import GIVEN, Source
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.options import EstimateOptions
from bathyscope.surveying.outlining import outline
from bathyscope.surveying.plan import SurveyPlan
from bathyscope.surveying.rates import Rates, measure_rates
from bathyscope.surveying.work import key_width
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.places import is_accelerator
from bathyscope.wavefront.reader import Reader

# scratch space of kernels
_WORKSPACE = 64 << 20
# what comes on top of the timed blocks and readouts, as measured on whole surveys, and around a survey
_ON_TOP = {"blocks": 1.1, "readouts": 1.0, "readouts compared in most ways": 1.15}
_START = 0.15
_PROCESS = 720_000_000
"""Bytes of Python with torch, transformers and a tokenizer of 49,152 tokens during a survey, as measured on Linux."""
# as many prompts of one length as any measure asks for at least
_PLANNED = 8
_COUNT: Final = 10
"""Prompts of a length that an estimate is of, unless it is said."""


Fit = Literal["fits", "streams", "does not fit"]


@dataclass(frozen=True, repr=False)
class CostEstimate(TabledResult):
    """The cost of a survey. Rows count full forwards' worth; FLOPs are of matrix products; sizes are bytes.

    Args:
        parameters_per_block: of each block.
        rows: measure → full rows a prompt brings, gradients included (mean over prompts).
        readouts: measure → readouts of every token (mean over tokens).
        floor_seconds: FLOPs over the matrix rate.
        seconds: predicted from the rates of blocks and of readouts, with what experience says comes on top.
        key_value_bytes: lent to rows that own later tokens only, and as a call of these has them.
        workspace_bytes: what a block at work takes besides the states of rows, or a chunk of compared predictions.
        streamed_weight_bytes: of weights in memory where blocks are streamed.
        free_bytes: on the device now; None = it does not tell.
        convoys: of batches, each of which would share a reading of streamed blocks.
        dominates: what most of the time goes to.
        process_bytes: of Python, its libraries and freed arrays that the C library keeps, on top of the peak; 0 where
            the survey runs on an accelerator.
    """

    model: str
    family: str
    dtype: str
    blocks: int
    width: int
    vocabulary: int
    parameters: int
    parameters_per_block: tuple[int, ...]
    prompts: int
    tokens: int
    longest: int
    rows: Mapping[str, float]
    readouts: Mapping[str, float]
    block_flops: float
    readout_flops: float
    weight_bytes: int
    state_bytes: int
    key_value_bytes: int
    workspace_bytes: int
    rates: Rates
    floor_seconds: float
    seconds: float
    streamed_weight_bytes: int
    free_bytes: int | None
    convoys: int
    dominates: str
    process_bytes: int = 0

    @property
    def _outline(self) -> str:
        work, peak, time = scaled(self.flops), in_bytes(self.peak_bytes), duration(self.seconds)
        return f" of {self.model}: {work}FLOP, about {peak} at the peak, about {time} here; {self.fit}"

    @property
    def fit(self) -> Fit:
        """Whether the model and the survey have room on the device: whole, block by block, or not at all."""
        if self.free_bytes is None or self.peak_bytes <= self.free_bytes:
            return "fits"
        besides_weights = self.peak_bytes - self.weight_bytes
        return "streams" if self.streamed_weight_bytes + besides_weights <= self.free_bytes else "does not fit"

    @property
    def readings(self) -> int:
        """How often the weights are read: at load, and where they are streamed once for each convoy of batches."""
        return 1 + (self.convoys if self.fit == "streams" else 0)

    @property
    def flops(self) -> float:
        """Operations of blocks and readouts together."""
        return self.block_flops + self.readout_flops

    @property
    def peak_bytes(self) -> int:
        """Weights, row states, lent keys and values, and workspace."""
        return self.weight_bytes + self.state_bytes + self.key_value_bytes + self.workspace_bytes

    @property
    def data(self) -> xr.Dataset:
        """Full rows and readouts by measure."""
        values = {"rows": ("measure", list(self.rows.values())), "readouts": ("measure", list(self.readouts.values()))}
        return xr.Dataset(values, {"measure": list(self.rows)})

    @property
    def text(self) -> str:
        """What the survey takes, and whether it has room on the device."""
        room = {"fits": "it fits", "streams": "its blocks are streamed"}.get(self.fit, "it does not fit")
        return (
            f"About {duration(self.seconds)} on {self.rates.device}, and {in_bytes(self.peak_bytes)} of memory at the "
            f"peak; {room}."
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for every measure."""
        return self.data.to_dataframe().reset_index()

    def record(self) -> dict[str, Any]:
        """Return every number of the estimate."""
        derived = ("flops", "peak_bytes", "fit", "readings")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


def _of_length(tokens: int, count: int) -> Prompts:
    """Return prompts of a length, of which nothing else counts."""
    return Prompts(tuple(TokenizedPrompt(str(n), (n,) * tokens, dataset=GIVEN) for n in range(count)), GIVEN)


def _look_at_context(tokens: int, model: Model) -> None:
    """Refuse prompts that the model cannot take, and warn of those that surveys refuse unless asked otherwise.

    Raises:
        OptionError: positions come from a table that ends before.
    """
    context = model.max_tokens
    if context is None or tokens <= context:
        return
    if model.has_position_table:
        raise OptionError(
            f"tokens={tokens} is out of range: {model.name} looks positions up in a table of {context}; allowed: 2 to "
            f"{context}."
        )
    warn(
        f"tokens={tokens} is more than the {context} tokens of context that {model.name} declares, beyond which a "
        "survey runs prompts of data sets, and others with beyond_context=True (--beyond-context)."
    )


@contextmanager
def _counted_as(planned: int, count: int) -> Iterator[None]:
    """Let warnings count the prompts that are asked for, of which a few equal ones are planned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = str(warning.message)
        # the context was spoken of before
        if "tokens of context that" not in text:
            warn(text.replace(f"{planned} of {planned} prompts", f"{count} of {count} prompts"), warning.category)


@takes(EstimateOptions)
def estimate(
    model: str | Path,
    prompts: Source | None = None,
    measures: Sequence[str] | str | None = None,
    *,
    tokens: int | None = None,
    count: int | None = None,
    preset: str | None = None,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    rates: Callable[[Model, int, torch.device], Rates] | None = None,
    **options: Any,
) -> CostEstimate:
    """Estimate a survey without loading any weight.

    Args:
        model: a hub name or a local folder with a config.json.
        prompts: as for ``survey``; they are tokenized, and all that a survey refuses is refused here.
        measures: as for ``survey``.
        ...: the options of ``EstimateOptions``.
        dtype: A torch dtype is allowed too.
        rates: measures the machine, given a model, the tokens of a prompt and a device; None = ``measure_rates``.
        **options: a measure's options under its name, as for ``survey``.

    Raises:
        OptionError, PromptError, ModelError: as ``survey``; both or neither of prompts and tokens.

    Example:
        >>> cost = bathyscope.estimate("model", tokens=100, count=10, measures="lens,skip")
        >>> cost.blocks, cost.rows
        (4, {'lens': 0.0, 'skip': 6.0})
    """
    if (prompts is None) == (tokens is None):
        raise OptionError("Give either prompts (--prompts gsm8k:10) or their length (--tokens 200 --count 10).")
    if rates is not None and not callable(rates):
        raise OptionError(f"rates={describe_value(rates)} cannot be called; leave it out to measure this machine.")
    if not isinstance(model, str | Path):
        raise ModelError(
            "estimate() reads a configuration, of a hub name or a folder; "
            f"{type(model).__name__} was given. Of a model in memory, survey a few prompts."
        )
    outlined = outline(str(model), dtype, revision, trust_remote_code)
    # prompts of one length cost the same, so that a few stand for all
    count = _COUNT if count is None else count
    planned = min(count, _PLANNED)
    source: Source | Prompts = _of_length(tokens or 0, planned) if prompts is None else prompts
    place = as_device(device)
    request = Survey(
        measures,
        preset=preset,
        beyond_context=beyond_context,
        add_special_tokens=add_special_tokens,
        chat=chat,
        options=options,
        device=place,
    )
    if tokens is not None:
        _look_at_context(tokens, outlined)
    try:
        with nullcontext() if prompts is not None else _counted_as(planned, count):
            plan = request.plan(outlined, source, warns_of_repeats=prompts is not None)
    except PromptError as error:
        needing = [name for name, (declared, _) in request.declared.items() if declared.needs_answers]
        if tokens is None or not needing:
            raise
        raise OptionError(
            f"{needing[0]} needs prompts with answers, and tokens= makes prompts without; give prompts (--prompts) in "
            "place of tokens."
        ) from error
    mean_length = round(sum(plan.prompts.lengths) / len(plan.prompts))
    # what is beyond the context costs as its operations say: one call of it would take longer than the rest
    machine = (rates or measure_rates)(outlined, min(mean_length, outlined.max_tokens or mean_length), place)
    if not isinstance(machine, Rates):
        raise OptionError(f"rates= gave {describe_value(machine)}, and a Rates is needed; leave rates out.")
    return cost_of_plan(plan, machine, count / planned if prompts is None else 1, place)


def cost_of_plan(plan: SurveyPlan, rates: Rates, copies: float, device: torch.device) -> CostEstimate:
    """Return the cost of the planned prompts, each taken ``copies`` times."""
    anatomy, lengths = plan.facts.anatomy, [len(p) for p in plan.prompts]
    item = torch.empty(0, dtype=plan.model.dtype).element_size()
    longest = max(lengths)
    numbers = range(len(lengths))
    by_measure = {m.name: plan.work_of(numbers, [m]) for m in plan.measures}
    rows = {
        name: sum(prompt_work.rows + prompt_work.rows_after for prompt_work in works) / len(works)
        for name, works in by_measure.items()
    }
    tokens = sum(lengths)
    read = {
        name: sum(prompt_work.compared + prompt_work.compared_in_all_ways for prompt_work in works)
        for name, works in by_measure.items()
    }
    work = plan.work_of(numbers, plan.measures)
    block_flops = copies * sum(prompt_work.block_flops for prompt_work in work)
    readout_flops = copies * sum(read.values()) * 2.0 * anatomy.width * anatomy.vocabulary
    parts = {
        kind: copies * _ON_TOP[kind] * seconds
        for kind, seconds in rates.seconds_by_kind(work, anatomy.vocabulary).items()
    }
    policy = CallPolicy.for_model(anatomy, plan.model.dtype, device)
    call_tokens = policy.tokens
    batches = [
        picked for shard in plan.shards for picked in plan.batches(call_tokens, range(*shard), plan.measures, device)
    ]
    state_bytes = max(plan.state_bytes(picked, plan.measures) for picked in batches)
    free = free_bytes(device)
    in_wave = max(round(sum(work[i].tokens * (1 + work[i].rows) for i in picked)) for picked in batches)
    # a call takes whole rows, one at least, and where they are many there is a control beside them
    in_call = max(longest, policy.in_call // longest * longest) + longest * policy.control_in_every_call
    called = min(in_call, in_wave) * bytes_per_token(anatomy, longest, device)
    lenders = anatomy.n_blocks * any(measure.lends for measure in plan.measures)
    # when all calls have been made
    readouts = {name: count / tokens for name, count in read.items()}
    chunk = Reader.of(anatomy).bytes_at_once(sum(readouts.values()) * longest, device)
    return CostEstimate(
        model=plan.model.name,
        family=anatomy.family.name,
        dtype=str(plan.model.dtype).removeprefix("torch."),
        blocks=anatomy.n_blocks,
        width=anatomy.width,
        vocabulary=anatomy.vocabulary,
        parameters=sum(p.numel() for p in plan.model.hf.parameters()),
        parameters_per_block=tuple(sum(p.numel() for p in block.parameters()) for block in anatomy.blocks),
        prompts=round(copies * len(lengths)),
        tokens=round(copies * tokens),
        longest=longest,
        rows=rows,
        readouts=readouts,
        block_flops=block_flops,
        readout_flops=readout_flops,
        weight_bytes=sum(p.numel() * p.element_size() for p in plan.model.hf.parameters()),
        state_bytes=state_bytes,
        # what is lent, and the same once more behind one another with the borrowers' own
        key_value_bytes=2 * lenders * longest * 2 * key_width(anatomy) * item,
        workspace_bytes=_WORKSPACE + max(called, chunk),
        rates=rates,
        floor_seconds=(block_flops + readout_flops) / rates.matrix,
        seconds=_START + sum(parts.values()),
        streamed_weight_bytes=_streamed_bytes(anatomy),
        free_bytes=free,
        convoys=_convoys(plan, batches, copies, free),
        dominates=max(parts, key=lambda name: parts[name]),
        # calls of blocks and chunks of predictions take turns, and what one of them frees stays beside the other
        process_bytes=0 if is_accelerator(device) else _PROCESS + KEPT_BYTES + int(min(called, chunk)),
    )


def _streamed_bytes(anatomy: Anatomy) -> int:
    """Return the bytes of what is outside the blocks, and of three of them: swaps need two, and one is on its way."""
    # runs of one block share its weights, which are stored once
    sizes = [sum(p.numel() * p.element_size() for p in block.parameters()) for block in anatomy.sources]
    whole = sum(p.numel() * p.element_size() for p in anatomy.model.parameters())
    return whole - sum(sizes) + 3 * max(sizes)


def _convoys(plan: SurveyPlan, batches: Sequence[Sequence[int]], copies: float, free: int | None) -> int:
    """Count the visits of each block where blocks are streamed; copies of prompts are batches of the same kind."""
    shards = [next(n for n, (_, last) in enumerate(plan.shards) if picked[0] < last) for picked in batches]
    convoys = plan.convoys(list(batches), batches, [plan.measures] * len(batches), shards, (free or 0) // 2)
    return round(max(1, copies * len(convoys)))
