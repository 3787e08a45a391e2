"""``bathyscope show names``: the names that other commands take."""

from __future__ import annotations

import json
from typing import get_args

import pytest

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError
from bathyscope.measures.registry import MEASURES
from bathyscope.model.anatomy.registry import families
from bathyscope.pages.catalogue import Kind
from bathyscope.prompts.datasets import REGISTRY
from bathyscope.statistics.effective_depth import ESTIMATORS
from bathyscope.surveying.papers.presets import PRESETS

WANTED = {
    "measures": set(MEASURES),
    "datasets": set(REGISTRY),
    "presets": set(PRESETS),
    "families": {one.name for one in families()},
    "estimators": set(ESTIMATORS),
    "panels": {"skip.all", "lens.kl", "drop.kl"},
}


@pytest.mark.parametrize("kind", get_args(Kind))
def test_everything_of_a_kind_is_listed(kind: Kind, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "names", kind, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == bathyscope.names(kind)
    assert {row["name"] for row in rows} >= WANTED[kind]
    assert len({tuple(row) for row in rows}) == 1
    assert main(["show", "names", kind]) == 0
    printed = capsys.readouterr().out
    assert [name for name in WANTED[kind] if name not in printed] == []


def test_another_kind_is_refused() -> None:
    with pytest.raises(OptionError, match=r"kind='measure' is unknown\. Did you mean 'measures'\?"):
        bathyscope.names("measure")  # type: ignore[arg-type]
