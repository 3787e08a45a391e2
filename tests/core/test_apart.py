"""What runs apart is ended when it takes too long or is no longer needed, and nothing else is."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bathyscope.core.apart import Apart, can_be_apart

pytestmark = pytest.mark.skipif(not can_be_apart(), reason="this system copies no process with threads")
SOON, LATER = 0.05, 600


def _work(request: Any) -> Any:
    match request:
        case "where":
            return os.getpid()
        case "for ever":
            a: Any = []
            b: Any = []
            for _ in range(60):
                a, b = [a, a], [b, b]
            return a == b
        case "overdue":
            raise TimeoutError
        case "die":
            os._exit(3)
    return request


def _is_there(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


@pytest.mark.parametrize("value", ["a\ud800\x00", ["x", None, 1.5], {"a": [True]}, "x" * 1_000_000])
def test_values_come_back(value: Any) -> None:
    assert Apart(_work)(value, LATER) == value


def test_one_other_process_serves_all_calls() -> None:
    apart = Apart(_work)
    assert apart("where", LATER) == apart("where", LATER) != os.getpid()


@pytest.mark.parametrize(("request_", "error"), [("for ever", TimeoutError), ("die", ChildProcessError)])
def test_the_next_call_is_served_by_another_process(request_: str, error: type[Exception]) -> None:
    apart = Apart(_work)
    first = apart("where", LATER)
    with pytest.raises(error):
        apart(request_, SOON if error is TimeoutError else LATER)
    assert not _is_there(first)
    assert apart("where", LATER) not in (first, os.getpid())


def test_it_may_say_itself_that_it_took_too_long() -> None:
    with pytest.raises(TimeoutError):
        Apart(_work)("overdue", LATER)


def test_its_process_goes_with_it() -> None:
    apart = Apart(_work)
    process = apart("where", LATER)
    assert _is_there(process)
    del apart
    gc.collect()
    assert not _is_there(process)


def test_an_interrupted_call_leaves_no_answer_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = Apart(_work)
    process = apart("where", LATER)
    with monkeypatch.context() as patch:
        patch.setattr("multiprocessing.connection.Connection.poll", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            apart("late", LATER)
    assert not _is_there(process)
    assert apart("next", LATER) == "next"


def _interrupt(*_: object) -> bool:
    raise KeyboardInterrupt


def test_ctrl_c_in_a_terminal_is_left_to_the_program_that_asks() -> None:
    apart = Apart(_work)
    process = apart("where", LATER)
    os.kill(process, signal.SIGINT)
    assert apart("where", LATER) == process
