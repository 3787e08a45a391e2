"""The anatomy of one live model: its blocks, contributions and readout, found from its family's declaration."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.family import GUIDE, Family, Site
from bathyscope.model.anatomy.gaps import tolerance
from bathyscope.model.anatomy.independence import depends_on_padding, gaps_by_neighbours
from bathyscope.model.anatomy.mode import evaluating, require_own_order
from bathyscope.model.anatomy.plain import home_of, plain_forward, probe_ids
from bathyscope.model.anatomy.readout import Readout
from bathyscope.model.anatomy.recording import Recorder, replaced_forwards, stub
from bathyscope.model.anatomy.replay import Replay, unwrap
from bathyscope.model.anatomy.sites import sites_of, submodule
from bathyscope.model.anatomy.steps import Work
from bathyscope.model.streaming.lending import lender_of

_OBSERVED = (1, 2)


@dataclass(frozen=True, repr=False)
class Anatomy:
    """Everything the rest of the program knows about a model.

    Args:
        family: the declaration it was resolved from.
        model: the causal language model.
        blocks: its blocks in order.
        readout: final norm and unembedding.
        width: of the residual stream.
        vocabulary: entries of the logits.
        parallel: attention and MLP both read the block's input.
        returns: for every block None where it returns a tensor, else the length of the tuple it returns.
        dtype: of the residual stream, where it is kept wider than the embedding (Mamba); None = the embedding's.
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

    @property
    def n_blocks(self) -> int:
        """L, the number of blocks."""
        return len(self.blocks)

    def __str__(self) -> str:
        """Family and class, for messages."""
        return f"{self.family.name} ({type(self.model).__name__})"

    def __repr__(self) -> str:
        return f"<Anatomy of {self}: {self.n_blocks} blocks × width {self.width}>"

    @property
    def sites(self) -> Mapping[str, Site]:
        """Where contributions are read, by part."""
        return sites_of(self.family, config_of(self.model))

    def block_scale(self, block: nn.Module) -> float:
        """What multiplies a block's whole output, h_{l+1} = scale · (h_l + contributions); 1 for nearly all."""
        name = self.family.block_scale
        return float(getattr(block, name)) if name else 1.0

    @cached_property
    def recorder(self) -> Recorder:
        """Records batches of prompts; made once, because it first probes the blocks' arguments."""
        return Recorder(self.model, self.blocks, self.returns)

    @cached_property
    def padding_gap(self) -> float:
        """How far a prompt strays from itself alone when it stands beside a longer and a shorter one."""
        with evaluating(self.model), torch.no_grad():
            return max(Work(gaps_by_neighbours(self, padded=True)).result())

    def note_padding_gap(self, gap: float) -> None:
        """It has been measured along with other things, and need not be again."""
        self.__dict__["padding_gap"] = gap

    @cached_property
    def equal_lengths(self) -> bool:
        """Only prompts of one length may share a batch: by the configuration, or as measured on two short prompts."""
        parameter = next(p for p in self.model.parameters() if p.is_floating_point())
        if depends_on_padding(config_of(self.model)) or home_of(self.model).type == "meta":
            return depends_on_padding(config_of(self.model))
        return not self.padding_gap <= tolerance(parameter.dtype)

    def replay(self, ids_BT: Tensor) -> Replay:
        """Records a batch of token ids and returns what replays its blocks.

        Raises:
            ModelError: the model runs a schedule at the moment, or its blocks' arguments cannot be recorded.
        """
        require_own_order(self.model)
        kernel = str(getattr(config_of(self.model), "_attn_implementation", "") or "")
        recording = self.recorder.record(ids_BT)
        if self.dtype is not None:
            recording.resid0_BTD = recording.resid0_BTD.to(self.dtype)
        return Replay(recording, self.width, masks_by_kernel=kernel.startswith("flash"))


