"""A folder of finished pieces of work: what is there is not computed again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bathyscope.errors import StoreError
from studies.common.files import write_file


class Kept:
    """Pieces of one configuration.

    Args:
        folder: of the pieces; it need not exist.
        identity: whatever could change a number.

    Raises:
        StoreError: the folder holds pieces of another configuration.
    """

    def __init__(self, folder: Path, identity: Mapping[str, str]) -> None:
        self._folder = folder
        manifest = folder / "study.json"
        if manifest.is_file():
            known = json.loads(manifest.read_text(encoding="utf-8"))["identity"]
            # what an earlier version did not enter is not known to differ
            unlike = [name.replace("_", " ") for name, value in identity.items() if known.get(name, value) != value]
            if unlike:
                raise StoreError(
                    f"{folder} holds work with another {', '.join(unlike)}; give the same models, texts and options to "
                    "go on, or another folder."
                )
        else:
            write_file(manifest, json.dumps({"identity": dict(identity)}).encode())

    def find(self, name: str) -> bytes | None:
        """A finished piece; None where there is none."""
        file = self._folder / name
        return file.read_bytes() if file.is_file() else None

    def put(self, name: str, content: bytes) -> None:
        """Keeps a finished piece.

        Raises:
            StoreError: the disk refuses.
        """
        write_file(self._folder / name, content)
