"""The state in which gradients are taken: recorded by autograd, in evaluation mode, none for the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from bathyscope.anatomy.mode import evaluating


@contextmanager
def differentiating(model: nn.Module) -> Iterator[None]:
    """Autograd records inside, whatever the caller's grad mode, but computes nothing for the weights.

    Afterwards, also after an exception, the modules' modes and the weights' ``requires_grad`` are as they were.
    """
    learning = [p for p in model.parameters() if p.requires_grad]
    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        try:
            for parameter in learning:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in learning:
                parameter.requires_grad_(True)
