"""One printer for all results: the conclusion first, then tables; CSV and JSON hold data alone."""

from __future__ import annotations

import ast
import copy
import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr

from bathyscope.cli import commands
from bathyscope.cli.printing import TextTable, View, print_result
from bathyscope.core.result import LabelledResult, Result, TableResult, rows_of, tabulate_over

DATA = xr.Dataset(
    {"depth": (("model", "kind"), [[1.5, 2.0], [float("nan"), 4.0]]), "blocks": ("model", [6, 12])},
    {"model": ["a", "b"], "kind": ["own", "later"]},
    attrs={"level": 0.9},
)


def tabulate(data: xr.Dataset) -> pd.DataFrame:
    return tabulate_over(data, {"model": "model", "kind": "kind", "depth": "effective_depth"}, ("model", "kind"))


RESULT = LabelledResult(DATA, "Model b is deeper. By twice.", tabulate)


def fail() -> View:
    raise AssertionError("a view for people was made for a program")


def test_people_read_the_conclusion_and_then_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(RESULT, "table")
    first, headings, _, *rows = capsys.readouterr().out.splitlines()
    assert first == "Model b is deeper. By twice."
    assert headings.split() == ["model", "kind", "effective", "depth"]
    assert [" ".join(row.split()) for row in rows] == ["a own 1.5", "a later 2", "b own –", "b later 4"]


def test_a_view_takes_the_place_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    view = View([TextTable(["x"], [[1]]), "below", TextTable(["no rows"], [])], conclusion=["first", "second"])
    print_result(RESULT, "table", lambda: view)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == ["first", "second", "x"]
    assert lines[-2:] == ["1", "below"]


def test_tables_of_a_result_have_an_empty_line_between_them(capsys: pytest.CaptureFixture[str]) -> None:
    tables = [TextTable(["none"], []), TextTable(["x"], [[1]], caption=["below"]), TextTable(["y"], [[2]], "A title")]
    print_result(LabelledResult(DATA, "Said.", tabulate, lay_out=lambda _: tables), "table")
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if set(line) != {"─"}] == ["Said.", "x", "1", "below", "", "A title", "y", "2"]


def test_programs_read_data_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(RESULT, "csv", fail)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["effective_depth"] for row in rows] == ["1.5", "2.0", "", "4.0"]
    print_result(RESULT, "json", fail)
    printed, messages = capsys.readouterr()
    assert json.loads(printed)[2] == {"model": "b", "kind": "own", "effective_depth": None}
    assert messages == ""


def test_a_record_may_hold_other_fields_than_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(TableResult(pd.DataFrame({"x": [1]}), "One row.", fields={"rows": 1}), "json")
    assert json.loads(capsys.readouterr().out) == {"rows": 1}


def test_arrays_of_a_labelled_result_are_at_hand() -> None:
    assert isinstance(RESULT, Result)
    assert RESULT["blocks"].values.tolist() == RESULT.blocks.values.tolist() == [6, 12]
    assert RESULT.attrs["level"] == RESULT.level == 0.9
    assert "depth" in RESULT
    assert "width" not in RESULT
    assert repr(RESULT).startswith("<LabelledResult: Model b is deeper. By twice.>\n<xarray.Dataset>")
    with pytest.raises(AttributeError, match="width"):
        _ = RESULT.width
    for again in (copy.copy(RESULT), copy.deepcopy(RESULT)):
        xr.testing.assert_identical(again.data, DATA)


def test_rows_keep_whole_numbers_whole() -> None:
    frame = pd.DataFrame([{"block": 3, "size": None}, {"block": None, "size": 2}], dtype=object)
    assert rows_of(frame) == [{"block": 3, "size": None}, {"block": None, "size": 2}]
    assert type(rows_of(frame)[0]["block"]) is int


COMMANDS = sorted(Path(commands.__file__).parent.glob("*.py"))
OF_A_COMMAND = {"Format", "is_terminal", "quiet_libraries", "say", "terminal_width", "write", "write_json"}
"""What a command takes of the console: messages, paths that were written, and records that are no result."""
PRINTERS = ("bathyscope.cli.console", "bathyscope.cli.table_printing")


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_commands_print_results_through_the_one_printer(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    taken = {alias.name for node in imports if node.module in PRINTERS for alias in node.names}
    assert taken <= OF_A_COMMAND


def test_no_flag_is_read_from_source() -> None:
    """Flags come from dataclasses, so nothing in the room parses or evaluates code."""
    for path in Path(commands.__file__).parents[1].rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not calls & {"eval", "exec", "compile"}, path
        assert "ast" not in modules, path
