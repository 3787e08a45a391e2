"""Prediction and suppression neurons, from the weights alone: what each neuron of an MLP does to all tokens' logits.

z = ŵ·Ŵ_U is the cosine of a neuron's output weights with every token's unembedding, after the final norm's weight is
folded in and what no prediction sees is centred away. A neuron with a heavy-tailed z acts on few tokens: it predicts
them where z is skewed to the right, and suppresses them where it is skewed to the left.
Source: lad2024, prediction and suppression neurons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from bathyscope.anatomy.neurons import OutputWeights, directions_of, output_weights
from bathyscope.errors import ModelError, warn
from bathyscope.measures.base import Measure, ModelFacts, require_range, variable
from bathyscope.measures.neuron_effects import TILE, class_effects, histograms, moments, token_effects
from bathyscope.measures.token_classes import CLASSES, members
from bathyscope.measures.unembedding import Unembedding
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.moments import Moments

TOP = 36
"""Neurons that are listed for each class of tokens."""
BINS = 40
SIDES = ("class", "others")
MOMENTS = ("mean", "variance", "skew", "kurtosis")
_SOURCE = "lad2024, prediction and suppression neurons"

Array = NDArray[np.float64]
Members = NDArray[np.bool_]


@dataclass(frozen=True)
class NeuronsOptions:
    """Options of the neurons' census.

    Args:
        kurtosis: a neuron is a prediction or suppression neuron above it (a normal distribution has 3).
    """

    kurtosis: float = 10.0


class Neurons(Measure[NeuronsOptions]):
    """Moments of every neuron's effect on the logits, and the neurons that act most on classes of tokens."""

    name = "neurons"
    options_type = NeuronsOptions
    derived = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        try:
            self._find(facts)
        except ModelError as error:
            return str(error).rstrip(".")
        return None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        require_range("neurons: kurtosis", self.options.kurtosis, 1.0, 1e6)
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
        tokenizer = facts.tokenizer
        known = None if tokenizer is None else set(tokenizer.get_vocab().values())
        self._unembedding = Unembedding(facts.anatomy.readout, known)

    @torch.no_grad()
    def derive(self, facts: ModelFacts, merged: Mapping[str, xr.Dataset], seed: int) -> xr.Dataset:
        """The census (needs no prompts): moments, fractions, and the top neurons by class of tokens."""
        found = [_block_moments(weights, self._unembedding) for weights in self._weights]
        data = _census(found, self.options.kurtosis)
        ids = self._unembedding.kept_V.tolist()
        classes = None if facts.tokenizer is None else members(facts.tokenizer, ids)
        data.update(_profile(self._weights, self._unembedding, classes, data))
        width = data["mean"].sizes["neuron"]
        coords = {
            "block": np.arange(facts.n_blocks),
            "neuron": np.arange(width),
            "expert": (("block", "neuron"), _padded([_experts(weights) for weights in self._weights], width, -1)),
            "token_class": list(CLASSES),
            "rank": np.arange(TOP),
            "side": list(SIDES),
        }
        dataset = xr.Dataset(data, coords)
        dataset.attrs |= {"kurtosis": self.options.kurtosis, "padding_tokens": self._unembedding.left_out}
        return dataset


def _block_moments(weights: Sequence[OutputWeights], unembedding: Unembedding) -> tuple[Array, Array]:
    """[4, neurons] mean, variance, skew and kurtosis, NaN for neurons without weights, and which have weights."""
    values: list[Array] = [np.empty((len(MOMENTS), 0))]
    filled: list[Array] = [np.empty(0, dtype=bool)]
    for one in weights:
        for matrix in one.matrices():
            for rows in matrix.split(TILE):
                directions = one.directions(rows)
                values.append(_as_rows(moments(directions, unembedding)))
                filled.append((directions != 0).any(-1).cpu().numpy())
    present = np.concatenate(filled)
    return np.where(present, np.concatenate(values, axis=1), np.nan), present


def _as_rows(found: Moments) -> Array:
    return np.stack([found.mean, found.variance, found.skew, found.kurtosis])


def _census(found: Sequence[tuple[Array, Array]], threshold: float) -> dict[str, xr.Variable]:
    width = max(len(present) for _, present in found)
    described = {
        "mean": ("mean of a neuron's cosines with the unembedding", "mean over tokens of z, z = ŵ·Ŵ_U"),
        "variance": ("variance of a neuron's cosines with the unembedding", "mean of (z − mean)²"),
        "skew": ("skew of a neuron's cosines with the unembedding", "mean of (z − mean)³ / variance^1.5"),
        "kurtosis": (
            "kurtosis of a neuron's cosines with the unembedding",
            "mean of (z − mean)⁴ / variance²; normal: 3",
        ),
    }
    data = {
        name: variable(
            ("block", "neuron"),
            _padded([values[row] for values, _ in found], width, np.nan),
            long_name,
            "1",
            formula=formula,
            source=_SOURCE,
        )
        for row, (name, (long_name, formula)) in enumerate(described.items())
    }
    kurtotic = data["kurtosis"].values > threshold
    neurons = np.array([len(present) for _, present in found])
    for name, signed in (("prediction", data["skew"].values > 0), ("suppression", data["skew"].values < 0)):
        with np.errstate(invalid="ignore"):
            fraction = (kurtotic & signed).sum(1) / neurons
        sign = ">" if name == "prediction" else "<"
        data[f"{name}_fraction"] = variable(
            ("block",),
            fraction,
            f"share of {name} neurons",
            "1",
            formula=f"neurons with kurtosis > {threshold:g} and skew {sign} 0, over all neurons of the block",
            source=_SOURCE,
        )
    data["n_neurons"] = variable(("block",), neurons, "neurons of the block", "neurons", source=_SOURCE)
    empty = np.array([np.count_nonzero(present == 0) for _, present in found])
    data["zero_neurons"] = variable(
        ("block",), empty, "neurons without output weights", "neurons", formula="ŵ = 0", source=_SOURCE
    )
    return data


