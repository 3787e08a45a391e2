"""Whether a few neurons know that the next token ends in "ing", each alone and together.

The neurons that act most on such tokens by their weights are read at the token before, those that predict and those
that suppress apart, and a logistic probe is fitted to one or several of them. Source: lad2024, prediction ensembling.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray

from bathyscope.analysis.options import IngOptions
from bathyscope.analysis.probes.activations import last_activations
from bathyscope.analysis.probes.contexts import Contexts, balanced_contexts
from bathyscope.analysis.probes.logistic import ACCURACY, Accuracy, Fit, Settings, accuracy, fit, judge
from bathyscope.analysis.probes.skeleton import Finding, lent, require_room
from bathyscope.core.calls import takes
from bathyscope.core.common_options import Progress
from bathyscope.core.paths import given_path
from bathyscope.core.result import LabelledResult, rows_of, tabulate_over
from bathyscope.errors import ModelError, OptionError
from bathyscope.labels import Label, Table, interval
from bathyscope.measures.neurons import directions_by_place, effects_by_block, ranked
from bathyscope.measures.token_classes import CLASSES, members
from bathyscope.measures.unembedding import Unembedding
from bathyscope.model import Model, ModelArgument
from bathyscope.model.anatomy.neurons import OutputWeights, output_weights
from bathyscope.statistics.sampling import Sampling

KINDS = ("prediction", "suppression")
CLASS = "ing"
_LOOKED_AT = 256
_SOURCE = "lad2024, prediction ensembling"
_by_rank = partial(Label, "kind rank", source=_SOURCE)
_by_size = partial(Label, "kind size", source=_SOURCE)
_ENDS = "the {percent=95 %} interval"
_TABLE: Table = {
    "block": _by_rank("block (−1 = none)", "block"),
    "neuron": _by_rank("neuron (−1 = none)", "neuron"),
    "effect": _by_rank("mean effect on tokens of the class minus that on all others", "logits"),
    "skew": _by_rank("skew of the neuron's cosines with the unembedding"),
    "kurtosis": _by_rank("kurtosis of the neuron's cosines with the unembedding"),
    "accuracy": _by_rank("accuracy of the neuron alone, held-out half"),
    **interval("ci", _by_rank, _ENDS),
    "train_accuracy": _by_rank("on the training half"),
    "ensemble_accuracy": _by_size("accuracy of the neurons added so far, held-out half"),
    **interval("ensemble_ci", _by_size, _ENDS),
    "ensemble_train_accuracy": _by_size("on the training half"),
    "added": _by_size("rank of the neuron that joins (−1 = none)", "rank"),
    **{f"top1_{name}": Label("", f"{name} of the model's own top-1 token", source=_SOURCE) for name in ACCURACY},
}

Array = NDArray[np.float32]


@takes(IngOptions)
def ing_probe(
    model: ModelArgument,
    corpus: str | Path,
    *,
    contexts: int = 2000,
    window: int = 24,
    neurons: int = 32,
    characters: int | None = 2_000_000,
    C: float = 1.0,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = True,
) -> LabelledResult:
    """Accuracy of probes of single neurons and of ensembles: does the next token end in "ing"?

    Args:
        corpus: UTF-8 text, gzipped where the name ends in ``.gz``.
        ...: the options of ``IngOptions``.
        characters: None = all.

    Returns:
        A result; its ``data`` holds the following.
        By ``kind`` and ``rank``: block, neuron, effect, skew, and the accuracy of each neuron alone; by ``kind`` and
        ``size``: the accuracy of the first this many neurons together, added in the order of their accuracy on the
        training half; and top1_accuracy, of the model's own most likely token. Accuracies are on the held-out half.

    Raises:
        OptionError: an option out of range, or scikit-learn is not installed.
        PromptError: the text is too short, or has too few tokens that end in "ing".
        ModelError: the model cannot be ready, or has no tokenizer, no such token, or no neurons to be read.
    """
    settings = Settings(C, Sampling(resamples, level, seed))
    corpus = given_path(corpus, "corpus")
    with lent(model, "The corpus is") as ready:
        require_room(ready, window - 1, window)
        in_class_V, weights, chosen = _choose(ready, neurons)
        sampled = balanced_contexts(
            corpus, ready.tokenizer, in_class_V, window=window, count=contexts, characters=characters, seed=seed
        )
        for part, where in (("Training half", sampled.training), ("Held-out half", ~sampled.training)):
            settings.require_rows(sampled.labels[where], part)
        places = [(place.block, place.neuron) for kind in KINDS for place in chosen[kind]]
        activations, top1 = last_activations(ready, weights, places, sampled.ids.tolist(), progress)
        values = dict(zip(KINDS, np.split(activations.numpy(), [len(chosen[KINDS[0]])], axis=1)))
        right = in_class_V[top1.numpy()] == (sampled.labels == 1)
        top1_accuracy = accuracy(right[~sampled.training], settings)
        return _FINDING.result(
            *_judge_neurons(chosen, values, sampled, settings, top1_accuracy, neurons),
            ready,
            settings.sampling,
            corpus=str(corpus),
            held_out=int((~sampled.training).sum()),
            seed=seed,
            training=int(sampled.training.sum()),
        )


def _conclude(data: xr.Dataset) -> str:
    """Return how single neurons and ensembles compare with the model's own guess."""
    best = {name: float(data[name].max()) for name in ("accuracy", "ensemble_accuracy", "top1_accuracy")}
    return (
        f"The best neuron reaches an accuracy of {best['accuracy']:.3f}, the best ensemble "
        f"{best['ensemble_accuracy']:.3f}, and the model's own top-1 token {best['top1_accuracy']:.3f}. Accuracies are "
        "on the held-out half; ensembles were put together on the other."
    )