def config_of(model: nn.Module) -> Any:
    """The text model's configuration (multi-modal families keep it inside another)."""
    config: Any = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def resolve(model: nn.Module, family: Family) -> Anatomy:
    """The anatomy a family's declaration describes on this model, or why there is none. Nothing is verified yet."""
    if family.refused:
        raise ModelError(f"{family.name} models cannot be measured: {family.refused}")
    config = config_of(model)
    blocks = _require(model, family.blocks, family)
    head = _require(model, family.head, family)
    if not isinstance(blocks, nn.ModuleList | Sequence):
        raise ModelError(f"{family.name}: {family.blocks} is not a list of blocks.")
    if len(blocks) == 0:
        raise ModelError(f"{family.name}: {family.blocks} holds no blocks; a model needs one at least.")
    _require_own_modules(blocks, family)
    stream, returns = _observe(model, family, tuple(blocks))
    if stream.shape[:2] != _OBSERVED:
        raise ModelError(
            f"{family.name} ({type(model).__name__}): its blocks return {tuple(stream.shape)} for 1 row of 2 tokens. "
            "Blocks must take and give rows first, then tokens; transpose the stream inside of them."
        )
    return Anatomy(
        family=family,
        model=model,
        blocks=tuple(blocks),
        readout=Readout(
            norm=submodule(model, family.final_norm) if family.final_norm else None,
            head=head,
            projection=submodule(model, family.projection) if family.projection else None,
            multiplier=_number(config, family.logit_multiplier),
            divisor=_number(config, family.logit_divisor),
            softcap=_number(config, family.logit_softcap),
        ),
        width=int(stream.shape[-1]),
        vocabulary=_entries(model, head),
        parallel=_flag(config, family.parallel),
        returns=returns,
        dtype=stream.dtype,
    )


def _require(model: nn.Module, path: str, family: Family) -> nn.Module:
    found = submodule(model, path)
    if found is None:
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
    return found


def _require_own_modules(blocks: Iterable[nn.Module], family: Family) -> None:
    """Refuses a list in which a module stands twice: whatever is done to one of its runs would be done to all."""
    first: dict[nn.Module, int] = {}
    for place, block in enumerate(blocks):
        if first.setdefault(block, place) != place:
            raise ModelError(
                f"{family.name}: {family.blocks} holds one module at places {first[block]} and {place}. Give every run "
                f"a copy that shares its parameters: {GUIDE}."
            )


def _entries(model: nn.Module, head: nn.Module) -> int:
    """Logits of a readout, whose last matrix may stand inside of the head (RoBERTa)."""
    weight = getattr(head, "weight", None)
    return int((model.get_output_embeddings().weight if weight is None else weight).shape[0])  # type: ignore[operator]


def _number(config: Any, name: str | None) -> float | None:
    value = getattr(config, name, None) if name else None
    return None if value is None else float(value)


def _flag(config: Any, parallel: bool | str) -> bool:
    return bool(getattr(config, parallel, False)) if isinstance(parallel, str) else parallel


def _observe(model: nn.Module, family: Family, blocks: Sequence[nn.Module]) -> tuple[Tensor, tuple[int | None, ...]]:
    """In one short plain forward: the stream that comes out of the last block, and what kind of thing each returns.

    Of streamed blocks only the first of each class runs, and the others hand the stream on in the same way.
    """
    seen: dict[int, Any] = {}
    kinds: dict[type, Any] = {}

    def note(call: Call) -> None:
        seen[int(call.path)] = kinds[type(call.module)] = call.output

    def once(block: nn.Module) -> Callable[..., Any]:
        own = block.forward

        @wraps(own)
        def forward(*args: Any, **kwargs: Any) -> Any:
            known = kinds.get(type(block))
            return (own if known is None else stub(own, _length(known), []))(*args, **kwargs)

        return forward

    streamed = lender_of(blocks[0]) is not None
    with (
        replaced_forwards(blocks, [once(block) for block in blocks]) if streamed else nullcontext(),
        called([(str(index), block) for index, block in enumerate(blocks)], note),
    ):
        plain_forward(model, probe_ids(model, *_OBSERVED), family.name)
    idle = sorted(set(range(len(blocks))) - seen.keys())
    if idle:
        raise ModelError(f"{family.name}: blocks {idle} of {family.blocks} did not run in a plain forward.")
    return unwrap(seen[len(blocks) - 1]), tuple(_length(seen[index]) for index in range(len(blocks)))


def _length(output: Any) -> int | None:
    """Of the tuple that a block returns; None where it returns the stream alone."""
    return len(output) if isinstance(output, tuple | list) else None
