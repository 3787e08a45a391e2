"""Makes ``support`` importable, keeps the hub out of the tests, and finds the shared reference material."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import tomllib
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings

# collecting tests makes millions of objects that stay: to look through them seldom takes a quarter less time
gc.set_threshold(100_000)
ROOT = Path(__file__).resolve().parent
TESTS = ROOT / "tests"
SHARED = ROOT.parent / "shared"

if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))
from support import checked_once  # noqa: E402 - what is on the path since the line above
from support.tiers import Tiers, guards, read  # noqa: E402

# no property may depend on how busy the machine is
settings.register_profile("bathyscope", deadline=None)
settings.load_profile("bathyscope")
# a checkout is tested as its own packages declare it, whenever they were installed
_DECLARED = TemporaryDirectory()
for _file in ROOT.glob("packages/*/pyproject.toml"):
    _project = tomllib.loads(_file.read_text(encoding="utf-8"))["project"]
    _name, _version = _project["name"].replace("-", "_"), _project["version"]
    if find_spec(_name) is not None:
        _info = Path(_DECLARED.name) / f"{_name}-{_version}.dist-info"
        _info.mkdir()
        (_info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {_project['name']}\nVersion: {_version}\n")
        _lines = (
            line
            for group, named in _project.get("entry-points", {}).items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in named.items()))
        )
        (_info / "entry_points.txt").write_text("\n".join(_lines))
sys.path.insert(0, _DECLARED.name)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_DECLARED.name, os.environ.get("PYTHONPATH"))))
# tests start hundreds of programs, each of which would else compile the package anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# no file of a test has to outlast a loss of power, and to wait for the disk leaves a processor idle
os.fsync = lambda descriptor: None  # type: ignore[assignment]
# some compare bits, which several threads may round differently; read when torch is first imported
os.environ.setdefault("OMP_NUM_THREADS", "1")
# nothing in the tests may depend on the network; read when transformers is first imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# a shell that starts tests in the background has them and their programs ignore the Ctrl-C that some of them send
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


TIERS = Tiers(read(), guards())


def pytest_configure(config: pytest.Config) -> None:
    """What records costs runs all cases of what it records."""
    TIERS.leaves_costly = not config.pluginmanager.hasplugin("tests.support.timed")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Marks what cost much when it was last recorded as ``slow``: of a function with many cases, some."""
    made = yield
    TIERS.mark([item for item in made or () if isinstance(item, pytest.Item)] if isinstance(made, list) else [])
    return made


def pytest_collection_finish() -> None:
    """Hides what lives to the end from the garbage collector, which some libraries have look through everything.

    Models that tests have done with are not left lying for long: two processes of tests fit into little memory.
    """
    gc.freeze()
    gc.set_threshold(20_000)
    checked_once.install()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of the checks at load, and of what runs models, check every model that they load."""
    checked_once.switch(not item.nodeid.startswith(checked_once.SUBJECT))


@pytest.fixture(scope="module", autouse=True)
def _known_to_stay() -> None:
    """Clears up after the module before and hides what it left: trainings have everything looked through again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _shared_models_stay() -> Iterator[None]:
    """Names the file whose tests change a model that all tests share, instead of the tests after it."""
    yield
    zoo = sys.modules.get("support.zoo")
    changed = zoo.forget_changed() if zoo is not None else []
    assert not changed, f"tests of this file changed shared models: {changed}; they must build their own"


@pytest.fixture
def blank_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages whose panels are empty pictures, for tests of what is said around them: pictures are most of the cost."""
    blank = '<svg xmlns="http://www.w3.org/2000/svg" id="{}" width="1" height="1"></svg>'
    monkeypatch.setattr("bathyscope.pages.explorer.html.inline_svg", lambda panel, name: blank.format(name))


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Path of a file of the shared reference material; the test is skipped where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"the shared reference material has no {name} beside this checkout")
        return path

    return find
