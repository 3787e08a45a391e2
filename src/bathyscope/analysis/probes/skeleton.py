"""What all probes begin and end with: a model alone, batches of many short prompts, and a labelled result."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from bathyscope.core.progress import ProgressBar
from bathyscope.core.result import LabelledResult
from bathyscope.core.text import without_folders
from bathyscope.errors import ModelError, OptionError
from bathyscope.labels import Table, labelled
from bathyscope.model import AnyModel, Model, alone, loaded
from bathyscope.statistics.sampling import Sampling
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import BoundaryReader

Ids = Sequence[int]


@contextmanager
def lent(model: AnyModel, texts: str) -> Iterator[Model]:
    """Lend a model with a tokenizer, alone, for as long as it is probed.

    Args:
        texts: what is given as text, with its verb, such as "Words are".

    Raises:
        ModelError: it cannot be loaded, or has no tokenizer.
    """
    with alone(model):
        ready = loaded(model)
        if ready.tokenizer is None:
            raise ModelError(f"{texts} text, and this model has no tokenizer; load it with tokenizer=.")
        yield ready


def batches(model: Model, prompts: Sequence[Ids], progress: bool) -> Iterator[tuple[Wavefront, Batch, list[int]]]:
    """Yield batches of prompts of about one length, what they run in, and the numbers of their prompts."""
    wave = Wavefront(model.anatomy, tails=model.checks.tails)
    lengths = [len(ids) for ids in prompts]
    with ProgressBar(f"probing {without_folders(model.name)}", sum(lengths), quiet=not progress) as bar:
        for picked in plan_batches(lengths, 1, wave.policy.tokens, model.anatomy.equal_lengths):
            yield wave, Batch.of([prompts[i] for i in picked], model.device), list(picked)
            bar.advance(sum(lengths[i] for i in picked))


def require_room(model: Model, tokens: int, window: int) -> None:
    """An OptionError where prompts of this many tokens, which a window makes, do not fit into a model's context."""
    if model.max_tokens is not None and tokens > model.max_tokens:
        raise OptionError(
            f"window={window} gives prompts of {tokens} tokens, and {model.name} takes {model.max_tokens}; give a "
            "smaller window."
        )


def token_states(model: Model, prompts: Sequence[Ids], positions: Sequence[int], progress: bool) -> Tensor:
    """h_b of the token at each prompt's position, [prompts, boundaries, width]; nothing else is kept."""
    states = torch.empty(len(prompts), model.n_blocks + 1, model.anatomy.width)

    for wave, batch, picked in batches(model, prompts, progress):
        probe = BoundaryReader.of_tokens([(row, positions[i]) for row, i in enumerate(picked)], model.device)
        wave.run(batch, [probe])
        # In float32 on the host, where scikit-learn fits.
        states[picked] = torch.stack(probe.taken, dim=1).float().cpu()
    return states


@dataclass(frozen=True)
class Finding:
    """What every probe gives: its table, and how it is put in a sentence, in rows and in a figure."""

    table: Table
    conclude: Callable[[xr.Dataset], str]
    tabulate: Callable[[xr.Dataset], pd.DataFrame]
    figure: str

    def result(
        self, values: Mapping[str, Any], coords: Mapping[str, Any], model: Model, sampling: Sampling, **attrs: object
    ) -> LabelledResult:
        """Label the values of a model; ``attrs`` say how they were found."""
        data = labelled(self.table, values, coords, percent=f"{100 * sampling.level:g} %")
        data.attrs |= {"model": model.name, **attrs}
        return LabelledResult(data, self.conclude(data), self.tabulate, figure=self.figure)
