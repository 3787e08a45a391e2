"""The anatomy of one live model: its blocks, contributions and readout, found from its family's declaration."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.cycles import Cycle, cycle_of
from bathyscope.errors import ModelError
from bathyscope.model.anatomy.calls import Call, called, replaced_forwards
from bathyscope.model.anatomy.dependence import find_dependence, require_one_order
from bathyscope.model.anatomy.family import Family, Site
from bathyscope.model.anatomy.forms import EarlierStreams, Single
from bathyscope.model.anatomy.gaps import tolerance
from bathyscope.model.anatomy.independence import depends_on_padding, gaps_by_neighbours
from bathyscope.model.anatomy.loops import CallOrder, Loops, make_loops
from bathyscope.model.anatomy.mode import (
    evaluating,
    note_initial_state,
    require_own_order,
    seeded_states,
)
from bathyscope.model.anatomy.own_path import OwnPath
from bathyscope.model.anatomy.plain import home_of, plain_forward, probe_ids
from bathyscope.model.anatomy.readout import Readout
from bathyscope.model.anatomy.recording import Recorder, stub
from bathyscope.model.anatomy.replay import Replay, unwrap
from bathyscope.model.anatomy.sites import sites_of, submodule
from bathyscope.model.anatomy.steps import BlockWalk
from bathyscope.model.anatomy.streams import FoldedStreams, additive_writes, find_streams
from bathyscope.model.streaming.lending import lasting_parameters, lender_of

# rows and tokens differ in number, so that a transposed stream is seen
_OBSERVED = (1, 2)


@dataclass(frozen=True, repr=False)
class Anatomy:
    """Everything the rest of the program knows about a model.

    Args:
        family: the declaration it was resolved from.
        model: the causal language model.
        blocks: its blocks in the order they run; of a looped model its steps, one for each run of a block.
        readout: final norm and unembedding.
        width: of the residual stream.
        vocabulary: entries of the logits.
        parallel: attention and MLP both read the block's input.
        returns: for every block None where it returns a tensor, else the length of the tuple it returns.
        dtype: of the residual stream, where it is kept wider than the embedding (Mamba); None = the embedding's.
        loops: how steps and blocks belong together in a looped model; None = each block runs once.
        streams: how several residual streams are folded into one state; None = there is one stream.
    """

    family: Family
    model: nn.Module
    blocks: tuple[nn.Module, ...]
    readout: Readout
    width: int
    vocabulary: int
    parallel: bool
    returns: tuple[int | None, ...]
    dtype: torch.dtype | None = None
    loops: Loops | None = None
    streams: FoldedStreams | None = None

    @property
    def n_blocks(self) -> int:
        """L, the number of blocks; of a looped model the number of its steps."""
        return len(self.blocks)

    @property
    def is_stored(self) -> bool:
        """Whether boundaries are read from files, so that there are no blocks to run."""
        return False

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The boundaries whose streams a plain forward shows, one more than there are visits of blocks."""
        return tuple(range(self.n_blocks + 1))

    @property
    def sources(self) -> tuple[nn.Module, ...]:
        """The model's own modules that hold the weights of the blocks, each once."""
        if self.streams is not None:
            return self.streams.sources
        return self.blocks if self.loops is None else self.loops.calls.sources

    @property
    def n_streams(self) -> int:
        """How many residual streams a state holds; their entries follow each other in the width."""
        if self.streams is not None and self.streams.form.count > 1:
            return self.streams.form.count
        in_width = self.family.streams_in_width
        return 1 if in_width is None else int(getattr(config_of(self.model), in_width, 1))

    @property
    def additive_writes(self) -> tuple[tuple[bool, ...], ...]:
        """By block and stream whether what a block changes in the stream is what it adds to it."""
        form = None if self.streams is None else self.streams.form
        return additive_writes(self.family, form, self.n_blocks, self.n_streams)

    @cached_property
    def cycle(self) -> Cycle | None:
        """Which block each step runs, where blocks run several times, or several blocks share all weights."""
        if self.loops is not None:
            return cycle_of(self.loops.block)
        numbers: dict[tuple[int, ...], int] = {}
        blocks = []
        for index, block in enumerate(self.blocks):
            # a block without weights shares none
            weights = tuple(id(weight) for weight in lasting_parameters(block)) or (-1 - index,)
            blocks.append(numbers.setdefault(weights, len(numbers)))
        return cycle_of(tuple(blocks))

    def replaced(self, forwards: Sequence[Callable[..., Any]]) -> AbstractContextManager[None]:
        """Run the given function in the place of each block, in forwards of the model, until the context ends."""
        return _replaced(self.blocks, self.loops, self.streams, forwards)

    def handed_over(self) -> AbstractContextManager[None]:
        """Let forwards run the steps of a looped model, or folded blocks, so that hooks on them see one run each."""
        if self.loops is None and self.streams is None:
            return nullcontext()
        return self.replaced(self.blocks)

    @property
    def stream_width(self) -> int:
        """Entries of the stream that a block takes; ``width`` counts what is folded behind it too."""
        return self.width if self.loops is None else self.loops.width

    def active(self, state: Tensor) -> Tensor:
        """Return the stream of a state, without what looped models fold behind it for later steps."""
        return state if self.loops is None else self.loops.active(state)

    def __str__(self) -> str:
        """Family and class, for messages."""
        return f"{self.family.name} ({type(self.model).__name__})"

    def __repr__(self) -> str:
        return f"<Anatomy of {self}: {self.n_blocks} blocks × width {self.width}>"

    @property
    def sites(self) -> Mapping[str, Site]:
        """Where contributions are read, by part."""
        sites = sites_of(self.family, config_of(self.model))
        if not sites or self.loops is None or not self.loops.between or self.loops.slots:
            return sites
        # what stands between two loops changes the stream too, inside of the step behind it
        return {**sites, f"other{len(self.family.others)}": Site("between", minus="state")}

    def block_scale(self, block: nn.Module) -> float:
        """Return what multiplies a block's whole output, h_{l+1} = scale · (h_l + contributions); 1 for nearly all."""
        name = self.family.block_scale
        return float(getattr(block, name)) if name else 1.0

    @cached_property
    def recorder(self) -> Recorder:
        """Records batches of prompts; made once, because it first probes the blocks' arguments."""
        return Recorder(self.model, self.blocks, self.returns, self.loops, self.streams)

    @cached_property
    def padding_gap(self) -> float:
        """Measure how far a prompt strays from itself alone when its batch has a longer and a shorter one."""
        with evaluating(self.model), torch.no_grad():
            return max(BlockWalk(gaps_by_neighbours(self, padded=True)).result())

    @cached_property
    def trials(self) -> dict[str, Any]:
        """Results of trials on this model that are needed more than once, by name."""
        return {}

    def note_padding_gap(self, gap: float) -> None:
        """Store the gap that a check has measured along with others, so that it is not measured again."""
        # what a cached property would store under its name, which a frozen dataclass allows only here
        self.__dict__["padding_gap"] = gap

    @cached_property
    def equal_lengths(self) -> bool:
        """Whether only prompts of one length may share a batch: by the configuration, or as measured."""
        parameter = next(p for p in self.model.parameters() if p.is_floating_point())
        declared = depends_on_padding(config_of(self.model))
        # a model without weights can be asked nothing else
        if declared or home_of(self.model).type == "meta":
            return declared
        return not self.padding_gap <= tolerance(parameter.dtype)

    def replay(self, ids_BT: Tensor) -> Replay:
        """Record a batch of token ids, and return what replays its blocks.

        Raises:
            ModelError: the model runs a schedule at the moment, or its blocks' arguments cannot be recorded.
        """
        require_own_order(self.model)
        kernel = str(getattr(config_of(self.model), "_attn_implementation", "") or "")
        recording = self.recorder.record(ids_BT)
        # a stub hands on what the embedding gives; the first block of Mamba would have widened it
        if self.dtype is not None:
            recording.resid0_BTD = recording.resid0_BTD.to(self.dtype)
        return Replay(recording, self.width, masks_by_kernel=kernel.startswith("flash"))


