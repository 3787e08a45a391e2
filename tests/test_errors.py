"""Warnings point at the line of whoever called the package, however deep they arise."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import bathyscope
from bathyscope.errors import PruningError, StoreError, describe_type, describe_value, is_out_of_memory, warn

SOURCE = Path(bathyscope.__file__).parent


def of_the_package(code: str, name: str = "bathyscope.somewhere.deep") -> dict[str, object]:
    """What a module of the package would define."""
    namespace: dict[str, object] = {"__name__": name, "warn": warn, "contextmanager": contextmanager}
    exec(compile(code, "deep.py", "exec"), namespace)
    return namespace


def test_a_warning_names_the_callers_line() -> None:
    inner = "def inner():\n    warn('said')\n"
    through = "@contextmanager\ndef within():\n    inner()\n    yield\ndef outer():\n    with within():\n        pass\n"
    outer = of_the_package(inner + through)["outer"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("straight")
        outer()  # type: ignore[operator]
    assert [(one.filename, str(one.message), one.category) for one in caught] == [
        (__file__, "straight", UserWarning),
        (__file__, "said", UserWarning),
    ]
    assert [Path(__file__).read_text().splitlines()[one.lineno - 1].split()[0] for one in caught] == [
        'warn("straight")',
        "outer()",
    ]


def test_a_package_whose_name_begins_alike_is_a_caller() -> None:
    call = of_the_package("def call(inner):\n    inner()\n", "bathyscopes")["call"]
    inner = of_the_package("def inner():\n    warn('said')\n")["inner"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(inner)  # type: ignore[operator]
    assert [one.filename for one in caught] == ["deep.py"]
    assert caught[0].lineno == 2


def test_no_part_of_the_package_counts_frames_itself() -> None:
    counting = re.compile(r"\bwarnings\.warn\(|stacklevel")
    found = {path.name for path in SOURCE.rglob("*.py") if counting.search(path.read_text(encoding="utf-8"))}
    assert found == {"errors.py"}


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of range"), False),
    ],
    ids=["torch's", "Python's", "the driver's", "a library's", "another of CUDA", "another"],
)
def test_memory_that_runs_out_is_known_by_all_its_names(error: Exception, wanted: bool) -> None:
    assert is_out_of_memory(error) is wanted


def test_the_hosts_allocator_has_a_text_of_its_own() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 55, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize("letters", ["\x1b]0;mine\x07", "a\u202eb", "\r", "\udc80"])
def test_nothing_in_a_message_acts_on_a_terminal(letters: str) -> None:
    kinds = (bathyscope.BathyscopeError, StoreError, PruningError)
    escaped = letters.encode("unicode_escape").decode()
    for kind in kinds:
        assert str(kind(f"First {letters}.\nSecond.")) == f"First {escaped}.\nSecond."
    with pytest.warns(UserWarning, match="^First ") as caught:
        warn(f"First {letters}.\nSecond.")
    assert str(caught[0].message) == f"First {escaped}.\nSecond."


def test_letters_of_every_script_stay_in_a_message() -> None:
    text = "für 模型 \u0645\u062f\u0644 \u0915\u094d\u200d\u0937 – “é”"
    assert str(StoreError(text)) == text


@pytest.mark.parametrize("letter", ["x", "\x1b", "\U000e0001"])
def test_messages_have_an_end(letter: str) -> None:
    """A name of ten million letters in a file was printed whole, which took a minute and a gigabyte."""
    assert len(str(StoreError(letter * 10_000_000))) == 20_000
    assert len(str(StoreError(letter * 20_000))) == 20_000
    with pytest.warns(UserWarning, match=re.escape(letter.encode("unicode_escape").decode() * 3)) as caught:
        warn(letter * 10_000_000)
    assert len(str(caught[0].message)) == 20_000
    assert str(caught[0].message).endswith("…")
    assert str(StoreError("x" * 20_000)) == "x" * 20_000


def test_a_class_is_named() -> None:
    assert describe_value(int) == describe_type(int) == "the class int"
    with pytest.raises(bathyscope.OptionError, match="the class int is no measure; allowed: names"):
        bathyscope.survey("model", ["Some text."], [int])  # type: ignore[list-item]
