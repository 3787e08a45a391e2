"""Prediction and suppression neurons, from the weights alone: what each neuron of an MLP does to all tokens' logits.

z = ŵ·Ŵ_U is the cosine of a neuron's output weights with every token's unembedding, after the final norm's weight is
folded in and what no prediction sees is centred away. A neuron with a heavy-tailed z acts on few tokens: it predicts
them where z is skewed to the right, and suppresses them where it is skewed to the left.
Source: lad2024, prediction and suppression neurons.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import ModelError, warn
from bathyscope.measures.base import Measure, ModelFacts, refusal
from bathyscope.measures.of.neurons import DECLARATION, NeuronsOptions
from bathyscope.measures.token_classes import CLASSES, members
from bathyscope.measures.unembedding import Unembedding
from bathyscope.model.anatomy.neurons import OutputWeights, at_hand, directions_of, output_weights
from bathyscope.prompts.prompt import TokenizedPrompt

TILE = 1024
"""Neurons that are compared with the unembedding at once."""
TOP = 36
"""Neurons that are listed for each class of tokens."""
BINS = 40
SIDES = ("class", "others")
MOMENTS = ("mean", "variance", "skew", "kurtosis")

Scalar = TypeVar("Scalar", bound=np.generic)


class Neurons(Measure[NeuronsOptions], declared=DECLARATION):
    looks_at_weights = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        return refusal(lambda: self._find(facts))

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        self._find(facts)
        missing = [block for block, weights in enumerate(self._weights) if not weights]
        if missing:
            warn(
                f"neurons: no output weights of an MLP were found in blocks {missing} of this "
                f"{facts.anatomy.family.name} model, whose neurons are missing (NaN).",
            )

    def _find(self, facts: ModelFacts) -> None:
        self._weights = output_weights(facts.anatomy)
        if not any(self._weights):
            raise ModelError(
                f"neurons needs MLPs whose output is added to the residual stream, and finds none in this "
                f"{facts.anatomy.family.name} model; leave this measure out."
            )
        vocabulary_ids = None if facts.tokenizer is None else set(facts.tokenizer.get_vocab().values())
        self._unembedding = Unembedding(facts.anatomy.readout, vocabulary_ids)

    @torch.no_grad()
    def derive(self, facts: ModelFacts, merged: Mapping[str, xr.Dataset], seed: int) -> xr.Dataset:
        """The census (needs no prompts): moments, fractions, and the top neurons by class of tokens."""
        block_moments = [_block_moments(weights, self._unembedding) for weights in self._weights]
        data = _census(block_moments, self.options.kurtosis)
        classes_CV = members(facts.tokenizer, self._unembedding.kept_V.tolist())
        data.update(_profile(self._weights, self._unembedding, classes_CV, data))
        coords = {
            "block": np.arange(facts.n_blocks),
            "neuron": np.arange(data["mean"].shape[1]),
            "expert": (("block", "neuron"), _padded([_experts(weights) for weights in self._weights], -1)),
            "token_class": list(CLASSES),
            "rank": np.arange(TOP),
            "side": list(SIDES),
        }
        dataset = DECLARATION.dataset(data, coords, threshold=f"{self.options.kurtosis:g}")
        dataset.attrs |= {"kurtosis": self.options.kurtosis, "padding_tokens": self._unembedding.left_out}
        return dataset


def _block_moments(weights: Sequence[OutputWeights], unembedding: Unembedding) -> FloatArray:
    """[4, neurons] mean, variance, skew and kurtosis, NaN for neurons without weights."""
    values = [np.empty((len(MOMENTS), 0))]
    for rows_ND in _tiles(weights):
        moments = unembedding.moments(rows_ND)
        # A neuron whose output weights are all 0 has no direction, and so no cosines.
        filled = (rows_ND != 0).any(-1).cpu().numpy()
        values.append(np.where(filled, [moments.mean, moments.variance, moments.skew, moments.kurtosis], np.nan))
    return np.concatenate(values, axis=1)


def _tiles(weights: Sequence[OutputWeights]) -> Iterator[Tensor]:
    """Directions of one block's neurons, some at a time."""
    with at_hand(weights):
        yield from (
            part.directions(rows) for part in weights for matrix in part.matrices() for rows in matrix.split(TILE)
        )


def _census(block_moments: Sequence[FloatArray], threshold: float) -> dict[str, FloatArray]:
    neurons = np.array([values.shape[1] for values in block_moments])
    data = dict(zip(MOMENTS, _padded(block_moments, np.nan)))
    kurtotic = data["kurtosis"] > threshold
    for name, signed in (("prediction", data["skew"] > 0), ("suppression", data["skew"] < 0)):
        with np.errstate(invalid="ignore"):
            data[f"{name}_fraction"] = (kurtotic & signed).sum(1) / neurons
    data["n_neurons"] = neurons
    data["zero_neurons"] = neurons - np.isfinite(data["mean"]).sum(1)
    return data


