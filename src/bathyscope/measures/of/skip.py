"""Declaration of the skip effects; their code is ``measures.skip``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from bathyscope.errors import OptionError
from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.places import PLACES, NamedPlaces, PositionsForm, as_positions
from bathyscope.measures.schedule_tables import ReadTokens
from bathyscope.options import Distinct, Range

REACHES: Final = {"all": "at all tokens", "future": "at later tokens"}
_INFLUENCES: Final = {
    "given": ("skipped", "influence a block has on later ones", "l > s", "later blocks depend more on this one"),
    "received": (
        "block",
        "influence that earlier blocks have on a block",
        "s < l",
        "the block depends more on earlier ones",
    ),
}
_label = partial(Label, source="csordas2025, layer skipping; hu2025, layer skipping")


@dataclass(frozen=True)
class SkipOptions:
    """Options of the skip effects.

    Args:
        parts: what is skipped: "block" (the whole block), "attention", "mlp" (its contribution).
        positions: for every prompt the tokens t of the future effects, such as [[9, 41], [17]], or one list for all
            prompts, [[9, 41]]; None = sampled (every 8th token, shuffled, the first four); an empty list = no future
            effects for that prompt, and [[]] = for no prompt. Or places by name, each kept apart in the results:
            {"at": "Paris"}, a text that every prompt holds, {"at": 7} or {"at": -1}, a token, or {"at": "label:city"},
            a label; t is the first token of the place.
        protect_first: how many first tokens keep the skipped block's real output.
        axis: "channels" repeats hu2025's published slip in the future effects: the channels 1 … t−1 of every
            token are skipped, where the tokens 1 … t−1 are meant.
        read_tokens: compare predictions at only this many tokens of each prompt, and behind each sampled t, drawn at
            random with those of its answer among them, for the mean change of the output. Effects on contributions are
            measured at every token all the same. None = all tokens.
        output_reductions: how changes of the output are reduced over tokens; those left out are missing. None = all of
            them, or the mean alone where only some tokens are read.
    """

    parts: Annotated[tuple[Literal["block", "attention", "mlp"], ...], Distinct()] = ("block",)
    positions: PositionsForm = None
    protect_first: Annotated[int, Range(0)] = 1
    axis: Literal["tokens", "channels"] = "tokens"
    read_tokens: ReadTokens = None
    output_reductions: Annotated[tuple[Literal["mean", "p95", "max"], ...], Distinct()] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", as_positions(self.positions, "skip"))
        refused = [name for name in self.output_reductions or () if name != "mean"]
        if self.read_tokens is not None and refused:
            raise OptionError(
                f"skip: read_tokens={self.read_tokens} gives means over tokens, and {refused[0]} needs every token; "
                "leave read_tokens out, or give output_reductions=['mean']."
            )
        if self.read_tokens is not None and isinstance(self.positions, NamedPlaces):
            raise OptionError("skip: read_tokens does not go with places by name, which are read at every token.")
        if self.axis == "channels" and set(self.parts) != {"block"}:
            raise OptionError("skip: axis 'channels' repeats a slip in the skipping of whole blocks; give parts=block.")


DECLARATION: Final = Declaration(
    "skip",
    "Skip effects on all tokens and on future tokens.",
    SkipOptions,
    {
        **{
            f"effect_{reach}": _label(
                "prompt part reduction skipped block",
                f"relative change of a block's contribution when a block or part is skipped, {where}",
                formula="‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6), reduced over tokens",
                direction="higher = the block depends more on the skipped one",
            )
            for reach, where in REACHES.items()
        },
        **{
            f"output_{reach}": _label(
                "prompt part reduction skipped",
                f"change of the output probabilities when a block or part is skipped, {where}",
                formula="‖y − ȳ‖₂ ≤ √2, reduced over tokens",
                direction="higher = the output depends more on the skipped block",
            )
            for reach, where in REACHES.items()
        },
        **{
            f"output_{reach}_sampling_error": _label(
                "prompt part skipped",
                f"standard error of the mean change of the output from reading only some tokens, {where}",
                formula="stratified sample without replacement; only with read_tokens",
            )
            for reach, where in REACHES.items()
        },
        **{
            f"{which}_{reach}": _label(
                f"prompt part reduction {over}",
                f"{what}, {where}",
                formula=f"mean over {others} of E[s,l]",
                direction=f"higher = {higher}",
            )
            for reach, where in REACHES.items()
            for which, (over, what, others, higher) in _INFLUENCES.items()
        },
        "effect_at": _label(
            "prompt place part reduction skipped block",
            "relative change of a block's contribution when a block or part is skipped before a named place, from "
            "there on",
            formula="as effect_future, of one place alone",
            direction="higher = the block depends more on the skipped one",
            optional=True,
        ),
        "output_at": _label(
            "prompt place part reduction skipped",
            "change of the output probabilities when a block or part is skipped before a named place, from there on",
            formula="as output_future, of one place alone",
            direction="higher = the output depends more on the skipped block",
            optional=True,
        ),
        **PLACES,
        "positions": _label("prompt sample", "sampled token t of the future effects (−1 = none)", "token"),
    },
    order=50,
    synonyms=("layer_skipping", "skipping", "skip_effect"),
    panels={
        "all": ("effect_all",),
        "future": ("effect_future",),
        "influence_all": ("given_all", "received_all"),
        "influence_future": ("given_future", "received_future"),
        "output_all": ("output_all",),
        "output_future": ("output_future",),
        "prompts_all": ("effect_all",),
        "prompts_future": ("effect_future",),
    },
    question="which later blocks, and which later tokens, depend on a block, its attention or its MLP?",
    rows="one per block, and one per block and sampled token",
)
