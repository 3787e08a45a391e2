"""Where two models part: how far their streams drift, and what each block of one does inside the other.

Both models see the same tokens. The *drift* at a boundary is how far the second model's stream lies from the first's.
A *graft* puts one block of the second model into the first, with everything else as it was, and costs what the output
changes by. Drift adds up from block to block; grafts name the blocks that cause it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor, nn

from bathyscope.analysis.between.diff_text import conclude, fields, first_beyond, tabulate
from bathyscope.core.result import LabelledResult
from bathyscope.errors import ModelError
from bathyscope.labels import variable
from bathyscope.measures.costs import tree_costs
from bathyscope.model import AnyModel, Model, alone, config_hash, loaded
from bathyscope.model.constants import departure_of
from bathyscope.model.reading import tokenized
from bathyscope.model.streaming.lending import lent
from bathyscope.options import Coverage, Resamples, checked
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import Source
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.sampling import Sampling
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.distribution import Distribution
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import Tree, grafted
from bathyscope.wavefront.probe import BoundaryReader
from bathyscope.wavefront.variants import SlotVariant

_OTHER: Final = "other"


@dataclass(frozen=True, eq=False, repr=False)
class Difference(LabelledResult):
    """Where two models part.

    Args:
        first: the first block behind which the drift exceeds the noise floor, 0 also where the embeddings differ; None
            where none does.
    """

    first: int | None = None


@checked
def diff(
    a: AnyModel,
    b: AnyModel,
    prompts: Source | Prompts,
    *,
    seed: int = 0,
    beyond_context: bool | None = None,
    resamples: Resamples = 1000,
    level: Coverage = 0.95,
) -> Difference:
    """Measure where two models of one shape part: a model and its fine-tuned, quantised or converted copy.

    Args:
        a, b: what ``load`` returns or takes.
        prompts: as for ``survey``; both models are given the token ids of ``a``.
        seed: of generated problems and of resampling.
        beyond_context: as for ``survey``.
        resamples: bootstrap resamples of the prompts.
        level: coverage of the intervals.

    Returns:
        A result; ``first`` is the first block behind which the streams part by more than rounding, or None.
        Its ``data`` holds ``drift`` (prompt, boundary), ‖h_b − h_a‖ / ‖h_a‖ averaged over tokens; ``graft`` and
        ``graft_back`` (prompt, block), KL in nats a token of ``a`` from ``a`` with that block of ``b``, and the
        reverse; ``cumulative`` (prompt, block), with all blocks up to this one from ``b``; ``unexplained`` (prompt),
        the last of these less the sum of the grafts; ``output`` (prompt), KL of ``a`` from ``b`` as a whole, with its
        embedding and unembedding; ``weight_change`` (block), ‖W_b − W_a‖ / ‖W_a‖; means with intervals; and
        ``noise_floor`` (boundary) and ``output_floor``, what rounding alone does in batches of another size.

    Raises:
        ModelError: models of different widths, vocabularies or numbers of blocks; predictions that are not finite.
        OptionError, PromptError: an option out of its range, or prompts that cannot be measured; before any compute.

    Example:
        >>> parted = bathyscope.diff("model", "model", "prompts.jsonl", resamples=100)
        >>> parted.first is None, float(parted["graft"].max())
        (True, 0.0)
    """
    with alone(a, b):
        source: Source | Prompts = list(prompts) if isinstance(prompts, Iterator) else prompts
        models = [loaded(model) for model in (a, b)]
        require_same_shape(*models)
        read = tokenized(models[0], source, seed=seed, beyond_context=beyond_context)
        data = _measure(models, read, Sampling(resamples, level, seed))
        first = first_beyond(data)
        return Difference(data, conclude(data, first), tabulate, fields(data, first), first)


def require_same_shape(a: Model, b: Model) -> None:
    """Refuse models whose blocks cannot take each other's places.

    Raises:
        ModelError: different widths, vocabularies or numbers of blocks.
    """
    facts = {
        "blocks": (a.n_blocks, b.n_blocks),
        "width": (a.anatomy.width, b.anatomy.width),
        "vocabulary": (a.anatomy.vocabulary, b.anatomy.vocabulary),
    }
    for name, (left, right) in facts.items():
        if left != right:
            raise ModelError(
                f"diff needs two models of one shape, and their {name} differ ({left} and {right}). Use cka or maps "
                "to compare models of different shapes."
            )


def _measure(models: Sequence[Model], read: Prompts, sampling: Sampling) -> xr.Dataset:
    """Return every number, of all prompts in order."""
    waves = [Wavefront(model.anatomy, tails=False) for model in models]
    n_blocks = models[0].n_blocks
    changes, differs = _weight_changes(*models)
    values: dict[str, NDArray[np.float64]] = {
        "drift": np.zeros((len(read), n_blocks + 1)),
        "output": np.zeros((len(read), 1)),
        **{name: np.zeros((len(read), n_blocks)) for name in ("graft", "graft_back", "cumulative")},
    }
    floor = np.zeros(n_blocks + 1)
    output_floor = 0.0
    changed = [block for block in range(n_blocks) if differs[block]]
    equal_lengths = any(model.anatomy.equal_lengths for model in models)
    room = min(wave.policy.tokens for wave in waves)
    for picked in plan_batches([len(prompt) for prompt in read], 1, room, equal_lengths):
        ids = [read[place].ids for place in picked]
        streams = [_streams(wave, model, ids) for wave, model in zip(waves, models)]
        lengths = [len(prompt_ids) for prompt_ids in ids]
        batch = Batch.of(ids, models[0].device)
        values["drift"][picked] = _relative(streams[1], streams[0], lengths)
        values["output"][picked, 0] = _output_effect(waves, models, [stream[-1] for stream in streams], batch)
        for wave, model, stream in zip(waves, models, streams):
            again = [resid_BTD[: len(ids)] for resid_BTD in _streams(wave, model, [*ids, *ids])]
            floor = np.maximum(floor, _relative(again, stream, lengths).max(0))
            rounded = _output_effect([wave, wave], [model, model], [stream[-1], again[-1]], batch)
            output_floor = max(output_floor, float(rounded.max()))
        for name, target, origin in (("graft", 0, 1), ("graft_back", 1, 0)):
            # Blocks of equal weights are the block itself: their histories are the full one, and cost nothing.
            own_only = [grafted(n_blocks, set(changed) & {block}, _OTHER) for block in range(n_blocks)]
            prefixes = [grafted(n_blocks, set(changed) & set(range(block + 1)), _OTHER) for block in range(n_blocks)]
            histories = [grafted(n_blocks, (), _OTHER), *own_only, *(prefixes if name == "graft" else ())]
            costs = tree_costs(
                waves[target],
                Batch.of(ids, models[target].device),
                Tree(histories),
                ("kl",),
                variants={_OTHER: SlotVariant.of_model(models[origin].anatomy)},
            )["kl"]
            values[name][picked] = costs[1 : n_blocks + 1].T
            if name == "graft":
                values["cumulative"][picked] = costs[n_blocks + 1 :].T
    return _label(values, floor, output_floor, changes, read, models, sampling)


def _streams(wave: Wavefront, model: Model, ids: Sequence[Sequence[int]]) -> list[Tensor]:
    """Return the residual stream at every boundary, [batch, tokens, width] each."""
    reader = BoundaryReader(lambda resid_BTD: resid_BTD.detach().double().cpu())
    wave.run(Batch.of(ids, model.device), [reader])
    return reader.taken


def _relative(other: Sequence[Tensor], reference: Sequence[Tensor], lengths: Sequence[int]) -> NDArray[np.float64]:
    """Return the distance over the reference's norm, averaged over each prompt's tokens, [prompts, boundaries]."""
    by_boundary = []
    for left_BTD, right_BTD in zip(other, reference, strict=True):
        norm_BT = right_BTD.norm(dim=-1)
        # A stream of zeros that stays one has not moved.
        ratio_BT = (left_BTD - right_BTD).norm(dim=-1) / norm_BT.clamp_min(torch.finfo(torch.float64).tiny)
        by_boundary.append([float(ratio_T[:length].mean()) for ratio_T, length in zip(ratio_BT, lengths)])
    return np.array(by_boundary).T


@torch.no_grad()
def _output_effect(
    waves: Sequence[Wavefront], models: Sequence[Model], finals: Sequence[Tensor], batch: Batch
) -> NDArray[np.float64]:
    """Return KL(first ‖ second) of the predictions behind two final streams, averaged over each prompt's tokens."""
    device = models[0].device
    predicting_BT = batch.predicting().cpu()
    states = [
        final_BTD[predicting_BT].to(model.device, model.anatomy.dtype or torch.float32)
        for final_BTD, model in zip(finals, models)
    ]
    readers = [wave.reader for wave in waves]
    kl_N = torch.empty(len(states[0]), dtype=torch.float64)
    product_tokens, slice_tokens = readers[0].product_tokens(device), readers[0].slice_tokens(device)
    for first in range(0, len(kl_N), product_tokens):
        products = [
            reader.product(reader.head.normed(state_ND[first : first + product_tokens]), device)
            for reader, state_ND in zip(readers, states)
        ]
        for place in range(0, len(products[0]), slice_tokens):
            slices = [product_NV[place : place + slice_tokens] for product_NV in products]
            left, right = (Distribution(reader.head.finish(slice_NV)) for reader, slice_NV in zip(readers, slices))
            begin = first + place
            kl_N[begin : begin + len(slices[0])] = (left.neg_entropy - right.mean_log_p(left)).cpu()
    counts = predicting_BT.sum(1).tolist()
    return np.array([float(prompt_kl.mean()) for prompt_kl in kl_N.split(counts)])


