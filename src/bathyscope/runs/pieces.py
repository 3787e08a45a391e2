"""A folder of finished pieces, each entered with its hash as soon as it is there: an evaluation, a search."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bathyscope.core.interrupts import uninterrupted
from bathyscope.errors import StoreError
from bathyscope.runs.difference import require_same
from bathyscope.runs.folder import Folder, Kind, reason, unreadable, verified


class Pieces(Folder):
    """Opened for writing; further pieces may be added later.

    Args:
        identity: whatever could change a number.

    Raises:
        StoreError: the folder holds something else, or another configuration, or another process writes it.
    """

    def __init__(self, path: Path, kind: Kind, identity: Mapping[str, Any]) -> None:
        super().__init__(path, kind)
        try:
            # As a manifest gives it back: tuples are lists there, and would differ from themselves.
            requested: dict[str, Any] = json.loads(json.dumps(identity))
            manifest = self.manifest()
            identity_and_files: tuple[dict[str, Any], dict[str, str]] = (
                (requested, {}) if manifest is None else self.read_tree(manifest)
            )
            self.identity, self._files = identity_and_files
            require_same(path, kind, self.identity, requested)
            self.enter()
        except BaseException:
            self.close()
            raise

    def read_tree(self, tree: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Identity, and hashes of files by name, as a manifest holds them."""
        try:
            return dict(tree["identity"]), dict(tree["files"])
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(str(self.path / self.kind.manifest), self.kind, error) from error

    def record(self, files: Mapping[str, str]) -> dict[str, Any]:
        """Return what a manifest holds in addition to schema and identity."""
        return {"files": files}

    def find(self, name: str) -> bytes | None:
        """A finished file, or None.

        Raises:
            StoreError: it is altered, or nothing can be written in its place; asked for before it is computed.
        """
        self.place(name)
        sha256 = self._files.get(name)
        if sha256 is None or not (self.path / name).exists():
            return None
        return verified(self.path, name, sha256, self.kind.noun)

    def put(self, name: str, content: bytes) -> None:
        """Save a file, wholly or not at all, and enter it with its hash.

        Raises:
            StoreError: it cannot be written, such as where the disk is full; what was saved before stays.
        """
        with uninterrupted():
            try:
                self._files[name] = self.write(name, content)
            except OSError as error:
                raise self._unwritable(name, error) from error
            self.enter()

    def enter(self) -> None:
        """Write the manifest again.

        Raises:
            StoreError: it cannot be written.
        """
        try:
            self.save({"schema": self.kind.schemas[-1], "identity": self.identity, **self.record(self._files)})
        except OSError as error:
            raise self._unwritable(self.kind.manifest, error) from error

    def _unwritable(self, name: str, error: OSError) -> StoreError:
        return StoreError(
            f"{str(self.path / name)!r} of the {self.kind.noun} cannot be written ({reason(error)}). Free some space, "
            "then run the same command again: finished pieces are saved and not computed again."
        )
