"""From a family's declaration and a live model to its anatomy."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from torch import nn

from bathyscope.errors import ModelError, did_you_mean
from bathyscope.model.anatomy.anatomy import Anatomy, config_of, replaced_blocks
from bathyscope.model.anatomy.dependence import find_dependence, require_one_order
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.forms import EarlierStreams, Single
from bathyscope.model.anatomy.loops import CallOrder, Loops, make_loops
from bathyscope.model.anatomy.mode import note_initial_state, seeded_states
from bathyscope.model.anatomy.observing import OBSERVED_SHAPE, Observed, observe
from bathyscope.model.anatomy.own_path import OwnPath
from bathyscope.model.anatomy.readout import Readout
from bathyscope.model.anatomy.replay import unwrap
from bathyscope.model.anatomy.sites import site_modules, sites_of, submodule
from bathyscope.model.anatomy.streams import find_streams

_MOST_PARTS: Final = 8
"""Parts of a block that a message names."""


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
    # a module that is in a list several times is one block that runs several times
    sources = tuple(dict.fromkeys(listed))
    observed = observe(model, family, sources)
    stream = observed.outputs[-1]
    loops = _find_loops(model, family, sources, observed)
    streams = None if loops is not None else find_streams(model, family, sources, observed.outputs, observed.result)
    if stream.ndim == 3 and stream.shape[:2] != OBSERVED_SHAPE and streams is None:
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
        norm = OwnPath(model, head, partial(replaced_blocks, blocks, loops, streams), observed.returns, embedded)
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


def _find_loops(model: nn.Module, family: Family, sources: tuple[nn.Module, ...], observed: Observed) -> Loops | None:
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


def require_paths(model: nn.Module, family: Family) -> None:
    """Refuse a declaration of a user's own whose blocks or head are at a path that the model does not have.

    A final norm may be absent; the readout identity tells whether one is missed.

    Raises:
        ModelError: names the argument, its path, and a near miss.
    """
    for argument, path in (*(("blocks", path) for path in family.block_lists), ("head", family.head)):
        if submodule(model, path) is None:
            _refuse_headless(model)
            raise ModelError(
                f"{family.name}: {argument}={path!r} of the Family that was given leads nowhere in "
                f"{type(model).__name__}.{near_path(model, path)} Give the path of "
                f"{'its list of blocks' if argument == 'blocks' else 'its unembedding'}."
            )


def near_path(model: nn.Module, path: str) -> str:
    """Return a question for the path that may have been meant (leading blank), empty without one."""
    return did_you_mean(path, [name for name, _ in model.named_modules() if name])


def require_sites(model: nn.Module, family: Family) -> None:
    """Refuse a declaration of a user's own whose site of attention or MLP is in no block.

    Families of the package cover configurations that lack a part in every block, and the checks measure what follows.
    Terms that come besides (``others``, ``also``) may be absent from all blocks.

    Raises:
        ModelError: names the part, its path, and what blocks hold.
    """
    blocks = list_blocks(model, family)
    if not sites_of(family, config_of(model)):
        return
    for part, site in (("attention", family.attention), ("mlp", family.mlp)):
        if site is None or any(True for block in blocks for _ in site_modules(block, site)):
            continue
        paths = list(dict.fromkeys(path for block in blocks for path, _ in block.named_modules() if path))
        parts = [path for path in paths if "." not in path][:_MOST_PARTS]
        raise ModelError(
            f"{family.name}: {part} is to be read at {' or '.join(site.paths)}, which no block of "
            f"{type(model).__name__} has; its parts: {', '.join(parts)}.{did_you_mean(site.paths[0], paths)} Give a "
            f"path inside of a block, or {part}=None."
        )


def _require(model: nn.Module, path: str, family: Family) -> nn.Module:
    module = submodule(model, path)
    if module is None:
        _refuse_headless(model)
        raise ModelError(
            f"{family.name}: this model has no {path}. Its layout differs from the family's declaration "
            f"(bathyscope/model/anatomy/families); declare that of {type(model).__name__}: "
            "load(model, family=Family(...))."
        )
    return module


def _refuse_headless(model: nn.Module) -> None:
    """Refuse a model that predicts no tokens."""
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


def count_entries(model: nn.Module, head: nn.Module, config: Any, family: Family) -> int:
    """Return the number of logits of a readout, whose last matrix may be inside the head (RoBERTa)."""
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
