"""The models of a reproduction: the paper's, or those at hand."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bathyscope.errors import OptionError
from bathyscope.model.files import ADAPTER
from bathyscope.model.place import folder_of
from bathyscope.options import items_of
from bathyscope.surveying.papers.reproduction import short_name


@dataclass(frozen=True)
class NamedModel:
    """A model with its name in tables.

    Args:
        name: also the name of the folder of its runs.
        source: hub name or local folder.
        published: the paper's hub name for it; None where the paper does not list it.
    """

    name: str
    source: str
    published: str | None


def chosen_models(
    arguments: Sequence[str], published: Sequence[str], default: Sequence[str] | None = None
) -> tuple[NamedModel, ...]:
    """Return the requested models in their order; without a request the paper's, or its default.

    Args:
        arguments: names of the paper (with or without their owner), other hub names, folders, or NAME=FOLDER, one in
            each text or several separated by commas. A folder named after a model of the paper stands for it.
        published: the paper's models by their hub names.
    """
    texts = [part for text in items_of(arguments) for part in ([text] if _is_folder(text) else text.split(","))]
    models = tuple(
        _parse_model(text.strip(), published) for text in texts or (published if default is None else default)
    )
    seen: dict[str, NamedModel] = {}
    for model in models:
        other = seen.setdefault(model.name, model)
        if other is not model:
            raise OptionError(
                f"--models gives two models called {model.name!r} ({other.source} and {model.source}). Give each its "
                f"name: {model.name}-1={other.source} {model.name}-2={model.source}."
            )
    return models


def require_whole_folders(models: Iterable[NamedModel]) -> None:
    """Refuse folders that hold no model, before the first of the models is measured for hours.

    What is not here may be on the hub, or come later: it is looked for when it is loaded, and listed as missing.

    Raises:
        ModelError: names the folder, and what it holds.
    """
    for model in models:
        if _is_folder(model.source) and not (Path(model.source).expanduser() / ADAPTER).is_file():
            folder_of(model.source)


def _parse_model(text: str, published: Sequence[str]) -> NamedModel:
    hub_names = {name.lower(): model for model in published for name in (model, short_name(model))}
    label, equals, folder = text.partition("=")
    # A folder's own name may contain "=".
    if not equals or _is_folder(text):
        folder = text
        label = Path(text).expanduser().resolve().name if _looks_local(text) else text
    if not label or not folder:
        raise OptionError(
            f"--models {text!r} does not name a model. Give a name of the paper, a folder, or NAME=FOLDER."
        )
    listed = hub_names.get(label.lower())
    if not equals and listed is not None and not _looks_local(text):
        folder = listed
    return NamedModel(short_name(listed or label), folder, listed)


def _looks_local(text: str) -> bool:
    return text.startswith((".", "/", "~")) or _is_folder(text)


def _is_folder(text: str) -> bool:
    # Path.is_dir raises for a list of models longer than a file name can be; os.path.isdir returns False.
    return os.path.isdir(os.path.expanduser(text))