def _profile(
    weights: Sequence[Sequence[OutputWeights]],
    unembedding: Unembedding,
    classes_CV: Members | None,
    census: Mapping[str, xr.Variable],
) -> dict[str, xr.Variable]:
    """The neurons that tell each class of tokens most from the others; missing without a tokenizer."""
    chosen = np.full((2, len(CLASSES), TOP), -1)
    values = np.full((3, len(CLASSES), TOP), np.nan)
    edges = np.full((len(CLASSES), TOP, BINS + 1), np.nan)
    shares = np.full((len(CLASSES), TOP, len(SIDES), BINS), np.nan)
    sizes = np.zeros(len(CLASSES), dtype=int) if classes_CV is None else classes_CV.sum(1)
    if classes_CV is not None:
        effects = effects_by_block(weights, unembedding, classes_CV)
        for index, effects_LN in enumerate(effects):
            places = ranked(effects_LN)[:TOP]
            n = len(places)
            chosen[:, index, :n] = places.T
            picked = tuple(places.T)
            values[:, index, :n] = effects_LN[picked], census["skew"].values[picked], census["kurtosis"].values[picked]
            if n:
                directions = torch.cat([directions_of(weights[block], [neuron]) for block, neuron in places.tolist()])
                on_tokens = token_effects(directions, unembedding)
                edges[index, :n], shares[index, :n] = histograms(on_tokens, classes_CV[index], BINS)
    return _described_profile(chosen, values, sizes, edges, shares)


def effects_by_block(
    weights: Sequence[Sequence[OutputWeights]], unembedding: Unembedding, classes_CV: Members
) -> Array:
    """Effect of every neuron on every class against all other tokens, [classes, blocks, neurons], NaN padded."""
    class_directions = unembedding.class_directions(torch.from_numpy(classes_CV))
    by_block = []
    for block in weights:
        parts = [np.empty((len(classes_CV), 0))]
        for one in block:
            for matrix in one.matrices():
                for rows in matrix.split(TILE):
                    parts.append(class_effects(one.directions(rows), unembedding, class_directions))
        by_block.append(np.concatenate(parts, axis=1))
    width = max(effects.shape[1] for effects in by_block)
    return np.stack([_padded([effects[c] for effects in by_block], width, np.nan) for c in range(len(classes_CV))])


def ranked(effects_LN: Array) -> NDArray[np.int64]:
    """[neurons, 2] block and neuron by falling size of the effect; those without effect are left out."""
    sizes = np.nan_to_num(np.abs(effects_LN))
    order = np.argsort(-sizes, axis=None, kind="stable")[: np.count_nonzero(sizes)]
    return np.stack(np.unravel_index(order, sizes.shape), axis=1)


def _described_profile(
    chosen: NDArray[np.int64], values: Array, sizes: NDArray[np.int64], edges: Array, shares: Array
) -> dict[str, xr.Variable]:
    listed = ("token_class", "rank")
    difference = "mean over the class's tokens of w_out·W_U − mean over all others"
    return {
        "top_block": variable(
            listed, chosen[0], "block of a neuron that acts on a class (−1 = none)", "block", source=_SOURCE
        ),
        "top_neuron": variable(listed, chosen[1], "neuron that acts on a class (−1 = none)", "neuron", source=_SOURCE),
        "top_effect": variable(
            listed,
            values[0],
            "effect of a neuron on a class of tokens against all others, largest in size first",
            "logits",
            formula=difference,
            source=_SOURCE,
        ),
        "top_skew": variable(listed, values[1], "skew of such a neuron", "1", source=_SOURCE),
        "top_kurtosis": variable(listed, values[2], "kurtosis of such a neuron", "1", source=_SOURCE),
        "class_tokens": variable(("token_class",), sizes, "tokens of a class", "tokens", source=_SOURCE),
        "histogram": variable(
            ("token_class", "rank", "side", "bin"),
            shares,
            "share of the class's tokens, and of all others, by a neuron's effect on them",
            "1",
            formula="tokens with w_out·W_U in the bin / tokens",
            source=_SOURCE,
        ),
        "histogram_edge": variable(
            ("token_class", "rank", "edge"), edges, "edges of the bins of a neuron", "logits", source=_SOURCE
        ),
    }


def _experts(weights: Sequence[OutputWeights]) -> NDArray[np.int64]:
    """Each neuron's routed expert, −1 where it belongs to none."""
    parts = [
        np.full(one.neurons, -1)
        if one.experts is None
        else np.repeat(np.arange(one.experts), one.neurons // one.experts)
        for one in weights
    ]
    return np.concatenate([np.empty(0, dtype=int), *parts])


def _padded(rows: Sequence[NDArray[np.generic]], width: int, fill: float) -> NDArray[np.generic]:
    """Rows of different lengths as one array, filled at their ends."""
    out = np.full((len(rows), width), fill, dtype=np.result_type(*rows))
    for row, values in zip(out, rows):
        row[: len(values)] = values
    return out
