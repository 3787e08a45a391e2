"""Prompts that choose, and prompts that judge: different ones, and enough of them to be sure of something."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np

from bathyscope.errors import PromptError, warn
from bathyscope.prompts.overlap import NEARLY_ALL, hashed_runs, nearly_copied
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts

_FEWEST_TOKENS: Final = 2
_HASH_LETTERS: Final = 12
_RUN: Final = 32
"""Tokens in a row that texts of their own hardly share."""
_SHORTEST_RUN: Final = 16
"""Tokens in a row that texts of their own hardly share where they are all of a prompt."""


def judging(prompts: Prompts, what: str = "test prompts") -> Prompts:
    """The prompts, each once: copies would make an interval narrower, and the more of them the surer of nothing.

    One warning counts those that are left out.

    Raises:
        PromptError: there are fewer than two, of which no interval comes.
    """
    # Reversed, so that of equal prompts the first one stays.
    places = {(prompt.ids, prompt.answer_tokens): place for place, prompt in reversed(list(enumerate(prompts)))}
    again = len(prompts) - len(places)
    if len(places) < 2:
        copies = "" if not again else f" ({len(prompts)} copies of it were given)"
        singular = what.removesuffix("s")
        raise PromptError(f"Only one {singular}{copies}: an interval needs at least two (40 or more recommended).")
    if not again:
        return prompts
    warn(f"{again} of {len(prompts)} {what} have the tokens of others and are left out, so that each counts once.")
    return prompts.some(sorted(places.values()))


def token_hashes(prompts: Prompts) -> frozenset[str]:
    """Return a short hash of the tokens of each prompt: what a stored choice tells of the prompts that made it."""
    return frozenset(_token_hash(prompt) for prompt in prompts)


def _token_hash(prompt: TokenizedPrompt) -> str:
    return hashlib.sha256(",".join(map(str, prompt.ids)).encode()).hexdigest()[:_HASH_LETTERS]


def require_others(hashes: Collection[str], test: Prompts, choice: str) -> None:
    """Refuse to judge what follows from a stored choice with the prompts that made the choice.

    Args:
        hashes: ``token_hashes`` of these; empty = unknown.
        choice: what they chose, in words.

    Raises:
        PromptError: a test prompt has the tokens of one of them.
    """
    shared = [prompt.id for prompt in test if _token_hash(prompt) in hashes]
    if shared:
        raise PromptError(
            f"{len(shared)} of {len(test)} test prompts are among those that chose {choice} (first: {shared[0]!r}, by "
            "its tokens). What chooses cannot judge: give other texts, such as the test prompts of the plan."
        )


def require_apart(calibration: Prompts, test: Prompts) -> None:
    """What chooses may not judge. A warning counts test prompts that are largely of calibration prompts' tokens.

    Raises:
        PromptError: a prompt of the same tokens is in both, or has nothing to predict.
    """
    chosen = {prompt.ids for prompt in calibration}
    shared = [prompt.id for prompt in test if prompt.ids in chosen]
    if shared:
        raise PromptError(
            f"{len(shared)} of {len(test)} test prompts stand among the calibration prompts too (first: {shared[0]!r}, "
            "by its tokens). What chooses cannot judge: give other texts, such as another part of the corpus."
        )
    for role, prompts in (("calibration", calibration), ("test", test)):
        short = next((prompt.id for prompt in prompts if len(prompt) < _FEWEST_TOKENS), None)
        if short is not None:
            raise PromptError(
                f"The {role} prompt {short!r} has a single token, so there is nothing to predict; remove it."
            )
    largely = _largely_of(calibration, test)
    nearly = [name for name in nearly_copied(calibration, test) if name not in largely]
    if nearly:
        warn(
            f"{len(nearly)} of {len(test)} test prompts have more of their tokens in a row from a calibration prompt "
            f"than prompts of one set have from each other (first: {nearly[0]!r}): windows of one text that overlap, "
            "or copies with a change. There, what chose judges itself; give other texts."
        )
    if largely:
        warn(
            f"{len(largely)} of {len(test)} test prompts have half of their tokens and more, {_RUN} and more in a row "
            f"or all of a shorter prompt, from calibration prompts (first: {largely[0]!r}): windows of one text that "
            "overlap, or a long beginning that all share. There, what chose judges itself; give other texts."
        )


def _largely_of(calibration: Prompts, test: Prompts) -> list[str]:
    """Names of the test prompts of which half of the tokens are in runs that calibration prompts have too.

    Runs of ``_RUN`` tokens count wherever they are, and so do shorter prompts as a whole: a window of one text holds
    short ones of the same text whole but for those at its ends, of which ``_SHORTEST_RUN`` tokens count there.
    """
    bodies = [_body_of(prompt) for prompt in calibration]
    runs_by_length: dict[int, set[int]] = {}
    for body in bodies:
        if len(body) >= _SHORTEST_RUN:
            length = min(_RUN, len(body))
            runs_by_length.setdefault(length, set()).update(hashed_runs(body, length))
    ends = {run for body in bodies if len(body) < _RUN for run in hashed_runs(body, _SHORTEST_RUN)}
    overlapping = []
    for prompt in test:
        shared = np.zeros(len(prompt), dtype=bool)
        for length, calibration_runs in runs_by_length.items():
            # a shorter prompt that is nearly all of this one is another question (``nearly_copied``)
            if length < _RUN and length >= NEARLY_ALL * len(prompt):
                continue
            for start, run in enumerate(hashed_runs(prompt.ids, length)):
                if run in calibration_runs:
                    shared[start : start + length] = True
        for start in (0, 1, max(0, len(prompt) - _SHORTEST_RUN)):
            if shared.any() and hash(prompt.ids[start : start + _SHORTEST_RUN]) in ends:
                shared[start : start + _SHORTEST_RUN] = True
        # A common instruction at the beginning is no overlap of texts; half of a prompt is.
        if shared.mean() >= 0.5:
            overlapping.append(prompt.id)
    return overlapping


def _body_of(prompt: TokenizedPrompt) -> tuple[int, ...]:
    """Return the tokens of a prompt; of a short one without the first, with which all texts may begin."""
    return prompt.ids[1:] if len(prompt) <= _RUN else prompt.ids


def by_clusters(attrs: Mapping[str, Any]) -> str:
    """Return in words which prompts were resampled as one, to follow their number; nothing where each was by itself."""
    return f" in {attrs['clusters']} clusters by {attrs['cluster']}" if "cluster" in attrs else ""


def require_answers(samples: Mapping[Any, Prompts]) -> None:
    """Every prompt has an answer.

    Raises:
        PromptError: one has none.
    """
    for role, prompts in samples.items():
        without_one = [prompt.id for prompt in prompts if not prompt.answer_tokens]
        if without_one:
            raise PromptError(
                f"over='answer' counts the tokens of answers, and {len(without_one)} of {len(prompts)} {role} prompts "
                f"have none (first: {without_one[0]!r}); give prompts with answers, or over='tokens'."
            )
