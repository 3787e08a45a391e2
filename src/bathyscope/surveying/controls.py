"""Controls: what a model or its prompts would have to be for a measurement to mean nothing.

- ``untrained``: a model of the same shape, freshly initialised as its own configuration says;
- ``shuffled_blocks``: the same blocks with the same weights, in a random order;
- ``shuffled_text``: the same tokens of each prompt in a random order, the first and the answer's left where they are.

A control is surveyed as the model itself is: the same prompts, measures, options and seed of the survey.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import torch
from torch import nn
from transformers import PreTrainedModel

from bathyscope.core.strict import whole_number_in
from bathyscope.core.text import elided
from bathyscope.errors import ModelError, OptionError, describe_value, did_you_mean, warn
from bathyscope.model import Model, load
from bathyscope.model.memory import free_bytes
from bathyscope.options import Seed, convert, items_of
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.paired import WEIGHTS
from bathyscope.schedule import Schedule
from bathyscope.surgery.scheduled.copying import reordered, require_reorderable
from bathyscope.surveying.untrained import initialised, require_initialisable

Kind = Literal["untrained", "shuffled_blocks", "shuffled_text"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MOST_SEEDS: Final = 100
_FURTHER: Final = 1_000_000
"""From a seed that gives the model itself to the one that is taken instead."""


@dataclass(frozen=True)
class Control:
    """One control of one survey.

    Args:
        kind: what is destroyed.
        seed: of the initialisation or of the shuffle.
    """

    kind: Kind
    seed: int

    @property
    def label(self) -> str:
        """Such as ``untrained-0``: the value of the coordinate ``control``."""
        return f"{self.kind}-{self.seed}"

    def note(self, model: Model) -> dict[str, str | int]:
        """Return what the control's run keeps of what it is of a model, whose weights another order hides."""
        weights = {WEIGHTS: model.weight_hash} if self.kind == "shuffled_blocks" else {}
        return {"kind": self.kind, "seed": self.seed, **weights}

    def require(self, model: Model) -> None:
        """Refuse what cannot be made of a model, before any compute.

        Raises:
            ModelError: a second copy of the weights does not fit, or the blocks are streamed; parts that cannot be
                initialised again; the model has one block, whose order cannot change, or its configuration cannot say
                the order.
        """
        if self.kind != "shuffled_text":
            _require_whole(model, self.kind)
        if self.kind == "untrained":
            _require_room(model)
            require_initialisable(model.hf)
        elif self.kind == "shuffled_blocks":
            _require_order(model, self.seed)

    def require_prompts(self, prompts: Prompts) -> None:
        """Refuse prompts that the control would leave as they are, and warn of some among them.

        Raises:
            OptionError: no prompt has tokens that could be in another order.
        """
        if self.kind == "shuffled_text":
            _require_shuffled(prompts)

    def of(self, model: Model, prompts: Prompts) -> tuple[Model, Prompts]:
        """Return model and prompts of the control.

        Raises:
            ModelError: its blocks cannot change places.
        """
        if self.kind == "shuffled_text":
            return model, shuffled_text(prompts, self.seed)
        control = untrained(model, self.seed) if self.kind == "untrained" else shuffled_blocks(model, self.seed)
        # a measure's own further prompts may be texts
        return replace(control, given_tokenizer=prompts.tokenizer), prompts


