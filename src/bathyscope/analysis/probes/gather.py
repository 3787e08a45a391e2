"""Vectors of chosen tokens, collected while the wavefront's plain forward passes over many short prompts."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bathyscope.core.progress import ProgressBar
from bathyscope.core.text import without_folders
from bathyscope.errors import OptionError
from bathyscope.model import Model
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import BoundaryReader

Ids = Sequence[int]


def run_batches(
    model: Model, prompts: Sequence[Ids], observe: Callable[[Wavefront, Batch, Sequence[int]], None], progress: bool
) -> None:
    """Batches of prompts of about one length, in turn; ``observe`` runs one, and is told the numbers of its prompts."""
    wave = Wavefront(model.anatomy, tails=model.checks.tails)
    lengths = [len(ids) for ids in prompts]
    with ProgressBar(f"probing {without_folders(model.name)}", sum(lengths), quiet=not progress) as bar:
        for picked in plan_batches(lengths, 1, wave.policy.tokens, model.anatomy.equal_lengths):
            observe(wave, Batch.of([prompts[i] for i in picked], model.device), picked)
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

    def observe(wave: Wavefront, batch: Batch, picked: Sequence[int]) -> None:
        probe = BoundaryReader.of_tokens([(row, positions[i]) for row, i in enumerate(picked)], model.device)
        wave.run(batch, [probe])
        # In float32 on the host, where scikit-learn fits.
        states[list(picked)] = torch.stack(probe.taken, dim=1).float().cpu()

    run_batches(model, prompts, observe, progress)
    return states
