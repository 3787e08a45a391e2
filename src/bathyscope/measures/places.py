"""Places that a person names: tokens by index, by a text that the prompt holds, or by a label of the prompts.

``{"at": "Paris"}`` is the first time that a prompt holds this text, ``{"at": -1}`` its last token, ``{"at":
"label:city"}`` whatever the prompt's label ``city`` says, a text or the number of a token. Several are a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Final

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, describe_value, did_you_mean, warn
from bathyscope.labels import Label, Table
from bathyscope.options import ByName, convert

if TYPE_CHECKING:
    from bathyscope.measures.base import ModelFacts
    from bathyscope.prompts.prompt import TokenizedPrompt

_label = partial(Label, source="own", optional=True)
LABEL: Final = "label:"
"""Beginning of a place that a label of the prompts tells."""
_AT: Final = "at"
_HELP: Final = 'give {"at": "Paris"}, {"at": 7} or {"at": "label:city"}, or a list of these'

PLACES: Final[Table] = {
    "place_start": _label("prompt place", "first token of a named place", "token"),
    "place_stop": _label("prompt place", "token behind a named place", "token"),
}
"""Variables of every measure that takes places by name."""
PlaceNames = tuple[str | int, ...]
Tokens = tuple[tuple[int, ...], ...]
PositionsForm = Annotated[Tokens | Mapping[str, Any] | None, ByName()]
"""Tokens for each prompt, or places by name; ``as_positions`` reads it."""
PlacesForm = Annotated[Mapping[str, Any] | None, ByName()]
"""Places by name; ``as_places`` reads it."""


@dataclass(frozen=True)
class NamedPlaces:
    """Places by the names that somebody gave them.

    Args:
        at: texts, numbers of tokens (negative ones count from the end), or ``label:NAME``.
    """

    at: PlaceNames

    @property
    def names(self) -> tuple[str, ...]:
        """What results call them."""
        return tuple(str(place).removeprefix(LABEL) for place in self.at)


@dataclass(frozen=True)
class TokenPlace:
    """Tokens of one prompt that stand together; none where the prompt has no such place."""

    tokens: range

    def __bool__(self) -> bool:
        return bool(self.tokens)


NO_PLACE: Final = TokenPlace(range(-1, -1))
"""Of a prompt that is not measured."""


def as_positions(value: Any, measure: str) -> Tokens | NamedPlaces | None:
    """Return positions as options keep them: places by name, or tokens for each prompt.

    Raises:
        OptionError: neither.
    """
    if value is None or isinstance(value, NamedPlaces):
        return value
    if isinstance(value, Mapping):
        return _as_named(value, f"{measure}: positions")
    tokens: Tokens = convert(Tokens, value, f"{measure}: positions")
    return tokens


def as_places(value: Any, measure: str) -> NamedPlaces | None:
    """Return places as options keep them, for measures that take all tokens where none are named.

    Raises:
        OptionError: something else.
    """
    if value is None or isinstance(value, NamedPlaces):
        return value
    if not isinstance(value, Mapping):
        raise OptionError(f"{measure}: positions={describe_value(value)} names no places; {_HELP}.")
    return _as_named(value, f"{measure}: positions")


def _as_named(value: Mapping[Any, Any], where: str) -> NamedPlaces:
    if set(value) != {_AT}:
        other = next((str(key) for key in value if key != _AT), "")
        near = did_you_mean(other, [_AT])
        raise OptionError(f"{where}={dict(value)!r:.80} has to name places by 'at' alone.{near} Write it so: {_HELP}.")
    at = value[_AT]
    places = list(at) if isinstance(at, Sequence) and not isinstance(at, str) else [at]
    wrong = [p for p in places if isinstance(p, bool) or not isinstance(p, str | int) or not str(p).strip()]
    if wrong or not places:
        raise OptionError(f"{where}: {describe_value(wrong[0] if wrong else at)} is no place; {_HELP}.")
    named = NamedPlaces(tuple(places))
    repeated = next((name for name in named.names if named.names.count(name) > 1), None)
    if repeated is not None:
        raise OptionError(f"{where}: two places are called {repeated!r}, which results could not tell apart.")
    return named


def find_places(
    places: NamedPlaces, prompts: Sequence[TokenizedPrompt], facts: ModelFacts, measure: str, *, first: int = 0
) -> list[tuple[TokenPlace, ...]]:
    """Return each prompt's places, in the order of their names.

    Args:
        first: token at which a place can begin.

    Raises:
        OptionError: a prompt that has no such place, or texts of tokens that are unknown or not to be stored.
    """
    finder = _Finder(facts, measure, first)
    by_prompt = [tuple(finder.find(place, prompt) for place in places.at) for prompt in prompts]
    finder.warn_of_repeats(len(prompts))
    return by_prompt


class _Finder:
    """Finds places in prompts, and counts texts that a prompt holds more than once."""

    def __init__(self, facts: ModelFacts, measure: str, first: int) -> None:
        self._facts = facts
        self._measure = measure
        self._first = first
        self._repeated: dict[str, list[str]] = {}

    def find(self, place: str | int, prompt: TokenizedPrompt) -> TokenPlace:
        where = f"{self._measure}: prompt {prompt.id!r}"
        target: Any = place
        if isinstance(place, str) and place.startswith(LABEL):
            name = place.removeprefix(LABEL)
            if name not in prompt.labels:
                near = did_you_mean(name, list(prompt.labels))
                has = ", ".join(map(repr, prompt.labels)) or "none"
                raise OptionError(f"{where} has no label {name!r}, which is to tell a place; its labels: {has}.{near}")
            target = prompt.labels[name]
            if isinstance(target, float) and target == int(target):
                target = int(target)
        if isinstance(target, int):
            return self._by_index(target, prompt, where)
        if not isinstance(target, str) or not target.strip():
            raise OptionError(f"{where}: {describe_value(target)} is no place; give a text or the number of a token.")
        return self._by_text(target, prompt, where, is_typed=target == place)

    def warn_of_repeats(self, total: int) -> None:
        """Warn of texts that prompts hold several times, of which the first is taken."""
        for text, names in self._repeated.items():
            warn(
                f"{self._measure}: {len(names)} of {total} prompts hold {text} more than once, and the first is taken; "
                f"such as prompt {names[0]!r}. Give numbers of tokens, or a label that holds them, to say which."
            )

    def _by_index(self, index: int, prompt: TokenizedPrompt, where: str) -> TokenPlace:
        length = len(prompt)
        token = index + length if index < 0 else index
        if not self._first <= token < length:
            raise OptionError(
                f"{where} has no place at token {index}: it has {length} tokens, allowed: {self._first} to "
                f"{length - 1}, or {self._first - length} to -1."
            )
        return TokenPlace(range(token, token + 1))

    def _by_text(self, text: str, prompt: TokenizedPrompt, where: str, *, is_typed: bool) -> TokenPlace:
        from bathyscope.prompts.tokenizer import pieces

        if self._facts.tokenizer is None:
            raise OptionError(f"{where} was given as token ids, whose texts are unknown; give numbers of tokens.")
        if is_typed and not self._facts.keeps_text:
            raise OptionError(
                f"{self._measure}: positions name a text, and none is to be stored; give numbers of tokens or a label."
            )
        texts = pieces(prompt.ids, self._facts.tokenizer)
        whole = "".join(texts)
        begin = whole.find(text)
        if begin < 0:
            raise OptionError(
                f"{where} does not hold {elided(repr(text), 40)}; it begins {elided(repr(whole), 40)}. Leave it out, "
                "or name places by a label (label:NAME)."
            )
        ends = list(accumulate(map(len, texts)))
        question = len("".join(texts[: len(texts) - (prompt.answer_tokens or 0)]))
        # a name that the answer repeats is that of the question
        again = whole.find(text, begin + 1)
        if again >= 0 and (again < question or begin >= question):
            self._repeated.setdefault(elided(repr(text), 40), []).append(prompt.id)
        # a token that begins before the text, as with a blank, belongs to it
        tokens = [n for n, end in enumerate(ends) if end > begin and end - len(texts[n]) < begin + len(text)]
        if tokens[0] < self._first:
            raise OptionError(
                f"{where}: {elided(repr(text), 40)} begins at token {tokens[0]}; allowed: {self._first} and later."
            )
        return TokenPlace(range(tokens[0], tokens[-1] + 1))


def place_values(places: Sequence[Sequence[TokenPlace]]) -> dict[str, Any]:
    """Return where the places of prompts are, as ``PLACES`` has it."""
    return {
        "place_start": [[place.tokens.start for place in prompt_places] for prompt_places in places],
        "place_stop": [[place.tokens.stop for place in prompt_places] for prompt_places in places],
    }
