"""The one kind of folder that results are kept in: one writer at a time, whole and hashed files, and a manifest."""

import hashlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from filelock import FileLock, Timeout

from bathyscope.core.atomic import PARTIAL, create, probe, remove_partial, write_atomically
from bathyscope.core.contents import COURSE, MODEL, contents_of
from bathyscope.core.foreign import MOST, kind_of_entry, read_regular
from bathyscope.core.paths import given_path
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided, legible, written_out
from bathyscope.errors import OptionError, StoreError, describe_value, warn

LOCK = ".lock"
OWNER = ".owner"
_LONGEST_OWNER: Final = 200
MOST_DEEP: Final = 100
"""Lists and objects inside of each other in a stored record, at most; honest ones have a dozen."""


class FolderLock:
    """Exclusive right to write in a folder, from construction to :meth:`release`.

    The lock is the kernel's (``flock`` where the file system has it), so a killed process leaves none behind.
    ``.owner`` only serves the message that a second process gets.

    Raises:
        StoreError: another process is writing there.
        OSError: the lock file cannot be written.
    """

    def __init__(self, folder: Path, noun: str = "run") -> None:
        self._owner = folder / OWNER
        # thread_local=False: a survey may be closed from another thread than the one that opened it.
        self._lock = FileLock(folder / LOCK, thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise StoreError(
                f"The {noun} in {str(folder)!r} is being written by {self._holder()}; one process at a time may "
                f"write there. Wait until it ends, stop it, or give another folder (out=..., --out ...)."
            ) from None
        try:
            # whatever has that name, a link too, was put there by a process that is gone, or by somebody else
            self._owner.unlink(missing_ok=True)
            with open(create(self._owner), "w", encoding="utf-8") as stream:
                stream.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Give the right back; a second call does nothing."""
        if self._lock.is_locked:
            self._owner.unlink(missing_ok=True)
            self._lock.release()

    def _holder(self) -> str:
        try:
            owner = read_regular(self._owner, self._owner.parent, _LONGEST_OWNER).decode("utf-8", "replace")
            return elided(owner.strip(), _LONGEST_OWNER) or "another process"
        except OSError:  # the holder is just beginning or just ending
            return "another process"


@dataclass(frozen=True)
class Kind:
    """What a folder holds.

    Args:
        noun: such as ``run``, for messages.
        made_by: what writes such a folder.
        manifest: the JSON file that makes a folder one of this kind.
        schemas: of the manifest, those that are read; the last one is written.
    """

    noun: str
    made_by: str
    manifest: str
    schemas: tuple[int, ...]

    @property
    def with_article(self) -> str:
        """The noun with its article."""
        return f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"


class Folder:
    """A folder of results, locked for this process from construction to :meth:`close`.

    Raises:
        StoreError: the path is a file, a folder of something else, cannot be written, or is being written.
    """

    def __init__(self, path: Path, kind: Kind) -> None:
        self.path = path
        self.kind = kind
        try:
            # In this order: nothing is written into a foreign folder, and nothing is computed for a full disk.
            refuse_foreign(path, kind)
            path.mkdir(parents=True, exist_ok=True)
            probe(path)
            self._lock = FolderLock(path, kind.noun)
        except (OSError, ValueError) as error:  # ValueError: characters that no path can have
            raise StoreError(
                f"The folder {str(path)!r} cannot hold {kind.with_article}: {reason(error)}. Nothing was computed. "
                f"Make it writable (or free some space), or give another folder (out=..., --out ...)."
            ) from error
        # Under the lock: what is left of a file belongs to a process that is gone.
        remove_partial(path)

    def write(self, name: str, content: bytes) -> str:
        """Keep ``content`` as ``name``, wholly or not at all; gives its SHA-256.

        Raises:
            OSError: the file cannot be written; nothing of it is left then.
        """
        # The hash is of the bytes in memory, so that a disk that stores others is noticed when they are read.
        path = self.place(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content, self.path)
        return hashlib.sha256(content).hexdigest()

    def place(self, name: str) -> Path:
        """Return where a file of the folder lies, or is to lie; to be asked before what goes there is computed.

        Raises:
            StoreError: something that is no file has its name, or a link or no folder is on the way to it.
        """
        path = self.path / plain_name(name)
        for folder in [self.path / part for part in Path(name).parents][:-1]:
            require_own_folder(folder, f"the folders of {self.kind.with_article} are its own")
            if folder.exists() and not folder.is_dir():
                raise self._occupied(folder, "a folder")
        # a link of this name is replaced, and nothing is read through it
        if not path.is_symlink() and path.exists() and not path.is_file():
            raise self._occupied(path, "a file")
        return path

    def _occupied(self, path: Path, wanted_kind: str) -> StoreError:
        kind = kind_of_entry(path.stat().st_mode) or "a file"
        return StoreError(
            f"{str(path)!r} is {kind}, and {self.kind.with_article} has {wanted_kind} of that name. Move it elsewhere, "
            "or give another folder (out=..., --out ...)."
        )

    def manifest(self) -> dict[str, Any] | None:
        """The manifest that is there, or None in a folder that begins."""
        return read_manifest(self.path, self.kind) if (self.path / self.kind.manifest).exists() else None

    def save(self, tree: dict[str, Any]) -> None:
        """Keep a manifest in place of the former one."""
        # NaN is no JSON: other programs' readers would refuse the whole manifest.
        content = json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_atomically(self.path / self.kind.manifest, content.encode())

    def close(self) -> None:
        """Let other processes write here. A second call does nothing."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_own_folder(path: Path, what: str, inside: Path | None = None) -> None:
    """Refuse a link in place of a folder inside of a folder of results: nothing behind it is read or written.

    Args:
        path: of the folder, which need not exist.
        what: such folders are, for the message, such as ``the controls of a run are folders of its own``.
        inside: the folder that the user gave, which may be a link; every folder between it and ``path`` is looked at
            too. None = ``path`` lies right in it.

    Raises:
        StoreError: it is a link.
    """
    between = [] if inside is None else [inside / part for part in path.relative_to(inside).parents][:-1]
    for folder in (path, *between):
        if folder.is_symlink():
            raise StoreError(
                f"{str(folder)!r} is a link, and {what}. Remove it, or copy what it leads to into its place."
            )


def inner_folders(room: Path, what: str, pattern: str = "*") -> list[Path]:
    """List the folders inside of a folder of results, by name; nothing where there is no such folder.

    Hidden entries are left out, and so are files, with a warning.

    Args:
        room: that holds them.
        what: such folders are, as for ``require_own_folder``.
        pattern: of their names.

    Raises:
        StoreError: a link, a FIFO or the like in place of one, or no folder in place of what holds them.
    """
    if not room.is_dir():
        if room.exists():
            raise _no_folder(room, what)
        return []
    folders = []
    for path in sorted(room.glob(pattern)):
        require_own_folder(path, what)
        if path.is_dir():
            folders += [] if path.name.startswith(".") else [path]
        elif not path.is_file():
            raise _no_folder(path, what)
        elif not path.name.startswith("."):
            warn(f"{str(path)!r} is a file, and {what}; it is left out.")
    return folders


def _no_folder(path: Path, what: str) -> StoreError:
    return StoreError(f"{str(path)!r} is {kind_of_entry(path.stat().st_mode) or 'a file'}, and {what}. Remove it.")


def folder_path(path: object, name: str = "path") -> Path:
    """Return a folder as a user gives it, with ``~`` written out.

    Raises:
        OptionError: no text and no path, or one that no file system takes.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise OptionError(
            f"{name}={describe_value(path)} is no folder; give its path as text, such as 'runs/qwen', or as a Path."
        )
    return given_path(path, name)


def plain_name(name: object, deep: bool = True) -> str:
    """``name``, where it is that of a file inside of the folder.

    Args:
        deep: allow it to be in a folder of the folder (``results/drop-5/arc_easy.json``).

    Raises:
        StoreError: it is no text, absolute, or leads elsewhere.
    """
    parts = name.split("/") if isinstance(name, str) else []
    plain = all(part not in ("", ".", "..") and not {*part} & {"\\", ":", "\0"} for part in parts)
    if not parts or (len(parts) > 1 and not deep) or not plain:
        raise StoreError(f"{name!r} is not the plain name of a file in the folder itself")
    return str(name)


def read_manifest(folder: Path, kind: Kind) -> dict[str, Any]:
    """The manifest of the results in ``folder``; none, one that cannot be read or of another schema is a StoreError."""
    path = folder / kind.manifest
    try:
        content = read_regular(path, folder)
    except (OSError, ValueError) as error:
        # a manifest that cannot be read is there all the same
        if kind.manifest == "manifest.json" and is_course(folder) and not os.path.lexists(folder / kind.manifest):
            raise StoreError(f"{course_in_words(folder)}.") from error
        raise StoreError(
            f"There is no {kind.noun} in {str(folder)!r}: {kind.manifest} cannot be read ({reason(error)}). Give the "
            f"folder that {kind.made_by} wrote (its out=..., --out ...).{_holds(folder, kind)}"
        ) from error
    try:
        tree: dict[str, Any] = read_json(content, MOST_DEEP)
        if not isinstance(tree, dict):
            raise unreadable(
                str(path), kind, f"it holds a {'list' if isinstance(tree, list) else 'value'}, and no object"
            )
        schema = tree["schema"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise unreadable(str(path), kind, error) from error
    if schema not in kind.schemas:
        readable = f"schema{'s' * (len(kind.schemas) > 1)} {' and '.join(map(str, kind.schemas))}"
        raise StoreError(
            f"{str(path)!r} is written in schema {schema!r}; this bathyscope reads {readable}. Open the "
            f"{kind.noun} with the bathyscope that wrote it, or measure again."
        )
    return tree


def is_course(folder: str | Path) -> bool:
    """Return whether a folder is that of a course, with a run of each step inside."""
    return (Path(folder) / COURSE).is_file()


def course_in_words(folder: Path) -> str:
    """Say, where a run is wanted, that a folder is a course's, and name a run in it; a sentence without its stop."""
    steps = sorted(path.name for path in folder.glob("step-*") if path.is_dir())
    # the last step is of the trained model
    example = f", such as {folder / steps[-1]}" if steps else ""
    return f"{str(folder)!r} is the folder of a course, with a survey of each step; give one of these{example}"


_MOST_STEPS: Final = 3
"""Of a course without its file, that a message names."""


def _holds(folder: Path, refused: Kind) -> str:
    """What opens a folder that is of another kind; empty where none does."""
    contents = contents_of(folder, leave_out=refused.manifest)
    steps = sorted(path.parent.name for path in folder.glob("step-*/manifest.json"))
    if steps and not contents:
        listed = written_out(steps) if len(steps) <= _MOST_STEPS else f"{steps[0]} to {steps[-1]}"
        return f" It holds {listed}, as a course does; its {COURSE} is missing: restore it, or open one of them."
    if not contents:
        return ""
    how = "" if contents == MODEL else f", which bathyscope.open({str(folder)!r}) opens (bathyscope show)"
    return f" It holds {contents}{how}."


def refuse_holder(path: Path, what: str) -> None:
    """Refuse a folder for several runs or other results that holds one itself, or a model.

    Args:
        what: is to be written there, such as ``runs``.

    Raises:
        StoreError: it does, with what it holds.
    """
    contents = contents_of(path)
    if contents:
        raise StoreError(
            f"The folder {str(path)!r} holds {contents}, and {what} do not belong in between. Give a new or empty "
            "folder (out=..., --out ...); nothing was written."
        )


def unreadable(where: str, kind: Kind, error: Exception | str) -> StoreError:
    """What is said of a manifest that is none."""
    cause = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return StoreError(
        f"{where!r} is not a readable manifest of {kind.with_article} ({cause}). Restore the "
        "file from a copy, or give another folder and measure again."
    )


def verified(folder: Path, name: str, sha256: str, noun: str = "run") -> bytes:
    """The bytes of a file of ``folder``; a StoreError where it is missing, or they are not those that were written."""
    path = folder / plain_name(name)
    try:
        content = read_regular(path, folder, MOST)
    except OSError as error:
        raise StoreError(
            f"{str(path)!r} of the {noun} cannot be read ({error.strerror}). Make it readable or, if it was removed, "
            f"{_computing_again(folder, noun)}."
        ) from error
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256:
        raise StoreError(
            f"{str(path)!r} is not the file that was written: its SHA-256 is {actual} ({len(content):,} bytes), the "
            f"manifest expects {legible(sha256)}. It was altered or cut short. Restore it from a copy, or delete this "
            f"one file and {_computing_again(folder, noun)}."
        )
    return content


_MANIFEST: Final = "manifest.json"
"""Of a run, which alone stores the command that began it."""


def _computing_again(folder: Path, noun: str) -> str:
    """Say what computes a file again: the command that wrote it, and not one that reads it; a run may store its own."""
    again = f"run the command that wrote the {noun} again, which computes it again"
    try:
        command = read_json(read_regular(folder / _MANIFEST, folder))["record"]["command"]
    except DAMAGED:
        return again
    # of a run from elsewhere these are words of others, which somebody may paste into a shell
    return f"{again} (it stands there as: {legible(command)})" if isinstance(command, str) else again


def reason(error: Exception) -> str:
    """What the system says, without its number."""
    return str(getattr(error, "strerror", None) or error)


def refuse_foreign(path: Path, kind: Kind, belongs: Callable[[Path], bool] = lambda entry: False) -> None:
    """Refuses a path that cannot become a folder of this kind, and leaves it as it is.

    Args:
        belongs: whether an entry belongs to such a folder, also where its manifest is missing.

    Raises:
        StoreError: it is a file, or holds something else.
    """
    if path.exists() and not path.is_dir():
        raise StoreError(
            f"{str(path)!r} is a file; {kind.with_article} needs a folder of its own. Give a new or empty folder "
            "(out=..., --out ...)."
        )
    if not path.is_dir() or (path / kind.manifest).exists():
        return
    names = sorted(entry.name for entry in path.iterdir() if not belongs(entry))
    foreign = [name for name in names if name not in (LOCK, OWNER) and not name.startswith(PARTIAL)]
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise StoreError(
            f"The folder {str(path)!r} is no {kind.noun} but not empty either (it holds {', '.join(foreign[:3])}"
            f"{more}). Give a new or empty folder (out=..., --out ...); nothing was written."
        )