def _tabulate(data: xr.Dataset) -> pd.DataFrame:
    """Return a row for the model's own guess, every neuron alone, and every ensemble."""
    columns = (*ACCURACY, "train_accuracy")
    top1 = {name: float(data[f"top1_{name}"]) for name in ACCURACY}
    blank = dict.fromkeys(("kind", "size", "block", "neuron", "effect", "skew", "train_accuracy"))
    rows: list[dict[str, Any]] = [{"probe": "the model's top-1", **blank, **top1}]
    for kind in data["kind"].values.tolist():
        of_kind = data.sel(kind=kind)
        neurons = of_kind.isel(rank=of_kind["block"].values >= 0)
        ensembles = of_kind.isel(size=of_kind["added"].values >= 0)
        neuron_columns = ("kind", "block", "neuron", "effect", "skew", *columns)
        ensemble_columns = {"kind": "kind", "size": "size", **{f"ensemble_{name}": name for name in columns}}
        tables = {
            "neuron": tabulate_over(neurons, neuron_columns, ("rank",)),
            "ensemble": tabulate_over(ensembles, ensemble_columns, ("size",)),
        }
        rows += [{"probe": name, **blank, **row} for name, table in tables.items() for row in rows_of(table)]
    # As objects, so that a block stays a whole number although some rows have none.
    return pd.DataFrame(rows, dtype=object)


_FINDING: Final = Finding(_TABLE, _conclude, _tabulate, "ing")


class _Neuron(NamedTuple):
    """A neuron that is probed: its place, its effect on tokens of the class against all others, and its moments."""

    block: int
    neuron: int
    effect: float
    skew: float
    kurtosis: float


_ByKind = dict[str, list[_Neuron]]


@torch.no_grad()
def _choose(model: Model, count: int) -> tuple[NDArray[np.bool_], Sequence[Sequence[OutputWeights]], _ByKind]:
    """True at the token ids of the class, output weights by block, and the neurons that act most on the class.

    Neurons are told apart by the sign of their skew, and of either kind the largest effect comes first.
    """
    tokenizer = model.tokenizer
    unembedding = Unembedding(model.anatomy.readout, set(tokenizer.get_vocab().values()))
    vocabulary_ids = unembedding.kept_V.cpu().numpy()
    of_class = members(tokenizer, vocabulary_ids.tolist())[list(CLASSES).index(CLASS)]
    if not of_class.any():
        raise ModelError(f'No token of the vocabulary of {model.name} ends in "{CLASS}".')
    weights = output_weights(model.anatomy)
    (effects_LN,) = effects_by_block(weights, unembedding, of_class[None])
    for effects_N, block in zip(effects_LN, weights):
        # what is no input of a module, as within routed experts, cannot be read
        hidden = np.array([not group.visible for group in block for _ in range(group.neurons)], dtype=bool)
        effects_N[: len(hidden)][hidden] = np.nan
    in_class_V = np.zeros(model.anatomy.vocabulary, dtype=bool)
    in_class_V[vocabulary_ids[of_class]] = True
    chosen = _of_either_kind(weights, effects_LN, unembedding, count)
    if not all(chosen.values()):
        raise ModelError(
            f"{model.name} has no neurons of both kinds whose activations can be read (those of routed experts cannot)."
        )
    return in_class_V, weights, chosen