def _weight_changes(a: Model, b: Model) -> tuple[NDArray[np.float64], list[bool]]:
    """Return each block's ‖W_b − W_a‖ / ‖W_a‖, and whether the blocks may compute anything different."""
    # Equal weights under another configuration, with other constants (tables, scales changed in memory), or in another
    # precision, still compute something else.
    settings = [
        (config_hash(model.hf), departure_of(model.hf, config_hash(model.hf)), model.anatomy.dtype) for model in (a, b)
    ]
    same_settings = settings[0] == settings[1]
    changes, differs = [], []
    for own_block, other_block in zip(a.anatomy.blocks, b.anatomy.blocks, strict=True):
        with lent(own_block) as left, lent(other_block) as right:
            change, equal = _weight_change(left, right)
        changes.append(change)
        differs.append(not (equal and same_settings))
    return np.array(changes), differs


def _weight_change(left_block: nn.Module, right_block: nn.Module) -> tuple[float, bool]:
    """Return the relative change of a block's weights, NaN where they have other names or shapes; and equality."""
    left, right = left_block.state_dict(), right_block.state_dict()
    if {name: t.shape for name, t in left.items()} != {name: t.shape for name, t in right.items()}:
        return float("nan"), False
    squares = [0.0, 0.0]
    for name, tensor in left.items():
        if tensor.is_floating_point():
            reference = tensor.double().cpu()
            squares[0] += float((right[name].double().cpu() - reference).square().sum())
            squares[1] += float(reference.square().sum())
    equal = all(torch.equal(tensor, right[name]) for name, tensor in left.items() if tensor.dtype == right[name].dtype)
    return float(np.sqrt(squares[0] / squares[1])) if squares[1] else 0.0, equal and squares[0] == 0


