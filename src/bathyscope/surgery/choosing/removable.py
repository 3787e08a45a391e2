"""What may be left out of a model, whole blocks or parts of them, and how much of it."""

import math
from collections.abc import Iterable, Sequence
from typing import get_args

from bathyscope.errors import ModelError, OptionError, describe_value, did_you_mean, warn
from bathyscope.measures.base import ModelFacts
from bathyscope.model import Model
from bathyscope.options import items_of
from bathyscope.schedule import Schedule
from bathyscope.surgery.options import Part
from bathyscope.surgery.plan.bound import CostBound
from bathyscope.surgery.scheduled.zeroing import require_writable
from bathyscope.wavefront.histories import Unit

BLOCKS = ("block",)


def require_size(drop: int | str | None, max_cost: float | str | None) -> None:
    """Refuse what does not say in one way how much may go; no model is needed.

    Raises:
        OptionError: both or neither, or out of range.
    """
    if (drop is None) == (max_cost is None):
        both = "both were given" if drop is not None else "neither was given"
        raise OptionError(
            f"Say how much may go: drop=6, drop='25%', or max_cost=0.05 in nats per token or '2%' of the loss; {both}."
        )
    if drop is not None:
        _parse_size(drop)
    if max_cost is not None:
        CostBound.parse(max_cost)


def size_of(drop: int | str, units: int, what: str) -> int:
    """Return how many of ``units`` are meant by a number or by a share such as "25%"; one always stays.

    Raises:
        OptionError: neither, or out of range, or a share that is none of them.
    """
    number, is_share = _parse_size(drop)
    if is_share:
        nearest = math.ceil(units * number / 100 - 0.5)
        if nearest < 1:
            raise OptionError(
                f"drop={drop!r} of {units} {what} rounds to none. Give '{50 // units + 1}%' or more, which is at least "
                "one, or a number such as drop=1."
            )
        return min(nearest, units - 1)
    if not 1 <= number < units:
        raise OptionError(
            f"drop={drop} is out of range: {units} {what} may be left out, and one has to stay; allowed: 1 to "
            f"{units - 1}, or a share such as '25%'."
        )
    return int(number)


def _parse_size(drop: int | str) -> tuple[float, bool]:
    """Return a number of units, or a share in hundredths, and whether it is a share."""
    text = str(drop).strip()
    is_share = text.endswith("%")
    try:
        number = float(text[:-1]) if is_share else int(text)
    except ValueError as error:
        raise OptionError(f"drop={drop!r} is neither a number of blocks nor a share such as '25%'.") from error
    if is_share and not 0 < number < 100:
        raise OptionError(f"drop={drop!r} is out of range; a share lies between 0 % and 100 %, such as '25%'.")
    if not is_share and number < 1:
        raise OptionError(f"drop={drop!r} is out of range; give 1 or more, or a share such as '25%'.")
    return number, is_share


def kinds_of(parts: Sequence[str] | str) -> tuple[str, ...]:
    """Return which parts may be left out; no model is needed.

    Raises:
        OptionError: an unknown part, or blocks together with parts of them.
    """
    if not isinstance(parts, Iterable):
        raise OptionError(f"parts={describe_value(parts)} is not allowed. Give block, or attention and mlp.")
    kinds = tuple(items_of(parts, "parts"))
    for part in kinds:
        if not isinstance(part, str) or part not in get_args(Part):
            raise OptionError(
                f"parts: {describe_value(part)} is unknown.{did_you_mean(str(part), get_args(Part))} Allowed: block, "
                "or attention and mlp."
            )
    allowed = "Give block, or attention, or mlp, or attention and mlp."
    if not kinds:
        raise OptionError(f"parts={list(kinds)} leaves nothing out. {allowed}")
    if len(set(kinds)) < len(kinds):
        raise OptionError(f"parts={list(kinds)} names a part twice. {allowed}")
    if "block" in kinds and len(kinds) > 1:
        raise OptionError(
            f"parts={list(kinds)} is not allowed: a block is both of its parts, and would be counted twice. {allowed}"
        )
    return kinds


def units_of(model: Model, kinds: Sequence[str]) -> tuple[Unit, ...]:
    """Return what may be left out of a model; blocks whose keys and values others take stay.

    Raises:
        ModelError: parts cannot be told apart, or nothing may be left out.
    """
    n_blocks = model.n_blocks
    if tuple(kinds) != BLOCKS:
        ModelFacts(model.anatomy, model.checks).require_parts("prune of attention or mlp")
        units = tuple(Unit(block, part) for block in range(n_blocks) for part in kinds)
        if len(units) < 2:
            raise ModelError(f"No {kinds[0]} of this model can be left out: it has one, and one has to stay.")
        return units
    standard = Schedule.standard(n_blocks)
    droppable = [block for block in range(n_blocks) if not model.checks.lacking(standard.drop(block))]
    if (giver := model.checks.kept_for_others(droppable)) is not None:
        droppable.remove(giver)
    if len(droppable) < n_blocks:
        lenders = ", ".join(str(block) for block in range(n_blocks) if block not in droppable)
        warn(f"prune: blocks {lenders} stay, since later blocks take what they pass on, such as keys and values.")
    if len(droppable) < 2:
        raise ModelError(f"No block of this model can be left out: it has {n_blocks}, and one has to stay.")
    return tuple(Unit(block) for block in droppable)


def warn_of_unwritable(model: Model, units: Sequence[Unit]) -> None:
    """Warn, before anything runs, where a choice among parts could not be exported afterwards."""
    try:
        require_writable(model, units)
    except ModelError as error:
        warn(f"prune: the choice can be measured, but not exported. {error}")
