"""The hash of what a model computes with that its configuration would make otherwise."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from bathyscope.model.anatomy.recording import reset_rotary
from bathyscope.model.attending import registered_functions
from bathyscope.model.constants.comparing import differing_names, is_underscored, own_classes, owner_of
from bathyscope.model.constants.reading import Constants, built_constants, constants_of, on_host
from bathyscope.model.contents import Content, content_of_tensor
from bathyscope.model.origins import is_installed
from bathyscope.model.replaced import replaced_methods


@dataclass(frozen=True)
class _Known:
    """What is known of a model's constants.

    Args:
        first: their hash when the model was met first.
        now: their hash when they were looked at last.
        settings: hash of the configuration then.
        departure: their hash where they are not those of the configuration; None = they are.
        unread: what cannot be read, by path.
    """

    first: str
    now: str
    settings: str
    departure: str | None
    unread: tuple[str, ...] = ()


_KNOWN: WeakKeyDictionary[nn.Module, _Known] = WeakKeyDictionary()


def departure_of(hf: nn.Module, settings: str) -> str | None:
    """Return a hash of the constants that are not those of the model's configuration; None where all are.

    A model that cannot be made of its configuration is compared with itself as it was met first.

    Args:
        settings: hash of the configuration.
    """
    return looked_at(hf, settings)[0]


def unread_values(hf: nn.Module, settings: str) -> list[str]:
    """Return what a model computes with that cannot be read, by path, each with its class.

    A model with such a value is known to be equal to none.

    Args:
        settings: hash of the configuration.
    """
    return looked_at(hf, settings)[1]


def looked_at(hf: nn.Module, settings: str) -> tuple[str | None, list[str]]:
    """Return ``departure_of`` and ``unread_values`` of one look at a model."""
    reset_rotary(hf)
    constants = on_host(constants_of(hf))
    look = _look_at(hf, constants, settings)
    # looked at each time: of what a method holds, no more can be stored than this hash
    code = {**replaced_methods(hf), **registered_functions(hf), **own_classes(hf)}
    unread = [*look.unread, *(f"{name} ({content.unread})" for name, content in code.items() if content.unread)]
    if not code:
        return look.departure, unread
    return _hash(look.departure, sorted((name, content.text) for name, content in code.items())), unread


def _look_at(hf: nn.Module, constants: Constants, settings: str) -> _Known:
    texts = {name: _text(value) for name, value in constants.items()}
    now = _hash(sorted(texts.items()))
    before = _KNOWN.get(hf)
    if before is not None and before.now == now and before.settings == settings:
        return before
    # libraries write notes of their own into modules at any time
    lasting = _hash(sorted(item for item in texts.items() if not is_underscored(item[0])))
    first = lasting if before is None else before.first
    built = built_constants(hf)
    since_first = None if lasting == first else lasting
    departure = since_first if built is None else _departure(constants, built)
    somebodys = {path for path, module in hf.named_modules() if not is_installed(type(module))}
    differing = (
        [name for name in constants if owner_of(name) in somebodys]
        if built is None
        else differing_names(constants, built)
    )
    unread = tuple(
        f"{name} ({content.unread})"
        for name in differing
        if isinstance(content := constants.get(name), Content) and content.unread
    )
    _KNOWN[hf] = _Known(first, now, settings, departure, unread)
    return _KNOWN[hf]


def _departure(constants: Constants, built: Constants) -> str | None:
    differing = differing_names(constants, built)
    return _hash([(name, _text(constants.get(name))) for name in differing]) if differing else None


def _text(value: Any) -> str:
    """Return a constant as text; a table by its bytes."""
    if isinstance(value, Content):
        return value.text
    return content_of_tensor(value) if isinstance(value, Tensor) else repr(value)


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
