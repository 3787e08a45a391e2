"""The model of a schedule in memory: a model of its own, whose weights are the other's until they are changed."""

import warnings
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model import Model, load
from bathyscope.model.anatomy.family import Family
from bathyscope.model.tables import take_tables
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.configuration import rewritten
from bathyscope.surgery.checkpoint.exportable import require_all_layers, require_library_attention
from bathyscope.surgery.checkpoint.folder import layout_of, schedule_for
from bathyscope.surgery.checkpoint.outline import fill, skeleton
from bathyscope.surgery.checkpoint.proof import require_same
from bathyscope.surgery.checkpoint.source import Source, plain_config
from bathyscope.surgery.checkpoint.tensor_names import Layout
from bathyscope.surgery.order.looping import LOOPS, with_loops
from bathyscope.surgery.order.model_of_plan import require_model_of


def lent(hf: PreTrainedModel, config: PreTrainedConfig, layout: Layout) -> tuple[PreTrainedModel, dict[str, Tensor]]:
    """Build the model of a rewritten configuration on another model's tensors; return these too, by its names."""
    target = skeleton(config)
    theirs = hf.state_dict(keep_vars=True)
    lent_tensors: dict[str, Tensor] = {}

    def taken(name: str, like: Tensor) -> Tensor:
        lent_tensors[name] = layout.taken(name, theirs, tuple(like.shape)).detach()
        return lent_tensors[name]

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        fill(target, taken)
    # Tables that a family computes when it is built (rotary angles) are no part of the state.
    take_tables(target, hf, layout.source)
    target.to(next(hf.parameters()).device).eval()  # type: ignore[arg-type]
    return target, lent_tensors


class ScheduledCopy:
    """A model built from the rewritten configuration on the tensors of another.

    Args:
        hf: the model.
        schedule: the block of every slot of the copy.
        family: where its parts are.

    Raises:
        ModelError: the family's configuration cannot say this order, or does not make this model.
    """

    def __init__(self, hf: PreTrainedModel, schedule: Schedule, family: Family | None = None) -> None:
        config = rewritten(hf.config, schedule)
        self.schedule = schedule
        self.layout = Layout(require_same(hf.config, config, schedule, family), schedule)
        plain = plain_config(hf)
        source = Source(type(hf).__name__, plain, hf)
        # what changes weights is written in the end, and refused before it learns any
        require_library_attention(source)
        require_all_layers(source, skeleton(plain))
        self.hf, self._lent = lent(hf, config, self.layout)

    @property
    def slots(self) -> nn.ModuleList:
        """The copy's blocks."""
        blocks = self.hf.get_submodule(self.layout.blocks)
        assert isinstance(blocks, nn.ModuleList)
        return blocks

    def changes(self) -> dict[str, Tensor]:
        """Return the weights that are no longer the other model's, by the copy's names."""
        now = self.hf.state_dict()
        # By address: a weight that nobody changed is still the other model's own tensor.
        return {name: now[name] for name, was in self._lent.items() if now[name].data_ptr() != was.data_ptr()}

    def restore(self, changes: Mapping[str, Tensor]) -> None:
        """Give the copy these changed weights again, and the other model's everywhere else."""
        for name, was in self._lent.items():
            path, _, key = name.rpartition(".")
            module = self.hf.get_submodule(path)
            value = changes.get(name, was)
            if key in module._parameters:
                module._parameters[key] = nn.Parameter(value, requires_grad=False)
            else:
                module._buffers[key] = value
        # Tied weights are two names of one tensor, which were restored as two.
        self.hf.tie_weights()


def require_reorderable(model: Model, schedule: Schedule) -> None:
    """Refuse what ``reordered`` refuses of a model in memory.

    Raises:
        ModelError: an order that the family's configuration cannot say, with what differs.
    """
    _require_whole(model, schedule)
    _rewrite(model, schedule)


def _require_whole(model: Model, schedule: Schedule) -> None:
    if model.ranks > 1:
        raise ModelError(
            f"schedule={str(schedule)!r} builds {model.name} again from its configuration, and blocks built so do not "
            f"know the part of their weights that each of {model.ranks} ranks has. Export it (bathyscope export MODEL "
            "--schedule ORDER --out FOLDER), and load the exported checkpoint with tensor_parallel."
        )


def _rewrite(model: Model, schedule: Schedule) -> tuple[PreTrainedConfig, Layout]:
    source = Source(model.name, model.hf.config, model.hf, family=model.anatomy.family)
    config, layout = layout_of(source, schedule)
    # The rewritten configuration forgets which kernel attends, and another one rounds differently.
    config._attn_implementation = model.hf.config._attn_implementation
    require_all_layers(source, skeleton(model.hf.config))
    return config, layout


def reordered(model: Model, schedule: Schedule | str) -> Model:
    """Return the model that ``export`` would write, in memory and without a copy of its weights.

    Args:
        schedule: the order of the blocks, or its text such as ``"drop:2,drop:5"``; of a looped model another number of
            loops, ``"loops:6"``.

    Raises:
        OptionError: a schedule that cannot be read or leaves no block.
        ModelError: an order that the family's configuration cannot say, with what differs; streamed blocks; a check
            that fails; a plan of another model.
    """
    if isinstance(schedule, str) and schedule.startswith(LOOPS):
        return with_loops(model, schedule)
    cycle = model.anatomy.cycle
    chosen = schedule_for(schedule, model.n_blocks, cycle.runs if cycle is not None else ())
    require_model_of(schedule, model)
    if chosen.is_standard:
        return model
    if model.anatomy.loops is not None:
        raise ModelError(
            f"schedule={str(schedule)!r}: {model.name} loops, and no configuration of it leaves out or moves a single "
            "run of a block. Ask for drop, swap or repeat as measures, or for another number of loops "
            "(schedule='loops:2')."
        )
    if model.blocks is not None:
        raise ModelError(
            f"schedule={str(schedule)!r} needs a model in memory, and the blocks of {model.name} are streamed; export "
            "it (bathyscope export MODEL --schedule ORDER --out FOLDER), and survey the exported checkpoint."
        )
    _require_whole(model, chosen)
    hf, _ = lent(model.hf, *_rewrite(model, chosen))
    copy = load(hf, family=model.anatomy.family)
    return replace(
        model,
        anatomy=copy.anatomy,
        checks=copy.checks,
        weight_hash=copy.weight_hash,
        settings_hash=copy.settings_hash,
        schedule=chosen.in_words,
    )