def _of_either_kind(
    weights: Sequence[Sequence[OutputWeights]], effects_LN: NDArray[np.float64], unembedding: Unembedding, count: int
) -> _ByKind:
    """``count`` neurons of either kind; moments are computed of no more than needed."""
    chosen: _ByKind = {kind: [] for kind in KINDS}
    order = ranked(effects_LN).tolist()
    if 0 < len(order) < count:
        raise OptionError(f"neurons={count} is out of range: the model has {len(order)} whose activations can be read.")
    for first in range(0, len(order), _LOOKED_AT):
        batch = order[first : first + _LOOKED_AT]
        directions = directions_by_place(weights, {(block, neuron) for block, neuron in batch})
        # Moments need the whole vocabulary, so they are taken of a few neurons at a time until both kinds are full.
        direction_moments = unembedding.moments(torch.cat([directions[block, neuron] for block, neuron in batch]))
        for (block, neuron), skew, kurtosis in zip(
            batch, direction_moments.skew.tolist(), direction_moments.kurtosis.tolist()
        ):
            neurons_of_kind = chosen[KINDS[0] if skew > 0 else KINDS[1]]
            if len(neurons_of_kind) < count and skew != 0:
                neurons_of_kind.append(_Neuron(block, neuron, float(effects_LN[block, neuron]), skew, kurtosis))
        if all(len(neurons) == count for neurons in chosen.values()):
            break
    return chosen


def _probe(values: Array, contexts: Contexts, settings: Settings) -> tuple[list[Fit], list[Fit], list[int]]:
    """Probes of one kind's neurons, each alone and those added so far together, and their ranks in that order."""

    def fitted(columns: Sequence[int]) -> Fit:
        picked = values[:, list(columns)]
        inside, labels = contexts.training, contexts.labels
        return fit(picked[inside], labels[inside], picked[~inside], labels[~inside], settings)

    alone = [fitted([column]) for column in range(values.shape[1])]
    # the held-out half has no say in the order; equals stay in the order of their effects
    added = sorted(range(len(alone)), key=lambda column: -alone[column].train_accuracy)
    return alone, [fitted(added[: size + 1]) for size in range(len(added))], added


def _judge_neurons(
    chosen: _ByKind, values: dict[str, Array], contexts: Contexts, settings: Settings, top1: Accuracy, count: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables of the result, and its coordinates."""
    alone, together, added = zip(*(_probe(values[kind], contexts, settings) for kind in KINDS))

    def padded(rows: Iterable[Iterable[float]], none: float = np.nan) -> list[list[float]]:
        listed = [list(row) for row in rows]
        return [[*row, *[none] * (count - len(row))] for row in listed]

    data: dict[str, Any] = {
        name: padded(([getattr(neuron, name) for neuron in chosen[kind]] for kind in KINDS), none)
        for name, none in {"block": -1, "neuron": -1, "effect": np.nan, "skew": np.nan, "kurtosis": np.nan}.items()
    }
    for prefix, fits in (("", alone), ("ensemble_", together)):
        data |= {f"{prefix}{name}": padded(rows) for name, rows in judge(fits, settings).items()}
    data["added"] = padded(added, -1)
    data |= {f"top1_{name}": value for name, value in zip(ACCURACY, top1)}
    coords = {"kind": list(KINDS), "rank": np.arange(count), "size": np.arange(1, count + 1)}
    return data, coords
