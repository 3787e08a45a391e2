"""All measures by name, in the order in which they appear in a run; none is imported before it is used.

In addition to the package's own there are those of plug-ins (entry points of the group ``bathyscope.measures``),
classes and instances that a caller gives, and ``file.py:Class`` for a command line.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.plug_ins import declared, taken
from bathyscope.errors import OptionError, describe_value, did_you_mean
from bathyscope.measures import of
from bathyscope.measures.declaration import Declaration
from bathyscope.options import coerce, items_of, require_allowed

if TYPE_CHECKING:
    from bathyscope.measures.base import Measure

    Asked = str | type[Measure[Any]] | Measure[Any]
    """A name, a class derived from ``Measure``, or an instance of one, which has its options with it."""

GROUP: Final = "bathyscope.measures"
"""Of the entry points: ``my_measure = "my_package.my_module:MyMeasure"``."""


def _read_folder() -> dict[str, Declaration]:
    """Return the declaration of every file in ``of/``, in their order."""
    declarations = [_read_file(file.name) for file in iter_modules(of.__path__)]
    in_order = sorted(declarations, key=lambda declaration: (declaration.order, declaration.name))
    return {declaration.name: declaration for declaration in in_order}


def _read_file(name: str) -> Declaration:
    """Return the declaration of one file in ``of/``.

    Raises:
        ImportError: a file without one, or one of another name; its measure would be unknown.
    """
    declaration = getattr(importlib.import_module(f"{of.__name__}.{name}"), "DECLARATION", None)
    if not isinstance(declaration, Declaration):
        raise ImportError(f"measures/of/{name}.py has no DECLARATION; write DECLARATION = Declaration({name!r}, …).")  # noqa: TRY004
    if declaration.name != name:
        raise ImportError(
            f"measures/of/{name}.py declares {declaration.name!r}; give the file and the measure one name."
        )
    return declaration


MEASURES: Final[Mapping[str, Declaration]] = _read_folder()
DEFAULT = ("residual", "lens", "skip", "drop", "tokens", "effective_depth")
SYNONYMS: Final[Mapping[str, str]] = {
    synonym: name for name, declaration in MEASURES.items() for synonym in declaration.synonyms
}
"""What the field calls a measure → its name here, for those who ask by the former."""
_RESERVED = frozenset(("all", "noise"))


def expand(requested: Iterable[Asked], without: Container[str] = ()) -> dict[str, Declaration]:
    """Return the requested measures and those that they need, by name, in the registry's order; plug-ins come last.

    ``all`` means every measure of the package and of plug-ins.

    Args:
        without: measures that ``all`` leaves out, and no other one brings along.

    Raises:
        OptionError: unknown name, no name at all, or two measures of one name.
    """
    declarations: dict[str, Declaration] = {}
    # Measures bring along those that they read from.
    for item in items_of(requested, "measures"):
        left_out = without if isinstance(item, str) and item == "all" else ()
        for declaration in (each for each in _declared(item) if each.name not in left_out):
            if declarations.setdefault(declaration.name, declaration) != declaration:
                raise OptionError(f"Two measures are called {declaration.name!r}; give one of them another name.")
            needed = [name for name in declaration.requires if name not in declarations and name not in without]
            declarations |= {name: _required(declaration, name) for name in needed}
    if not declarations:
        raise OptionError(f"No measure asked for; allowed: {_allowed()}.")
    built_in = [name for name in MEASURES if name in declarations]
    return {name: declarations[name] for name in (*built_in, *(name for name in declarations if name not in MEASURES))}


def chosen(
    requested: Iterable[Asked],
    options: Mapping[str, Any],
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
    without: Container[str] = (),
) -> dict[str, tuple[Declaration, Any]]:
    """The measures of a survey with their options, checked before anything is loaded.

    Args:
        options: measure → its options, as a dict or its options class.
        defaults: measure → options where none are given (a preset's).
        without: measures that ``all`` leaves out, and no other one brings along.

    Raises:
        OptionError: unknown measure or option, a value that is not allowed, options for a measure not asked for.
    """
    declarations = expand(requested, without)
    for name in options:
        if name in declarations:
            continue
        names = list(dict.fromkeys([*declarations, *MEASURES]))
        if name not in names:
            near = meant_by(name) or did_you_mean(name, names)
            raise OptionError(
                f"There is no option {name!r}.{near} Options of a measure go under its "
                f"name ({', '.join(names)}), as a dict."
            )
        raise OptionError(
            f"Options for {name} were given, but {name} is not among the measures: {', '.join(declarations)}."
        )
    measures: dict[str, tuple[Declaration, Any]] = {}
    for name, declaration in declarations.items():
        measure_options = options.get(name)
        if defaults is not None and (measure_options is None or isinstance(measure_options, Mapping)):
            measure_options = {**defaults.get(name, {}), **(measure_options or {})}
        if declaration.instance is not None and measure_options:
            raise OptionError(f"{name} was given as an instance, which already has its options; give no others.")
        measures[name] = (
            declaration,
            coerce(
                declaration.options_type,
                declaration.instance.options if declaration.instance is not None else measure_options,
                name,
            ),
        )
    return measures


def from_elsewhere(names: Iterable[str]) -> dict[str, Declaration]:
    """Those of the named measures that are not the package's own, whose code is loaded for it.

    Raises:
        OptionError: unknown name.
    """
    external = [name for name in names if name not in MEASURES]
    # Those that a measure brings along may be the package's own.
    declarations = expand(external) if external else {}
    return {name: declaration for name, declaration in declarations.items() if name not in MEASURES}


def make(declaration: Declaration, options: object = None) -> Measure[Any]:
    """A declared measure with its options (anything that ``options.coerce`` takes); its code is imported here."""
    code = _code_of(declaration.name) if declaration.code is None else declaration.code
    measure: Measure[Any] = code(options) if declaration.instance is None else declaration.instance
    if declaration.code is not None:
        from bathyscope.measures.guard import require_options  # the guard imports torch

        require_options(measure)
    return measure


def _code_of(name: str) -> type[Measure[Any]]:
    """Return a measure's class: of its file in ``of/``, or of the module of its name where that one is too heavy.

    Raises:
        ImportError: neither has a class of the measure's name.
    """
    class_name = name.title().replace("_", "")
    modules = (f"{of.__name__}.{name}", f"bathyscope.measures.{name}")
    for module in modules:
        # not by catching ModuleNotFoundError, which a missing library raises too
        if importlib.util.find_spec(module) is not None:
            measure: type[Measure[Any]] | None = getattr(importlib.import_module(module), class_name, None)
            if measure is not None:
                return measure
    raise ImportError(
        f"The measure {name} has no class {class_name}, neither in measures/of/{name}.py nor in measures/{name}.py; "
        f"call its class {class_name}."
    )


def home_of(name: str) -> Path:
    """Return the file of the package that has a measure's code."""
    return Path(inspect.getfile(_code_of(name)))


def plug_ins() -> dict[str, Declaration]:
    """Measures of installed plug-ins by name. One that cannot be loaded is left out, with a warning that names it."""
    declarations = {point.name: taken(point, "The measure", _read) for point in _entry_points()}
    return {name: declaration for name, declaration in declarations.items() if declaration is not None}


def declaration_of(measure: type[Measure[Any]]) -> Declaration:
    """What a measure's class says of itself."""
    name = measure.name
    if not isinstance(name, str) or not name.isidentifier() or name in _RESERVED:
        raise OptionError(
            f"{measure.__qualname__} cannot be called {name!r}; a measure's name is made of letters, digits and "
            f"underscores, and is none of {', '.join(sorted(_RESERVED))}."
        )
    _require_options_type(measure)
    _require_names(measure)
    return Declaration(
        name,
        (inspect.getdoc(measure) or name).splitlines()[0],
        measure.options_type,
        measure.table,
        measure.requires,
        measure.needs_answers,
        measure.derived,
        measure,
        needs=measure.needs,
    )


def _require_options_type(measure: type[Measure[Any]]) -> None:
    """Refuse options that no caller could give: no dataclass, no defaults, or defaults that are not allowed."""
    options_type = measure.options_type
    called = getattr(options_type, "__name__", repr(options_type))
    if not isinstance(options_type, type) or not is_dataclass(options_type):
        raise OptionError(
            f"{measure.__qualname__.rpartition('.')[2]}.options_type is {called} and no dataclass. Give a class with "
            "@dataclass(frozen=True)."
        )
    try:
        defaults = options_type()
    except TypeError as error:
        reason = str(error).partition("() ")[2] or error
        raise OptionError(f"{called}() fails ({reason}). Give every option a default.") from error
    require_allowed(defaults, measure.name)


def _require_names(measure: type[Measure[Any]]) -> None:
    """Refuse what a measure reads from where it is no list of names, such as a text, of whose letters each is one."""
    requires: Any = measure.requires
    is_list = isinstance(requires, Sequence) and not isinstance(requires, str)
    if not is_list or not all(isinstance(name, str) for name in requires):
        raise OptionError(
            f"{measure.__qualname__}.requires is {describe_value(requires)} and no list of measures; give their names, "
            "such as ('lens',)."
        )


def _declared(item: Asked) -> list[Declaration]:
    if isinstance(item, str):
        return [*MEASURES.values(), *plug_ins().values()] if item == "all" else [_named(item)]
    kind = item if isinstance(item, type) else type(item)
    # not by importing the base class, which imports torch: whoever has a measure has imported it
    if not all(hasattr(kind, name) for name in ("options_type", "requires", "probe", "name")):
        raise OptionError(
            f"{describe_value(item)} is no measure; allowed: names ({_allowed()}), classes derived from "
            "bathyscope.measures.base.Measure, and instances of them."
        )
    declaration = declaration_of(kind)
    if declaration.name in MEASURES and not kind.__module__.startswith("bathyscope.measures."):
        raise OptionError(
            f"{kind.__qualname__} cannot be called {declaration.name!r}, which is a measure of the package."
        )
    return [declaration if isinstance(item, type) else replace(declaration, instance=item)]


def _required(declaration: Declaration, name: str) -> Declaration:
    """Return a measure that another one reads from; a message that it is unknown names that other one."""
    try:
        return _named(name)
    except OptionError as error:
        raise OptionError(f"The measure {declaration.name} requires {name!r}: {error}") from error


def _named(name: str) -> Declaration:
    if name in MEASURES:
        return MEASURES[name]
    if ":" in name:
        return _load_from_text(name)
    point = next((point for point in _entry_points() if point.name == name), None)
    declaration = None if point is None else taken(point, "The measure", _read)
    if declaration is None:
        raise OptionError(f"Unknown measure {name!r}.{meant_by(name)} Allowed: {_allowed()}.")
    return declaration


def meant_by(name: str) -> str:
    """`` Did you mean 'lens'?`` for a word of the field or a near miss, else the empty string."""
    plain = name.lower().replace("-", "_").replace(" ", "_")
    if plain in SYNONYMS:
        return f" Did you mean {SYNONYMS[plain]!r}?"
    parts = name.split()
    if len(parts) > 1 and all(part in MEASURES for part in parts):
        return f" Separate names by commas: {','.join(parts)}."
    return did_you_mean(name, [*MEASURES])


def _allowed() -> str:
    return ", ".join(["all", *MEASURES, *(point.name for point in _entry_points())])


def _load_from_text(text: str) -> Declaration:
    """``module:Class`` or ``file.py:Class``; the caller names code of their own, which is run."""
    place, _, name = text.rpartition(":")
    try:
        measure = getattr(_run_file(Path(place)) if place.endswith(".py") else importlib.import_module(place), name)
    # a file that ends the program would do so without a word
    except (Exception, SystemExit) as error:
        raise OptionError(
            f"No measure could be taken from {text!r} ({type(error).__name__}: {error}); give module:Class or "
            "file.py:Class."
        ) from error
    return _declared(measure)[0]


def _run_file(path: Path) -> ModuleType:
    """The module in a file, under the file's name."""
    # The file is run once, however often its measure is named: a class run twice would be two measures of one name.
    loaded = sys.modules.get(path.stem)
    if loaded is not None and Path(str(loaded.__file__)).absolute() == path.absolute():
        return loaded
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if loaded is not None or spec is None or spec.loader is None:
        raise ImportError(f"{path.stem!r} is the name of another module; call the file otherwise")
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


def _entry_points() -> tuple[EntryPoint, ...]:
    return tuple(point for point in declared(GROUP) if point.name not in MEASURES)


def _read(point: EntryPoint) -> Declaration:
    declaration = declaration_of(point.load())
    if declaration.name != point.name:
        raise OptionError(f"its class calls itself {declaration.name!r}")
    return declaration
