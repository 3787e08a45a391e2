"""A device that is none: tensors that say they are on an accelerator, keep CUDA's rules, and count what it would cost.

Values are computed on the CPU, by the same kernels as without it, so that results are those of the CPU to the bit.
What is checked and counted is what only shows on an accelerator: operations on tensors of several devices, and on such
as it has no kernel for (refused as CUDA refuses them), copies from and to the host, moments in which Python waits for
the device, sums whose order is another each time, and launches of kernels.

    with Accelerator() as device:
        model = load(device.moved(hf))
        with device.counted() as found:
            survey(model, ...)
    found.waits

It must be imported before the process asks for its first gradient, so at the head of a test's file.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from bathyscope.model.anatomy.replay import Replay
from bathyscope.wavefront import engine

KIND = "fakegpu"
_ATEN = torch.ops.aten
_COPIES = {_ATEN._to_copy.default, _ATEN.copy_.default}
_INDEXING = {
    *(_ATEN.index.Tensor, _ATEN._unsafe_index.Tensor, _ATEN.index_put.default, _ATEN.index_put_.default),
    _ATEN._index_put_impl_.default,
}
_WAITING = {
    *(_ATEN._local_scalar_dense.default, _ATEN.nonzero.default, _ATEN.masked_select.default, _ATEN.equal.default),
    *(_ATEN._unique2.default, _ATEN.unique_dim.default, _ATEN.unique_consecutive.default),
    *(_ATEN.repeat_interleave.Tensor, _ATEN.bincount.default, _ATEN._linalg_check_errors.default),
    *(_ATEN.linalg_eigvalsh.default, _ATEN.linalg_lstsq.default, _ATEN.multinomial.default),
}
"""Operations whose result, or its size, the host must know before it goes on."""
_UNSTEADY = (
    "aten::index_add",
    "aten::scatter_add",
    "aten::scatter_reduce",
    "aten::cumsum",
    "aten::put_",
    "aten::histc",
)
"""Operations whose parts may be added in any order: numbers with fractions come out otherwise each time."""
_PRODUCTS = (
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::mv",
    "aten::addmv",
    "aten::dot",
    "aten::vdot",
)
"""Of numbers with fractions alone, on an accelerator."""
_NO_KERNEL = ("aten::empty", "aten::new_empty", "aten::_unsafe_view", "aten::_local_scalar_dense", "aten::lift")
_ACROSS = ("aten::_foreach", "aten::cat", "aten::stack", "aten::mm", "aten::addmm", "aten::bmm", "aten::index_select")
"""Operations that take no number from the host in a tensor's place."""


class MixedDevicesError(RuntimeError):
    """What CUDA says of tensors on several devices, and of drawing numbers with a generator of another."""


class NoKernelError(RuntimeError):
    """What CUDA says of an operation that it cannot do on numbers of some kind."""


@dataclass
class Counts:
    """What some code asked of the device, by the nearest line of bathyscope, or of a model's own code.

    Args:
        launches: kernels.
        copies_in: from pageable memory of the host.
        copies_out: to the host, each of which is a wait too.
        waits: for the device to have done all it was told.
        in_block: waits of bathyscope's own lines by visit of a block, of one batch; readouts are no visit's.
        out_of_block, into_block: copies of bathyscope's own lines within visits.
        unsteady: sums in any order, by bathyscope's own lines.
    """

    launches: Counter[str] = field(default_factory=Counter)
    copies_in: Counter[str] = field(default_factory=Counter)
    copies_out: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    in_block: Counter[int] = field(default_factory=Counter)
    out_of_block: Counter[str] = field(default_factory=Counter)
    into_block: Counter[str] = field(default_factory=Counter)
    lines_in_block: Counter[str] = field(default_factory=Counter)
    unsteady: Counter[str] = field(default_factory=Counter)

    @property
    def own_launches(self) -> int:
        """Launches by lines of bathyscope; the others are the models'."""
        return sum(count for line, count in self.launches.items() if not line.startswith(_MODEL))


_MODEL = "model: "
_ELSEWHERE = "elsewhere"  # backward passes, whose sums by place have one number each