@dataclass(frozen=True)
class _Observed:
    """What one short plain forward shows.

    Args:
        outputs: by call what the block gives, in the model's own form.
        order: by call which of the blocks it runs.
        returns: by call None where the block returns a tensor, else the length of the tuple.
        computes_between: whether some block is given anything else than what the block before it gave.
        result: the type of all that the last block returns.
    """

    outputs: tuple[Tensor, ...]
    order: tuple[int, ...]
    returns: tuple[int | None, ...]
    computes_between: bool
    result: type[Any]


def config_of(model: nn.Module) -> Any:
    """Return the text model's configuration, which multi-modal families keep inside another."""
    config: Any = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def resolve(model: nn.Module, family: Family) -> Anatomy:
    """Return the anatomy that a family's declaration describes on this model; the checks come later.

    Raises:
        ModelError: a refused family, a path that leads nowhere, or blocks that cannot be measured.
    """
    refusal = family.refusal(config_of(model))
    if refusal:
        raise ModelError(f"{family.name} models cannot be measured: {refusal}")
    note_initial_state(model, family.initial_state)
    with seeded_states(model):
        return _resolve(model, family)


def _resolve(model: nn.Module, family: Family) -> Anatomy:
    config = config_of(model)
    listed = list_blocks(model, family)
    head = _require(model, family.head, family)
    # a module that stands in a list several times is one block that runs several times
    sources = tuple(dict.fromkeys(listed))
    observed = _observe(model, family, sources)
    stream = observed.outputs[-1]
    loops = _find_loops(model, family, sources, observed)
    streams = None if loops is not None else find_streams(model, family, sources, observed.outputs, observed.result)
    if stream.ndim == 3 and stream.shape[:2] != _OBSERVED and streams is None:
        raise ModelError(
            f"{family.name} ({type(model).__name__}): its blocks return {tuple(stream.shape)} for 1 row of 2 tokens. "
            "Blocks must take and give a vector for each token of each row, or several."
        )
    blocks = sources if loops is None else loops.steps
    norm = submodule(model, family.final_norm) if family.final_norm else None
    several = streams is not None and not isinstance(streams.form, Single)
    if family.own_readout or several:
        earlier = streams.form if streams is not None and isinstance(streams.form, EarlierStreams) else None
        embedded = earlier.embedded if earlier is not None and 0 in earlier.before else None
        norm = OwnPath(model, head, partial(_replaced, blocks, loops, streams), observed.returns, embedded)
    return Anatomy(
        family=family,
        model=model,
        blocks=blocks if streams is None else streams.blocks,
        readout=make_readout(
            model,
            family,
            norm,
            width=stream.shape[-1] if loops is not None and loops.slots else None,
        ),
        width=int(stream.shape[-1]) * (loops.n_states if loops is not None else streams.form.count if streams else 1),
        vocabulary=count_entries(model, head, config, family),
        parallel=flag_of(config, family.parallel),
        returns=observed.returns,
        dtype=stream.dtype,
        loops=loops,
        streams=streams,
    )


