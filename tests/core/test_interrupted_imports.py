"""Signals while modules are imported that swallow a KeyboardInterrupt, turn it into something else, or let it pass."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from bathyscope.core.interrupts import ended_as_interrupted, ending_in_order

_NUMBERS = itertools.count()
reached: list[str] = []
"""What modules and callers add to as they go on."""
SWALLOWING = "import contextlib, signal\nwith contextlib.suppress(BaseException):\n    signal.raise_signal(signal.{})\n"
TELLING = "import sys\nsys.modules[{!r}].reached.append(__name__)\n"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Handlers as in a fresh interpreter; nothing that an interruption has set up is left when it is over."""
    reached.clear()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    finders, tracer = [*sys.meta_path], sys.gettrace()
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    assert sys.meta_path == finders
    assert sys.gettrace() is tracer


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a module that says when its end is reached, and returns its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(code: str = "", **names: str) -> str:
        name = f"interrupted_import_{next(_NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(code.format(**names) + TELLING.format(__name__))
        importlib.invalidate_caches()
        return name

    return write


def nothing() -> None:
    pass


def interrupted(name: str, call: Callable[[str], Any] = importlib.import_module) -> BaseException:
    """Import a module in order, and return what that ended with."""
    with pytest.raises(KeyboardInterrupt) as caught, ending_in_order(nothing):
        reached.append(f"caller of {call(name)}")
    return caught.value


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_what_an_import_swallows_is_raised_where_the_next_module_is_looked_for(
    modules: Callable[..., str], number: str
) -> None:
    later = modules()
    interrupted(modules(SWALLOWING.replace("{}", number) + f"import {later}\n"))
    assert reached == []


def test_what_is_swallowed_again_and_again_is_raised_where_the_import_ends(modules: Callable[..., str]) -> None:
    never = modules()
    inner = modules(SWALLOWING.replace("{}", "SIGINT"))
    name = modules(
        f"import contextlib, {inner}\nfor _ in range(3):\n    with contextlib.suppress(BaseException):\n"
        f"        import {never}\n"
    )
    interrupted(name)
    # both modules go on to their ends, and no further one is imported
    assert reached == [inner, name]


def test_a_call_in_a_program_of_somebody_else_ends_as_well(modules: Callable[..., str]) -> None:
    later = modules()
    name = modules(SWALLOWING.replace("{}", "SIGTERM") + f"import {later}\n")
    with pytest.raises(KeyboardInterrupt), ended_as_interrupted():
        importlib.import_module(name)
    assert reached == []


def test_of_several_signals_nothing_is_left(modules: Callable[..., str]) -> None:
    swallowing = SWALLOWING.replace("{}", "SIGTERM")
    name = modules(swallowing + swallowing)
    with pytest.raises(KeyboardInterrupt), ended_as_interrupted():
        importlib.import_module(name)
    assert reached == [name]


def test_an_error_that_an_import_makes_of_it_is_the_interruption(modules: Callable[..., str]) -> None:
    code = (
        "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n"
        "    raise KeyError('__reduce_cython__')\n"
    )
    cause = interrupted(modules(code)).__cause__
    assert isinstance(cause, KeyError)


def test_an_import_inside_of_a_try_that_expects_errors_is_ended_too(modules: Callable[..., str]) -> None:
    """As where a library is optional: of its errors none is a reason to go on."""
    name = modules(
        "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n    import gone\n"
    )

    def import_optional(name: str) -> None:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)

    interrupted(name, import_optional)
    assert reached == []


def test_an_interruption_that_passes_through_is_one(modules: Callable[..., str]) -> None:
    error = interrupted(modules("import signal\nsignal.raise_signal(signal.SIGINT)\n"))
    assert error.__cause__ is None
    assert reached == []


def test_clean_up_outside_of_the_import_may_import(modules: Callable[..., str]) -> None:
    saving = modules()
    name = modules(SWALLOWING.replace("{}", "SIGINT"))

    def import_and_save(name: str) -> None:
        try:
            importlib.import_module(name)
        finally:
            importlib.import_module(saving)

    interrupted(name, import_and_save)
    assert reached == [name, saving]


def test_work_that_is_itself_imported_saves_in_order(modules: Callable[..., str]) -> None:
    """Imports that began before the work are none of its own: where it cleans up, modules are found."""
    saving = modules()
    name = modules(
        "import contextlib, signal\nfrom bathyscope.core.interrupts import ending_in_order\n"
        "with contextlib.suppress(KeyboardInterrupt), ending_in_order(lambda: None):\n"
        f"    try:\n        signal.raise_signal(signal.SIGINT)\n    finally:\n        import {saving}\n"
    )
    importlib.import_module(name)
    assert reached == [saving, name]


def test_other_threads_go_on_importing(modules: Callable[..., str]) -> None:
    elsewhere = modules()
    inner = modules(SWALLOWING.replace("{}", "SIGINT"))
    name = modules(
        f"import importlib, threading, {inner}\n"
        f"thread = threading.Thread(target=importlib.import_module, args=({elsewhere!r},))\n"
        "thread.start()\nthread.join()\n"
    )
    interrupted(name)
    assert reached == [inner, elsewhere, name]


def test_a_debugger_goes_on_tracing(modules: Callable[..., str]) -> None:
    name = modules(SWALLOWING.replace("{}", "SIGINT"))
    before, called = sys.gettrace(), []

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        called.append(frame.f_code.co_name)

    try:
        sys.settrace(trace)
        with contextlib.suppress(KeyboardInterrupt), ending_in_order(nothing):
            importlib.import_module(name)
        after = sys.gettrace()
        nothing()
    finally:
        sys.settrace(before)
    assert after is trace
    assert called[-1] == "nothing"


def test_without_a_signal_nothing_is_set_up(modules: Callable[..., str]) -> None:
    with ending_in_order(nothing):
        module: ModuleType = importlib.import_module(modules())
    assert reached == [module.__name__]
    assert threading.current_thread() is threading.main_thread()
