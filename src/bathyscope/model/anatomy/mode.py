"""The state a model is measured in: evaluation mode, so that dropout never enters a result, and its own order."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from bathyscope.errors import ModelError

_RUNNING: WeakKeyDictionary[nn.Module, tuple[str, bool]] = WeakKeyDictionary()
"""What order of its blocks a model runs, and whether it can go on from a cache."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Keep all modules in evaluation mode and uncompiled inside, and products of float32 in float32; then as before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with default_settings(), full_precision(), _uncompiled(model):
            yield
    finally:
        for module in training:
            module.training = True


def _uncompiled(model: nn.Module) -> AbstractContextManager[object]:
    """Run compiled modules as they are written: compiled ones show nothing of what they call."""
    for module in model.modules():
        of_its_own = hasattr(module.__dict__.get("forward"), "_torchdynamo_orig_callable")
        if of_its_own or module.__dict__.get("_compiled_call_impl") is not None:
            stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
            return stance
    return nullcontext()


_AUTOCAST_DEVICES = ("cpu", "cuda", "mps", "xpu")


@contextmanager
def default_settings() -> Iterator[None]:
    """Run without the caller's autocast and default device, which would change dtypes and places of new tensors."""
    with ExitStack() as stack:
        for device in _AUTOCAST_DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        # the context slows every call of torch a little, so it is entered only where it changes something
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute products of float32 with all of its digits, whatever the caller allows (TF32 keeps 10 bits, bfloat16 7).

    Torch has two sets of names for this setting. Both are set, since it raises errors where they contradict each other.
    """
    backends: Any = torch.backends
    places: list[tuple[Any, str, Any]] = [(backends.cudnn, "allow_tf32", False)]
    if hasattr(backends.cuda.matmul, "fp32_precision"):
        kinds = (backends.cuda.matmul, backends.mkldnn.matmul, backends.cudnn.conv, backends.cudnn.rnn)
        places += [(kind, "fp32_precision", "ieee") for kind in kinds]
    else:  # torch before 2.9
        places.append((backends.cuda.matmul, "allow_tf32", False))
    products = read_setting(torch.get_float32_matmul_precision)
    before = [read_setting(partial(getattr, owner, name)) for owner, name, _ in places]
    try:
        torch.set_float32_matmul_precision("highest")
        for owner, name, value in places:
            setattr(owner, name, value)
        yield
    finally:
        if products is not None:
            torch.set_float32_matmul_precision(products)
        for (owner, name, _), value in zip(places, before):
            if value is not None:
                setattr(owner, name, value)


def read_setting(read: Callable[[], Any]) -> Any:
    """Read a setting of torch; None where the caller has left its two names in contradiction."""
    try:
        return read()
    except RuntimeError:
        return None


@contextmanager
def running(model: nn.Module, schedule: str, *, cached: bool) -> Iterator[None]:
    """Note that the model's own forward runs another order of its blocks inside; ``cached``: it can use a cache."""
    _RUNNING[model] = schedule, cached
    try:
        yield
    finally:
        del _RUNNING[model]


def runs_schedule(model: nn.Module) -> bool:
    """Whether the model's own forward runs another order of its blocks at the moment."""
    return model in _RUNNING


def goes_on_from_a_cache(model: nn.Module) -> bool:
    """Whether the model, in the order that it runs at the moment, can write text on a cache."""
    return model not in _RUNNING or _RUNNING[model][1]


def require_own_order(model: nn.Module) -> None:
    """Refuse to measure a model while its forward runs another order of its blocks."""
    if model in _RUNNING:
        raise ModelError(
            f"This model runs a schedule at the moment ({_RUNNING[model][0]}); survey the model outside of scheduled()."
        )
