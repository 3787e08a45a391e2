"""Where a named model is: a folder here, or the hub. The folder is looked for first, so that a slip costs no time."""

from difflib import get_close_matches
from pathlib import Path

from huggingface_hub import try_to_load_from_cache
from huggingface_hub.utils import HFValidationError, validate_repo_id

from bathyscope.core.commands import name_command
from bathyscope.core.contents import contents_of
from bathyscope.core.network import unreachable
from bathyscope.core.paths import given_path, impossible
from bathyscope.core.text import counted, elided
from bathyscope.errors import ModelError
from bathyscope.model.files import require_own_files

_EXAMPLE = "a checkpoint folder or a hub name such as Qwen/Qwen2.5-1.5B"
_MOST_MODELS = 5
"""Of a folder of models, that a message names."""


def folder_of(name: str, revision: str | None = None) -> Path | None:
    """Find the folder that a model's name stands for, with ``~`` written out; None for a name on the hub.

    Raises:
        ModelError: no possible name, a path that leads nowhere (with those that are like it), a file, a folder
            without a configuration, or a revision of a folder.
    """
    _require_a_name(name)
    folder = given_path(name, "model") if name.startswith("~") else Path(name)
    try:
        is_folder, is_file = folder.is_dir(), folder.is_file()
    except OSError as error:
        raise ModelError(f"{name} cannot be looked at: {error.strerror or error}.") from error
    if is_file:
        raise ModelError(f"{name} is a file; give the checkpoint's folder, a hub name or a .gguf file.")
    if not is_folder:
        if name != name.strip():
            raise ModelError(
                f"The model's name {elided(repr(name), 60)} has blanks at its ends; give it without: {name.strip()!r}."
            )
        if _is_a_path(name, folder, revision):
            hint = similar_folders(folder) or _of_the_hub(name)
            raise ModelError(f"There is no folder {name}. {hint}Give {_EXAMPLE}.")
        _require_a_hub_name(name)
        return None
    if revision is not None:
        raise ModelError(
            f"revision={revision!r} is for models on the hub, and {name} is a folder, which holds what it holds; "
            "leave revision out, or give the hub name."
        )
    if not (folder / "config.json").is_file():
        what = (
            "an adapter, and a whole model is needed here: merge it (merge_and_unload()), save it and give that folder"
        )
        hint = what if (folder / "adapter_config.json").is_file() else "give a folder saved by save_pretrained()"
        if contents := contents_of(folder):
            hint = f"it holds {contents}. Give a model, such as {_EXAMPLE}"
        elif models := _models_in(folder):
            listed = ", ".join(models[:_MOST_MODELS]) + (", …" if len(models) > _MOST_MODELS else "")
            what = f"{counted(len(models), 'model')} ({listed})"
            hint = f"it holds {what}. Give one of them, or all to {name_command('course')}"
        raise ModelError(f"{name} is a folder without a config.json; {hint}.")
    require_own_files(folder)
    return folder


def _models_in(folder: Path) -> list[str]:
    """Return the folders of models or adapters inside of a folder, shorter names first: in the order of their steps."""
    try:
        names = [
            entry.name
            for entry in folder.iterdir()
            if any((entry / file).is_file() for file in ("config.json", "adapter_config.json"))
        ]
    except OSError:
        return []
    return sorted(names, key=lambda name: (len(name), name))


def here(name: str, revision: str | None = None) -> Path | None:
    """Find the folder that a model was loaded from, if it still exists here."""
    try:
        return folder_of(name, revision)
    except ModelError:
        return None


def similar_folders(folder: Path) -> str:
    """Return ``Did you mean …? `` for folders whose names are like this one's, else the empty string."""
    parent = next((above for above in folder.parents if above.is_dir()), Path())
    first_part = folder.relative_to(parent).parts[0] if folder.is_relative_to(parent) else folder.name
    try:
        names = sorted(entry.name for entry in parent.iterdir() if entry.is_dir())
    except OSError:  # a folder that may not be read suggests nothing
        return ""
    close = get_close_matches(first_part, names, n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(str(parent / name) for name in close)}? " if close else ""


def require_hub(name: str, revision: str | None) -> None:
    """Refuse a name that only the hub could know, where the hub does not answer and the cache lacks it.

    Raises:
        ModelError: with the reason, and folders whose names are similar.
    """
    if isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
        return
    if reason := unreachable():
        raise ModelError(
            f"{name} is no folder here and not in the cache, and the hub cannot be reached ({reason}). "
            f"{'' if '/' in name else similar_folders(Path(name))}Give {_EXAMPLE}."
        )


def _of_the_hub(name: str) -> str:
    """Say how to ask for a model of the hub whose owner has the name of a folder here."""
    could_be = name.count("/") == 1 and not name.startswith((".", "/", "~")) and not name.endswith("/")
    return "For a model of this name on the hub add a revision (--revision main). " if could_be else ""


def _require_a_name(name: str) -> None:
    if not name.strip():
        raise ModelError(f"The model's name is empty; give {_EXAMPLE}.")
    if reason := impossible(name):
        raise ModelError(f"The model's name {elided(repr(name), 40)} {reason}; give {_EXAMPLE}.")
    if "://" in name:
        # of an address on the hub, such as https://huggingface.co/OWNER/MODEL/tree/main
        words = name.partition("://")[2].partition("/")[2].strip("/").partition("/tree/")[0]
        alone = f": {words!r}" if words else ""
        raise ModelError(f"{elided(repr(name), 60)} is an address; give the model's name alone{alone}.")


def _require_a_hub_name(name: str) -> None:
    """Refuse what neither a folder here nor a repository on the hub is called."""
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ModelError(
            f"{elided(repr(name), 60)} is no folder here, and no name on the hub, which has letters, digits, '-', '_', "
            f"'.' and one '/'. Give {_EXAMPLE}."
        ) from error


def _is_a_path(name: str, folder: Path, revision: str | None) -> bool:
    """Whether a name is meant as a folder's: written as one, or in a folder that exists."""
    if name.startswith((".", "/", "~")) or name.endswith("/") or name.count("/") > 1:
        return True
    if "/" not in name or revision is not None or not folder.parent.is_dir():
        return False
    return not isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str)
