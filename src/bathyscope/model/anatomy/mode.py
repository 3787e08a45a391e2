"""The state a model is measured in: evaluation mode, so that dropout never enters a result, and its own order."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Final
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
        with default_settings(), full_precision(), _uncompiled(model), seeded_states(model), plain_outputs(model):
            yield
    finally:
        for module in training:
            module.training = True


_COLLECTING: Final = ("output_router_logits", "output_attentions", "output_hidden_states")
"""Settings under which a forward collects what blocks give on the way, which stubs and single blocks do not."""


@contextmanager
def plain_outputs(model: nn.Module) -> Iterator[None]:
    """Let the configurations of a model ask for logits alone inside, by name; trainings ask for more of experts."""
    plain_settings = {**dict.fromkeys(_COLLECTING, False), "return_dict": True}
    before: list[tuple[Any, str, Any]] = []
    for config in _configurations_of(model):
        for name, value in plain_settings.items():
            own_value = getattr(config, name, None)
            if own_value is not None and own_value != value:
                before.append((config, name, own_value))
                setattr(config, name, value)
    try:
        yield
    finally:
        for config, name, own_value in before:
            setattr(config, name, own_value)


def _configurations_of(model: nn.Module) -> list[Any]:
    """Return every configuration that a module of a model holds, and those inside of it, each once."""
    configs = {id(config): config for module in model.modules() if (config := getattr(module, "config", None))}
    for config in list(configs.values()):
        parts = (getattr(config, name, None) for name in getattr(config, "sub_configs", {}))
        configs |= {id(part): part for part in parts if part is not None}
    return list(configs.values())


def note_initial_state(model: nn.Module, path: str | None) -> None:
    """Note the method of a model that draws a random initial state; None = there is no such method."""
    if path is not None:
        _INITIAL_STATES[model] = path


@contextmanager
def seeded_states(model: nn.Module) -> Iterator[None]:
    """Draw the initial state of a looped model from ``config.state_seed`` inside, where the configuration has one."""
    path, seed = _INITIAL_STATES.get(model), getattr(getattr(model, "config", None), "state_seed", None)
    owner_path, _, name = (path or "").rpartition(".")
    owner = model.get_submodule(owner_path)
    if path is None or seed is None or name in owner.__dict__:
        yield
        return
    owner.__dict__[name] = SeededDraws(getattr(owner, name), int(seed))
    try:
        yield
    finally:
        del owner.__dict__[name]


class SeededDraws:
    """Draws a state token by token, each from a seed of its own, so that it depends on neither batch nor length.

    Args:
        draw: the model's own method, from an embedding [rows, tokens, width] to a state of that shape.
        seed: of the first token; the others follow from it.
    """

    def __init__(self, draw: Callable[..., torch.Tensor], seed: int) -> None:
        self._draw, self._seed = draw, seed
        self._tokens: list[torch.Tensor] = []

    def __call__(self, embedded: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return the state of some rows, the same in each."""
        rows, tokens = embedded.shape[:2]
        while len(self._tokens) < tokens:
            with torch.random.fork_rng():
                torch.manual_seed(self._seed * _SEEDS_APART + len(self._tokens))
                self._tokens.append(self._draw(embedded[:1, :1].detach(), *args, **kwargs))
        return torch.cat(self._tokens[:tokens], dim=1).to(embedded).expand(rows, -1, -1).clone()


_SEEDS_APART = 1_000_003
_INITIAL_STATES: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
"""Which method of a model draws a random initial state."""


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
