"""Every file is read and written through the functions that trust nobody; what is not stands here with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

SRC: Final = Path(__file__).parents[1] / "src" / "bathyscope"
WAYS: Final = frozenset({"open", "read_text", "read_bytes", "write_text", "write_bytes", "fromfile", "memmap"})
LIBRARIES: Final = frozenset({"safe_open", "load_file", "save_file", "load", "File", "GzipFile", "ZipFile", "copyfile"})
MODULES: Final = frozenset(
    {"torch", "np", "numpy", "yaml", "h5py", "h5netcdf", "gzip", "zipfile", "os", "shutil", "pickle"}
)
"""Of whose functions these names mean files."""

ONLY_HERE: Final = "what every other file passes through"
LOOKED_AT: Final = "core.foreign looks at the file first; a library reads it by its path"
OURS: Final = "in a folder of a random name, which this call has made"
WHOLE: Final = "under the random name that core.atomic gives"
PACKAGE: Final = "a file of the package"
SYSTEM: Final = "a file of the system"
NO_FILE: Final = "no file: text, bytes or an open stream"
EXEMPT: Final = {
    "cli/console.py:drop_output": SYSTEM,
    "cli/console.py:prepare_streams": SYSTEM,
    "core/atomic.py:_sync_folder": ONLY_HERE,
    "core/atomic.py:create": ONLY_HERE,
    "core/atomic.py:write_atomically": ONLY_HERE,
    "core/expanding.py:__init__": "a packed stream that is open already",
    "core/expanding.py:_look_through": "a packed stream that is open already",
    "core/foreign.py:open_regular": ONLY_HERE,
    "core/headroom.py:_mapped": SYSTEM,
    "core/lazy.py:homes": PACKAGE,
    "core/strict.py:read_yaml": NO_FILE,
    "measures/jacobian/files.py:_read_own_file": LOOKED_AT,
    "measures/jacobian/files.py:_published": LOOKED_AT,
    "measures/jacobian/archives.py:require_plain_archive": "an archive in what core.foreign has opened",
    "measures/jacobian/writing.py:_is_lens": "core.own_files asks it of a regular file alone",
    "measures/jacobian/writing.py:write_lens": WHOLE,
    "model/adapter.py:_shapes": LOOKED_AT,
    "model/files.py:_header": LOOKED_AT,
    "model/memory.py:free_bytes": SYSTEM,
    "pages/explorer/assets.py:_read_file": PACKAGE,
    "pages/explorer/html.py:write_page": PACKAGE,
    "pages/head/drawing.py:profile_style": PACKAGE,
    "prompts/files.py:open_text": "a pipe that its user has opened for the program; all else through core.foreign",
    "runs/folder.py:__init__": "through core.atomic.create",
    "runs/netcdf.py:encode": NO_FILE,
    "runs/shards.py:_decoded": NO_FILE,
    "surgery/checkpoint/folder.py:fill": OURS,
    "surgery/checkpoint/source.py:companions": "through core.atomic.create, from core.foreign",
    "surgery/checkpoint/weight_files.py:_write": OURS,
    "surgery/checkpoint/weight_files.py:write_shards": OURS,
    "surgery/repairing/healing.py:_resume": LOOKED_AT,
    "surgery/repairing/healing.py:require_own": LOOKED_AT,
}
NOT_FILES: Final = frozenset({"bathyscope", "RunWriter", "document"})
"""Whose ``open`` is another function of ours."""


def calls_of_files(tree: ast.Module) -> Iterator[str]:
    """The functions in which a file is opened or written, a function as often as it does."""

    def visit(node: ast.AST, function: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Call) and is_of_files(node.func):
            yield function
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(tree, "")


def is_of_files(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in {"open", "safe_open", "load_file", "save_file"}
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    return (function.attr in WAYS and owner not in NOT_FILES) or (function.attr in LIBRARIES and owner in MODULES)


def places_in(source: str, file: str) -> set[str]:
    return {f"{file}:{function}" for function in calls_of_files(ast.parse(source))}


def test_files_are_opened_where_it_is_said_and_nowhere_else() -> None:
    opened: set[str] = set()
    for path in SRC.rglob("*.py"):
        opened |= places_in(path.read_text(encoding="utf-8"), path.relative_to(SRC).as_posix())
    assert sorted(opened - set(EXEMPT)) == [], "read through core.foreign, write through core.atomic"
    assert sorted(set(EXEMPT) - opened) == [], "no file is opened there any more"


@pytest.mark.parametrize(
    "call",
    [
        "open(path)",
        "path.open('rb')",
        "(folder / name).read_text()",
        "Path(name).write_bytes(b'')",
        "os.open(path, 0)",
        "np.load(path)",
        "torch.load(path)",
        "load_file(path)",
        "h5py.File(path)",
        "shutil.copyfile(path, other)",
    ],
)
def test_every_way_to_open_a_file_is_seen(call: str) -> None:
    assert places_in(f"def reader():\n    with {call} as f:\n        pass\n", "a.py") == {"a.py:reader"}


@pytest.mark.parametrize("call", ["open_regular(path)", "bathyscope.open(path)", "read_text(path)", "json.loads(text)"])
def test_other_calls_open_none(call: str) -> None:
    assert places_in(f"def reader():\n    return {call}\n", "a.py") == set()
