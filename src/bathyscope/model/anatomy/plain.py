"""Short forwards of a model as it stands, on token ids that every vocabulary has."""

from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError, is_out_of_memory

_NO_FORWARD = "It must run on input_ids alone; if it does elsewhere, try another dtype or attention implementation."
_FAILURES = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, NotImplementedError, AssertionError)


def probe_ids(model: nn.Module, rows: int, tokens: int) -> Tensor:
    """Return token ids [rows, tokens] that count up and begin again, from 1 to 7 where the vocabulary has as many."""
    entries = vocabulary(model)
    ids = torch.arange(rows * tokens, device=home_of(model)).reshape(rows, tokens)
    return ids % 7 + 1 if entries > 7 else ids % entries


def home_of(model: nn.Module) -> torch.device:
    """Return the device of token ids and the residual stream: that of the weights, of the first where they differ.

    Blocks may be elsewhere, or nowhere until they are lent. It is meta where a model has no weights at all.
    """
    devices: list[torch.device] = []
    for parameter in model.parameters():
        # the first parameter of a model in memory settles it: the others are not asked
        if parameter.device.type != "meta":
            return parameter.device
        devices.append(parameter.device)
    return devices[0]


def where_float64_is_known(device: torch.device) -> torch.device:
    """Return the device itself, or the CPU where the device has no float64."""
    return device if device.type in ("cpu", "cuda") else torch.device("cpu")


def vocabulary(model: nn.Module) -> int:
    """Return how many token ids the embedding takes."""
    return int(token_table(model).weight.shape[0])  # type: ignore[index]


def token_table(model: nn.Module) -> nn.Module:
    """Return the embedding of token ids; models of sound list one for each codebook, of which text alone has one."""
    table: nn.Module = model.get_input_embeddings()  # type: ignore[operator]
    return table[0] if isinstance(table, nn.ModuleList) else table


@torch.no_grad()
def plain_forward(model: nn.Module, ids_BT: Tensor, name: str) -> Any:
    """Run the model's own forward without a cache; ``name`` is its family's, for messages."""
    try:
        return model(input_ids=ids_BT, use_cache=False)
    except _FAILURES as error:
        if is_out_of_memory(error):
            raise
        raise ModelError(
            f"{name} ({type(model).__name__}): the model's own forward of {ids_BT.shape[1]} tokens fails with "
            f"{type(error).__name__}: {' '.join(str(error).split())[:300]}. "
            f"{_mixed_dtypes(model, error) or _NO_FORWARD}"
        ) from error


def _mixed_dtypes(model: nn.Module, error: BaseException) -> str:
    """Say which dtypes the weights of a model have, where an error is of dtypes; empty where they have one."""
    first_by_dtype: dict[torch.dtype, str] = {}
    for path, parameter in model.named_parameters():
        if parameter.is_floating_point():
            first_by_dtype.setdefault(parameter.dtype, path)
    if len(first_by_dtype) < 2 or "dtype" not in str(error):
        return ""
    places = [f"{str(dtype).removeprefix('torch.')} from {path} on" for dtype, path in first_by_dtype.items()]
    return f"Its weights have several dtypes ({', '.join(places)}); convert all to one, as by model.float()."


def logits_of(out: Any) -> Tensor:
    """Return the logits of a model's output, which is a tuple where the configuration asks for one."""
    logits: Tensor = out[0] if isinstance(out, tuple) else out.logits
    return logits


def is_unpacked(hf: nn.Module) -> bool:
    """Whether all weights are plain floating-point numbers of two bytes or more, however they were stored."""
    buffers = dict(hf.named_buffers())
    stored = [buffers[name] for name in hf.state_dict() if name in buffers]
    # packed weights are matrices of whole numbers; single numbers and lists count positions or calls
    packed = [value for value in stored if value.ndim > 1 and not value.is_floating_point()]
    values = [*hf.parameters(), *(value for value in stored if value.is_floating_point())]
    return not packed and all(value.is_floating_point() and value.element_size() > 1 for value in values)
