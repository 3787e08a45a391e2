"""One run and one page for all tests of the views, and one browser a file: each costs seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.browser import Opened, Show, browser, opened
from support.explored import explored_run

import bathyscope
from bathyscope.runs.run import Run


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


@contextmanager
def shows(chromium: Any) -> Iterator[Show]:
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


@pytest.fixture
def show(chromium: Any) -> Iterator[Show]:
    """A window of a test's own."""
    with shows(chromium) as show:
        yield show


@pytest.fixture(scope="module")
def look(chromium: Any) -> Iterator[Show]:
    """One window a page for all tests that change its width and medium alone, which are put back for the next."""
    with shows(chromium) as show:
        windows: dict[tuple[Path, bool], Opened] = {}

        def looked(path: Path, *, unfolded: bool = False, **options: Any) -> Opened:
            if (path, unfolded) not in windows:
                one = windows[path, unfolded] = show(path, **options)
                if unfolded:
                    one.unfold()
            one = windows[path, unfolded]
            one.page.emulate_media(media="screen", color_scheme="light")
            one.page.set_viewport_size({"width": 1280, "height": 800})
            return one

        yield looked
