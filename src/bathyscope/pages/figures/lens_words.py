"""The static picture of what a lens reads at each boundary of one prompt, with its words."""

from typing import Final

import numpy as np

from bathyscope.core.text import elided, visible
from bathyscope.errors import OptionError, PromptError, StoreError
from bathyscope.pages.figures.kind import Panel
from bathyscope.pages.figures.kit.texts import name_place
from bathyscope.pages.figures.kit.words import WordGrid, make_word_panel
from bathyscope.pages.figures.stretches import Stretch, read_stretch
from bathyscope.runs.named_places import place_names_in_run
from bathyscope.runs.run import Run
from bathyscope.runs.selecting import prompts_named

NAME: Final = "tokens"
_NO_TOKEN: Final = -1
"""Stored in place of a missing token."""
TOKENS_UP_TO: Final = 16
"""Tokens that are drawn where none are chosen: more have no room for their words."""
_ID_LETTERS: Final = 40


def words_panel(run: Run, prompt: int | str | None = None, tokens: Stretch | None = None) -> Panel:
    """Return the panel of one prompt.

    Args:
        prompt: its number or id; None = the first that the run has tokens of.
        tokens: which of its tokens; None = the first 16.

    Raises:
        OptionError: a run without tokens; a prompt or tokens that it does not have.
    """
    if NAME not in run or not run[NAME].sizes.get("prompt") or not run[NAME].sizes.get("token"):
        raise OptionError(
            "The picture of tokens needs the measures lens and tokens; this run has "
            f"{', '.join(run.measures) or 'none'}. Survey with measures=['lens', 'tokens']."
        )
    data = run[NAME]
    measured = data["prompt"].values.tolist()
    number = measured[0] if prompt is None else _find_prompt(run, prompt, measured)
    row = data.isel(prompt=measured.index(number))
    length = min(int(row["n_tokens"]), data.sizes["token"])
    places = range(min(length, TOKENS_UP_TO)) if tokens is None else read_stretch(tokens, "tokens", length)
    chosen = row.isel(token=slice(places.start, places.stop))
    pieces = {}
    if "piece" in data:
        pieces = dict(zip(data["id"].values.tolist(), data["piece"].values.tolist()))
    ids = chosen["top_id"].isel(top=0).transpose("boundary", "token").values
    words = tuple(
        tuple("–" if token == _NO_TOKEN else visible(str(pieces.get(token, token))) for token in line)
        for line in ids.tolist()
    )
    probability = chosen["top_probability"].isel(top=0).transpose("boundary", "token").values
    name = run.prompts.names[number]
    names = place_names_in_run(run, number)
    grid = WordGrid(
        words=words,
        probability=np.asarray(probability, dtype=np.float64),
        boundaries=tuple(data["boundary"].values.tolist()),
        tokens=_list_pieces(run, number, places),
        places=tuple(tuple(map(name_place, names.get(token, ()))) for token in places),
        first=places.start,
        final=words[-1],
        title=f"What each boundary predicts: prompt {elided(name, _ID_LETTERS)}",
    )
    return make_word_panel(NAME, grid)


def _find_prompt(run: Run, prompt: int | str, measured: list[int]) -> int:
    numbers = prompts_named(run.prompts, prompt)
    if len(numbers) != 1 or numbers[0] not in measured:
        last = f"{measured[0]} to {measured[-1]}"
        raise OptionError(
            f"prompt={prompt!r} is not one prompt with tokens. Give one of {last}, or survey again with more "
            "(tokens={'prompts': …})."
        )
    return numbers[0]


def _list_pieces(run: Run, number: int, places: range) -> tuple[str, ...]:
    """Return the words of the text, or ids where the run has no words."""
    readers = (lambda: run.prompts.pieces(number), lambda: tuple(map(str, run.prompts[number].ids)))
    for read in readers:
        try:
            return tuple(visible(piece) for piece in read()[places.start : places.stop])
        # A run without text has ids, and an early one has neither.
        except (PromptError, StoreError):
            continue
    return tuple(map(str, places))