def make_readout(model: nn.Module, family: Family, norm: nn.Module | None, *, width: int | None = None) -> Readout:
    """Return the readout that a family's declaration describes, behind a final norm.

    Args:
        width: entries of a residual vector that are read; None = all.
    """
    config = config_of(model)
    return Readout(
        norm=norm,
        head=_require(model, family.head, family),
        projection=submodule(model, family.projection) if family.projection else None,
        multiplier=_number(config, family.logit_multiplier),
        divisor=_number(config, family.logit_divisor),
        softcap=_number(config, family.logit_softcap),
        entries=None if family.logit_entries is None else getattr(config, family.logit_entries, None),
        width=width,
    )


def _replaced(
    blocks: Sequence[nn.Module],
    loops: Loops | None,
    streams: FoldedStreams | None,
    forwards: Sequence[Callable[..., Any]],
) -> AbstractContextManager[None]:
    """Run the given function in the place of each block, in forwards of the model, until the context ends."""
    if streams is not None:
        return streams.replaced(forwards)
    return replaced_forwards(blocks, forwards) if loops is None else loops.calls.replaced(forwards)


def _find_loops(model: nn.Module, family: Family, sources: tuple[nn.Module, ...], observed: _Observed) -> Loops | None:
    """Return the steps of a model that runs blocks several times; None where each runs once.

    Where something is computed between blocks that run once, they are steps too: a looped model set to one loop, or
    sums of earlier outputs.
    """
    order = observed.order
    if len(order) == len(sources) and not observed.computes_between:
        return None
    calls = CallOrder(sources, order)
    require_one_order(model, calls, family.name)
    stream = unwrap(observed.outputs[-1])
    dependence = find_dependence(model, calls, observed.returns, stream, family.name)
    return make_loops(model, calls, observed.returns, int(stream.shape[-1]), dependence)


def list_blocks(model: nn.Module, family: Family) -> list[nn.Module]:
    """Return the modules in a model's lists of blocks that run on text, in their order."""
    blocks: list[nn.Module] = []
    for path in family.block_lists:
        listed = _require(model, path, family)
        if not isinstance(listed, nn.ModuleList | Sequence):
            raise ModelError(f"{family.name}: {path} is not a list of blocks.")
        if len(listed) == 0:
            raise ModelError(f"{family.name}: {path} holds no blocks; a model needs one at least.")
        blocks.extend(block for block in listed if family.idle is None or submodule(block, family.idle) is None)
    return blocks


