"""What a survey will cost: work, memory and time, from a model's configuration alone.

The model is built without weights (on the meta device), so that nothing is downloaded but its configuration
and, for text, its tokenizer. Work is counted in floating-point operations of matrix products; the time is the
floor, work over the rate of a matrix product on this machine, plus what comparing predictions takes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import nn
from torch.utils.benchmark import Timer
from transformers import AutoModelForCausalLM

from bathyscope.core.text import duration, in_bytes, scaled
from bathyscope.errors import ModelError, OptionError
from bathyscope.model import Model, as_device, as_dtype, load_config
from bathyscope.model.anatomy.anatomy import Anatomy, config_of
from bathyscope.model.anatomy.checks import Checks
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.gaps import tolerance
from bathyscope.model.anatomy.mode import default_settings
from bathyscope.model.anatomy.readout import Readout
from bathyscope.model.anatomy.registry import family_for
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.gguf import is_gguf, open_gguf
from bathyscope.model.memory import bytes_per_token, free_bytes
from bathyscope.model.placement import blocks_of
from bathyscope.options import Range, checked
from bathyscope.prompts.source import Source
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.plan import SurveyPlan
from bathyscope.surveying.sharding import convoys_of
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.compare import METRICS, bytes_at_once, compare

SECONDS = 0.3
_COMPARED = ("kl_from_reference", "entropy", "l2")
# of a model of average depth, each of which a lens compares with the last
_BOUNDARIES = 16
_SURE = 4.0
# scratch space of kernels
_WORKSPACE = 64 << 20
# what stands beside products, and around a survey: seven surveys of 0.2 to 16 CPU seconds are met within 1.5 times
_BESIDE, _START = 1.3, 0.15
# as many as any measure asks for at least
_PLANNED = 8


@dataclass(frozen=True)
class Rates:
    """What this machine does in a second.

    Args:
        matrix: floating-point operations of matrix products.
        compared: entries of the vocabulary whose predictions are compared.
        device: where it was measured.
        seconds: how long, for each of them.
        in_all_ways: entries that are compared in all ways there are, as the lens does; None = as fast as ``compared``.
    """

    matrix: float
    compared: float
    device: str
    seconds: float = SECONDS
    in_all_ways: float | None = None


Fit = Literal["fits", "streams", "does not fit"]


@dataclass(frozen=True, repr=False)
class Estimate:
    """The cost of a survey. Rows count full forwards' worth; FLOPs are of matrix products; sizes are bytes.

    Args:
        parameters_per_block: of each block.
        rows: measure → full rows a prompt brings, gradients included (mean over prompts).
        readouts: measure → readouts of every token (mean over prompts).
        floor_seconds: FLOPs over the matrix rate.
        seconds: the floor and the time for comparing predictions, with what experience says stands beside them.
        key_value_bytes: lent to rows that own later tokens only, and as a call of these has them.
        workspace_bytes: what a block at work takes beside the states of rows, or a chunk of compared predictions.
        streamed_weight_bytes: of weights in memory where blocks are streamed.
        free_bytes: on the device now; None = it does not tell.
        convoys: of batches, each of which would share a reading of streamed blocks.
        dominates: what most of the time goes to.
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

    def __repr__(self) -> str:
        work, peak, time = scaled(self.flops), in_bytes(self.peak_bytes), duration(self.seconds)
        return f"<Estimate of {self.model}: {work}FLOP, about {peak} at the peak, about {time} here; {self.fit}>"

    @property
    def fit(self) -> Fit:
        """Whether the model and the survey have room on the device: whole, block by block, or not at all."""
        if self.free_bytes is None or self.peak_bytes <= self.free_bytes:
            return "fits"
        beside = self.peak_bytes - self.weight_bytes
        return "streams" if self.streamed_weight_bytes + beside <= self.free_bytes else "does not fit"

    @property
    def readings(self) -> int:
        """How often the weights are read: at load, and where they are streamed once for each convoy of batches."""
        return 1 + (self.convoys if self.fit == "streams" else 0)

    @property
    def flops(self) -> float:
        """Of blocks and readouts together."""
        return self.block_flops + self.readout_flops

    @property
    def peak_bytes(self) -> int:
        """Weights, row states, lent keys and values, and workspace."""
        return self.weight_bytes + self.state_bytes + self.key_value_bytes + self.workspace_bytes


