"""Variants: other modules that a slot of a history may hold in the place of the model's own block.

A variant may be another model's blocks (a fine-tuned copy, a quantised one), the model's own with their adapters on or
off, or single modules that take a block's arguments, such as a map that stands in for it or a block that a repair has
changed. Recorded arguments follow the module: blocks of another model get those
that this model gives them on the same tokens, because rotary tables and masks belong to its configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.family import Site
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.wavefront.adapters import Adapted
from bathyscope.wavefront.batch import Batch


@dataclass(frozen=True, eq=False)
class SlotVariant:
    """Other modules by the block whose slot they may hold.

    Args:
        modules: block → module.
        anatomy: of the model that they come from; None = they take the arguments of the blocks they replace.
    """

    modules: Mapping[int, nn.Module]
    anatomy: Anatomy | None = None

    @classmethod
    def of_model(cls, anatomy: Anatomy) -> SlotVariant:
        """Return every block of another model."""
        return cls(dict(enumerate(anatomy.blocks)), anatomy)

    @classmethod
    def of_adapters(cls, anatomy: Anatomy, *, on: bool) -> SlotVariant:
        """Return every block of a model with its adapters on or off; arguments are those of the model itself."""
        return cls({number: Adapted(block, on=on) for number, block in enumerate(anatomy.blocks)})

    def module(self, block: int) -> nn.Module:
        """Return what is in a block's slot.

        Raises:
            ModelError: the variant holds nothing for this block.
        """
        if block not in self.modules:
            raise ModelError(f"This variant has no module for block {block}; give one, or run the model's own block.")
        return self.modules[block]


class VariantReplay:
    """A variant on one batch: its modules, with the arguments that they take."""

    def __init__(self, variant: SlotVariant, replay: Replay, sites: Mapping[str, Site], batch: Batch) -> None:
        self._variant = variant
        anatomy = variant.anatomy
        self._replay = replay if anatomy is None else anatomy.replay(batch.ids_BT)
        self.sites = sites if anatomy is None else anatomy.sites

    def module(self, block: int) -> nn.Module:
        """Return what is in a block's slot."""
        return self._variant.module(block)

    def run(self, module: nn.Module, index: int, resid_NTD: Tensor, prompts_N: Tensor, state: State) -> Tensor:
        """Run a module on rows of the stream, in the precision of the model it comes from."""
        dtype = self._replay.recording.resid0_BTD.dtype
        own_dtype = resid_NTD.dtype
        # A block of another precision refuses the stream, and what was passed on, as they are.
        _convert(state, dtype)
        out = self._replay.run(module, index, resid_NTD.to(dtype), prompts_N, state=state).to(own_dtype)
        _convert(state, own_dtype)
        return out


@contextmanager
def evaluating_variants(variants: Mapping[str, SlotVariant]) -> Iterator[None]:
    """Keep the modules of all variants in evaluation mode inside."""
    with ExitStack() as stack:
        for variant in variants.values():
            modules = variant.modules.values() if variant.anatomy is None else [variant.anatomy.model]
            for module in modules:
                stack.enter_context(evaluating(module))
        yield


def _convert(state: State, dtype: torch.dtype) -> None:
    """Bring what blocks passed on to a precision, in place; whole numbers stay."""
    for key, tensors in state.items():
        state[key] = tuple(t.to(dtype) if t.is_floating_point() else t for t in tensors)
