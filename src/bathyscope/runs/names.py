"""What runs and models are called wherever several are shown together: pages, figures, tables, comparisons."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from bathyscope.core.text import without_folders

if TYPE_CHECKING:
    from bathyscope.runs.run import Run


_HASH_LETTERS: Final = 8


def run_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run that says no more than tells them apart: the model, the data set, or both.

    A run alone is called by both. Runs of one model on one data set also say what differs: the order of the blocks,
    their folders, weights, precision or seeds. Where nothing differs they are numbered.
    """
    models = model_names([run.identity.model for run in runs])
    datasets = [without_folders(run.identity.dataset) for run in runs]
    if len(runs) > 1 and len(set(datasets)) == 1:
        names = models
    elif len(runs) > 1 and len(set(models)) == 1:
        names = datasets
    else:
        names = [f"{model} on {dataset}" for model, dataset in zip(models, datasets)]
    runs_by_name: dict[str, list[Run]] = defaultdict(list)
    for name, run in zip(names, runs):
        runs_by_name[name].append(run)
    suffixes = {name: iter(_suffixes(namesakes)) for name, namesakes in runs_by_name.items()}
    return [f"{name}{next(suffixes[name])}" for name in names]


def _suffixes(runs: Sequence[Run]) -> list[str]:
    """Return what tells runs of one name apart, in brackets: the first feature in which all of them differ."""
    if len(runs) == 1:
        return [""]
    identities = [run.identity for run in runs]
    # In the order in which a reader would tell them apart. A model in memory has no folder, and its class for a name.
    features = (
        [identity.schedule or "own order" for identity in identities],
        [identity.adapters or "no adapters" for identity in identities],
        [run.path.name if run.path is not None else "in memory" for run in runs],
        # one step of several courses
        [f"{run.path.parent.name}/{run.path.name}" if run.path is not None else "in memory" for run in runs],
        [f"weights {identity.weight_hash[:_HASH_LETTERS]}" for identity in identities],
        [f"configuration {(identity.config_hash or 'unknown')[:_HASH_LETTERS]}" for identity in identities],
        [identity.dtype for identity in identities],
        [f"seed {identity.seed}" for identity in identities],
        [str(number) for number, _ in enumerate(runs, start=1)],
    )
    telling = next(feature for feature in features if len(set(feature)) == len(runs))
    return [f" ({text})" for text in telling]


def model_names(models: Sequence[str]) -> list[str]:
    """Each model without folders or owner; where two different ones would then be called the same, with them."""
    short = [PurePath(model).name or model for model in models]
    # A name is taken twice only by different models: two runs of one model share theirs, and are numbered.
    called = {(name, model) for name, model in zip(short, models)}
    shared = Counter(name for name, _ in called)
    return [model if shared[name] > 1 else name for name, model in zip(short, models)]
