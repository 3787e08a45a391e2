"""Families of other packages: asked for last, in any of the forms they may be given, and named where they fail."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bathyscope.core import plug_ins
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.registry import families, family_for, plugged_in


class Entry:
    """What ``importlib.metadata`` gives for one entry point."""

    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        self.name, self.value, self.load = name, f"package.{name}:FAMILIES", load


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """Puts entry points in the place of those installed; the list fills with the groups that are asked for."""

    def put(*entries: Entry) -> list[str]:
        asked: list[str] = []

        def found(group: str) -> list[Entry]:
            asked.append(group)
            return list(entries)

        monkeypatch.setattr(plug_ins, "entry_points", found)
        plugged_in.cache_clear()
        return asked

    yield put
    plugged_in.cache_clear()


ONE, TWO, THREE = (Family(name, (f"{name}-type",)) for name in ("one", "two", "three"))


@pytest.mark.parametrize("given", [ONE, (ONE, TWO), lambda: ONE, lambda: iter((TWO, ONE))])
def test_a_plug_in_gives_a_family_or_several_or_what_makes_them(install: Callable[..., Any], given: Any) -> None:
    asked = install(Entry("mine", lambda: given))
    assert family_for("one-type") is ONE
    assert asked == ["bathyscope.families"]


def test_the_laboratory_declares_its_models_from_outside() -> None:
    from bathyscope_lab.models import FAMILY

    plugged_in.cache_clear()
    assert FAMILY not in families()
    assert family_for("bathyscope_moeut") is family_for("bathyscope_universal") is FAMILY


def test_plug_ins_are_not_read_where_the_type_is_known_here(install: Callable[..., Any]) -> None:
    taken = Family("taken", ("llama", "new"))
    asked = install(Entry("mine", lambda: taken))
    known = family_for("llama")
    assert known is not None
    assert known.name == "llama"
    assert asked == []
    assert family_for("new") is taken
    assert family_for("newer") is None
    assert asked == ["bathyscope.families"]


def test_the_first_by_name_has_a_type_that_two_claim(install: Callable[..., Any]) -> None:
    other = Family("other", ("one-type",))
    install(Entry("b", lambda: ONE), Entry("a", lambda: other))
    assert family_for("one-type") is other


def test_a_broken_plug_in_is_named_and_the_others_are_read(install: Callable[..., Any]) -> None:
    def missing() -> Any:
        raise ImportError("No module named 'package'")

    def empty() -> Any:
        raise RuntimeError("nothing to give")

    wrong = Entry("wrong", lambda: [TWO, "llama"])
    install(Entry("broken", missing), Entry("empty", lambda: empty), wrong, Entry("sound", lambda: THREE))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert family_for("three-type") is THREE
        assert family_for("two-type") is None
    messages = [str(one.message) for one in caught]
    assert messages == [
        "The families of the plug-in broken (package.broken:FAMILIES) cannot be used, ImportError: No module named "
        "'package'. Update the package that declares it, or uninstall it.",
        "The families of the plug-in empty (package.empty:FAMILIES) cannot be used, RuntimeError: nothing to give. "
        "Update the package that declares it, or uninstall it.",
        "The families of the plug-in wrong (package.wrong:FAMILIES) cannot be used, TypeError: a Family or several are "
        "expected, and str was given. Update the package that declares it, or uninstall it.",
    ]