@checked
def estimate(
    model: str | Path,
    prompts: Source | None = None,
    measures: Sequence[str] | str | None = None,
    *,
    tokens: Annotated[int, Range(2, 1_000_000)] | None = None,
    count: Annotated[int, Range(1, 1_000_000_000)] = 10,
    preset: str | None = None,
    chat: bool = False,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    rates: Callable[[torch.dtype, torch.device, int], Rates] | None = None,
    **options: Any,
) -> Estimate:
    """Estimates a survey without loading any weight.

    Args:
        model: a hub name or a local folder with a config.json.
        prompts: as for ``survey``; they are tokenized, and all that a survey refuses is refused here.
        measures: as for ``survey``.
        tokens: instead of prompts, the length of each (no tokenizer is needed).
        count: how many prompts of that length.
        preset, chat: as for ``survey``.
        dtype, device, revision, trust_remote_code: as for ``load``; the rates are measured on the device.
        rates: measures the machine; None = ``measure_rates``.
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
    if not isinstance(model, str | Path):
        raise ModelError(
            "estimate() reads a configuration, of a hub name or a folder; "
            f"{type(model).__name__} was given. Of a model in memory, survey a few prompts."
        )
    outlined = outline(str(model), dtype, revision, trust_remote_code)
    # prompts of one length cost the same, so that a few stand for all
    planned = min(count, _PLANNED)
    source: Source = [[0] * (tokens or 0)] * planned if prompts is None else prompts
    plan = Survey(measures, preset=preset, chat=chat, options=options).plan(outlined, source, told=prompts is not None)
    found = (rates or measure_rates)(outlined.dtype, as_device(device), outlined.anatomy.vocabulary)
    return _count(plan, found, count / planned if prompts is None else 1, as_device(device))


@default_settings()
def measure_rates(dtype: torch.dtype, device: torch.device, vocabulary: int) -> Rates:
    """The rates of this machine, from ``SECONDS`` of matrix products and as much of comparing predictions, twice."""
    size = 1024 if device.type == "cpu" else 8192
    left = torch.randn(size, size, device=device).to(dtype)
    matrix = 2.0 * size**3 * _per_second(lambda: left @ left)
    entries = min(vocabulary, 32768)

    def per_second(metrics: Sequence[str], tokens: int, rows: int) -> float:
        # as sure of the next token as models are: few tokens are nearly all of the probability
        logits_RNV = _SURE * torch.randn(1 + rows, tokens, entries, device=device)
        targets_N = torch.zeros(tokens, dtype=torch.long, device=device)

        def compared() -> Any:
            reference_NV, *others = logits_RNV
            return compare(
                lambda logits_NV: logits_NV, reference_NV, others, metrics, vocabulary=entries, targets_N=targets_N
            )

        return rows * tokens * entries * _per_second(compared)

    usual = per_second(_COMPARED, 64, 1)
    return Rates(matrix, usual, str(device), in_all_ways=per_second(tuple(METRICS), 8, _BOUNDARIES))


def _per_second(work: Callable[[], Any]) -> float:
    """How often ``work`` is done in a second, an accelerator's part of it included."""
    timer = Timer("work()", globals={"work": work}, num_threads=torch.get_num_threads())
    return 1 / float(timer.blocked_autorange(min_run_time=SECONDS).mean)


