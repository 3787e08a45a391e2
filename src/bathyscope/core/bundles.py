"""Bundles: options of a call that belong together, given as one argument or each by its own keyword.

``survey(..., growing={"until": 0.5, "budget": "10min"})`` is ``survey(..., until=0.5, budget="10min")``.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from bathyscope.errors import OptionError, describe_value, did_you_mean

T = TypeVar("T")
Bundles = Mapping[str, type]
"""Argument of a call → the options class that holds what it bundles."""


def names_in(bundles: Bundles) -> list[str]:
    """Return the keywords of all bundled options."""
    return [option.name for kind in bundles.values() for option in fields(kind)]


def read_bundle(kind: type[T], value: object, name: str) -> T:
    """Return the options of a bundle, from an instance of its class, a dict or None (the defaults).

    The values are those of the options' own keywords, and are checked as these are.

    Raises:
        OptionError: of another type, or an unknown option.
    """
    if isinstance(value, kind):
        return value
    options: object = {} if value is None else value
    allowed = [option.name for option in fields(kind)]  # type: ignore[arg-type]
    if not isinstance(options, Mapping):
        raise OptionError(
            f"{name}={describe_value(value)} is no bundle of options; give a dict or {kind.__name__} of: "
            f"{', '.join(allowed)}."
        )
    for option in options:
        if option not in allowed:
            near = did_you_mean(str(option), allowed)
            raise OptionError(f"{name} has no option {option!r}.{near} Allowed: {', '.join(allowed)}.")
    return kind(**options)


def unbundle(bundles: Bundles, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with each bundled option under its own keyword.

    Raises:
        OptionError: a bundle that is neither a dict nor of its class, an unknown option in it, or one that its own
            keyword says otherwise.
    """
    single = {name: value for name, value in arguments.items() if name not in bundles}
    for name, kind in bundles.items():
        bundle: Any = read_bundle(kind, arguments.get(name), name)
        for option in fields(kind):
            value = getattr(bundle, option.name)
            if value == option.default:
                continue
            if single.get(option.name, value) != value:
                raise OptionError(
                    f"{option.name}={describe_value(single[option.name])} and {name}={{{option.name!r}: "
                    f"{describe_value(value)}}} are two values of one option; give one of them."
                )
            single[option.name] = value
    return single


def bundle(bundles: Bundles, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with bundled options gathered, one of its class for every bundle."""
    bundled = {
        name: kind(**{option.name: arguments[option.name] for option in fields(kind) if option.name in arguments})
        for name, kind in bundles.items()
    }
    inside = names_in(bundles)
    return {**{name: value for name, value in arguments.items() if name not in inside}, **bundled}
