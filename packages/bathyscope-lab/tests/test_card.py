"""What a model's card says of the code that trained it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from bathyscope_lab import card


def test_the_revision_is_the_commit_and_says_when_files_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "card.py"
    file.write_text("first")
    monkeypatch.setattr(card, "__file__", str(file))
    git(tmp_path, "init")
    assert card.revision() is None  # beside a repository's files, not one of them
    git(tmp_path, "add", "card.py")
    git(tmp_path, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-m", "first")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert len(head) == 40
    assert card.revision() == head
    file.write_text("second")
    assert card.revision() == f"{head}-dirty"


def git(folder: Path, *arguments: str) -> str:
    """Runs git on a repository of the test's own."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
