"""The anatomy of one live model: its blocks, contributions and readout, as the rest of the program sees them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.cycles import Cycle, cycle_of
from bathyscope.model.anatomy.calls import replaced_forwards
from bathyscope.model.anatomy.family import Family, Site
from bathyscope.model.anatomy.gaps import tolerance
from bathyscope.model.anatomy.independence import depends_on_padding, gaps_by_neighbours
from bathyscope.model.anatomy.loops import Loops
from bathyscope.model.anatomy.mode import (
    evaluating,
    require_own_order,
)
from bathyscope.model.anatomy.plain import home_of
from bathyscope.model.anatomy.readout import Readout
from bathyscope.model.anatomy.recording import Recorder
from bathyscope.model.anatomy.replay import Replay
from bathyscope.model.anatomy.sites import sites_of
from bathyscope.model.anatomy.steps import BlockWalk
from bathyscope.model.anatomy.streams import FoldedStreams, additive_writes
from bathyscope.model.streaming.lending import lasting_parameters


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
        return replaced_blocks(self.blocks, self.loops, self.streams, forwards)

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
        # what is between two loops changes the stream too, inside of the step behind it
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


def config_of(model: nn.Module) -> Any:
    """Return the text model's configuration, which multi-modal families keep inside another."""
    config: Any = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def replaced_blocks(
    blocks: Sequence[nn.Module],
    loops: Loops | None,
    streams: FoldedStreams | None,
    forwards: Sequence[Callable[..., Any]],
) -> AbstractContextManager[None]:
    """Run the given function in the place of each block, in forwards of the model, until the context ends."""
    if streams is not None:
        return streams.replaced(forwards)
    return replaced_forwards(blocks, forwards) if loops is None else loops.calls.replaced(forwards)
