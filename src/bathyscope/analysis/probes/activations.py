"""Activations of chosen neurons at the last token of every prompt, and the model's own guess of the next token."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor, nn

from bathyscope.analysis.probes.skeleton import batches
from bathyscope.model import Model
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.neurons import OutputWeights
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import FinalStates

Place = tuple[int, int]


class _LastToken(Probe):
    """The most likely next token after every prompt."""

    def finish(self, final: FinalStates) -> None:
        self.top1_B = final.reader.top1(final.baseline_BTD[:, -1]).cpu()


def last_activations(
    model: Model,
    weights: Sequence[Sequence[OutputWeights]],
    neurons: Sequence[Place],
    prompts: Sequence[Sequence[int]],
    progress: bool,
) -> tuple[Tensor, Tensor]:
    """Activations [prompts, neurons] at each prompt's last token in float32, and the top-1 next token [prompts].

    Neurons are places of visible ones, and all prompts have one length.
    """
    activations = torch.empty(len(prompts), len(neurons))
    top1 = torch.empty(len(prompts), dtype=torch.long)

    for wave, batch, picked in batches(model, prompts, progress):
        probe, taken = _LastToken(), torch.full((batch.size, len(neurons)), torch.nan)
        with ExitStack() as stack:
            for module, columns, places in _sources(weights, neurons):
                stack.enter_context(called([("", module)], partial(_read, taken, columns, places)))
            wave.run(batch, [probe])
        activations[picked] = taken
        top1[picked] = probe.top1_B
    return activations, top1


def _sources(
    weights: Sequence[Sequence[OutputWeights]], neurons: Sequence[Place]
) -> Iterator[tuple[nn.Module, list[int], list[int]]]:
    """Modules, their inputs that are wanted, and the place of each in the list of neurons."""
    for block, groups in enumerate(weights):
        # Neurons of a block are counted through all its MLPs (experts), in the order of its groups.
        starts = accumulate((group.neurons for group in groups), initial=0)
        for group, start in zip(groups, starts):
            columns = {
                place: neuron - start
                for place, (neuron_block, neuron) in enumerate(neurons)
                if neuron_block == block and start <= neuron < start + group.neurons
            }
            if columns:
                yield group.owner, list(columns.values()), list(columns)


def _read(taken: Tensor, columns: list[int], places: list[int], call: Call) -> None:
    """Puts the last token's activations in their places of [prompts, neurons]."""
    inputs: Tensor = next(iter(call.bound.values()))
    # some families hand all tokens of all prompts over in one axis
    taken[:, places] = inputs.reshape(len(taken), -1, inputs.shape[-1])[:, -1, columns].float().cpu()
