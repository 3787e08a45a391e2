"""Greedy generation by transformers, plain and with drafts of the model's own first blocks (``assistant_early_exit``).

A draft is made by ``generate`` itself with ``config.num_hidden_layers`` lowered to the exit, on a cache of its own, and
checked by a full pass over its tokens. So only models work whose forward reads that number at every call; others break,
and models that keep a state instead of keys and values are refused there. Source: elhoushi2024 (LayerSkip).
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from transformers import GenerationConfig

from bathyscope.errors import ModelError
from bathyscope.model import Model
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.in_hand import require_own_places
from bathyscope.surgery.checkpoint.proof import kind_of

_TRIED_TOKENS: Final = 4


@dataclass(frozen=True)
class Generated:
    """What one prompt was continued with.

    Args:
        tokens: the new ones, the end of text among them where it came.
        drafts: the tokens that each full pass checked; empty ones without an exit.
        seconds: that ``generate`` took.
    """

    tokens: tuple[int, ...]
    drafts: tuple[tuple[int, ...], ...]
    seconds: float


@torch.no_grad()
def generated(
    model: Model, ids: Sequence[int], new_tokens: int, exit_: int | None = None, draft: int = 1, *, ends: bool = True
) -> Generated:
    """Continue one prompt greedily.

    Args:
        new_tokens: at most this many.
        exit_: blocks that drafts are made by; None = no drafts.
        draft: tokens of one.
        ends: stop at the end of text; where times are taken, every call makes all its tokens.
    """
    hf: Any = model.hf
    ids_BT = torch.tensor([list(ids)], device=model.device)
    options = {} if exit_ is None else {"assistant_early_exit": exit_}
    with evaluating(hf), _greedily(hf, new_tokens, draft, ends), _note_passes(model) as passes:
        began = now(model.device)
        output_BT = hf.generate(ids_BT, attention_mask=torch.ones_like(ids_BT), **options)
        seconds = now(model.device) - began
    # of every full pass the last token that was settled, and behind it the draft
    drafts = tuple(tuple(pass_ids[len(ids) if place == 0 else 1 :]) for place, pass_ids in enumerate(passes))
    return Generated(tuple(output_BT[0, len(ids) :].tolist()), drafts, seconds)


def require_early_exit(model: Model) -> None:
    """Try the first exit and the last on a few tokens.

    Raises:
        ModelError: there is no exit, transformers cannot take one in this family, or the configuration or the numbers
            of blocks are not those of the model in hand.
    """
    require_own_places(model.hf, "caches of drafts are kept by these numbers")
    if model.n_blocks < 2:
        raise ModelError("This model has one block, and no exit before the last; a draft needs fewer blocks than all.")
    reason = ""
    # The first exit has the shortest cache and the last the longest; what works for both works between them.
    for exit_ in sorted({1, model.n_blocks - 1}):
        try:
            generated(model, range(1, 1 + _TRIED_TOKENS), _TRIED_TOKENS, exit_, 2)
        except Exception as error:  # whatever a family's forward meets when its list of blocks is not what it expects
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            break
    if reason:
        raise ModelError(
            f"transformers cannot stop a {kind_of(model.anatomy)} model early: generate(assistant_early_exit=…) "
            f"fails ({reason}). Its own code would have to run only the first config.num_hidden_layers blocks, with "
            "keys and values that can be cut; the families that do are listed in docs/exits.md."
        )


def now(device: torch.device) -> float:
    """Return the seconds of a clock, when all work given to the device is done."""
    if device.type != "cpu":
        # Kernels are only queued by then, and the clock would stop before they run.
        torch.accelerator.synchronize(device)
    return time.perf_counter()


@contextmanager
def _greedily(hf: Any, new_tokens: int, draft: int, stops: bool = True) -> Iterator[None]:
    """Make ``generate`` greedy inside, without penalties, and its drafts of one length.

    What drafts are made by is read from the model's settings alone, not from the arguments of a call.
    """
    settings = hf.generation_config
    config = _counting_config(hf)
    blocks = getattr(config, "num_hidden_layers", None)
    ends = settings.eos_token_id
    hf.generation_config = GenerationConfig(
        bos_token_id=settings.bos_token_id,
        eos_token_id=ends if stops else None,
        # drafts would not attend to tokens that pad (where the end of text does they do): one prompt needs none
        pad_token_id=ends[0] if isinstance(ends, list) else ends,
        do_sample=False,
        max_new_tokens=new_tokens,
        num_assistant_tokens=draft,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
    )
    try:
        yield
    finally:
        hf.generation_config = settings
        if blocks is not None:
            # a draft that is interrupted leaves it lowered
            config.num_hidden_layers = blocks


@contextmanager
def _note_passes(model: Model) -> Iterator[list[list[int]]]:
    """Collect the token ids that every full pass of the model is given inside."""
    hf: Any = model.hf
    passes: list[list[int]] = []
    config = _counting_config(hf)

    def note(module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        # Drafts run through the same module, with fewer layers in its configuration.
        if config.num_hidden_layers == model.n_blocks:
            passes.append((args[0] if args else options["input_ids"])[0].tolist())

    handle = hf.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield passes
    finally:
        handle.remove()


def _counting_config(hf: Any) -> Any:
    """Return the configuration whose number of layers a draft lowers."""
    return getattr(hf, hf.base_model_prefix, hf).config
