"""Where a run's options leave the definition of the verdict's readings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bathyscope.measures.of.lens import LensOptions
from bathyscope.measures.of.skip import SkipOptions

Settings = Mapping[str, Mapping[str, Any]]
"""Measure → its options; an option that is absent has its default."""

_POSITIONS: Final = {
    "answer": "means of the lens are over the tokens that predict the answer",
    "inner": "means of the lens leave out each prompt's first and last token",
}


@dataclass(frozen=True)
class Departure:
    """One option under which a reading is another quantity than the definition's.

    Args:
        option: as a flag names it, with its value.
        meaning: what it does to the reading.
    """

    option: str
    meaning: str


def departures(settings: Settings, has_skip: bool) -> tuple[Departure, ...]:
    """Every option of lens and skip that changes a reading, in the order of the readings.

    Args:
        has_skip: whether skip effects were measured; their options do not matter without.
    """
    # A run of an earlier version stores fewer options; those that it lacks had today's defaults.
    lens = {**vars(LensOptions()), **settings.get("lens", {})}
    listed = []
    if lens["positions"] in _POSITIONS:
        listed.append(Departure(f"lens.positions={lens['positions']}", _POSITIONS[lens["positions"]]))
    if "recompute" not in lens["norm"]:
        bias = "" if lens["bias"] else " without its bias"
        listed.append(Departure("lens.norm=frozen", f"the lens divides by the final boundary's scale{bias}"))
    if has_skip:
        skip = {**vars(SkipOptions()), **settings.get("skip", {})}
        first = skip["protect_first"]
        if first != SkipOptions().protect_first:
            keeping = "no token keeps" if first == 0 else f"the first {first} tokens keep"
            listed.append(Departure(f"skip.protect_first={first}", f"{keeping} the output of a block that is left out"))
        if skip["positions"] is not None:
            listed.append(Departure("skip.positions", "effects on later tokens begin at the given positions"))
        if not reads_later_tokens(settings):
            listed.append(
                Departure(
                    f"skip.axis={skip['axis']}",
                    "a published slip skips channels in place of earlier tokens, so later is not read",
                )
            )
    return tuple(listed)


def of_answers(settings: Settings) -> bool:
    """Whether the lens is over the tokens that predict answers alone."""
    return bool(settings.get("lens", {}).get("positions") == "answer")


def reads_later_tokens(settings: Settings) -> bool:
    """Whether effects on later tokens are of earlier tokens' blocks; a published slip skips channels instead."""
    return settings.get("skip", {}).get("axis", SkipOptions().axis) == "tokens"


def protected_tokens(settings: Settings) -> int:
    """How many first tokens keep the output of a block that is left out."""
    return int(settings.get("skip", {}).get("protect_first", SkipOptions().protect_first))
