from __future__ import annotations

import contextlib
import io
import json
import re

import numpy as np
import pytest
from support.synthetic import replaced, synthetic_run, without

from bathyscope.cli import console
from bathyscope.cli.printing import print_block
from bathyscope.errors import OptionError
from bathyscope.runs import depth_table as table
from bathyscope.runs.run import Run

RUN = synthetic_run()
DATA = RUN["effective_depth"]


def printed(run: Run, width: int = 160) -> str:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(stream):
        patch.setattr(console, "_PIPE_WIDTH", width)
        print_block(table.depth_table(run))
    return stream.getvalue()


def test_rows_are_the_dataset() -> None:
    rows = table.effective_depth_rows(RUN)
    assert [row["estimator"] for row in rows] == list(DATA["estimator"].values)
    for name in ("depth", "ratio", "index", "ci_low", "ci_high", "crossing_share"):
        found = np.array([np.nan if row[name] is None else row[name] for row in rows])  # type: ignore[literal-required]
        np.testing.assert_array_equal(found, DATA[name].values)


def test_rows_are_json_without_nan() -> None:
    text = json.dumps(table.effective_depth_rows(RUN), allow_nan=False)
    missing = json.loads(text)[3]
    assert missing["depth"] is None
    assert missing["reason"] == "the mean cosine is positive at every block"


def test_table_shows_depth_interval_ratio_and_crossing() -> None:
    lines = printed(RUN).splitlines()
    (kl,) = [line for line in lines if line.startswith("KL  ")]
    (missing,) = [line for line in lines if line.startswith("cosine, interpolated ")]
    assert re.split(r"\s{2,}", kl.strip()) == ["KL", "7", "6 to 8", "0.58", "100%"]
    assert re.split(r"\s{2,}", missing.strip())[1:] == ["–", "–", "–", "12%"]


def test_table_fits_a_terminal_of_80_columns() -> None:
    data = DATA.copy(deep=True)
    for name, number in (("depth", 123.4), ("ci_low", 119.5), ("ci_high", 126.1)):
        data[name][:] = number
    text = printed(replaced(RUN, "effective_depth", data), width=80)
    *rows, _, _ = text.splitlines()  # a terminal wraps the two lines below a table, and files hold them whole
    assert len(rows) == 10
    assert all(len(line) <= 80 for line in rows)
    assert "top-k overlap, interpolated" in text
    assert "119.5 to 126.1" in text
    assert "…" not in text


def test_reasons_stand_below_once_and_brackets_stay() -> None:
    data = DATA.copy(deep=True)
    data["reason"][1:3] = "none in [0, 3] [bold]"
    lines = [line.strip() for line in printed(replaced(RUN, "effective_depth", data)).splitlines()]
    assert lines[-2:] == [
        "KL; top-k overlap: none in [0, 3] [bold].",
        "Cosine, interpolated: the mean cosine is positive at every block.",
    ]


def test_heading_gives_the_level() -> None:
    assert "90% interval" in printed(replaced(RUN, "effective_depth", DATA.assign_attrs(level=0.9)))


@pytest.mark.parametrize(
    ("name", "shown", "index"),
    [
        ("cosine", "cosine", "block"),
        ("interpolated_kl", "KL, interpolated", "block input"),
        ("overlap", "top-k overlap", "block input"),
        ("centre_of_mass", "centre of mass", "block"),
    ],
)
def test_names(name: str, shown: str, index: str) -> None:
    assert (table.estimator_name(name), table.index_name(name)) == (shown, index)


def test_run_without_effective_depth_is_refused_with_advice() -> None:
    with pytest.raises(OptionError, match=r"holds no 'effective_depth' \(it holds: residual.*measures=\["):
        table.effective_depth_rows(without(RUN, "effective_depth"))
