"""Which schedules are evaluated: the normal model, and every drop, swap or repeat that was asked for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bathyscope.errors import ModelError, OptionError, did_you_mean, warn
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.options import items_of
from bathyscope.schedule import Schedule, Scheduling, require_form

NORMAL = "standard"
_SEVERAL: Final = ("drop", "swap", "parallel", "repeat")
"""Names of a schedule at every block."""
_SINGLE: Final = ("standard", "drop", "swap", "repeat", "parallel", "order", "dropruns", "loops")
"""What the text of a single one begins with."""
_WINDOWS = re.compile(r"repeat:(\d+)$")
_ONE = re.compile(r"(drop|swap|repeat):(\d+)(?:\+(\d+))?$")
_SIDE_BY_SIDE = re.compile(r"parallel:[\d+-]+$")


@dataclass(frozen=True)
class Variant:
    """One schedule with its labels.

    Args:
        name: text that ``Schedule.parse`` reads; the label in results, and the name of a folder.
        kind: ``standard``, ``drop``, ``swap``, ``repeat``, ``parallel``, or ``other`` for an order written out.
        block: the dropped block, the first of a swapped pair, of a repeated window or of those in parallel; −1 without
            one.
        length: how many blocks are dropped, swapped, repeated or in parallel; 0 without one.
    """

    name: str
    schedule: Schedule
    kind: str = "other"
    block: int = -1
    length: int = 0


def variants(schedules: Sequence[str | Scheduling], n_blocks: int) -> tuple[Variant, ...]:
    """Return the normal model first, then the schedules (as ``evaluate`` takes them), each once."""
    names = [NORMAL, *(name for text in _schedule_texts(schedules) for name in _expand_names(text, n_blocks))]
    by_schedule: dict[Schedule, Variant] = {}
    for name in names:
        variant = _parse_variant(name, n_blocks)
        by_schedule.setdefault(variant.schedule, variant)  # one order may be written in several ways, such as drop:01
    return tuple(by_schedule.values())


def runnable(
    candidates: Sequence[Variant], checks: Checks, schedules: Sequence[str | Scheduling]
) -> tuple[Variant, ...]:
    """Return those in which every block finds what it takes from others, such as keys and values (Gemma 4).

    The others are left out with a warning, or refused (ModelError) where they were asked for by name.
    """
    lacking = {variant.name: missing for variant in candidates if (missing := checks.lacking(variant.schedule))}
    named = _schedule_texts(schedules)
    for name, missing in lacking.items():
        # A schedule asked for by name may not vanish; one of a whole family of them may.
        if name in named:
            raise ModelError(f"{name} cannot run: in this model {missing}. Leave it out of the schedules.")
    if lacking:
        warn(f"Left out, because blocks would not find what they take from others: {', '.join(lacking)}.")
    return tuple(variant for variant in candidates if variant.name not in lacking)


def require_forms(schedules: str | Scheduling | Sequence[str | Scheduling]) -> None:
    """Refuse texts that are schedules of no model, before a model is loaded or a hub is asked.

    Raises:
        OptionError: with what is allowed.
    """
    several = [schedules] if isinstance(schedules, Scheduling) else items_of(schedules, "schedules")
    for text in (item.strip() for item in several if isinstance(item, str)):
        if text not in (*_SEVERAL, "") and not _WINDOWS.match(text):
            _require_form(text)


def _require_form(text: str) -> None:
    """Refuse what is neither a schedule nor a name for several of them; commas separate schedules here."""
    if re.split("[:,]", text)[0] not in _SINGLE:
        raise OptionError(
            f"Unknown schedule {text!r}.{did_you_mean(text, (*_SEVERAL, *_SINGLE))} Allowed: drop, swap, "
            "parallel, repeat:5 (each at every block), or single ones: standard, drop:5, swap:3, repeat:8+5, "
            "repeat:8+5x2, parallel:3+4, order:0-2-1."
        )
    require_form(text)


def _schedule_texts(schedules: str | Scheduling | Sequence[str | Scheduling]) -> list[str]:
    """Return the schedules as text; a plan's is the one that it chose, one schedule however many blocks it drops."""
    several = [schedules] if isinstance(schedules, Scheduling) else items_of(schedules, "schedules")
    return [str(item.as_schedule()) if isinstance(item, Scheduling) else item.strip() for item in several]


def _expand_names(text: str, n_blocks: int) -> list[str]:
    if text == "drop":
        return [f"drop:{block}" for block in range(n_blocks)]
    if text == "swap":
        return [f"swap:{block}" for block in range(n_blocks - 1)]
    if text == "parallel":
        return [f"parallel:{block}+{block + 1}" for block in range(n_blocks - 1)]
    windows = _WINDOWS.match(text)
    if windows:
        length = int(windows[1])
        if not 1 <= length <= n_blocks:
            raise OptionError(f"{text}: windows of 1 to {n_blocks} blocks can be repeated in this model.")
        return [f"repeat:{start}+{length}" for start in range(n_blocks - length + 1)]
    if text in ("repeat", ""):
        raise OptionError(
            f"schedules: {text!r} says too little; write drop, swap, parallel, repeat:5, drop:3 or repeat:8+5."
        )
    return [text]


def _parse_variant(name: str, n_blocks: int) -> Variant:
    schedule = Schedule.parse(name, n_blocks)
    if _SIDE_BY_SIDE.match(name) and schedule.groups:
        (group,) = schedule.groups
        return Variant(name, schedule, "parallel", min(group), len(group))
    single = _ONE.match(name)
    if single is None:
        return Variant(name, schedule, NORMAL if schedule.is_standard else "other")
    kind, block, window = single[1], int(single[2]), int(single[3] or 1)
    return Variant(name, schedule, kind, block, {"drop": 1, "swap": 2}.get(kind, window))
