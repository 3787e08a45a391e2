"""Healing: the blocks next to the cuts are trained so that the copy predicts what the whole model predicts.

The loss is KL(whole ‖ copy) over all tokens of the calibration text, in nats a token. Which prompts form a step depends
on the seed and the number of the step alone, and what the optimiser knows is kept in a safetensors file, so that an
interrupted run with a budget of tokens ends in the same weights as one that was not.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.core.atomic import write_atomically
from bathyscope.core.contents import contents_of
from bathyscope.core.foreign import require_regular
from bathyscope.core.interrupts import noted
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided
from bathyscope.errors import OptionError, StoreError
from bathyscope.surgery.scheduled.copying import ScheduledCopy

STATE = "healing.safetensors"
_WARM_UP = 0.05
_CLIP = 1.0
_BETAS = (0.9, 0.95)
_PARTS = ("weight", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Budget:
    """How long a copy is trained: one of the two.

    Args:
        tokens: of the calibration text that are run, again and again if there are fewer.
        minutes: by ``clock``.
    """

    tokens: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        amount = self.tokens or self.minutes or 0
        if (self.tokens is None) == (self.minutes is None) or not 0 < amount < math.inf:
            raise OptionError(
                f"Healing takes a budget of tokens or of minutes, above 0; tokens={self.tokens} and "
                f"minutes={self.minutes} given."
            )

    def done(self, tokens: int, seconds: float) -> float:
        """Return the share that is used up."""
        return tokens / self.tokens if self.tokens else seconds / (60 * (self.minutes or 1.0))


def trained_slots(copy: ScheduledCopy, slots: Sequence[int]) -> list[nn.Parameter]:
    """Give the blocks on both sides of the cuts behind ``slots`` parameters of their own, and return these."""
    neighbours = sorted({place for slot in slots for place in (slot, slot + 1) if place < len(copy.slots)})
    parameters: list[nn.Parameter] = []
    for slot in neighbours:
        for module in copy.slots[slot].modules():
            for name, value in module._parameters.items():
                if value is not None and value.is_floating_point():
                    # A clone, since the copy's tensors are the whole model's own until they are changed.
                    parameter = nn.Parameter(value.detach().clone())
                    module._parameters[name] = parameter
                    parameters.append(parameter)
    return parameters


def heal(
    whole: PreTrainedModel,
    copy: ScheduledCopy,
    slots: Sequence[int],
    batches: Sequence[Sequence[Sequence[int]]],
    budget: Budget,
    *,
    rate: float,
    seed: int,
    identity: Mapping[str, Any],
    folder: Path | None = None,
    save_every: int = 50,
    clock: Callable[[], float] = time.monotonic,
    progress: Callable[[float], None] = lambda _: None,
) -> None:
    """Train a copy's blocks next to its cuts; an interruption ends it after the current step, which is stored.

    Args:
        slots: the last slot before every cut.
        batches: token ids by step and prompt; prompts of one step have one length.
        rate: the highest learning rate.
        identity: what a folder's state must have been made with to be gone on from.
        folder: where the state is kept; None = nowhere.
        clock: seconds, for a budget of minutes.

    Raises:
        StoreError: the folder holds the state of another training, a damaged one, or cannot be written.
    """
    parameters = trained_slots(copy, slots)
    # AdamW's steps are smaller than what half precision can add to a weight: float32 copies collect them.
    masters = [parameter.detach().float().clone() for parameter in parameters]
    optimiser = torch.optim.AdamW(masters, lr=rate, betas=_BETAS, weight_decay=0.0)
    about = {"identity": identified(identity)}
    step, tokens, before = _resume(folder, about, masters, parameters, optimiser)
    began = clock()
    progress(budget.done(tokens, before))
    with noted() as heard:
        while (done := budget.done(tokens, before + clock() - began)) < 1:
            ids = torch.tensor(batches[_batch_of_step(step, len(batches), seed)], device=parameters[0].device)
            for group in optimiser.param_groups:
                # A linear warm-up and a linear decay over the budget; 1e-3, so that the first step moves at all.
                group["lr"] = rate * min(1.0, (done + 1e-3) / _WARM_UP, (1 - done) / (1 - _WARM_UP))
            _take_step(whole, copy.hf, ids, parameters, masters, optimiser)
            step, tokens = step + 1, tokens + ids.numel()
            # told after a step: before the first one the share is next to nothing, and the time left would be hours
            progress(min(1.0, budget.done(tokens, before + clock() - began)))
            if folder is not None and (heard or step % save_every == 0):
                _save_state(folder, about, masters, optimiser, (step, tokens, before + clock() - began))
            if heard:
                raise KeyboardInterrupt
    # After the last step too, so that the same command given again has nothing left to train.
    if folder is not None and step:
        _save_state(folder, about, masters, optimiser, (step, tokens, before + clock() - began))
    for parameter in parameters:
        parameter.requires_grad_(False)


def _take_step(
    whole: PreTrainedModel,
    copy: PreTrainedModel,
    ids: Tensor,
    parameters: Sequence[nn.Parameter],
    masters: Sequence[Tensor],
    optimiser: torch.optim.Optimizer,
) -> None:
    with torch.no_grad():
        target_BTV = whole(ids, use_cache=False).logits.float().log_softmax(-1)
    log_probs_BTV = copy(ids, use_cache=False).logits.float().log_softmax(-1)
    loss = nn.functional.kl_div(log_probs_BTV, target_BTV, log_target=True, reduction="sum") / ids.numel()
    # Experts that no token reached have no gradient.
    for parameter, grad in zip(parameters, torch.autograd.grad(loss, list(parameters), allow_unused=True)):
        parameter.grad = grad
    for master, parameter in zip(masters, parameters):
        master.grad = torch.zeros_like(master) if parameter.grad is None else parameter.grad.float()
        parameter.grad = None
    nn.utils.clip_grad_norm_(masters, _CLIP)
    optimiser.step()
    _copy_masters(masters, parameters)


@torch.no_grad()
def _copy_masters(masters: Sequence[Tensor], parameters: Sequence[nn.Parameter]) -> None:
    for master, parameter in zip(masters, parameters):
        parameter.copy_(master)


def _batch_of_step(step: int, batches: int, seed: int) -> int:
    """Return which batch a step takes: every batch once, in a new order for every round."""
    # From seed and step alone, so that a resumed training sees the batches that it would have seen.
    draw = torch.Generator().manual_seed(seed * 1_000_003 + step // batches)
    return int(torch.randperm(batches, generator=draw)[step % batches])


def _save_state(
    folder: Path,
    about: Mapping[str, str],
    masters: Sequence[Tensor],
    optimiser: torch.optim.Optimizer,
    at: tuple[int, int, float],
) -> None:
    tensors: dict[str, Tensor] = {}
    for number, master in enumerate(masters):
        state = optimiser.state[master]
        for part, value in zip(_PARTS, (master, state["exp_avg"], state["exp_avg_sq"])):
            tensors[f"{part}.{number}"] = value.cpu().contiguous()
    metadata = {**about, "at": json.dumps(at)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / STATE, save(tensors, metadata))
    except OSError as error:
        raise StoreError(
            f"The state of the training cannot be written to {str(folder)!r} ({error.strerror or error}); free some "
            "room, or give another folder."
        ) from error


def require_own(folder: Path | None, identity: str) -> None:
    """Refuse a folder from which a training could not be resumed, or in which it could not be stored.

    Args:
        identity: of the training, as ``heal`` keeps it.

    Raises:
        StoreError: a file; a folder of results or of a model; the state of another training, or a damaged one.
    """
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{str(folder)!r} is a file; the state of a training is kept in a folder.")
    if not (folder / STATE).is_file():
        if contents := contents_of(folder):
            raise StoreError(
                f"The folder {str(folder)!r} holds {contents}, and the state of a training does not belong in between. "
                "Give a folder of its own (state=..., --state ...); nothing was written."
            )
        return
    try:
        require_regular(folder / STATE, folder)
        with safe_open(folder / STATE, framework="pt") as stored:
            metadata = stored.metadata() or {}
    except (SafetensorError, *DAMAGED) as error:
        raise _unreadable(folder, error) from error
    if not _is_same_training(metadata.get("identity"), identity):
        raise StoreError(
            f"{str(folder / STATE)!r} is the state of another training; give another folder, or remove it."
        )


_TOLD_LATER: Final = ("configuration",)
"""What states of earlier versions do not tell of their training."""


def _is_same_training(stored: str | None, identity: str) -> bool:
    """Return whether a state is that of a training; what an earlier version does not tell is no difference."""
    if stored is None or stored == identity:
        return stored is not None
    try:
        earlier, now = json.loads(stored), json.loads(identity)
    except (ValueError, RecursionError):
        return False
    unknown = [name for name in _TOLD_LATER if name not in earlier] if isinstance(earlier, dict) else []
    return bool(earlier == {name: value for name, value in now.items() if name not in unknown})


def identified(identity: Mapping[str, Any]) -> str:
    """Return what a training was made with, as its state holds it."""
    return json.dumps(dict(identity), sort_keys=True)


def _resume(
    folder: Path | None,
    about: Mapping[str, str],
    masters: Sequence[Tensor],
    parameters: Sequence[nn.Parameter],
    optimiser: torch.optim.Optimizer,
) -> tuple[int, int, float]:
    """Return steps, tokens and seconds that are done, with weights and moments as they were then."""
    require_own(folder, about["identity"])
    if folder is None or not (folder / STATE).is_file():
        return 0, 0, 0.0
    try:
        with safe_open(folder / STATE, framework="pt") as stored:
            step, tokens, seconds = read_json(stored.metadata()["at"], 1)
            if type(step) is not int or type(tokens) is not int or min(step, tokens) < 0 or not 0 <= seconds < math.inf:
                raise ValueError(f"it says that it is at {step!r} steps, {tokens!r} tokens and {seconds!r} s")
            for number, master in enumerate(masters):
                weight, first, second = (_as(master, stored.get_tensor(f"{part}.{number}")) for part in _PARTS)
                master.copy_(weight)
                optimiser.state[master] = {"step": torch.tensor(float(step)), "exp_avg": first, "exp_avg_sq": second}
    except (SafetensorError, *DAMAGED) as error:
        raise _unreadable(folder, error) from error
    _copy_masters(masters, parameters)
    return step, tokens, seconds


def _as(master: Tensor, stored: Tensor) -> Tensor:
    """Return a stored tensor as one of a master's; a ValueError where it is of another shape."""
    if stored.shape != master.shape:
        raise ValueError(f"a tensor is {tuple(stored.shape)}, and its weight {tuple(master.shape)}")
    return stored.to(master)


def _unreadable(folder: Path, error: Exception) -> StoreError:
    reason = elided(getattr(error, "strerror", None) or error, 80)
    return StoreError(
        f"{str(folder / STATE)!r} cannot be read ({type(error).__name__}: {reason}); remove it to begin again."
    )