class OnDevice(torch.Tensor):
    """A tensor on the device; ``host`` holds its values."""

    host: Tensor

    @staticmethod
    def __new__(cls, host: Tensor, device: torch.device | None = None, requires_grad: bool = False) -> Any:
        if device is None:  # accelerate, which copies a parameter by its class
            return host.detach().requires_grad_(requires_grad)
        made: OnDevice = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            layout=host.layout,
            device=device,
        )
        made.host = host
        return made

    def tolist(self) -> Any:
        _note_wait()
        return self.host.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({tuple(self.shape)}, {self.dtype}, {self.device})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class Accelerator(TorchDispatchMode):
    """While it is entered, there are devices ``fakegpu:0``, ``fakegpu:1`` …"""

    def __init__(self) -> None:
        super().__init__()
        self._kernels = _Kernels()

    def __enter__(self) -> Accelerator:
        _BACKEND.entered += 1
        self._lifts = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        self._kernels.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        super().__exit__(*given)
        self._kernels.__exit__(*given)
        torch._C._set_only_lift_cpu_tensors(self._lifts)
        _BACKEND.entered -= 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    @staticmethod
    def moved(model: nn.Module, place: Callable[[str], int] = lambda name: 0) -> Any:
        """The model itself, its tensors on the device.

        Args:
            place: name of a module → index of the device its own tensors go to.
        """
        known: dict[int, Tensor] = {}
        for name, module in model.named_modules():
            device = torch.device(KIND, place(name))
            for table in (module._parameters, module._buffers, module.__dict__):
                for key, value in list(table.items()):
                    if isinstance(value, Tensor):
                        if id(value) not in known:
                            known[id(value)] = _moved(value, device)
                        table[key] = known[id(value)]  # type: ignore[assignment]
        return model

    def spread(self, model: nn.Module, place: Callable[[str], int]) -> Any:
        """The model itself on two devices, with the hooks by which accelerate carries what modules are given.

        Args:
            place: as for ``moved``.
        """
        from accelerate.hooks import AlignDevicesHook, add_hook_to_module

        self.moved(model, place)
        listed = {one for module in model.modules() if isinstance(module, nn.ModuleList) for one in module}
        for name, module in model.named_modules():
            if name and (module in listed or next(module.parameters(recurse=False), None) is not None):
                there = torch.device(KIND, place(name))
                add_hook_to_module(module, AlignDevicesHook(execution_device=there, io_same_device=False))
        return add_hook_to_module(model, AlignDevicesHook(io_same_device=True))

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        """What is asked of the device inside."""
        global _COUNTS
        before, _COUNTS = _COUNTS, Counts()
        visits = itertools.count()
        visit, land = engine._BatchPass.visit, engine._BatchPass._land

        def visited(sweep: Any, number: int, index: int, block: nn.Module) -> None:
            global _BLOCK
            _BLOCK = next(visits)
            try:
                visit(sweep, number, index, block)
            finally:
                _BLOCK = None

        def landed(sweep: Any, **given: Any) -> None:
            global _BLOCK
            _BLOCK = None
            land(sweep, **given)

        engine._BatchPass.visit, engine._BatchPass._land = visited, landed  # type: ignore[method-assign]
        try:
            yield _COUNTS
        finally:
            engine._BatchPass.visit, engine._BatchPass._land = visit, land  # type: ignore[method-assign]
            _COUNTS = before


@contextmanager
def little_memory(tokens: int) -> Iterator[list[int]]:
    """Calls of a block on more than so many tokens are out of memory; gives the sizes of those that were refused."""
    own, refused = Replay.run, []

    def run(replay: Replay, block: nn.Module, index: int, resid_NTD: Tensor, *given: Any, **named: Any) -> Tensor:
        asked = resid_NTD.shape[0] * resid_NTD.shape[1]
        if asked > tokens:
            refused.append(asked)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return own(replay, block, index, resid_NTD, *given, **named)

    Replay.run = run  # type: ignore[method-assign]
    try:
        yield refused
    finally:
        Replay.run = own  # type: ignore[method-assign]


@contextmanager
def little_room(owner: type, name: str, most: int) -> Iterator[list[int]]:
    """A method whose first argument has more than so many rows is out of memory; gives what was refused."""
    own, refused = getattr(owner, name), []

    def method(self: Any, rows: Tensor, *given: Any, **named: Any) -> Any:
        if len(rows) > most:
            refused.append(len(rows))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return own(self, rows, *given, **named)

    setattr(owner, name, method)
    try:
        yield refused
    finally:
        setattr(owner, name, own)


_FUSED = 1


