"""Vectors of chosen tokens, collected while the wavefront's plain forward passes over many short prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bathyscope.model import Model
from bathyscope.progress import ProgressBar
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.probe import BaselineView, Probe

Ids = Sequence[int]


class TokenStates(Probe):
    """h_b of one token of every prompt, at all boundaries: ``states`` [prompts, boundaries, width] in float32."""

    def __init__(self, batch: Batch, positions: Sequence[int]) -> None:
        super().__init__()
        places = torch.tensor([list(range(batch.size)), list(positions)]).to(batch.ids_BT.device)
        self._prompts, self._positions = places.unbind()
        self._taken: list[Tensor] = []

    def baseline(self, view: BaselineView) -> None:
        for resid_BTD in (view.before_BTD, view.after_BTD) if view.block == 0 else (view.after_BTD,):
            self._taken.append(resid_BTD[self._prompts, self._positions].float())

    @property
    def states(self) -> Tensor:
        """What was taken."""
        return torch.stack(self._taken, dim=1).cpu()


def run_batches(
    model: Model,
    prompts: Sequence[Ids],
    observe: Callable[[Wavefront, Batch, Sequence[int]], None],
    progress: bool,
) -> None:
    """Batches of prompts of about one length, in turn.

    Args:
        observe: runs one batch; is told the numbers of its prompts.
    """
    wave = Wavefront(model.anatomy, tails=model.checks.tails)
    lengths = [len(ids) for ids in prompts]
    equal = model.anatomy.equal_lengths
    done = 0.0
    with ProgressBar(f"probing {model.name}", sum(lengths), quiet=not progress) as bar:
        for picked in plan_batches(lengths, 1, wave.policy.tokens, equal):
            observe(wave, Batch.of([prompts[i] for i in picked], model.device), picked)
            done += sum(lengths[i] for i in picked)
            bar.advance_to(done)


def token_states(model: Model, prompts: Sequence[Ids], positions: Sequence[int], progress: bool) -> Tensor:
    """h_b of the token at each prompt's position, [prompts, boundaries, width]; nothing else is kept."""
    states = torch.empty(len(prompts), model.n_blocks + 1, model.anatomy.width)

    def observe(wave: Wavefront, batch: Batch, picked: Sequence[int]) -> None:
        probe = TokenStates(batch, [positions[i] for i in picked])
        wave.run(batch, [probe])
        states[list(picked)] = probe.states

    run_batches(model, prompts, observe, progress)
    return states