def controls_of(request: str | Sequence[str] | None) -> tuple[Control, ...]:
    """Parse controls: ``untrained:3`` (seeds 0, 1, 2), ``untrained:3,shuffled_text``, or a list of such texts.

    Raises:
        OptionError: no such control, one named twice, or no number of seeds from 1 to 100.
    """
    if request is None:
        return ()
    if not isinstance(request, str | Sequence):
        raise OptionError(
            f"control={describe_value(request)} is no control. Allowed: {', '.join(KINDS)}, or a list of them."
        )
    texts = items_of(request)
    if not texts:
        raise OptionError(
            f"control={describe_value(request)} is no control. Allowed: {', '.join(KINDS)}; leave it out for none."
        )
    seeds_of: dict[Kind, int] = {}
    for text in texts:
        name, colon, count = str(text).strip().partition(":")
        kind = next((word for word in KINDS if word == name), None)
        if kind is None:
            raise OptionError(
                f"control={text!r}: {name!r} is no control.{did_you_mean(name, KINDS)} Allowed: {', '.join(KINDS)}, "
                "each with a number of seeds if wanted (untrained:3)."
            )
        seeds = whole_number_in(count) if colon else 1
        if seeds is None or not 1 <= seeds <= MOST_SEEDS:
            raise OptionError(
                f"control={elided(repr(text), 40)}: give a number of seeds from 1 to {MOST_SEEDS}, such as {kind}:3."
            )
        if kind in seeds_of:
            raise OptionError(
                f"control={elided(repr(request), 60)} names {kind} twice. Name it once, with its number of seeds: "
                f"{kind}:{max(2, seeds, seeds_of[kind])}."
            )
        seeds_of[kind] = seeds
    return tuple(Control(kind, seed) for kind, seeds in seeds_of.items() for seed in range(seeds))


def _require_whole(model: Model, kind: Kind) -> None:
    if model.ranks > 1:
        raise ModelError(
            f"The control {kind} builds {model.name} again from its configuration, and blocks built so do not know the "
            f"part of their weights that each of {model.ranks} ranks has. Take the control shuffled_text, or load the "
            "model whole (without tensor_parallel)."
        )


def _require_room(model: Model) -> None:
    if model.placement == "stream":
        raise ModelError(
            f"The control untrained needs a second copy of {model.name} in memory, and its blocks are streamed because "
            "the first has no room. Take the control shuffled_text, or load the model with placement='resident'."
        )
    copy_bytes = sum(p.numel() * p.element_size() for p in model.hf.parameters())
    free = free_bytes(model.device)
    if free is not None and copy_bytes > free:
        raise ModelError(
            f"This control needs a second copy of the weights of {model.name} ({copy_bytes / 1e9:.1f} GB), and "
            f"{free / 1e9:.1f} GB are free on {model.device.type}. Take the control shuffled_text, or survey an "
            "untrained model of this configuration on its own and compare the runs."
        )


def _require_order(model: Model, seed: int) -> None:
    if model.placement == "stream":
        raise ModelError(
            f"The control shuffled_blocks needs the blocks of {model.name} in memory, and they are streamed. Take the "
            "control shuffled_text, or load the model with placement='resident'."
        )
    if model.n_blocks < 2:
        raise ModelError(f"{model.name} has one block, whose order cannot be shuffled; take the control untrained.")
    with _untrained_advised():
        require_reorderable(model, Schedule(shuffled_order(model.n_blocks, seed), model.n_blocks))


@contextmanager
def _untrained_advised() -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        reason = str(error).rstrip(".")
        raise ModelError(f"{reason}. Take the control untrained instead of shuffled_blocks.") from error


def untrained(model: Model, seed: int) -> Model:
    """Return a model of the same shape, freshly initialised by its family as its configuration says.

    It differs from the model by its weights alone: every parameter has the name, the shape and the dtype of the
    model's, and tables that no checkpoint holds (rotary frequencies, masks) are the model's own. Adapters, which begin
    without effect, are left out. A model that is itself untrained with this seed gets a control of another seed, and a
    warning.

    Args:
        model: what ``bathyscope.load`` returns.
        seed: of the weights.

    Raises:
        OptionError: no model that was loaded, or no whole number that a seed can be.
        ModelError: parts that cannot be initialised again, with the first of them.

    Example:
        >>> control = bathyscope.extend.untrained(model, 0)
        >>> control.n_blocks == model.n_blocks, control.weight_hash == model.weight_hash
        (True, False)
    """
    if not isinstance(model, Model):
        raise OptionError(
            f"untrained() takes a model that was loaded; {describe_value(model)} given. Give bathyscope.load(FOLDER)."
        )
    seed = convert(Seed, seed, "seed")
    fresh = initialised(model.hf, seed)
    if _hold_the_same(fresh, model.hf):
        warn(
            f"{model.name} is itself untrained, with seed {seed}, so that a control of that seed would be no "
            f"independent model. It is drawn with seed {seed + _FURTHER} instead."
        )
        seed += _FURTHER
        fresh = initialised(model.hf, seed)
    return _checked_control(fresh.to(model.device).eval(), model, f"untrained, seed {seed}")  # type: ignore[arg-type]


