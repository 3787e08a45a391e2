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
from bathyscope.model.completeness import is_scattered, scattered
from bathyscope.model.streaming.carrying import align
from bathyscope.model.streaming.files import CheckpointFile
from bathyscope.model.streaming.lending import lender_of
from bathyscope.model.streaming.store import BlockStore, Held, InFile, StoredTensor

# what accelerate puts on a model to warn whoever moves it
_WARNINGS = ("to", "cuda", "npu", "xpu", "mlu", "sdaa", "musa")


def store_of(hf: nn.Module) -> BlockStore | None:
    """Return what lends the blocks of a model; None = it is in memory."""
    lenders = (lender_of(module) for module in hf.modules())
    return next((lender for lender in lenders if lender is not None), None)


def is_offloaded(hf: nn.Module) -> bool:
    """Whether accelerate's hooks hold some of the weights elsewhere."""
    return any(True for module in hf.modules() for _ in _offloading(module))


def take_over(hf: nn.Module, blocks: str, window: int | None = None) -> BlockStore:
    """Take over a model from accelerate: its blocks are lent as a whole, everything else comes into memory for good.

    Args:
        blocks: path of the list of blocks; of several lists all, joined by `` + ``.
        window: as for ``BlockStore``.

    Raises:
        ModelError: a tensor of another shape than the configuration's, or a missing file.
    """
    places = _stored_tensors(hf)
    device = _home(hf, places)
    lists = blocks.split(" + ")
    inner = tuple(f"{path}." for path in lists)
    for name in [name for name in places if not name.startswith(inner)]:
        _settle(hf, name, places.pop(name), device)
    paths = [f"{path}.{name}" for path in lists for name, _ in hf.get_submodule(path).named_children()]
    listed = [hf.get_submodule(path) for path in paths]
    inside = [
        {name.removeprefix(f"{path}."): stored for name, stored in places.items() if name.startswith(f"{path}.")}
        for path in paths
    ]
    for module in hf.modules():
        if any(True for _ in _offloading(module)):
            _take_off(module)
    for block, tensors in zip(listed, inside):
        in_place = all(tensor.device == device for tensor in (*block.parameters(), *block.buffers()))
        # a block on another device still needs a hook that carries its arguments there; elsewhere the hooks that remain
        # would pass copies of dictionaries on, into which a block would write shared keys and values in vain
        for module in block.modules() if tensors or in_place else ():
            _take_off(module)
    for name in _WARNINGS:
        hf.__dict__.pop(name, None)
    # blocks that accelerate has left in memory are mapped from their file
    align(hf)
    for path in lists:
        _refuse_what_needs_weights(hf, path)
    return BlockStore(tuple(listed), paths, inside, device, window)


def _refuse_what_needs_weights(hf: nn.Module, blocks: str) -> None:
    """Refuse to move, cast or save a model whose weights are elsewhere, before any of its tensors has moved."""
    names = blocks.split(".")
    around = [hf.get_submodule(".".join(names[:count])) for count in range(len(names) + 1)]
    # torch moves and casts module by module through _apply, from whichever module it is asked at
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
    """Yield accelerate's hooks of a module that hold its weights elsewhere."""
    hook: Any = module.__dict__.get("_hf_hook")
    for offloading in getattr(hook, "hooks", (hook,)):
        if getattr(offloading, "offload", False) and getattr(offloading, "weights_map", None) is not None:
            yield offloading


def _stored_tensors(hf: nn.Module) -> dict[str, StoredTensor]:
    """Return the tensors that are not in memory, by name, and where they are stored."""
    files: dict[Path, CheckpointFile] = {}
    places: dict[str, StoredTensor] = {}
    for path, module in hf.named_modules():
        for hook in _offloading(module):
            for last, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None and tensor.device.type == "meta":
                    name = f"{path}.{last}" if path else last
                    places[name] = _stored(hook.weights_map, last, files)
                    _require_shape(name, tensor, places[name])
    return places


def _stored(weights: Mapping[str, Tensor], name: str, files: dict[Path, CheckpointFile]) -> StoredTensor:
    """Return where accelerate stores a weight: in a safetensors file, or wherever it finds it by itself."""
    # its maps are views with a prefix on one loader, which knows either a tensor in memory or a place in a file
    owner: Any = getattr(weights, "dataset", weights)
    full = f"{getattr(weights, 'prefix', '')}{name}"
    entry = {} if full in getattr(owner, "state_dict", {}) else getattr(owner, "index", {}).get(full, {})
    if entry.get("safetensors_file") is None:
        return Held(partial(weights.__getitem__, name))
    path = Path(entry["safetensors_file"])
    if path not in files:
        files[path] = CheckpointFile(path)
    return InFile(files[path], entry.get("weight_name", full))


def _require_shape(name: str, expected: Tensor, stored: StoredTensor) -> None:
    if not isinstance(stored, InFile):
        return
    place = stored.file.places.get(stored.name)
    if place is None:
        raise ModelError(f"{stored.file.path} holds no {stored.name}, which should be {name}.")
    if place.shape != tuple(expected.shape):
        if is_scattered(place.shape):
            raise ModelError(scattered(str(stored.file.path.parent)))
        in_file, configured = ("×".join(map(str, shape)) for shape in (place.shape, expected.shape))
        raise ModelError(
            f"{stored.file.path.parent} does not fit its configuration: {name} is {in_file} in the file and "
            f"{configured} by the configuration; config.json belongs to another checkpoint."
        )


def _home(hf: nn.Module, places: Mapping[str, StoredTensor]) -> torch.device:
    """Return the device on which accelerate would have run the blocks."""
    for module in hf.modules():
        for hook in _offloading(module):
            if hook.execution_device is not None:
                device = hook.execution_device
                return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    return next((p.device for n, p in hf.named_parameters() if n not in places), torch.device("cpu"))


def _settle(hf: nn.Module, name: str, stored: StoredTensor, device: torch.device) -> None:
    """Bring a tensor outside the blocks into memory for good; modules that share it share it again."""
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
    """Take accelerate's hook off a module, and leave weights where they are; its own removal would bring them back."""
    if module.__dict__.pop("_hf_hook", None) is not None:
        module.__dict__["forward"] = module.__dict__.pop("_old_forward")
        # a bound method of its class needs no place of its own
        if getattr(module.forward, "__func__", None) is type(module).forward:
            del module.__dict__["forward"]
