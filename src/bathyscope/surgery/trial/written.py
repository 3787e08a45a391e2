"""Prompts that choose and prompts that judge, both of what the full model itself writes to them.

Where a model writes long answers, a token that it would not have written leads to others that no text of somebody else
holds. ``written:40?tokens=512`` continues the test prompts by the full model, greedily: 40 of them, spread evenly,
choose, and the others judge; costs are over what was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bathyscope.core.strict import whole_number_in
from bathyscope.core.text import elided
from bathyscope.errors import OptionError, PromptError
from bathyscope.model import Model
from bathyscope.model.writing import Writing, question_of
from bathyscope.prompts.prompts import Prompts

_PREFIX: Final = "written:"
_FORM: Final = re.compile(rf"{_PREFIX}(?P<count>[^?]*)(?:\?tokens=(?P<tokens>.*))?", re.DOTALL)
_EXAMPLE: Final = "written:40?tokens=512"
_USUAL_TOKENS: Final = 512
_FEWEST_JUDGES: Final = 2


@dataclass(frozen=True)
class WrittenCalibration:
    """How many prompts choose, and how much the full model writes to each.

    Args:
        count: prompts that choose.
        writing: how it writes to these and to those that judge.
    """

    count: int
    writing: Writing

    def __str__(self) -> str:
        return f"{_PREFIX}{self.count}?tokens={self.writing.tokens}"

    def continued(self, model: Model, prompts: Prompts, *, progress: bool) -> tuple[Prompts, Prompts]:
        """Return the prompts that choose and those that judge, with what the model writes in place of answers.

        Raises:
            PromptError: too few different prompts; one that would grow beyond the model's context.
            ModelError: a model that cannot write.
        """
        different = _each_once(prompts)
        if len(different.items) < self.count + _FEWEST_JUDGES:
            raise PromptError(
                f"{self} takes {self.count} of the test prompts to choose by, and the others judge; there are "
                f"{len(different.items)} different ones. Give at least {self.count + _FEWEST_JUDGES}."
            )
        # spread evenly, since files may be sorted by what their prompts are
        chosen = {place * len(different.items) // self.count for place in range(self.count)}
        written = self.writing.continued(model, different, progress=progress)
        calibration, test = (
            replace(written, items=tuple(item for place, item in enumerate(written.items) if (place in chosen) == role))
            for role in (True, False)
        )
        return calibration, test


def written_calibration(source: object) -> WrittenCalibration | None:
    """Return what such a source asks for; None where it is another source.

    Raises:
        OptionError: it begins so and is not of this form.
    """
    if not isinstance(source, str) or not source.startswith(_PREFIX) or Path(source).exists():
        return None
    match = _FORM.fullmatch(source)
    numbers = [] if match is None else [whole_number_in(match["count"]), _read_tokens(match["tokens"])]
    if len(numbers) != 2 or any(number is None or number < 1 for number in numbers):
        raise OptionError(
            f"calibration={elided(repr(source), 40)} is not how many prompts choose, and how many tokens the full "
            f"model writes to each; allowed: 1 or more of both, such as {_EXAMPLE}."
        )
    count, tokens = (int(number or 0) for number in numbers)
    return WrittenCalibration(count, Writing(tokens))


def _read_tokens(text: str | None) -> int | None:
    return _USUAL_TOKENS if text is None else whole_number_in(text)


def require_plain(sources: Sequence[object], read_tokens: int | None) -> None:
    """Refuse what does not go together with it.

    Raises:
        OptionError: domains, or a sample of the tokens that are read.
    """
    if any(isinstance(source, dict) for source in sources):
        raise OptionError(
            f"calibration='{_PREFIX}…' takes its prompts from the test prompts, which have no domains then. Name no "
            "domains, or give calibration prompts of each."
        )
    if read_tokens is not None:
        raise OptionError(
            f"read_tokens={read_tokens} and calibration='{_PREFIX}…' do not go together, since all tokens that were "
            "written are read. Leave read_tokens out."
        )


def _each_once(prompts: Prompts) -> Prompts:
    """Return the prompts without those that ask what an earlier one asks."""
    first = {question_of(prompt): prompt.id for prompt in reversed(prompts.items)}
    return replace(prompts, items=tuple(item for item in prompts.items if first[question_of(item)] == item.id))
