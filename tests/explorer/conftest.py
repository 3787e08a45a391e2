"""One run and one page for all tests of the views, and one browser a file: each costs seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import Opened, Show, browser, opened
from support.explored import explored_run

import bathyscope
from bathyscope.store.run import Run


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as one:
        yield one


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return explored_run(tmp_path_factory.mktemp("explored") / "run")


@pytest.fixture(scope="session")
def page(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bathyscope.report([run], tmp_path_factory.mktemp("page") / "page.html", title="half\udc80 <b>x</b>")


@pytest.fixture
def show(chromium: Any) -> Iterator[Show]:
    """Opens pages, and holds in the end that none said anything or asked for anything but itself."""
    windows = []

    def shown(path: Path, **options: Any) -> Opened:
        window = opened(chromium, path, **options)
        one = window.__enter__()
        windows.append((window, one, path))
        one.settled()
        return one

    yield shown
    for window, one, path in windows:
        window.__exit__(None, None, None)
        assert one.said == []
        assert {asked.partition("#")[0] for asked in one.asked} == {f"file://{path}"}