def outline(name: str, dtype: str | torch.dtype | None, revision: str | None, trust_remote_code: bool = False) -> Model:
    """A model without weights that can be planned with, its checks taken to hold."""
    config = load_config(name, revision, trust_remote_code)
    text = config.get_text_config()
    declared = getattr(text, "dtype", None) or getattr(config, "dtype", None)
    wanted = as_dtype(dtype or declared or torch.float32)
    try:
        with torch.device("meta"):
            hf = AutoModelForCausalLM.from_config(config, dtype=wanted, trust_remote_code=trust_remote_code)
    except (ValueError, KeyError, ImportError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{name} is no causal language model that can be built: {reason}") from error
    family = family_for(config.model_type) or family_for(text.model_type)
    if family is not None and family.refused:
        raise ModelError(f"{family.name} models cannot be measured: {family.refused}")
    anatomy = _anatomy(name, hf.eval(), family)
    limit = tolerance(wanted)
    checks = Checks(0.0, 0.0, (0.0,) * anatomy.n_blocks, {1: 0.0}, limit)
    gguf = open_gguf(name) if is_gguf(name) else None
    return Model(name, revision, anatomy, checks, weight_hash="", trust_remote_code=trust_remote_code, gguf=gguf)


def _anatomy(name: str, hf: nn.Module, family: Family | None) -> Anatomy:
    """Blocks and head, found without a forward, which a model without weights cannot make."""
    text = config_of(hf)
    blocks: Any = submodule(hf, blocks_of(hf))
    head: Any = hf.get_output_embeddings()  # type: ignore[operator]
    embedding: Any = hf.get_input_embeddings()  # type: ignore[operator]
    if head is None:
        raise ModelError(
            f"{name}: its head cannot be found without its weights; bathyscope check loads it and searches."
        )
    unknown = Family(f"{text.model_type} (unknown)", (text.model_type,))
    return Anatomy(
        family=family or unknown,
        model=hf,
        blocks=tuple(blocks),
        # without its norm, whose kind is found by trying it on numbers
        readout=Readout(None, head, submodule(hf, family.projection) if family and family.projection else None),
        width=int(getattr(text, "hidden_size", None) or embedding.weight.shape[-1]),
        vocabulary=int(head.weight.shape[0]),
        parallel=False,
        returns=(),
        dtype=next(p.dtype for p in hf.parameters() if p.is_floating_point()),
    )


def _count(plan: SurveyPlan, rates: Rates, copies: float, device: torch.device) -> Estimate:
    """The cost of the planned prompts, each taken ``copies`` times."""
    anatomy, lengths = plan.facts.anatomy, [len(p) for p in plan.prompts]
    item = torch.empty(0, dtype=plan.model.dtype).element_size()
    total, longest = round(copies * sum(lengths)), max(lengths)
    rows = {
        m.name: sum(m.rows_per_prompt(plan.facts, n) + m.rows_after(plan.facts, n) for n in lengths) / len(lengths)
        for m in plan.measures
    }
    readouts = {
        m.name: sum(m.readouts_per_prompt(plan.facts, n) for n in lengths) / len(lengths) for m in plan.measures
    }
    intervened = sum(rows.values())
    # the baseline, and a control row where anything intervenes
    forwards = 1 + (1 if intervened else 0) + intervened
    block_flops = copies * sum(n * forwards * _forward_flops(anatomy, n) for n in lengths)
    compared = sum(readouts.values()) * total
    readout_flops = compared * 2.0 * anatomy.width * anatomy.vocabulary
    floor = (block_flops + readout_flops) / rates.matrix
    policy = CallPolicy.for_model(plan.model.dtype, device)
    call_tokens = policy.tokens
    batches = [
        picked for shard in plan.shards for picked in plan.batches(call_tokens, range(*shard), plan.measures, device)
    ]
    state_bytes = max(plan.state_bytes(picked, plan.measures) for picked in batches)
    free = free_bytes(device)
    in_wave_rows = 1 + sum(m.rows_per_prompt(plan.facts, longest) for m in plan.measures)
    in_wave = max(round(in_wave_rows * sum(lengths[i] for i in p)) for p in batches)
    # a call takes whole rows, one at least, and where they are many there is a control beside them
    in_call = max(longest, call_tokens // longest * longest) + longest * policy.control_in_every_call
    called = min(in_call, in_wave) * bytes_per_token(anatomy, longest, device)
    lenders = anatomy.n_blocks * any(measure.lends for measure in plan.measures)
    # when all calls have been made
    chunk = bytes_at_once(sum(readouts.values()), longest, anatomy.vocabulary, device)
    parts = {"blocks": block_flops / rates.matrix, "readouts": readout_flops / rates.matrix}
    speeds = {m.name: rates.in_all_ways if m.compares_in_all_ways else None for m in plan.measures}
    entries = {name: own * total * anatomy.vocabulary for name, own in readouts.items()}
    comparing = sum(own / (speeds[name] or rates.compared) for name, own in entries.items())
    parts["comparing predictions"] = comparing
    return Estimate(
        model=plan.model.name,
        family=anatomy.family.name,
        dtype=str(plan.model.dtype).removeprefix("torch."),
        blocks=anatomy.n_blocks,
        width=anatomy.width,
        vocabulary=anatomy.vocabulary,
        parameters=sum(p.numel() for p in plan.model.hf.parameters()),
        parameters_per_block=tuple(sum(p.numel() for p in block.parameters()) for block in anatomy.blocks),
        prompts=round(copies * len(lengths)),
        tokens=total,
        longest=longest,
        rows=rows,
        readouts=readouts,
        block_flops=block_flops,
        readout_flops=readout_flops,
        weight_bytes=sum(p.numel() * p.element_size() for p in plan.model.hf.parameters()),
        state_bytes=state_bytes,
        # what is lent, and the same once more behind one another with the borrowers' own
        key_value_bytes=2 * lenders * longest * 2 * _head_widths(anatomy)[1] * item,
        workspace_bytes=_WORKSPACE + max(called, chunk),
        rates=rates,
        floor_seconds=floor,
        seconds=_START + _BESIDE * (floor + comparing),
        streamed_weight_bytes=_streamed_bytes(anatomy),
        free_bytes=free,
        convoys=_convoys(plan, batches, copies, free),
        dominates=max(parts, key=lambda name: parts[name]),
    )


def _streamed_bytes(anatomy: Anatomy) -> int:
    """Of what is outside of the blocks, and of three of them: swaps need two, and one is on its way."""
    sizes = [sum(p.numel() * p.element_size() for p in block.parameters()) for block in anatomy.blocks]
    whole = sum(p.numel() * p.element_size() for p in anatomy.model.parameters())
    return whole - sum(sizes) + 3 * max(sizes)


def _convoys(plan: SurveyPlan, batches: Sequence[Sequence[int]], copies: float, free: int | None) -> int:
    """Visits of each block where blocks are streamed; copies of prompts are further batches of the same kind."""
    sizes = [plan.state_bytes(picked, plan.measures) for picked in batches]
    shards = [next(n for n, (_, last) in enumerate(plan.shards) if picked[0] < last) for picked in batches]
    return round(max(1, copies * len(convoys_of(list(batches), sizes, shards, (free or 0) // 2))))


def _forward_flops(anatomy: Anatomy, tokens: int) -> float:
    """Of one token through all blocks: two per weight of a matrix, and attention to half the tokens on average.

    Of experts only the chosen ones are met.
    """
    config = config_of(anatomy.model)
    named = (one for block in anatomy.blocks for one in block.named_parameters())
    met = sum(weight.numel() * _share_met(f".{name}.", config) for name, weight in named if weight.ndim >= 2)
    return 2.0 * met + 2.0 * tokens * _head_widths(anatomy)[0] * anatomy.n_blocks


def _share_met(name: str, config: object) -> float:
    """The part of a matrix that one token meets."""
    for parts, counts, chosen in _EXPERTS:
        if any(part in name for part in parts):
            return float(_first(config, chosen) / _first(config, counts))
    return 1.0


def _first(config: object, names: Sequence[str]) -> Any:
    """What the first of the names that a configuration knows stands for; 1 where it knows none."""
    return next((getattr(config, name) for name in names if getattr(config, name, None)), 1)


_EXPERTS = (
    (
        (".experts.",),
        ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
        ("num_experts_per_tok", "moe_k"),
    ),
    ((".value_experts.", ".output_experts."), ("attention_experts",), ("attention_experts_per_tok",)),
)
"""Kinds of experts: parts of their weights' names, what configurations call their number, and that of the chosen."""


def _head_widths(anatomy: Anatomy) -> tuple[int, int]:
    """Of all heads together: what queries take of a token, and what keys take, or values."""
    config, names = config_of(anatomy.model), ("num_attention_heads", "head_dim", "num_key_value_heads")
    heads, size, shared = (getattr(config, name, None) for name in names)
    queries = heads * size if isinstance(heads, int) and isinstance(size, int) else anatomy.width
    keys = queries * shared // heads if heads and isinstance(heads, int) and isinstance(shared, int) else queries
    return queries, keys
