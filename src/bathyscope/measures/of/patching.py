"""Declaration of patching; its code is ``measures.patching``."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal

from bathyscope.core.strict import read_json
from bathyscope.errors import OptionError
from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.operand_tables import OPERANDS
from bathyscope.measures.places import PLACES, PlacesForm, as_places
from bathyscope.options import Distinct, Range

_label = partial(Label, source="Meng et al. 2022, causal tracing; Zhang & Nanda 2024, activation patching")
_map = "prompt part boundary token"
_all = "prompt part boundary"
_places = "prompt part boundary place"


@dataclass(frozen=True)
class PatchingOptions:
    """Options of patching.

    Args:
        pairs: the name of a label; the two prompts that share a value of it are patched from each other. Or a list of
            [target, source], each a prompt's id or its number in the survey: what is put into which (in a shell as
            JSON).
        parts: what is put in: the residual stream at a boundary (block), or what a block's attention or mlp adds to it.
        max_tokens: pairs with a longer prompt are left out: the cost grows with the square of the length; None lifts
            the limit.
        positions: places by name in the prompt that is patched, which alone are patched, each as a whole and apart from
            the others: {"at": "Paris"}, a text that it holds, {"at": 7} or {"at": -2}, a token, {"at": "label:city"}, a
            label; or a list of these. None = every token.
    """

    pairs: str | tuple[tuple[str | int, str | int], ...] = "pair"
    parts: Annotated[tuple[Literal["block", "attention", "mlp"], ...], Distinct()] = ("block",)
    max_tokens: Annotated[int | None, Range(2, none="no limit")] = 64
    positions: PlacesForm = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", as_places(self.positions, "patching"))
        selection: Any = self.pairs
        if isinstance(selection, str) and selection.lstrip().startswith("["):
            try:
                selection = read_json(selection)
            except ValueError as error:
                raise OptionError(
                    f"patching: pairs={selection!r} is no JSON ({error}); give [[target, source], …]."
                ) from error
        if not isinstance(selection, str):
            object.__setattr__(self, "pairs", _as_pairs(selection))


def _as_pairs(pairs: Any) -> tuple[tuple[str | int, str | int], ...]:
    items = list(pairs) if isinstance(pairs, Sequence) else [pairs]
    for item in items:
        is_pair = isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2
        if not is_pair or not all(isinstance(name, str | int) and not isinstance(name, bool) for name in item):
            raise OptionError(
                f"patching: pairs takes a label's name or pairs of prompts; {item!r} is no pair. Give [target, "
                "source], each a prompt's id or its number in the survey."
            )
    if not items:
        raise OptionError("patching: pairs is an empty list; give [target, source] at least once, or a label's name.")
    return tuple((target, source) for target, source in items)


DECLARATION: Final = Declaration(
    "patching",
    "Effect on the answer of putting one prompt's residual stream into another, by boundary and token.",
    PatchingOptions,
    {
        "recovered": _label(
            _map,
            "how much of the way from its own answer to the source's a prompt goes when one token is patched",
            formula="(d_target − d_patched) / (d_target − d_source), d = log p(own answer) − log p(source's)",
            direction="0 = the prompt's own answer, 1 = the source's",
        ),
        "change": _label(
            f"{_map} answer",
            "change of an answer token's log-probability when one token is patched",
            "nats",
            "h_b[t] := h_b[t] of the source; log p_patched − log p",
        ),
        "kl": _label(
            _map,
            "change of the predicted distribution when one token is patched",
            "nats",
            "KL(p ‖ p_patched)",
            direction="0 = nothing changes",
        ),
        "recovered_at": _label(
            _places,
            "how much of the way to the source's answer a prompt goes when a named place is patched",
            formula="as recovered, all tokens of the place patched together",
            direction="0 = the prompt's own answer, 1 = the source's",
            optional=True,
        ),
        "change_at": _label(
            f"{_places} answer",
            "change of an answer token's log-probability when a named place is patched",
            "nats",
            "as change",
            optional=True,
        ),
        "kl_at": _label(
            _places,
            "change of the predicted distribution when a named place is patched",
            "nats",
            "as kl",
            optional=True,
        ),
        **PLACES,
        "recovered_all": _label(
            _all,
            "how much of the way to the source's answer a prompt goes when all tokens are patched",
            formula="as recovered",
            direction="0 = the prompt's own answer, 1 = the source's",
        ),
        "change_all": _label(
            f"{_all} answer",
            "change of an answer token's log-probability when all tokens are patched",
            "nats",
            "as change",
        ),
        "kl_all": _label(_all, "change of the predicted distribution when all tokens are patched", "nats", "as kl"),
        "log_p": _label(
            "prompt read_in answer", "log-probability of both answers' tokens in both prompts, unpatched", "nats"
        ),
        "source": _label("prompt", "number of the prompt that this one is patched from (−1 = none)", "prompt"),
        "read_at": _label(
            "prompt", "token whose next one is read, the first in which the answers differ (−1 = not patched)", "token"
        ),
        **OPERANDS,
    },
    needs_answers=True,
    order=90,
    synonyms=("activation_patching", "causal_tracing", "interchange_intervention"),
    panels={
        **dict.fromkeys(("prompt_", "attention_", "mlp_"), ("recovered", "change")),
        "recovered_at": ("recovered_at",),
        "kl_at": ("kl_at",),
    },
    question="where does a prompt hold what tells its answer from another prompt's?",
    rows="one per boundary and token",
)