def _label(
    values: dict[str, NDArray[np.float64]],
    floor: NDArray[np.float64],
    output_floor: float,
    changes: NDArray[np.float64],
    read: Prompts,
    models: Sequence[Model],
    sampling: Sampling,
) -> xr.Dataset:
    """Return the labelled arrays, with means over prompts and their intervals."""
    n_blocks = len(changes)
    texts = {
        "drift": ("boundary", "distance of the streams over the norm of the first", "1", "‖h_b^B − h_b^A‖ / ‖h_b^A‖"),
        "graft": ("block", "effect of the second model's block in the first", "nats", "KL(A ‖ A with block of B)"),
        "graft_back": ("block", "effect of the first model's block in the second", "nats", "KL(B ‖ B with block of A)"),
        "cumulative": ("block", "effect of all blocks up to this one", "nats", "KL(A ‖ A with blocks ≤ l of B)"),
    }
    arrays: dict[str, Any] = {}
    for name, (dimension, long_name, units, formula) in texts.items():
        arrays[name] = variable(["prompt", dimension], values[name], long_name, units, formula=formula, source="own")
        _add_means(arrays, name, [dimension], values[name], f"{long_name}, mean over prompts", units, sampling)
    unexplained = values["cumulative"][:, -1] - values["graft"].sum(1)
    long_name = "effect of all blocks together, less the sum of the single grafts"
    arrays["unexplained"] = variable(["prompt"], unexplained, long_name, "nats", source="own")
    _add_means(arrays, "unexplained", [], unexplained[:, None], f"{long_name}, mean over prompts", "nats", sampling)
    long_name = "effect of the whole second model in place of the first"
    output = values["output"][:, 0]
    arrays["output"] = variable(["prompt"], output, long_name, "nats", formula="KL(A ‖ B)", source="own")
    _add_means(arrays, "output", [], output[:, None], f"{long_name}, mean over prompts", "nats", sampling)
    arrays["output_floor"] = variable(
        [], output_floor, "the same of either model and itself in a batch of twice the size", "nats", source="own"
    )
    arrays["weight_change"] = variable(
        ["block"], changes, "change of the weights over their norm", "1", formula="‖W_B − W_A‖ / ‖W_A‖", source="own"
    )
    arrays["noise_floor"] = variable(
        ["boundary"], floor, "drift of either model from itself in a batch of twice the size", "1", source="own"
    )
    coords = {
        "prompt": [prompt.id for prompt in read],
        "boundary": np.arange(n_blocks + 1),
        "block": np.arange(n_blocks),
    }
    attrs = {"model": models[0].name, "other": models[1].name, **sampling.record}
    return xr.Dataset(arrays, coords, attrs)


def _add_means(
    arrays: dict[str, Any],
    name: str,
    dims: list[str],
    values_PX: NDArray[np.float64],
    long_name: str,
    units: str,
    sampling: Sampling,
) -> None:
    """Add the mean over prompts of some values and the ends of its interval."""
    ends = np.array(mean_intervals(values_PX, sampling))
    columns = {"mean": values_PX.mean(0), "low": ends[:, 0], "high": ends[:, 1]}
    for end, column in columns.items():
        arrays[f"{name}_{end}"] = variable(dims, column if dims else column[0], long_name, units, source="own")
