from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.made_tokenizers import backend, plain, with_bos, with_eos

__all__ = ["backend", "plain", "with_bos", "with_eos"]


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[..., str]:
    """Write rows to a JSONL file in a temporary folder and give its path."""

    def write(*rows: object, name: str = "rows.jsonl") -> str:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        return str(path)

    return write
