"""Declaration of the direct effects; their code is ``measures.direct``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.of.skip import REACHES
from bathyscope.measures.places import PLACES, PositionsForm, as_positions
from bathyscope.options import Range

_label = partial(Label, source="csordas2025, local effects")


@dataclass(frozen=True)
class DirectOptions:
    """Options of the direct effects.

    Args:
        positions: for every prompt the tokens t of the future effects; None = sampled (every 8th token,
            shuffled, the first four); an empty list = no future effects for that prompt. Or places by name, as of
            ``skip``: {"at": "Paris"}.
        protect_first: how many first tokens keep the contribution.
    """

    positions: PositionsForm = None
    protect_first: Annotated[int, Range(0)] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", as_positions(self.positions, "direct"))


DECLARATION: Final = Declaration(
    "direct",
    "Direct effects on all tokens and on future tokens.",
    DirectOptions,
    {
        **{
            f"effect_{reach}": _label(
                "prompt reduction skipped block",
                f"relative change of a block's contribution when an earlier one is missing from its input, {where}",
                formula="‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6), c̄_l from h_l − c_s, reduced over tokens",
                direction="higher = the block reads more of the other's contribution",
            )
            for reach, where in REACHES.items()
        },
        "effect_at": _label(
            "prompt place reduction skipped block",
            "relative change of a block's contribution when an earlier one is missing from its input, from a named "
            "place on",
            formula="as effect_future, of one place alone",
            direction="higher = the block reads more of the other's contribution",
            optional=True,
        ),
        **PLACES,
        "positions": _label("prompt sample", "sampled token t of the future effects (−1 = none)", "token"),
    },
    order=60,
    synonyms=("direct_effect", "direct_logit_attribution", "dla"),
    panels={
        "all": ("effect_all",),
        "future": ("effect_future",),
        "influence_all": ("effect_all",),
        "influence_future": ("effect_future",),
        "prompts_all": ("effect_all",),
        "prompts_future": ("effect_future",),
    },
    question="which of them read the block's contribution themselves?",
    rows="one per pair of blocks",
)