def _profile(
    weights: Sequence[Sequence[OutputWeights]],
    unembedding: Unembedding,
    classes_CV: NDArray[np.bool_],
    census: Mapping[str, FloatArray],
) -> dict[str, FloatArray]:
    """The neurons that tell each class of tokens most from the others; missing for a class without tokens."""
    chosen = np.full((2, len(CLASSES), TOP), -1)
    values = np.full((3, len(CLASSES), TOP), np.nan)
    edges = np.full((len(CLASSES), TOP, BINS + 1), np.nan)
    shares = np.full((len(CLASSES), TOP, len(SIDES), BINS), np.nan)
    # The effect on a class is a product with one vector, its mean row of W_U: no [neurons, vocabulary] is formed.
    effects = effects_by_block(weights, unembedding, classes_CV)
    top = [ranked(effects_LN)[:TOP] for effects_LN in effects]
    directions_at = directions_by_place(weights, {(b, n) for places in top for b, n in places.tolist()})
    for index, (effects_LN, places) in enumerate(zip(effects, top)):
        n = len(places)
        chosen[:, index, :n] = places.T
        picked = tuple(places.T)
        values[:, index, :n] = effects_LN[picked], census["skew"][picked], census["kurtosis"][picked]
        if n:
            directions = torch.cat([directions_at[block, neuron] for block, neuron in places.tolist()])
            edges[index, :n], shares[index, :n] = _histograms(unembedding.effects(directions), classes_CV[index])
    return {
        **dict(zip(("top_block", "top_neuron"), chosen)),
        **dict(zip(("top_effect", "top_skew", "top_kurtosis"), values)),
        "class_tokens": classes_CV.sum(1),
        "histogram": shares,
        "histogram_edge": edges,
    }


def _histograms(effects_NV: FloatArray, members_V: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Return the shares of a class's tokens, and of all others, by their effect.

    Returns:
        Edges [neurons, bins + 1] and shares [neurons, 2, bins]. Each neuron has its own bins, from its smallest to its
        largest effect.
    """
    edges = np.linspace(effects_NV.min(1), effects_NV.max(1), BINS + 1, axis=1)
    shares = np.zeros((len(effects_NV), 2, BINS))
    for neuron, effects_V in enumerate(effects_NV):
        for side, chosen in enumerate((members_V, ~members_V)):
            counts, _ = np.histogram(effects_V[chosen], edges[neuron])
            shares[neuron, side] = counts / max(1, chosen.sum())
    return edges, shares


def effects_by_block(
    weights: Sequence[Sequence[OutputWeights]], unembedding: Unembedding, classes_CV: NDArray[np.bool_]
) -> FloatArray:
    """Effect of every neuron on every class against all other tokens, [classes, blocks, neurons], NaN padded."""
    towards_CD = unembedding.class_directions(torch.from_numpy(classes_CV))
    by_block = []
    for block in weights:
        tile_effects = [
            (towards_CD @ unembedding.directions(rows_ND).T).double().cpu().numpy() for rows_ND in _tiles(block)
        ]
        by_block.append(np.concatenate([np.empty((len(classes_CV), 0)), *tile_effects], axis=1))
    return _padded(by_block, np.nan)


def directions_by_place(
    weights: Sequence[Sequence[OutputWeights]], places: Collection[tuple[int, int]]
) -> dict[tuple[int, int], Tensor]:
    """(block, neuron) → its direction [1, width], from one visit of each block."""
    direction_of = {}
    for block in sorted({block for block, _ in places}):
        with at_hand(weights[block]):
            for neuron in sorted(neuron for owner, neuron in places if owner == block):
                direction_of[block, neuron] = directions_of(weights[block], [neuron])
    return direction_of


def ranked(effects_LN: FloatArray) -> NDArray[np.int64]:
    """[neurons, 2] block and neuron by falling size of the effect; those without effect are left out."""
    sizes = np.nan_to_num(np.abs(effects_LN))
    # Stable, so that equal effects stay in the order of blocks and neurons on every machine.
    order = np.argsort(-sizes, axis=None, kind="stable")[: np.count_nonzero(sizes)]
    return np.stack(np.unravel_index(order, sizes.shape), axis=1)


def _experts(weights: Sequence[OutputWeights]) -> NDArray[np.int64]:
    """Each neuron's routed expert, −1 where it belongs to none."""
    parts = [
        np.full(part.neurons, -1)
        if part.experts is None
        else np.repeat(np.arange(part.experts), part.neurons // part.experts)
        for part in weights
    ]
    return np.concatenate([np.empty(0, dtype=int), *parts])


def _padded(blocks: Sequence[NDArray[Scalar]], fill: float) -> NDArray[Scalar]:
    """Values [..., neurons] of every block as one array, [..., blocks, neurons], filled where a block has fewer."""
    most = max(values.shape[-1] for values in blocks)
    padded = np.full((len(blocks), *blocks[0].shape[:-1], most), fill, blocks[0].dtype)
    for block, values in zip(padded, blocks):
        block[..., : values.shape[-1]] = values
    return np.moveaxis(padded, 0, -2)
