"""Controls: what a model or its prompts would have to be for a measurement to mean nothing.

- ``untrained``: the same architecture, freshly initialised as its own configuration says;
- ``shuffled_blocks``: the same blocks with the same weights, in a random order;
- ``shuffled_text``: the same tokens of each prompt in a random order, the first and the answer's left where they are.

A control is surveyed as the model itself is: the same prompts, measures, options and seed of the survey.
"""

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast, get_args

import torch
from torch import nn

from bathyscope.errors import ModelError, OptionError, did_you_mean
from bathyscope.model import Model, load
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.memory import free_bytes
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts

Kind = Literal["untrained", "shuffled_blocks", "shuffled_text"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MOST_SEEDS: Final = 100


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

    def require(self, model: Model) -> None:
        """Refuses what cannot be made, before any compute.

        Raises:
            ModelError: a second copy of the weights does not fit; the model has one block, whose order cannot change.
        """
        if self.kind == "shuffled_text":
            return
        if model.placement == "stream":
            raise ModelError(
                f"The control {self.kind} needs a second copy of {model.name} in memory, and its blocks are streamed "
                "because the first has no room. Take the control shuffled_text, or load the model with "
                "placement='resident'."
            )
        needed = sum(p.numel() * p.element_size() for p in model.hf.parameters())
        free = free_bytes(model.device)
        if free is not None and needed > free:
            raise ModelError(
                f"This control needs a second copy of the weights of {model.name} ({needed / 1e9:.1f} GB), and "
                f"{free / 1e9:.1f} GB are free on {model.device.type}. Take the control shuffled_text, or survey an "
                "untrained model of this configuration on its own and compare the runs."
            )
        if self.kind == "shuffled_blocks" and model.n_blocks < 2:
            raise ModelError(f"{model.name} has one block, whose order cannot be shuffled; take the control untrained.")

    def of(self, model: Model, prompts: Prompts) -> tuple[Model, Prompts]:
        """Model and prompts of the control.

        Raises:
            ModelError: its blocks cannot change places.
        """
        if self.kind == "shuffled_text":
            return model, shuffled_text(prompts, self.seed)
        made = untrained(model, self.seed) if self.kind == "untrained" else shuffled_blocks(model, self.seed)
        # a measure's own further prompts may be texts
        return replace(made, given_tokenizer=prompts.tokenizer), prompts


def controls_of(given: str | Sequence[str] | None) -> tuple[Control, ...]:
    """Controls as asked for: ``untrained:3`` (seeds 0, 1, 2), ``untrained:3,shuffled_text``, or a list of such texts.

    Raises:
        OptionError: no such control, or no number of seeds from 1 to 100.
    """
    if given is None:
        return ()
    texts = given.split(",") if isinstance(given, str) else list(given)
    found: list[Control] = []
    for text in texts:
        name, colon, count = str(text).strip().partition(":")
        kind = next((one for one in KINDS if one == name), None)
        if kind is None:
            raise OptionError(
                f"control={text!r}: {name!r} is no control.{did_you_mean(name, KINDS)} Allowed: {', '.join(KINDS)}, "
                "each with a number of seeds if wanted (untrained:3)."
            )
        if colon and not (count.isdecimal() and 1 <= int(count) <= MOST_SEEDS):
            raise OptionError(f"control={text!r}: give a number of seeds from 1 to {MOST_SEEDS}, such as {kind}:3.")
        found += [Control(kind, seed) for seed in range(int(count) if colon else 1)]
    return tuple(dict.fromkeys(found))


def untrained(model: Model, seed: int) -> Model:
    """The same architecture, freshly initialised by the library as its configuration says."""
    hf = model.hf
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = cast(nn.Module, type(hf)(copy.deepcopy(hf.config)))
    made = made.to(device=model.device, dtype=model.dtype).eval()
    return _loaded(made, model, f"untrained, seed {seed}")


def shuffled_blocks(model: Model, seed: int) -> Model:
    """A copy of at least two blocks that run in another order; each keeps its weights.

    Raises:
        ModelError: its blocks differ in shape.
    """
    order = list(range(model.n_blocks))
    draw = random.Random(seed)
    while order == sorted(order):
        draw.shuffle(order)
    made = copy.deepcopy(model.hf)
    path = model.anatomy.family.blocks
    blocks = [submodule(made, f"{path}.{place}") for place in range(len(order))]
    weights = [copy.deepcopy(block.state_dict()) for block in blocks if block is not None]
    # weights move and blocks stay: what a block knows of its place (its cache, its window) goes with the place
    try:
        for block, source in zip(blocks, order, strict=True):
            assert block is not None
            block.load_state_dict(weights[source])
    except RuntimeError as error:
        raise ModelError(
            f"The blocks of {model.name} differ in shape, so that their weights cannot change places; take the control "
            "untrained."
        ) from error
    return _loaded(made, model, f"blocks shuffled, seed {seed}")


def shuffled_text(prompts: Prompts, seed: int) -> Prompts:
    """The tokens of each prompt in another order; the first one and those of the answer stay."""

    def shuffled(number: int, prompt: TokenizedPrompt) -> TokenizedPrompt:
        end = len(prompt) - (prompt.answer_tokens or 0)
        middle = list(prompt.ids[1:end])
        random.Random(f"{seed}/{number}").shuffle(middle)
        return replace(prompt, ids=(*prompt.ids[:1], *middle, *prompt.ids[max(1, end) :]))

    items = tuple(shuffled(number, prompt) for number, prompt in enumerate(prompts.items))
    return replace(prompts, items=items, dataset=f"{prompts.dataset}, shuffled (seed {seed})", kept=None)


def _loaded(hf: Any, model: Model, what: str) -> Model:
    made = load(hf, family=model.anatomy.family)
    return replace(made, name=f"{model.name}, {what}")
