"""Where a named model is: a folder here, or the hub. The folder is looked for first, so that a slip costs no time."""

from difflib import get_close_matches
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from bathyscope.errors import ModelError

_LONGEST_PART, _LONGEST = 255, 4096
_EXAMPLE = "a checkpoint folder or a hub name such as Qwen/Qwen2.5-1.5B"


def folder_of(name: str, revision: str | None = None) -> Path | None:
    """The folder that a model's name stands for, with ``~`` written out; None for a name on the hub.

    Raises:
        ModelError: no possible name, a path that leads nowhere (with those that are like it), a file, a folder
            without a configuration, or a revision of a folder.
    """
    _require_a_name(name)
    folder = Path(name).expanduser() if name.startswith("~") else Path(name)
    try:
        is_folder, is_file = folder.is_dir(), folder.is_file()
    except OSError as error:
        raise ModelError(f"{name} cannot be looked at: {error.strerror or error}.") from error
    if is_file:
        raise ModelError(f"{name} is a file; give the checkpoint's folder, a hub name or a .gguf file.")
    if not is_folder:
        if _is_a_path(name, folder, revision):
            raise ModelError(f"There is no folder {name}. {similar_folders(folder)}Give {_EXAMPLE}.")
        return None
    if revision is not None:
        raise ModelError(
            f"revision={revision!r} is for models on the hub, and {name} is a folder, which holds what it holds; "
            "leave revision out, or give the hub name."
        )
    if not (folder / "config.json").is_file():
        what = "a PEFT adapter without its model: load both and give the model in memory, or merge and save them"
        hint = what if (folder / "adapter_config.json").is_file() else "give a folder saved by save_pretrained()"
        raise ModelError(f"{name} is a folder without a config.json; {hint}.")
    return folder


def here(name: str, revision: str | None = None) -> Path | None:
    """The folder that a model was loaded from, if it still is one here."""
    try:
        return folder_of(name, revision)
    except ModelError:
        return None


def similar_folders(folder: Path) -> str:
    """``Did you mean …? `` for folders whose names are like this one's, else the empty string."""
    there = next((above for above in folder.parents if above.is_dir()), Path())
    wanted = folder.relative_to(there).parts[0] if folder.is_relative_to(there) else folder.name
    try:
        names = sorted(entry.name for entry in there.iterdir() if entry.is_dir())
    except OSError:  # a folder that may not be read suggests nothing
        return ""
    close = get_close_matches(wanted, names, n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(str(there / name) for name in close)}? " if close else ""


def _require_a_name(name: str) -> None:
    if not name.strip():
        raise ModelError(f"The model's name is empty; give {_EXAMPLE}.")
    try:
        parts = [len(part) for part in name.encode().split(b"/")]
    except UnicodeEncodeError as error:
        raise ModelError(
            f"The model's name {name!r} holds half a character (a lone surrogate); give {_EXAMPLE}."
        ) from error
    if "\0" in name:
        raise ModelError(f"The model's name {name!r} holds a null character; give {_EXAMPLE}.")
    if max(parts) > _LONGEST_PART or sum(parts) + len(parts) > _LONGEST:
        raise ModelError(f"The model's name {name[:40]!r} … is too long ({len(name)} characters); give {_EXAMPLE}.")


def _is_a_path(name: str, folder: Path, revision: str | None) -> bool:
    """A name that can only be meant as a folder's: written as one, or beside checkpoints that are here."""
    if name.startswith((".", "/", "~")) or name.endswith("/") or name.count("/") > 1:
        return True
    if "/" not in name or not any(folder.parent.glob("*/config.json")):
        return False
    return not isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str)
