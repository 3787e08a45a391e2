"""A model without weights, from its configuration alone, on the meta device."""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model.classes import class_for
from bathyscope.model.load_errors import joined, of_other_inputs


def build_outline(name: str, config: Any, dtype: torch.dtype, trust_remote_code: bool = False) -> PreTrainedModel:
    """Return a model's modules without their weights.

    Args:
        name: of the model, for messages.

    Raises:
        ModelError: the configuration is of no causal language model.
    """
    try:
        with torch.device("meta"):
            hf: PreTrainedModel = class_for(config).from_config(
                config, dtype=dtype, trust_remote_code=trust_remote_code
            )
    # a class of models may raise anything on what a configuration says
    except Exception as error:
        reason = joined(str(error))
        built = f"{name} is no causal language model that can be built: {reason}"
        raise ModelError(of_other_inputs(name, error) or built) from error
    _leave_memory(hf)
    return hf.eval()


def _leave_memory(hf: nn.Module) -> None:
    """Put weights on the meta device that were built in memory all the same, as legacy constructors do (XLNet)."""
    for module in hf.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.device.type != "meta":
                module._parameters[name] = nn.Parameter(parameter.to("meta"), requires_grad=False)
