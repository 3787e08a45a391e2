"""Models that accelerate keeps partly on disk or on the host: their blocks are taken over, and lent as a whole.

accelerate reads the weights of every layer whenever the layer is called, which a survey does many times in one visit of
a block. It knows where each weight is, under the names that transformers gave them; that knowledge is taken over, and
its hooks are taken off.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.streaming.files import CheckpointFile
from bathyscope.model.streaming.lending import lender_of
from bathyscope.model.streaming.store import BlockStore, Held, InFile, Stored

# what accelerate puts on a model to warn whoever moves it
_WARNINGS = ("to", "cuda", "npu", "xpu", "mlu", "sdaa", "musa")


def store_of(hf: nn.Module) -> BlockStore | None:
    """What lends the blocks of a model; None = it is in memory."""
    found = (lender_of(module) for module in hf.modules())
    return next((lender for lender in found if lender is not None), None)


def is_offloaded(hf: nn.Module) -> bool:
    """Some weights are kept elsewhere by accelerate's hooks."""
    return any(True for module in hf.modules() for _ in _offloading(module))


def take_over(hf: nn.Module, blocks: str, window: int | None = None) -> BlockStore:
    """Has a model's blocks lent as a whole, and brings what lies outside of them into memory for good.

    Args:
        blocks: path of the list of blocks.
        window: as for ``BlockStore``.

    Raises:
        ModelError: a tensor of another shape than the configuration's, or a file that is gone.
    """
    kept = _kept(hf)
    device = _home(hf, kept)
    listed = hf.get_submodule(blocks)
    for name in [name for name in kept if not name.startswith(f"{blocks}.")]:
        _settle(hf, name, kept.pop(name), device)
    paths = [f"{blocks}.{name}" for name, _ in listed.named_children()]
    inside = [
        {name.removeprefix(f"{path}."): stored for name, stored in kept.items() if name.startswith(f"{path}.")}
        for path in paths
    ]
    for module in hf.modules():
        if any(True for _ in _offloading(module)):
            _take_off(module)
    for block, own in zip(listed.children(), inside):
        # what remains of accelerate hands copies of dictionaries on, into which a block would write in vain
        here = all(tensor.device == device for tensor in (*block.parameters(), *block.buffers()))
        for module in block.modules() if own or here else ():
            _take_off(module)
    for name in _WARNINGS:
        hf.__dict__.pop(name, None)
    _refuse_what_needs_weights(hf, blocks)
    return BlockStore(tuple(listed.children()), paths, inside, device, window)


def _refuse_what_needs_weights(hf: nn.Module, blocks: str) -> None:
    """Whoever moves, casts or saves the model is told that weights are elsewhere, before any other has moved."""
    names = blocks.split(".")
    around = [hf.get_submodule(".".join(names[:count])) for count in range(len(names) + 1)]
    for module in (*around, *around[-1].children()):
        module.__dict__["_apply"] = _refuse_move
    for name in ("save_pretrained", "push_to_hub"):
        hf.__dict__[name] = _refuse_saving


def _refuse_move(*_: object, **__: object) -> NoReturn:
    raise ModelError(
        "A model whose blocks are streamed can be neither moved nor cast (half, to, cuda, …), since its weights are "
        "not in memory; load it with the dtype and device that it should have (bathyscope.load(..., dtype='float16', "
        "device='cuda')), or with placement='resident'."
    )


def _refuse_saving(*_: object, **__: object) -> NoReturn:
    raise ModelError(
        "A model whose blocks are streamed cannot be saved by save_pretrained or push_to_hub, since its weights are "
        "not in memory; copy the files that it was loaded from, write it with its blocks in another order by "
        "bathyscope.export, or load it with placement='resident'."
    )


def _offloading(module: nn.Module) -> Iterator[Any]:
    """accelerate's hooks of a module that keep its weights elsewhere."""
    hook: Any = module.__dict__.get("_hf_hook")
    for one in getattr(hook, "hooks", (hook,)):
        if getattr(one, "offload", False) and getattr(one, "weights_map", None) is not None:
            yield one


def _kept(hf: nn.Module) -> dict[str, Stored]:
    """Tensors that are not in memory, by name, and where they are kept."""
    files: dict[Path, CheckpointFile] = {}
    found: dict[str, Stored] = {}
    for path, module in hf.named_modules():
        for hook in _offloading(module):
            for last, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None and tensor.device.type == "meta":
                    name = f"{path}.{last}" if path else last
                    found[name] = _stored(hook.weights_map, last, files)
                    _require_shape(name, tensor, found[name])
    return found


def _stored(weights: Mapping[str, Tensor], name: str, files: dict[Path, CheckpointFile]) -> Stored:
    """Where accelerate keeps a weight: in a safetensors file, or wherever it finds it by itself."""
    owner: Any = getattr(weights, "dataset", weights)
    full = f"{getattr(weights, 'prefix', '')}{name}"
    told = {} if full in getattr(owner, "state_dict", {}) else getattr(owner, "index", {}).get(full, {})
    if told.get("safetensors_file") is None:
        return Held(partial(weights.__getitem__, name))
    path = Path(told["safetensors_file"])
    if path not in files:
        files[path] = CheckpointFile(path)
    return InFile(files[path], told.get("weight_name", full))


def _require_shape(name: str, wanted: Tensor, stored: Stored) -> None:
    if not isinstance(stored, InFile):
        return
    place = stored.file.places.get(stored.name)
    if place is None:
        raise ModelError(f"{stored.file.path} holds no {stored.name}, which should be {name}.")
    if place.shape != tuple(wanted.shape):
        there, here = ("×".join(map(str, shape)) for shape in (place.shape, wanted.shape))
        raise ModelError(
            f"{stored.file.path.parent} does not fit its configuration: {name} is {there} in the file and {here} by "
            "the configuration; config.json belongs to another checkpoint."
        )


def _home(hf: nn.Module, kept: Mapping[str, Stored]) -> torch.device:
    """Where blocks run: where accelerate would have run them."""
    for module in hf.modules():
        for hook in _offloading(module):
            if hook.execution_device is not None:
                device = hook.execution_device
                return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    return next((p.device for n, p in hf.named_parameters() if n not in kept), torch.device("cpu"))


def _settle(hf: nn.Module, name: str, stored: Stored, device: torch.device) -> None:
    """A tensor outside of the blocks comes into memory and stays; modules that share it share it again."""
    owner, _, last = name.rpartition(".")
    module = hf.get_submodule(owner)
    absent = module._parameters.get(last, module._buffers.get(last))
    assert absent is not None
    host = torch.empty(absent.shape, dtype=absent.dtype)
    if stored.file is None:
        stored.read(host, None)
    else:
        with stored.file.reading() as stream:
            stored.read(host, stream)
    tensor = host.to(device)
    settled = nn.Parameter(tensor, absent.requires_grad) if isinstance(absent, nn.Parameter) else None
    for other in hf.modules():
        for key in [key for key, value in other._parameters.items() if value is absent]:
            other._parameters[key] = settled
        for key in [key for key, value in other._buffers.items() if value is absent]:
            other._buffers[key] = tensor


def _take_off(module: nn.Module) -> None:
    """Without bringing back what the hook had moved away, which is what accelerate's own removal does."""
    if module.__dict__.pop("_hf_hook", None) is not None:
        module.__dict__["forward"] = module.__dict__.pop("_old_forward")
        # a bound method of its class needs no place of its own
        if getattr(module.forward, "__func__", None) is type(module).forward:
            del module.__dict__["forward"]