def _require(model: nn.Module, path: str, family: Family) -> nn.Module:
    module = submodule(model, path)
    if module is None:
        task = re.search(r"For(SequenceClassification|TokenClassification|QuestionAnswering)$", type(model).__name__)
        if task is not None:
            raise ModelError(
                f"{type(model).__name__} predicts no tokens: its head is one for {task[1]}, such as a reward model's. "
                "Give the causal language model it was made from."
            )
        # as transformers names them: LlamaModel, GPT2Model
        if getattr(model, "base_model", None) is model and type(model).__name__.endswith("Model"):
            raise ModelError(
                f"{type(model).__name__} is a model without a head; give the causal one, such as "
                "AutoModelForCausalLM.from_pretrained gives."
            )
        raise ModelError(
            f"{family.name}: this model has no {path}. Its layout differs from the family's declaration "
            f"(bathyscope/anatomy/families); declare that of {type(model).__name__}: load(model, family=Family(...))."
        )
    return module


def count_entries(model: nn.Module, head: nn.Module, config: Any, family: Family) -> int:
    """Return the number of logits of a readout, whose last matrix may stand inside the head (RoBERTa)."""
    weight = getattr(head, "weight", None)
    rows = int((model.get_output_embeddings().weight if weight is None else weight).shape[0])  # type: ignore[operator]
    entries = getattr(config, family.logit_entries, None) if family.logit_entries else None
    return rows if entries is None else min(rows, int(entries))


def _number(config: Any, name: str | None) -> float | None:
    value = getattr(config, name, None) if name else None
    return None if value is None else float(value)


def flag_of(config: Any, parallel: bool | str) -> bool:
    """Return what a family declares, or what the attribute of the configuration says that it names."""
    return bool(getattr(config, parallel, False)) if isinstance(parallel, str) else parallel


def _observe(model: nn.Module, family: Family, blocks: Sequence[nn.Module]) -> _Observed:
    """Observe in one short plain forward the stream, the calls of blocks, and what kind of thing each returns.

    Of streamed blocks only the first of each class runs, and the others pass the stream on in the same way. Where every
    block runs once, calls are listed in the order of the blocks.
    """
    calls: list[tuple[int, Any]] = []
    inputs: list[Any] = []
    output_by_class: dict[type, Any] = {}

    def note(call: Call) -> None:
        output_by_class[type(call.module)] = call.output
        calls.append((int(call.path), call.output))
        inputs.append(next(iter(call.given.values())))

    def run_first_of_class(block: nn.Module) -> Callable[..., Any]:
        run_block = block.forward

        @wraps(run_block)
        def forward(*args: Any, **kwargs: Any) -> Any:
            earlier = output_by_class.get(type(block))
            if hasattr(earlier, "_fields"):  # whoever calls the block reads it by its fields
                return earlier
            # bringing every block from disk to learn that all of them return the same would read the model twice
            run = run_block if earlier is None else stub(run_block, _length(earlier), [])
            return run(*args, **kwargs)

        return forward

    streamed = lender_of(blocks[0]) is not None
    with (
        replaced_forwards(blocks, [run_first_of_class(block) for block in blocks]) if streamed else nullcontext(),
        called([(str(index), block) for index, block in enumerate(blocks)], note),
    ):
        plain_forward(model, probe_ids(model, *_OBSERVED), family.name)
    idle = sorted(set(range(len(blocks))) - {index for index, _ in calls})
    if idle:
        raise ModelError(f"{family.name}: blocks {idle} of {family.blocks} did not run in a plain forward.")
    states = [_state_of(output) for _, output in calls]
    # of paired streams the first argument and the first field need not be the same one; replay compares both
    between = family.paired is None and any(_differs(value, state) for value, state in zip(inputs[1:], states))
    if len(calls) == len(blocks):
        calls.sort(key=itemgetter(0))
    order, outputs = zip(*calls)
    return _Observed(tuple(map(_state_of, outputs)), order, tuple(map(_length, outputs)), between, type(outputs[-1]))


def _differs(value: Any, state: Tensor) -> bool:
    """Whether a block is given another stream than this one; states of several streams are compared when replayed."""
    return (
        isinstance(value, Tensor)
        and value.ndim == state.ndim == 3
        and (value.shape, value.dtype, value.device) == (state.shape, state.dtype, state.device)
        and value.device.type != "meta"
        and not torch.equal(value, state)
    )


def _state_of(output: Any) -> Tensor:
    """Return a block's state, which has an axis more where there are several streams."""
    value = output[0] if isinstance(output, tuple | list) else output
    return value if isinstance(value, Tensor) and value.ndim == 4 else unwrap(output)


def _length(output: Any) -> int | None:
    """Return the length of the tuple that a block returns; None where it returns the stream alone."""
    return len(output) if isinstance(output, tuple | list) else None