class _Kernels(TorchFunctionMode):
    """Fused attention is one kernel, as on the CPU: torch would take it apart on a device that it does not know."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            tensors = [one for one in tree_leaves((args, given)) if isinstance(one, Tensor)]
            if any(isinstance(one, OnDevice) for one in tensors):
                home = _one_home("scaled_dot_product_attention", tensors, numbers=False)
                if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
                    return _attended(*args, **given)
                _note_launch()
                return OnDevice(func(*tree_map(_host, args), **tree_map(_host, given)), home)
        return func(*args, **given)


def _attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention with gradients, by the kernel that the CPU would choose."""
    attend = torch.nn.functional.scaled_dot_product_attention
    given = [_host(one.detach()).requires_grad_(one.requires_grad) for one in (query, key, value)]
    named = {"scale": scale, "enable_gqa": enable_gqa}
    if torch._fused_sdp_choice(*given, _host(attn_mask), dropout_p, is_causal, **named) != _FUSED:
        return attend(query, key, value, attn_mask, dropout_p, is_causal, **named)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        empty = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = empty.masked_fill_(attn_mask.logical_not(), -torch.inf)
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return fused(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]


_COUNTS = Counts()
_BLOCK: int | None = None


class _Backend:
    """What torch asks of a device's module; outside of ``Accelerator`` there is no such device."""

    entered = 0

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return self.entered > 0

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        pass

    def device_count(self) -> int:
        return 2 if self.entered else 0

    def get_rng_state(self, device: Any = None) -> None:
        pass

    def set_rng_state(self, state: None, device: Any = None) -> None:
        pass


_BACKEND = _Backend()
# once, and before the first gradient of the process, when torch counts the kinds of devices that there are
_setup_privateuseone_for_python_backend(KIND, backend_module=_BACKEND)
# one kernel on every real device; torch takes it apart on those that it does not know
_KERNELS = torch.library.Library("aten", "IMPL")
_KERNELS.impl("silu_backward", lambda *given: _run(_ATEN.silu_backward.default, given, {}), "PrivateUse1")


def _moved(value: Tensor, device: torch.device) -> Tensor:
    there = OnDevice(value.detach(), device)
    return nn.Parameter(there, requires_grad=value.requires_grad) if isinstance(value, nn.Parameter) else there


def _host(value: Any) -> Any:
    return value.host if isinstance(value, OnDevice) else value


def _is_fake(device: Any) -> bool:
    return device is not None and torch.device(device).type == KIND


def _numbered(device: Any) -> torch.device:
    return torch.device(KIND, torch.device(device).index or 0)


def _one_home(name: str, tensors: list[Tensor], *, numbers: bool = True) -> torch.device:
    """The device of an operation, whose tensors must all be there; single numbers may be on the host."""
    homes = {one.device for one in tensors if isinstance(one, OnDevice)}
    strangers = [one for one in tensors if not isinstance(one, OnDevice) and (one.ndim or not numbers)]
    if len(homes) > 1 or strangers:
        found = sorted({str(one.device) for one in tensors})
        raise MixedDevicesError(
            f"{name}: Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(found)}! ({_line()})"
        )
    return homes.pop()


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func._schema.name
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
    there = [one for one in tensors if isinstance(one, OnDevice)]
    asked = kwargs.get("device")
    _require_kernel(name, there, asked, kwargs.get("generator"))
    if func in _COPIES:
        return _copied(func, args, kwargs)
    if not there:
        if not _is_fake(asked):
            return func(*args, **kwargs)
        _note_launch(name, func)
        return OnDevice(func(*args, **{**kwargs, "device": torch.device("cpu")}), _numbered(asked))
    if func in _INDEXING:
        home = _indexed_home(name, args)
    else:
        home = _one_home(name, tensors, numbers=not name.startswith(_ACROSS))
    if func in _WAITING:
        _note_wait()
    _note_launch(name, func)
    given = {key: torch.device("cpu") if key == "device" else _host(value) for key, value in kwargs.items()}
    out = _on_host(func, tree_map(_host, args), tree_map(_host, given))
    if asked is not None and not _is_fake(asked):
        return out
    where = _numbered(asked) if _is_fake(asked) else home
    made = tree_map(lambda one: OnDevice(one, where) if isinstance(one, Tensor) else one, out)
    return return_and_correct_aliasing(func, args, kwargs, made)


