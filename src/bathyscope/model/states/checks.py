"""Checks of stored states, made on some prompts before any is measured: what a wrong dump gets wrong.

1. token ids are of the head's vocabulary, and states of its width;
2. the last boundary is not normed already: a final norm's output has a mean square of 1 under its gain, whatever it is
   given, and the stream behind the last block has not;
3. boundary 0 is what the embedding of the head's checkpoint gives for the ids (``embedding``);
4. ids are not off by one: at boundary 0 a token's state depends on the token alone, and behind a block on its context;
5. the readout of the last boundary is what the served model predicted, where files tell its top-1 tokens or the
   log-probabilities of next ones; else it predicts the prompts' own tokens better than equal guesses would.

What a file does not tell cannot be checked, and the run says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from bathyscope.core.text import counted
from bathyscope.errors import ModelError, warn
from bathyscope.model.anatomy.plain import vocabulary
from bathyscope.model.anatomy.readout import NormKind, norm_kind
from bathyscope.model.guessing import warn_of_worse_than_guesses
from bathyscope.model.states.embedding import check_embedding
from bathyscope.model.states.files import LOGPROBS, TOP1
from bathyscope.model.states.folder import CONFIRMED, StatesFolder, StoredPrompt
from bathyscope.model.states.head import ServedHead

_PROMPTS: Final = 8
_TOKENS: Final = 64
"""Of each prompt that is looked at, the first ones."""
_APART: Final = 0.05
"""Share of tokens whose served prediction may be another one: served kernels round otherwise."""
_ROUNDINGS: Final = 8
"""Units in the last place of the largest logit by which two products of one head may differ."""
_FEWEST_PAIRS: Final = 2


def require_sound(states: StatesFolder, head: ServedHead) -> tuple[str, ...]:
    """Return what was checked, and what could not be.

    Raises:
        ModelError: states of another model, of other boundaries than they are said to be of, or normed already.
    """
    _require_same_model(states, head)
    chosen = _spread(states.prompts)
    notes = [
        _check_addresses(states, head, chosen),
        check_embedding(states, head.embedding, chosen, _TOKENS),
    ]
    if states.boundaries[-1] == head.n_blocks:
        _require_unnormed(states, head, chosen)
        notes.append(_check_readout(states, head))
    else:
        notes.append(f"boundary {head.n_blocks}, behind the last block, is not stored")
    return tuple(notes)


def _spread(prompts: Sequence[StoredPrompt]) -> list[StoredPrompt]:
    """Return some prompts from all over the folder."""
    step = max(1, len(prompts) // _PROMPTS)
    return list(prompts[::step][:_PROMPTS])


def _require_same_model(states: StatesFolder, head: ServedHead) -> None:
    if states.width != head.width:
        raise ModelError(
            f"{states.folder} holds states of width {states.width}, and the head's model is {head.width} wide: they "
            "are of another model. Give the head of the model that was served."
        )
    entries = vocabulary(head.model)
    for prompt in states.prompts:
        wrong = next((token for token in prompt.ids if not 0 <= token < entries), None)
        if wrong is not None:
            raise ModelError(
                f"{states.files[prompt.file].path} has the token id {wrong}, and the head's model has the ids 0 to "
                f"{entries - 1}: the states were made with another tokenizer, or another model."
            )


def _require_unnormed(states: StatesFolder, head: ServedHead, chosen: Sequence[StoredPrompt]) -> None:
    """Refuse a last boundary that the final norm has gone over."""
    kind = _known_norm(head)
    if kind is None:
        return
    normed = [_is_normed(states.states_of(prompt, _TOKENS)[:, -1].float(), kind, states.dtype) for prompt in chosen]
    if all(normed):
        raise ModelError(
            f"The states said to be of boundary {head.n_blocks} in {states.folder} are normed already: at every token "
            "their mean square under the final norm's gain is 1. Store the stream in front of the norm (vLLM: layer id "
            f"{head.n_blocks}; transformers: the last block's output, not the last of hidden_states)."
        )


def _known_norm(head: ServedHead) -> NormKind | None:
    """Return what the final norm does; None without a norm, and for one of an unknown kind."""
    if head.readout.norm is None:
        return None
    try:
        return norm_kind(head.readout.norm)
    except ModelError:
        return None


def _is_normed(states_TD: Tensor, kind: NormKind, dtype: torch.dtype) -> bool:
    """Whether vectors look like the outputs of a norm: a mean square of 1 at every token."""
    plain_TD = states_TD if kind.bias is None else states_TD - kind.bias
    gain = torch.as_tensor(kind.gain).float().expand(plain_TD.shape[-1])
    used = gain.abs() > gain.abs().max() * 1e-3
    square_T = (plain_TD[:, used] / gain[used]).pow(2).mean(-1)
    # each entry is rounded once to the dtype; channels that are left out had some of the sum
    bound = max(1e-3, 8 * torch.finfo(dtype).eps) + float((~used).float().mean())
    return bool(((square_T - 1).abs() < bound).all())


def _check_addresses(states: StatesFolder, head: ServedHead, chosen: Sequence[StoredPrompt]) -> str:
    """Refuse a first boundary that is the embedding and is said to be another one, or the other way round."""
    first = states.boundaries[0]
    same = [
        bool(torch.equal(states_TBD[earlier, 0], states_TBD[later, 0]))
        for states_TBD, pairs in _with_pairs(states, chosen)
        for earlier, later in pairs
    ]
    if len(same) < _FEWEST_PAIRS:
        return "ids of boundaries: not checked, since no prompt repeats a token behind others"
    if first > 0 and all(same):
        moved = [boundary - first for boundary in states.boundaries]
        raise ModelError(
            f"The first states in {states.folder}, said to be of boundary {first}, depend on the token alone: they are "
            f"the embedding, boundary 0. The ids are off by {first}; give {moved}."
        )
    if first == 0 and not any(same) and not head.embedding.adds_positions:
        moved = [boundary - first for boundary in states.boundaries]
        raise ModelError(
            f"The first states in {states.folder}, said to be of boundary 0, depend on the context, which the "
            "embedding does not: they stand behind a block. The ids are off by one or more; boundary 0 is the input of "
            "the first block."
        )
    return (
        "ids of boundaries: the first states are those of the embedding"
        if first == 0 and all(same)
        else ("ids of boundaries: the first states are not those of the embedding")
    )


def _with_pairs(states: StatesFolder, chosen: Sequence[StoredPrompt]) -> Iterator[tuple[Tensor, list[tuple[int, int]]]]:
    """Yield the first states of prompts, with places of one token behind other contexts."""
    for prompt in chosen:
        ids = prompt.ids[:_TOKENS]
        last_place: dict[int, int] = {}
        pairs = []
        for place, token in enumerate(ids):
            earlier = last_place.get(token)
            # behind the same tokens alone, as in a row of one token, even attention gives the same
            if earlier is not None and set(ids[:place]) != set(ids[: earlier + 1]):
                pairs.append((earlier, place))
            last_place[token] = place
        if pairs:
            yield states.states_of(prompt, _TOKENS), pairs


def _check_readout(states: StatesFolder, head: ServedHead) -> str:
    """Refuse a last boundary whose readout is not what the served model predicted."""
    telling = [prompt for prompt in states.prompts if states.told_of(prompt, TOP1) is not None]
    telling = telling or [prompt for prompt in states.prompts if states.told_of(prompt, LOGPROBS) is not None]
    if not telling:
        _warn_of_worse_than_guesses(states, head, _spread(states.prompts))
        return "predictions of the served model: not told by the files, so that the readout was not compared with them"
    chosen = _spread(telling)
    share = _share_apart(states, chosen, states.boundaries[-1], head.readout)
    if share <= _APART:
        return f"{CONFIRMED}, but for {share:.0%} of the tokens of {counted(len(chosen), 'prompt')}"
    raise ModelError(
        f"The readout of boundary {head.n_blocks} is not what the served model predicted, at {share:.0%} of the tokens "
        f"of {counted(len(chosen), 'prompt')}: {_cause(states, head, chosen)}."
    )


@torch.no_grad()
def _warn_of_worse_than_guesses(states: StatesFolder, head: ServedHead, chosen: Sequence[StoredPrompt]) -> None:
    """Warn of a readout that knows less of the prompts' next tokens than equal guesses do.

    So does a head of another training, one whose rows are in another order, and any head on prompts that are no text.
    """
    losses: list[float] = []
    for prompt in chosen:
        following = torch.tensor(prompt.ids[1 : _TOKENS + 1])
        logits_TV = head.readout(states.states_of(prompt, _TOKENS)[:, -1]).double()[: len(following)]
        losses += (-logits_TV.log_softmax(-1).gather(-1, following[:, None])).flatten().tolist()
    warn_of_worse_than_guesses(
        "The head reads out",
        sum(losses) / max(1, len(losses)),
        head.vocabulary,
        "It may be of another model, its rows in another order, or the prompts no text of the model's kind; "
        f"{TOP1} or {LOGPROBS} in the files would tell.",
    )


def _cause(states: StatesFolder, head: ServedHead, chosen: Sequence[StoredPrompt]) -> str:
    """Say why states may be read out as something else, by what reads them out rightly."""
    if _share_apart(states, chosen, states.boundaries[-1], head.readout.logits) <= _APART:
        return "without the final norm it is, so that these states are normed already"
    for boundary in states.boundaries[:-1]:
        if _share_apart(states, chosen, boundary, head.readout) <= _APART:
            return f"that of boundary {boundary} is, so that the ids are off by {head.n_blocks - boundary}"
    return (
        "the ids are off by one (an id of L − 1 is the input of the last block), or the states are of another model or "
        "tokenizer"
    )


@torch.no_grad()
def _share_apart(
    states: StatesFolder, chosen: Sequence[StoredPrompt], boundary: int, readout: Callable[[Tensor], Tensor]
) -> float:
    """Return the share of tokens at which the readout of a boundary differs from what was served."""
    apart: list[bool] = []
    place = states.boundaries.index(boundary)
    for prompt in chosen:
        logits_TV = readout(states.states_of(prompt, _TOKENS)[:, place]).float()
        room_T = _ROUNDINGS * torch.finfo(states.dtype).eps * logits_TV.abs().amax(-1).clamp_min(1e-3)
        top1, logprobs = states.told_of(prompt, TOP1), states.told_of(prompt, LOGPROBS)
        count = len(logits_TV)
        if top1 is not None:
            served_T = logits_TV.gather(-1, top1[:count, None].long().clamp(0, logits_TV.shape[-1] - 1))[:, 0]
            apart += (logits_TV.amax(-1) - served_T > room_T).tolist()
        elif logprobs is not None:
            following = torch.tensor(prompt.ids[1 : count + 1])
            following_T = logits_TV.log_softmax(-1)[: len(following)].gather(-1, following[:, None])[:, 0]
            gap_T = (following_T - logprobs[: len(following)].float()).abs()
            apart += (~(gap_T <= 2 * room_T[: len(following)])).tolist()
    return sum(apart) / max(1, len(apart))


def warn_of_unknowns(states: StatesFolder, n_blocks: int) -> None:
    """Warn of boundaries that a verdict needs and that are not stored."""
    if states.boundaries[-1] != n_blocks:
        warn(
            f"Boundary {n_blocks}, behind the last block, is not stored: the model's own prediction is unknown, and no "
            f"lens can be compared with it. residual and cka remain; to store it, add {n_blocks} to the layer ids."
        )
