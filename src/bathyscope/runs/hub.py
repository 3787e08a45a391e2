"""Runs on the Hugging Face hub, each a data set of its own that holds the files of a run's folder."""

import re
from pathlib import Path
from typing import Final

from bathyscope.core.foreign import read_regular
from bathyscope.core.strict import read_json
from bathyscope.errors import OptionError, StoreError, describe_value
from bathyscope.runs.folder import LOCK, OWNER
from bathyscope.runs.manifest import RUN
from bathyscope.runs.prompts import PROMPTS_FILE
from bathyscope.runs.publishing import listed

_PIECES: Final = "pieces"
"""The field of a prompt that holds its text."""
HUB: Final = "hf://datasets/"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,94}[A-Za-z0-9_])?", re.ASCII)
"""The name of an owner, or of a data set."""
_OF_A_RUN: Final = (RUN.manifest, "*.nc", PROMPTS_FILE, "controls/*")


def push_folder(folder: Path, to: str, private: bool) -> str:
    """Uploads a run's folder.

    Args:
        to: ``owner/name`` of the data set, made where it is not there yet; ``hf://datasets/`` may be before it.

    Returns:
        The address that ``pulled`` takes.

    Raises:
        OptionError: ``to`` is no name.
        StoreError: there is a run already; no token, no network, no such owner.
    """
    from huggingface_hub import HfApi

    name, _ = _named(to)
    # Looked for first: an upload into a data set that holds a run would mix the files of two.
    api = HfApi()
    try:
        api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        if api.file_exists(name, RUN.manifest, repo_type="dataset"):
            raise StoreError(f"There is a run in {HUB}{name} already; push to another name.")
        api.upload_folder(
            repo_id=name,
            repo_type="dataset",
            folder_path=folder,
            ignore_patterns=[LOCK, OWNER, f"*/{LOCK}", f"*/{OWNER}"],
            commit_message="A run of bathyscope",
        )
    except (OSError, ValueError) as error:
        raise StoreError(f"Pushing to {HUB}{name} failed: {_first_line(error)} Log in by `hf auth login`.") from error
    return f"{HUB}{name}"


def listing(folder: Path, to: str) -> str:
    """Return what pushing a folder would publish: every file with its bytes, and whether texts are among them.

    Raises:
        OptionError: ``to`` is no name.
    """
    name, _ = _named(to)
    files = listed(folder)
    contents = (
        "with the texts of its prompts" if _holds_texts(folder / PROMPTS_FILE) else "with token ids and without texts"
    )
    rows = [f"  {file} ({size:,} bytes)" for file, size in files]
    return "\n".join([f"Would publish {len(files)} files to {HUB}{name}, {contents}:", *rows])


def _holds_texts(prompts: Path) -> bool:
    """Whether any line of a file of prompts holds pieces of text; what cannot be read may hold them."""
    if not prompts.exists():
        return False
    try:
        lines = [read_json(line) for line in read_regular(prompts, prompts.parent).splitlines() if line.strip()]
    except (OSError, ValueError):
        return True
    return any(not isinstance(line, dict) or line.get(_PIECES) is not None for line in lines)


def pulled(address: str) -> Path:
    """The folder in which the library keeps a run of the hub, downloaded where it is not there yet.

    Args:
        address: ``hf://datasets/owner/name``, with ``@revision`` behind it for a branch, tag or commit.

    Raises:
        OptionError: no such address.
        StoreError: no such data set, no run in it, no network.
    """
    from huggingface_hub import snapshot_download

    name, revision = _named(address)
    try:
        # The library's cache keeps each commit in a folder of its own: an opened run never changes under its reader.
        snapshot = snapshot_download(name, repo_type="dataset", revision=revision, allow_patterns=list(_OF_A_RUN))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"Reading {address} failed: {_first_line(error)} A private one needs `hf auth login`."
        ) from error
    if not (Path(snapshot) / RUN.manifest).is_file():
        raise StoreError(f"{address} holds no run: there is no {RUN.manifest}. Runs come there by run.push({name!r}).")
    return Path(snapshot)


def _named(to: object) -> tuple[str, str | None]:
    address = to.removeprefix(HUB) if isinstance(to, str) else ""
    name, _, revision = address.partition("@")
    # of letters, digits and -_. that neither begin nor end with a sign, as the hub has it
    if len(name.split("/")) != 2 or not all(_NAME.fullmatch(part) for part in name.split("/")):
        raise OptionError(f"{describe_value(to)} names no data set on the hub; give owner/name, or {HUB}owner/name.")
    return name, revision or None


def _first_line(error: Exception) -> str:
    first = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return first if first.endswith(".") else f"{first}."