def _require_kernel(name: str, there: list[Tensor], asked: Any, generator: torch.Generator | None) -> None:
    """Refuses what only a CPU can do, and counts what it alone does in the same order each time."""
    if generator is not None and (there or _is_fake(asked)) and not _is_fake(generator.device):
        raise MixedDevicesError(f"{name}: expected a generator of another device than {generator.device} ({_line()})")
    if not there:
        return
    fractional = there[0].is_floating_point()
    if name.startswith(_PRODUCTS) and not fractional:
        raise NoKernelError(f"{name} is not implemented for whole numbers on this device ({_line()})")
    # of several rows, each is summed up by threads that know their turn
    ordered = name.startswith("aten::cumsum") and there[0].ndim > 1
    if fractional and name.startswith(_UNSTEADY) and not ordered and not _line().startswith((_MODEL, _ELSEWHERE)):
        _COUNTS.unsteady[_line()] += 1


def _on_host(func: Any, args: Any, kwargs: Any) -> Any:
    if func is _ATEN.histc.default and not args[0].is_floating_point():
        # of whole numbers there is a kernel on accelerators alone
        return func(args[0].float(), *args[1:], **kwargs).to(args[0].dtype)
    return func(*args, **kwargs)


def _indexed_home(name: str, args: Any) -> torch.device:
    """Indices may be on the host, at the cost of a copy; what they index and what is put there may not."""
    own, indices = args[0], [one for one in args[1] if one is not None]
    if not isinstance(own, OnDevice):
        raise MixedDevicesError(f"{name}: indices should be on the same device as the indexed tensor (cpu) ({_line()})")
    put = [args[2]] if len(args) > 2 else []
    masked = [one for one in indices if one.dtype in (torch.bool, torch.uint8)]
    for index in indices:
        if not isinstance(index, OnDevice):
            _note_copy_in()
    # one number at every place of masks is a kernel of its own, which need not know how many places there are
    if masked and not (put and put[0].numel() == 1 and len(masked) == len(indices)):
        _note_wait()
    return _one_home(name, [own, *put, *(one for one in indices if isinstance(one, OnDevice))])


def _copied(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if func is _ATEN.copy_.default:
        target, source = args[:2]
        if isinstance(target, OnDevice) != isinstance(source, OnDevice) and source.ndim + source.numel() > 1:
            _note_copy_out() if isinstance(source, OnDevice) else _note_copy_in()
        elif isinstance(source, OnDevice) and not isinstance(target, OnDevice):
            _note_copy_out()
        _note_launch()
        func(_host(target), _host(source), *args[2:], **kwargs)
        return target
    source, asked = args[0], kwargs.get("device")
    if not isinstance(source, OnDevice) and not _is_fake(asked):
        return func(*args, **kwargs)
    rest = {key: value for key, value in kwargs.items() if key != "device"}
    made = func(_host(source), **rest)
    made = made.clone() if made is _host(source) else made
    if isinstance(source, OnDevice) and asked is not None and not _is_fake(asked):
        _note_copy_out()
        return made
    if not isinstance(source, OnDevice):
        _note_copy_in()
    _note_launch()
    return OnDevice(made, source.device if asked is None else _numbered(asked))


def _line() -> str:
    """The nearest line of bathyscope; of a model where its own code is nearer."""
    frame: Any = sys._getframe(2)
    model = False
    while frame is not None:
        path = frame.f_code.co_filename
        if "/transformers/" in path:
            model = True
        if "/bathyscope/" in path:
            own = f"{path.split('/bathyscope/', 1)[1]}:{frame.f_lineno}"
            return _MODEL + own if model else own
        frame = frame.f_back
    return _ELSEWHERE


def _note_launch(name: str = "", func: Any = None) -> None:
    if func is not None and (func.is_view or name.startswith(_NO_KERNEL)):
        return
    _COUNTS.launches[_line()] += 1


def _note_wait() -> None:
    line = _line()
    _COUNTS.waits[line] += 1
    if _BLOCK is not None and not line.startswith(_MODEL):
        _COUNTS.in_block[_BLOCK] += 1
        _COUNTS.lines_in_block[line] += 1


def _note_copy_out() -> None:
    line = _line()
    _COUNTS.copies_out[line] += 1
    if _BLOCK is not None and not line.startswith(_MODEL):
        _COUNTS.out_of_block[line] += 1
    _note_wait()


def _note_copy_in() -> None:
    line = _line()
    _COUNTS.copies_in[line] += 1
    if _BLOCK is not None and not line.startswith(_MODEL):
        _COUNTS.into_block[line] += 1
