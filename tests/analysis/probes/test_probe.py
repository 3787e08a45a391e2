"""Probes by name."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from support import zoo

import bathyscope
from bathyscope.analysis.probes import probe as module
from bathyscope.cli.commands.probe import PROBES
from bathyscope.errors import ArgumentError, OptionError


def test_each_name_is_its_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    for name in get_args(module.Kind):
        monkeypatch.setitem(
            module._PROBES, name, lambda *data, name=name, **options: asked.append((name, data, options))
        )
        bathyscope.probe(name, "model", "data", seed=3)
    assert asked == [(name, ("model", "data"), {"seed": 3}) for name in PROBES]


def test_another_name_is_refused() -> None:
    with pytest.raises(
        OptionError, match=r"kind='wicc' is unknown\. Did you mean 'wic'\? Allowed: wic, ing, subjoiner\."
    ):
        bathyscope.probe("wicc", "model")  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "name"), [("ing", "ing_probe"), ("wic", "wic_probe"), ("subjoiner", "subjoiner")])
def test_a_probe_is_named_where_it_is_public(kind: Any, name: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        bathyscope.probe(kind, zoo.build("llama"), sed=1)
    assert str(refused.value).startswith(f"{name}(): got an unexpected keyword argument 'sed'. Did you mean 'seed'?")
    assert str(refused.value).endswith(f"See help(bathyscope.analysis.probes.{name}).")
