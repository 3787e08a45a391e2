"""What trained models do and random ones never: an attention sink and a massive activation, wired by hand.

The position table marks the first position in a channel of its own. Block ``WRITER`` reads the mark and writes a
vector of norm ``SIZE`` at that position alone, in a second channel. Heads of the blocks behind it look for that
channel, find it at the first position, and take next to nothing from there. Block ``CANCELLER`` reads the channel and
takes the vector away. All else is as random as in any model of the zoo.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from support.zoo.classic import GPT2_NAMES
from support.zoo.entry import TIED, WIDTH, Entry, config
from torch import nn

MARK, MASSIVE = 0, 1
WRITER, CANCELLER = 1, 4
READERS = (2, 3)
SINK_HEADS = 2
SIZE: Final = 400.0
_HEAD_WIDTH = WIDTH // 4
_NEURON = 0
_FIRES_FROM = 2.0
"""Of a normalised channel; the marked one is above 5, all others of all tokens are below 1."""


def wire(model: nn.Module) -> None:
    """Change a random GPT-2 into one with a sink and a massive activation."""
    gpt: Any = model
    trunk = gpt.transformer
    with torch.no_grad():
        for table in (trunk.wte.weight, trunk.wpe.weight):
            table[:, [MARK, MASSIVE]] = 0.0
        trunk.wpe.weight[0, MARK] = 4.0
        for block in trunk.h:
            for norm in (block.ln_1, block.ln_2):
                norm.weight[[MARK, MASSIVE]] = 1.0
                norm.bias[[MARK, MASSIVE]] = 0.0
            for written in (block.attn.c_proj, block.mlp.c_proj):
                written.weight[:, [MARK, MASSIVE]] = 0.0
                written.bias[[MARK, MASSIVE]] = 0.0
        # what the neuron gives is measured on the model itself: the norm makes of the mark whatever the rest leaves
        _detect(trunk.h[WRITER], MARK)
        trunk.h[WRITER].mlp.c_proj.weight[_NEURON, MASSIVE] = SIZE / _activation(gpt, WRITER)
        for block in READERS:
            _attend_to_massive(trunk.h[block])
        _detect(trunk.h[CANCELLER], MASSIVE)
        trunk.h[CANCELLER].mlp.c_proj.weight[_NEURON, MASSIVE] = -SIZE / _activation(gpt, CANCELLER)


def _detect(block: Any, channel: int) -> None:
    """The neuron that fires where a normalised channel is above the threshold, and writes nothing yet."""
    block.mlp.c_fc.weight[:, _NEURON] = 0.0
    block.mlp.c_fc.weight[channel, _NEURON] = 4.0
    block.mlp.c_fc.bias[_NEURON] = -4.0 * _FIRES_FROM
    block.mlp.c_proj.weight[_NEURON, :] = 0.0


def _attend_to_massive(block: Any) -> None:
    """Some heads ask the same of every token: where is the massive channel? Its values are not read."""
    weight, bias = block.attn.c_attn.weight, block.attn.c_attn.bias
    for head in range(SINK_HEADS):
        query = head * _HEAD_WIDTH
        key = WIDTH + query
        weight[:, query] = 0.0
        bias[query] = 8.0
        weight[:, key] = 0.0
        weight[MASSIVE, key] = 2.0
        bias[key] = 0.0
    weight[MASSIVE, 2 * WIDTH :] = 0.0


def _activation(gpt: Any, block: int) -> float:
    """What the neuron gives at the first position."""
    seen: list[torch.Tensor] = []
    handle = gpt.transformer.h[block].mlp.act.register_forward_hook(lambda _, __, output: seen.append(output))
    try:
        gpt(torch.tensor([[5, 6, 7]]), use_cache=False)
    finally:
        handle.remove()
    return float(seen[0][0, 0, _NEURON])


ENTRIES = (
    Entry(
        "gpt2_sink",
        "gpt2",
        config("gpt2", GPT2_NAMES, TIED),
        "an attention sink and a massive activation at the first position",
        wire=wire,
    ),
)
