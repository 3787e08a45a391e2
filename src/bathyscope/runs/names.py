"""What runs and models are called wherever several are shown together: pages, figures, tables, comparisons."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING

from bathyscope.core.text import without_folders

if TYPE_CHECKING:
    from bathyscope.runs.run import Run


def run_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run that says no more than tells them apart: the model, the data set, or both.

    A run alone is called by both. Runs of one model on one data set are numbered.
    """
    models = model_names([run.identity.model for run in runs])
    datasets = [without_folders(run.identity.dataset) for run in runs]
    if len(runs) > 1 and len(set(datasets)) == 1:
        names = models
    elif len(runs) > 1 and len(set(models)) == 1:
        names = datasets
    else:
        names = [f"{model} on {dataset}" for model, dataset in zip(models, datasets)]
    numbers = defaultdict[str, Iterator[int]](lambda: count(1))
    return [f"{name} ({next(numbers[name])})" if names.count(name) > 1 else name for name in names]


def model_names(models: Sequence[str]) -> list[str]:
    """Each model without folders or owner; where two different ones would then be called the same, with them."""
    short = [PurePath(model).name or model for model in models]
    called = {(name, model) for name, model in zip(short, models)}
    shared = Counter(name for name, _ in called)
    return [model if shared[name] > 1 else name for name, model in zip(short, models)]
