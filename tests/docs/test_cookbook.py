"""The cookbook: every snippet runs, in order, on one run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from support import zoo

import bathyscope

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cookbook.md"


def test_every_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = zoo.build("llama")
    run = bathyscope.survey(
        model, zoo.prompts(model, (20, 24, 20)), ["residual", "lens", "skip", "tokens"], progress=False
    )
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(snippets) == 12
    names: dict[str, Any] = {"bathyscope": bathyscope, "run": run}
    for snippet in snippets:
        exec(snippet, names)
    plt.close("all")
    effects = run["skip"].effect_future.transpose("part", "reduction", "prompt", "skipped", "block")
    place = run["skip"].reduction.values.tolist().index("mean")
    np.testing.assert_allclose(names["heat"].to_numpy(), effects.values[0, place].mean(0))
    for picture in ("depth", "middle", "two", "words"):
        assert (tmp_path / f"{picture}.pdf").stat().st_size > 1000
    assert "skip.future" in names["panels"]
