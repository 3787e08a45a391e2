"""Calls of verbs: their options are declared by dataclasses, which describe them and say what is allowed."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

from bathyscope.core.bundles import Bundles, bundle, names_in, unbundle
from bathyscope.core.conditions import require_conditions
from bathyscope.core.descriptions import describe_arguments
from bathyscope.errors import ArgumentError, did_you_mean
from bathyscope.options import annotations_that_resolve, convert_plain_values

P = ParamSpec("P")
R = TypeVar("R")


def takes(*options_types: type, bundles: Bundles | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of verbs that take the options of these dataclasses.

    A verb's signature names the options and their plain types, for editors and type checkers. Ranges, conditions and
    descriptions come from the dataclasses: the docstring gets an entry for each option, and a call is refused that the
    dataclasses do not allow, before the verb runs.

    Numbers, texts, truth values, lists of them, and choices are checked; models, prompts, tables and paths are not.
    A ``seed`` must be one that numpy accepts.

    Args:
        bundles: arguments that hold several options each; the options are accepted under keywords of their own too.
    """
    inside = names_in(bundles or {})

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            keywords: Mapping[str, Any] = options if bundles is None else unbundle(bundles, options)
            single = {name: value for name, value in keywords.items() if name in inside}
            others = {name: value for name, value in keywords.items() if name not in inside}
            bound = bind_arguments(function, signature, args, others)
            arguments = checked_arguments(function, {**bound.arguments, **single}, options_types, inside)
            for options_type in options_types:
                require_conditions(options_type, arguments)
            bound.arguments.update(arguments if bundles is None else bundle(bundles, arguments))
            return function(*bound.args, **bound.kwargs)

        call.__doc__ = describe_arguments(function, options_types, bundles or {})
        return call

    return decorate


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a verb that refuses plain arguments which its own annotations do not allow, as ``takes`` does."""
    return takes()(function)


def bind_arguments(
    function: Callable[..., Any], signature: inspect.Signature, args: Sequence[Any], options: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return the arguments of a call by name.

    Args:
        signature: of the function, or one of several functions that share their keywords.

    Raises:
        ArgumentError: an unknown keyword (with a near miss), one that is missing, or too many arguments.
    """
    try:
        return signature.bind(*args, **options)
    except TypeError as error:
        parameters = signature.parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        unknown = [] if takes_any else [name for name in options if name not in parameters]
        # Python names what is missing first, which is often what was misspelt
        reason = f"got an unexpected keyword argument {unknown[0]!r}" if unknown else str(error)
        near = did_you_mean(unknown[0], parameters) if unknown else ""
        name, home = _public_name(function)
        raise ArgumentError(f"{name}(): {reason}.{near} See help({home}.{name}).") from None


def _public_name(function: Callable[..., Any]) -> tuple[str, str]:
    """Return a function's name and the module that it is called in: the package's own where it is public."""
    package = sys.modules.get("bathyscope")
    listed = getattr(package, "__all__", ())
    places = getattr(package, "_LAZY", {})
    called = function.__qualname__.rpartition("<locals>.")[2]
    for name in listed:
        if called in (name, places.get(name, "").rpartition(":")[2]):
            return name, "bathyscope"
    package_around = function.__module__.rpartition(".")[0]
    is_public_there = called in getattr(sys.modules.get(package_around), "__all__", ())
    return called, package_around if is_public_there else function.__module__


def checked_arguments(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    options_types: Sequence[type] = (),
    bundled: Sequence[str] = (),
) -> dict[str, Any]:
    """Return arguments by name as a verb takes them; arguments that it lacks stay unchanged.

    Args:
        bundled: options that the verb takes inside of others.
    """
    verb = inspect.unwrap(function)
    hints = annotations_that_resolve(verb)
    plain = annotations_that_resolve(verb, include_extras=False)
    for options_type in options_types:
        declared = get_type_hints(options_type, include_extras=True)
        # Where a call takes more kinds of values than a shell can write, the verb itself tells them apart.
        hints |= {
            name: declared[name]
            for name, hint in get_type_hints(options_type).items()
            if name in bundled or plain.get(name) == hint
        }
    return convert_plain_values(hints, arguments)
