"""Which models a reproduction measures: the paper's, or those at hand."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bathyscope.errors import OptionError
from bathyscope.surveying.papers.reproduction import short_name


@dataclass(frozen=True)
class NamedModel:
    """A model under the name that tables show.

    Args:
        name: also the name of the folder of its runs.
        source: hub name or local folder.
        published: the hub name by which the paper lists it, None where it does not.
    """

    name: str
    source: str
    published: str | None


def chosen_models(
    given: Sequence[str], published: Sequence[str], default: Sequence[str] | None = None
) -> tuple[NamedModel, ...]:
    """The models asked for, in that order; all of the paper's, or its default, where none are.

    Args:
        given: names of the paper (with or without their owner), other hub names, folders, or NAME=FOLDER, one a text
            or several separated by commas. A folder that is called as a model of the paper stands for it.
        published: the paper's models by their hub names.
    """
    texts = [part for text in given for part in ([text] if _is_folder(text) else text.split(","))]
    models = tuple(_model(text.strip(), published) for text in texts or (published if default is None else default))
    seen: dict[str, NamedModel] = {}
    for model in models:
        other = seen.setdefault(model.name, model)
        if other is not model:
            raise OptionError(
                f"--models gives two models called {model.name!r} ({other.source} and {model.source}); name them "
                f"apart: {model.name}-1={other.source} {model.name}-2={model.source}."
            )
    return models


def _model(text: str, published: Sequence[str]) -> NamedModel:
    hub_names = {name.lower(): model for model in published for name in (model, short_name(model))}
    label, equals, folder = text.partition("=")
    # a folder's own name may hold the sign
    if not equals or _is_folder(text):
        folder = text
        label = Path(text).expanduser().resolve().name if _looks_local(text) else text
    if not label or not folder:
        raise OptionError(f"--models {text!r} names no model; give a name of the paper, a folder, or NAME=FOLDER.")
    listed = hub_names.get(label.lower())
    if not equals and listed is not None and not _looks_local(text):
        folder = listed
    return NamedModel(short_name(listed or label), folder, listed)


def _looks_local(text: str) -> bool:
    return text.startswith((".", "/", "~")) or _is_folder(text)


def _is_folder(text: str) -> bool:
    # os.path, not Path, which raises where a list of many models is longer than a file's name may be
    return os.path.isdir(os.path.expanduser(text))