def _hold_the_same(fresh: nn.Module, hf: nn.Module) -> bool:
    """Whether all parameters of a fresh model are those of the one in hand."""
    parameters = dict(hf.named_parameters())
    return all(
        name in parameters and torch.equal(value.detach().cpu(), parameters[name].detach().cpu())
        for name, value in fresh.named_parameters()
    )


def shuffled_blocks(model: Model, seed: int) -> Model:
    """Return a model of at least two blocks that runs them in another order, on the same weights.

    It is what ``schedule=`` and ``export`` make of that order: windows, rotary tables and kinds of attention follow
    their blocks.

    Raises:
        ModelError: the family's configuration cannot say the order.
    """
    # as for schedule=: a list in another order would leave windows and kinds of attention at their places
    with _untrained_advised():
        shuffled = reordered(model, Schedule(shuffled_order(model.n_blocks, seed), model.n_blocks))
    name = f"{model.name}, blocks shuffled, seed {seed}"
    return replace(shuffled, name=name, origin=model, schedule=model.schedule)


def shuffled_order(n_blocks: int, seed: int) -> tuple[int, ...]:
    """Return the order in which ``shuffled_blocks`` runs at least two blocks; never their own."""
    order = list(range(n_blocks))
    draw = random.Random(seed)
    while order == sorted(order):
        draw.shuffle(order)
    return tuple(order)


def _shuffled_part(prompt: TokenizedPrompt) -> slice:
    """Return which tokens are shuffled: those behind the first one and before the answer."""
    return slice(1, max(1, len(prompt) - (prompt.answer_tokens or 0)))


def _require_shuffled(prompts: Prompts) -> None:
    """Refuse prompts none of which can be in another order, and warn of those that stay as they are."""
    alike = sum(len(set(prompt.ids[_shuffled_part(prompt)])) < 2 for prompt in prompts.items)
    if alike == len(prompts.items):
        raise OptionError(
            "control='shuffled_text' (--control): no prompt has two different tokens between its first one and its "
            "answer, so that nothing could be shuffled. Give longer prompts, or leave this control out."
        )
    if alike:
        warn(
            f"shuffled_text: {alike} of {len(prompts.items)} prompts have no two different tokens between their first "
            "one and their answer, and stay as they are."
        )


def shuffled_text(prompts: Prompts, seed: int) -> Prompts:
    """Return prompts with their tokens in another order; the first one and those of the answer stay."""

    def shuffled(number: int, prompt: TokenizedPrompt) -> TokenizedPrompt:
        part = _shuffled_part(prompt)
        middle = list(prompt.ids[part])
        # a draw of its own for each prompt, which does not change when prompts come behind
        random.Random(f"{seed}/{number}").shuffle(middle)
        return replace(prompt, ids=(*prompt.ids[:1], *middle, *prompt.ids[part.stop :]))

    items = tuple(shuffled(number, prompt) for number, prompt in enumerate(prompts.items))
    return replace(prompts, items=items, dataset=f"{prompts.dataset}, shuffled (seed {seed})", record=None)


def _checked_control(hf: PreTrainedModel, model: Model, what: str) -> Model:
    control = load(hf, family=model.anatomy.family)
    return replace(control, name=f"{model.name}, {what}", origin=model)
